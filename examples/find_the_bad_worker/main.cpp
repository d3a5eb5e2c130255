// Eight workers fit a plane, and three of them are broken. Plain averaging would hide that; with watch = always it
// still averages, and says who is wrong.
#include <flockstep/flockstep.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

constexpr std::size_t kDimension = 50;

void compute(const std::vector<float>& model, std::mt19937& random, std::vector<float>& gradient) {
  std::normal_distribution<float> normal;
  std::vector<float> x(kDimension);
  std::ranges::fill(gradient, 0.0f);
  for (int sample = 0; sample < 16; ++sample) {
    float error = 0;
    for (std::size_t i = 0; i < kDimension; ++i) {
      x[i] = normal(random);
      error += (model[i] - 1) * x[i];  // the plane to be found has slope one everywhere
    }
    for (std::size_t i = 0; i < kDimension; ++i) gradient[i] += error * x[i] / 16;
  }
}

int main() {
  flockstep::launch({.engine = "threads", .workers = 8}, [](flockstep::Worker& worker) {
    const int rank = worker.rank();
    std::mt19937 random(static_cast<unsigned>(rank == 5 ? 3 : rank));  // 5 forgot to ask for its own share of the data
    std::vector<float> model(kDimension), gradient(kDimension);
    flockstep::Synchronizer mean(worker, "mean", kDimension, {{"watch", "always"}});

    for (int step = 0; step < 60; ++step) {
      compute(model, random, gradient);
      if (rank == 2)
        for (float& value : gradient) value = -value;  // a sign error
      if (rank == 6)
        for (float& value : gradient) value *= 40;  // a loss that is summed and not averaged
      mean.after_backward(gradient);
      for (std::size_t i = 0; i < kDimension; ++i) model[i] -= 0.01f * gradient[i];
    }
    if (rank == 0)
      for (const auto& sentence : mean.findings()) std::printf("%s\n", sentence.c_str());
  });
}
