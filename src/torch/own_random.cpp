#include "torch/own_random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "base/random.h"
#include "flockstep/error.h"

namespace flockstep::torch_front {
namespace {

// The default generator belongs to the process, and so does the turn to use it. Held while nothing waits for a peer:
// what communicates in between is put off.
std::mutex turn;

torch::Tensor taken_from(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}
void put_into(at::Generator& generator, const torch::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

OwnRandom::OwnRandom(std::uint64_t seed, int rank) {
  base::Random random(seed, base::Purpose::torch_generator, static_cast<std::uint32_t>(rank));
  const std::uint64_t high = random.bits(), low = random.bits();
  state_ = at::detail::createCPUGenerator(high << 32 | low).get_state();
}

void OwnRandom::run(const std::function<void()>& body) {
  if (running_) return body();
  const std::lock_guard lock(turn);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  struct Swap {
    Swap(at::Generator& generator, OwnRandom& own) : generator(generator), own(own), before(taken_from(generator)) {
      put_into(generator, own.state_);
      own.running_ = true;
    }
    ~Swap() {
      own.state_ = taken_from(generator);
      own.running_ = false;
      put_into(generator, before);
    }
    at::Generator& generator;
    OwnRandom& own;
    torch::Tensor before;
  } const swap(generator, *this);
  body();
}

void OwnRandom::set_state(const torch::Tensor& state) {
  if (state.scalar_type() != at::kByte || state.numel() != state_.numel())
    throw Error(ErrorCode::bad_file, "the checkpoint's random numbers are of another version of torch");
  state_ = state.clone();
}

}  // namespace flockstep::torch_front
