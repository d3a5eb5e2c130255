#include "simulation/fiber.h"

#include <cxxabi.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace flockstep::simulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{1} << 18;

// Runs follow each other by the thousand, with the same stacks.
std::vector<std::unique_ptr<std::byte[]>>& unused_stacks() {
  thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;
  return stacks;
}

void swap_exceptions(std::array<void*, 2>& with) {
  std::array<void*, 2> current;
  auto* globals = abi::__cxa_get_globals();
  std::memcpy(&current, globals, sizeof current);
  std::memcpy(globals, &with, sizeof current);
  with = current;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  auto& unused = unused_stacks();
  if (unused.empty()) unused.push_back(std::make_unique_for_overwrite<std::byte[]>(kStackBytes));
  stack_ = std::move(unused.back());
  unused.pop_back();
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::start), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
  inside_mark_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  base::check(is_over_, "a fiber that has come to its end");
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(inside_mark_);
#endif
  unused_stacks().push_back(std::move(stack_));
}

// makecontext() passes integers alone.
void Fiber::start(unsigned high, unsigned low) {
  auto* fiber = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low);
  fiber->enter();
  fiber->body_();
  fiber->is_over_ = true;
  fiber->leave(true);
}

void Fiber::resume() {
  swap_exceptions(exceptions_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&outside_mark_, stack_.get(), kStackBytes);
#elif defined(__SANITIZE_THREAD__)
  outside_mark_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_mark_, 0);
#endif
  swapcontext(&outside_, &inside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(outside_mark_, nullptr, nullptr);
#endif
  swap_exceptions(exceptions_);
}

void Fiber::pause() {
  leave(false);
  enter();
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(inside_mark_, &outside_bottom_, &outside_size_);
#endif
}

void Fiber::leave([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &inside_mark_, outside_bottom_, outside_size_);
#elif defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outside_mark_, 0);
#endif
  swapcontext(&inside_, &outside_);
}

}  // namespace flockstep::simulation
