// A device for machines without one: torch's PrivateUse1 with memory of the host. Like a GPU it has streams of its own
// for copies, which are done late: when somebody has asked an event behind them a few times, or another stream waits.
// So are copies to it in the default stream that do not block. So whoever reads too early reads what was there before.
#pragma once

#include <torch/torch.h>

namespace flockstep::test {

// CUDA where torch finds it, else the pretended device; with any index, as if there were two.
torch::Device device(int index = 0);

// While there is one, the pretended device has no memory for more bytes at once.
struct FullDevice {
  explicit FullDevice(std::size_t most);
  ~FullDevice();
};

}  // namespace flockstep::test
