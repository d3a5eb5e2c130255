#include "base/memory.h"

#include <cstring>
#include <mutex>
#include <new>

namespace flockstep::base {
namespace {
constexpr std::align_val_t kAlignment{64};
}

struct Memory::State {
  mutable std::mutex mutex;
  std::map<std::string, std::size_t> held;
  bool keep = false;
};

Memory::Memory() : state_(std::make_shared<State>()) {}

std::shared_ptr<void> Memory::allocate_bytes(std::size_t bytes, const std::string& purpose) {
  void* data = ::operator new(bytes, kAlignment);
  std::memset(data, 0, bytes);
  {
    const std::lock_guard lock(state_->mutex);
    state_->held[purpose] += bytes;
  }
  return {data, [state = state_, bytes, purpose](void* freed) {
            const std::lock_guard lock(state->mutex);
            if (state->keep) return;
            const auto entry = state->held.find(purpose);
            // Empty buffers leave nothing in the count, so theirs may be gone already.
            if (entry != state->held.end() && (entry->second -= bytes) == 0) state->held.erase(entry);
            ::operator delete(freed, kAlignment);
          }};
}

std::map<std::string, std::size_t> Memory::held() const {
  const std::lock_guard lock(state_->mutex);
  return state_->held;
}

std::size_t Memory::held_bytes() const {
  std::size_t sum = 0;
  for (const auto& [purpose, bytes] : held()) sum += bytes;
  return sum;
}

void Memory::keep_for_ever() {
  const std::lock_guard lock(state_->mutex);
  state_->keep = true;
}

}  // namespace flockstep::base
