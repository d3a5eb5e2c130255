// The network that tests of devices train, with what may go wrong in it: a layer that is frozen, one that is never
// used, running statistics and a counter.
#pragma once

#include "../torch/training.h"

namespace flockstep::test {

// Made where it is to be: Module::to() cannot take a module to the pretended device.
struct Layer : nn::Module {
  Layer(int in, int out, std::uint32_t who, torch::Device device, at::ScalarType type = torch::kFloat)
      : weight(register_parameter("weight", drawn({out, in}, 1000, who, -0.3f, 0.4f).to(device).to(type))),
        bias(register_parameter("bias", drawn({out}, 1001, who, -0.3f, 0.4f).to(device).to(type))) {}
  Tensor forward(const Tensor& x) { return torch::linear(x, weight, bias); }
  Tensor weight, bias;
};

struct SmallNet : nn::Module {
  explicit SmallNet(torch::Device device, bool has_half = false) : SmallNet(device, device, has_half) {}
  SmallNet(torch::Device device, torch::Device of_frozen, bool has_half) {
    first = register_module("first", std::make_shared<Layer>(6, 16, 0, device));
    frozen = register_module("frozen", std::make_shared<Layer>(16, 16, 1, of_frozen));
    unused = register_module("unused", std::make_shared<Layer>(4, 3, 2, device));
    last = register_module("last", std::make_shared<Layer>(16, 3, 3, device, has_half ? at::kBFloat16 : at::kFloat));
    mean = register_buffer("mean", torch::zeros({16}).to(device));
    steps = register_buffer("steps", torch::zeros({}, torch::kLong).to(device));
    for (Tensor& parameter : frozen->parameters()) parameter.requires_grad_(false);
  }
  Tensor forward(Tensor x) {
    x = torch::tanh(frozen->forward(torch::tanh(first->forward(x))));
    {
      const torch::NoGradGuard no_grad;
      mean.mul_(0.9).add_(x.mean(0), 0.1);
      steps.add_(1);
    }
    return last->forward(x.to(last->weight.scalar_type())).to(torch::kFloat);
  }
  std::shared_ptr<Layer> first, frozen, unused, last;
  Tensor mean, steps;
};

inline std::vector<float> numbers_of(const nn::Module& module) {
  std::vector<float> all;
  for (const auto& tensors : {module.parameters(), module.buffers()})
    for (const Tensor& tensor : tensors)
      for (const float number : numbers(tensor.cpu())) all.push_back(number);
  return all;
}

inline void backward(SmallNet& net, int rank, int step, torch::Device device) {
  const auto who = static_cast<std::uint32_t>(rank), when = static_cast<std::uint32_t>(step);
  const Tensor x = drawn({8, 6}, who, when).to(device), y = drawn({8, 3}, who, when + 500).to(device);
  (net.forward(x) - y).square().mean().backward();
}

}  // namespace flockstep::test
