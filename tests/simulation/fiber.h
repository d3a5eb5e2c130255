// A function with a stack of its own that runs in turns with whoever resumes it: many in one thread, in an order that
// the caller decides.
#pragma once

#include <ucontext.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

namespace flockstep::simulation {

class Fiber {
 public:
  // `body` must not throw, and has to come to an end before the fiber does.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it pauses or ends; not from within it.
  void resume();
  // From within the body.
  void pause();
  bool is_over() const { return is_over_; }

 private:
  using Stack = std::unique_ptr<std::byte[]>;

  static void start(unsigned high, unsigned low);
  void enter();
  void leave(bool for_good);

  std::function<void()> body_;
  Stack stack_;
  ucontext_t inside_{}, outside_{};
  std::array<void*, 2> exceptions_{};  // that the body is handling: the language keeps them per thread
  bool is_over_ = false;
  // Of sanitizers, which follow stacks: the fiber's own and the caller's.
  void *inside_mark_ = nullptr, *outside_mark_ = nullptr;
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
};

}  // namespace flockstep::simulation
