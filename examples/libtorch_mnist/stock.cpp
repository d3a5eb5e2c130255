// A stock libtorch program: trains a small network on Fashion-MNIST, on one processor. parallel.cpp is the same on many
// workers; `diff stock.cpp parallel.cpp` shows what that takes.
//
//   stock [FOLDER]
#include <cstdio>

#include "mnist.h"

void train(const std::string& folder) {
  const Mnist test(folder, Mnist::Part::test);
  auto images = Mnist(folder, Mnist::Part::train).map(torch::data::transforms::Stack<>());
  auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(std::move(images), 64);

  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int epoch = 1; epoch <= 3; ++epoch) {
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      torch::cross_entropy_loss(net(batch.data), batch.target).backward();
      optimizer.step();
    }
    std::printf("epoch %d: accuracy %.3f\n", epoch, accuracy(net, test));
  }
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : FASHION_MNIST;
  torch::set_num_threads(1);
  torch::manual_seed(1);
  train(folder);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
