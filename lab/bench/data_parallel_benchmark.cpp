// What AdaCons costs a whole training step of DataParallel: ResNet-50, forward, backward with the communication that it
// hides, SGD with momentum, against the same with `mean`, and without any communication. The counterpart of target A4.
//
//   mpirun -n 4 data_parallel_benchmark [IMAGES [PIXELS [ROUNDS]]]      per worker; alone: 4 workers as threads
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "bench/harness.h"
#include "flockstep/torch.h"
#include "tasks/torch/resnet.h"

namespace {

using flockstep::bench::Spread;

struct Sizes {
  std::int64_t images = 4, pixels = 64;
  std::size_t rounds = 15;
};

// One network in training.
class Training {
 public:
  Training(flockstep::Worker& worker, const std::string& algorithm)
      : network_(std::make_shared<flockstep::tasks::ResNet>(flockstep::tasks::ResNetOptions{})),
        parallel_(worker, *network_, {.algorithm = algorithm}),
        optimizer_(network_->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9)) {
    network_->reset(1);
    parallel_.broadcast();
  }

  void compute(const torch::Tensor& images, const torch::Tensor& labels) {
    optimizer_.zero_grad();
    torch::cross_entropy_loss(network_->forward(images), labels).backward();
  }
  void step_together() { parallel_.step(optimizer_); }
  void compute_alone(const torch::Tensor& images, const torch::Tensor& labels) {
    const auto alone = parallel_.no_sync();
    compute(images, labels);
    optimizer_.step();
    optimizer_.zero_grad();
  }

 private:
  std::shared_ptr<flockstep::tasks::ResNet> network_;
  flockstep::DataParallel parallel_;
  torch::optim::SGD optimizer_;
};

void print(const std::string& name, const Spread& spread, double factor, const char* unit) {
  std::printf("%-30s %.3f (%.3f to %.3f)%s\n", name.c_str(), factor * spread.median, factor * spread.lower,
              factor * spread.upper, unit);
}

// Steps are synchronous, so that one worker's clock tells for all.
void measure(flockstep::Worker& worker, const Sizes& sizes) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(worker.rank()));
  const torch::Tensor images = torch::rand({sizes.images, 3, sizes.pixels, sizes.pixels}, generator),
                      labels = torch::randint(1000, {sizes.images}, generator);
  // One at a time: several DataParallels start nothing before backward has ended.
  std::optional<Training> training;
  const auto step_together = [&] { training->compute(images, labels), training->step_together(); };
  const auto step_alone = [&] { training->compute_alone(images, labels); };
  const auto begin = [&](const std::string& algorithm, const std::function<void()>& step) {
    training.reset();
    training.emplace(worker, algorithm);
    step();  // the first is another: the order of buckets is learnt in it
  };
  const std::vector<flockstep::bench::Contender> contenders{
      {"mean", step_together, [&] { begin("mean", step_together); }},
      {"adacons", step_together, [&] { begin("adacons", step_together); }},
      {"without communication", step_alone, [&] { begin("mean", step_alone); }}};
  const auto timings = flockstep::bench::run_interleaved(contenders, {.warm_up_rounds = 2, .rounds = sizes.rounds});
  if (worker.rank() != 0) return;
  const auto images_each = static_cast<long>(sizes.images), pixels = static_cast<long>(sizes.pixels);
  std::printf("%d workers, ResNet-50, %ld images of %ld x %ld each; medians and quartiles\n", worker.size(),
              images_each, pixels, pixels);
  for (const std::string& name : timings.names()) print(name, timings.seconds(name), 1e3, " ms");
  print("mean / without communication", timings.ratio("mean", "without communication"), 1, "");
  print("adacons / mean", timings.ratio("adacons", "mean"), 1, "");
}

}  // namespace

int main(int argc, char** argv) try {
  Sizes sizes;
  if (argc > 1) sizes.images = std::atoi(argv[1]);
  if (argc > 2) sizes.pixels = std::atoi(argv[2]);
  if (argc > 3) sizes.rounds = static_cast<std::size_t>(std::atoi(argv[3]));
  if (sizes.images < 2 || sizes.pixels < 32 || sizes.rounds < 1) {
    std::fprintf(stderr, "usage: %s [IMAGES [PIXELS [ROUNDS]]], at least 2, 32 and 1\n", argv[0]);
    return 2;
  }
  torch::set_num_threads(1);  // the workers share the processors
  flockstep::launch({.workers = 4}, [&](flockstep::Worker& worker) { measure(worker, sizes); });
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
