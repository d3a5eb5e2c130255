// A program whose run outlives its workers: kill any of them while it runs; the others go on, and it comes back.
//
//   flockstep launch --workers 4 -- ./mesh_span [STEPS [MILLISECONDS_PER_STEP]]
#include <flockstep/flockstep.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

// One step towards y = 3 - 2x from samples that depend on the rank, its life and the step alone: who the others are
// changes, so nobody shares out the data.
void descend(std::vector<float>& model, const flockstep::Worker& worker, std::int64_t step) {
  std::seed_seq seed{worker.rank(), worker.incarnation(), static_cast<int>(step)};
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> position(0, 1);
  float gradient[2] = {};
  for (int i = 0; i < 8; ++i) {
    const float x = position(random), error = model[0] + model[1] * x - (3 - 2 * x);
    gradient[0] += error / 8;
    gradient[1] += error * x / 8;
  }
  for (std::size_t i = 0; i < model.size(); ++i) model[i] -= 0.3f * gradient[i];
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 400;
  const std::chrono::milliseconds pause(argc > 2 ? std::atoll(argv[2]) : 10);
  try {
    flockstep::launch({.engine = "mesh"}, [&](flockstep::Worker& worker) {
      std::vector<float> model{0, 0};
      flockstep::Synchronizer flock(worker, "flock", model.size());
      flock.join(model);  // from here on it is the model of those who are there, if any, and the steps are theirs
      std::printf("worker %d, life %d, process %d, begins at step %lld\n", worker.rank(), worker.incarnation(),
                  static_cast<int>(getpid()), static_cast<long long>(flock.updates()));
      std::fflush(stdout);
      while (flock.updates() < steps) {
        descend(model, worker, flock.updates());
        std::this_thread::sleep_for(pause);  // a step of a real program takes longer
        flock.after_update(model);
      }
      flock.consolidate(model);  // one model on all workers that live
      std::printf("worker %d has finished: y = %.2f + %.2f x\n", worker.rank(), model[0], model[1]);
    });
  } catch (const flockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
