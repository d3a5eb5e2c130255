#include "base/memory.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "flockstep/error.h"

namespace flockstep::base {
namespace {

constexpr std::align_val_t kAlignment{64};
// Sweeps and copies over large buffers spend a good part of their time on translating addresses: ask for huge pages.
constexpr std::align_val_t kHugePage{2 << 20};

std::align_val_t alignment_for(std::size_t bytes) {
  return bytes >= static_cast<std::size_t>(kHugePage) ? kHugePage : kAlignment;
}

}  // namespace

struct Memory::State {
  mutable std::mutex mutex;
  std::map<std::string, std::size_t> held;
  std::size_t total = 0, most = 0;
  bool keep = false;

  void add(std::size_t bytes, const std::string& purpose) {
    const std::lock_guard lock(mutex);
    held[purpose] += bytes;
    total += bytes;
    most = std::max(most, total);
  }
  // False where everything is kept.
  bool take_away(std::size_t bytes, const std::string& purpose) {
    const std::lock_guard lock(mutex);
    if (keep) return false;
    total -= bytes;
    const auto entry = held.find(purpose);
    // Empty buffers leave nothing in the count, so theirs may be gone already.
    if (entry != held.end() && (entry->second -= bytes) == 0) held.erase(entry);
    return true;
  }
};

Memory::Memory() : state_(std::make_shared<State>()) {}

std::shared_ptr<void> Memory::allocate_bytes(std::size_t bytes, const std::string& purpose) {
  const std::align_val_t alignment = alignment_for(bytes);
  void* data = ::operator new(bytes, alignment, std::nothrow);
  if (data == nullptr)
    throw Error(ErrorCode::unavailable, fmt::format("there is no memory for {} bytes ({})", bytes, purpose));
  if (alignment == kHugePage) ::madvise(data, bytes, MADV_HUGEPAGE);  // a wish: without it all works as before
  std::memset(data, 0, bytes);
  state_->add(bytes, purpose);
  return {data, [state = state_, bytes, purpose](void* freed) {
            if (state->take_away(bytes, purpose)) ::operator delete(freed, alignment_for(bytes));
          }};
}

std::shared_ptr<void> Memory::adopt_bytes(std::shared_ptr<void> data, std::size_t bytes, const std::string& purpose) {
  state_->add(bytes, purpose);
  void* const place = data.get();
  // Its owner's end is ours to decide.
  return {place, [state = state_, bytes, purpose, owner = new std::shared_ptr<void>(std::move(data))](void*) {
            if (state->take_away(bytes, purpose)) delete owner;
          }};
}

std::map<std::string, std::size_t> Memory::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

std::size_t Memory::held_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->total;
}

std::size_t Memory::most_held_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->most;
}

void Memory::keep_for_ever() {
  const std::lock_guard lock(state_->mutex);
  state_->keep = true;
}

}  // namespace flockstep::base
