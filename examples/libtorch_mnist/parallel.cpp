// The program of stock.cpp on many workers: as threads of one process, or as processes under mpirun.
//
//   parallel [FOLDER [WORKERS [ALGORITHM]]]      mpirun -n 4 parallel
#include <flockstep/torch.h>

#include <cstdio>

#include "mnist.h"

void train(flockstep::Worker& worker, const std::string& folder, const std::string& algorithm) {
  const Mnist test(folder, Mnist::Part::test);
  const auto images = Mnist(folder, Mnist::Part::train).map(torch::data::transforms::Stack<>());
  // Every worker reads its own share, in batches that come to 64 over all of them.
  const auto workers = static_cast<size_t>(worker.size()), rank = static_cast<size_t>(worker.rank());
  torch::data::samplers::DistributedRandomSampler sampler(images.size().value(), workers, rank);

  Net net;
  flockstep::DataParallel parallel(worker, *net, {.algorithm = algorithm});  // all start from worker 0's
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int epoch = 1; epoch <= 3; ++epoch) {
    sampler.set_epoch(static_cast<size_t>(epoch));
    auto loader = torch::data::make_data_loader(images, sampler, std::max<size_t>(1, 64 / workers));
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      torch::cross_entropy_loss(net(batch.data), batch.target).backward();
      parallel.step(optimizer);
    }
    parallel.consolidate();
    if (worker.rank() == 0) std::printf("epoch %d: accuracy %.3f\n", epoch, accuracy(net, test));
  }
}

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : FASHION_MNIST, algorithm = argc > 3 ? argv[3] : "mean";
  torch::set_num_threads(1);  // the workers share the processors
  torch::manual_seed(1);
  flockstep::launch({.workers = argc > 2 ? std::atoi(argv[2]) : 4},
                    [&](flockstep::Worker& worker) { train(worker, folder, algorithm); });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
