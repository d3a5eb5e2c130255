// A program outside the tree: four workers fit a line to their own samples, with plain spans of floats and no torch.
#include <flockstep/flockstep.h>

#include <cmath>
#include <cstdio>
#include <vector>

int main() {
  flockstep::launch({.engine = "threads", .workers = 4}, [](flockstep::Worker& worker) {
    std::vector<float> model{0, 0}, gradient{0, 0};  // y = model[0] + model[1] * x
    flockstep::Synchronizer synchronizer(worker, "mean", model.size());

    for (int step = 0; step < 2000; ++step) {
      gradient = {0, 0};
      for (int i = 0; i < 8; ++i) {  // each worker sees other points of y = 3 - 2x
        const float x = static_cast<float>(worker.rank() * 8 + i) / 32, y = 3 - 2 * x;
        const float error = model[0] + model[1] * x - y;
        gradient[0] += error / 8;
        gradient[1] += error * x / 8;
      }
      synchronizer.after_backward(gradient);
      for (std::size_t i = 0; i < model.size(); ++i) model[i] -= 0.5f * gradient[i];
      synchronizer.after_update(model);
    }
    if (worker.rank() == 0 && std::abs(model[0] - 3) < 0.01f && std::abs(model[1] + 2) < 0.01f)
      std::printf("%d workers agree: y = %.2f + %.2f x\n", worker.size(), model[0], model[1]);
  });
}
