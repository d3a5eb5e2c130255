// An MPI program of its own, in which every process computes a gradient; three lines make it AdaCons instead of
// MPI_Allreduce. Start it with mpirun, any number of processes.
#include <flockstep/mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

// y = a + b x from this process's own samples of y = 3 - 2x.
void compute(const std::vector<float>& model, int rank, std::vector<float>& gradient) {
  std::ranges::fill(gradient, 0.0f);
  for (int i = 0; i < 8; ++i) {
    const float x = static_cast<float>((rank * 8 + i * 5) % 32) / 32, error = model[0] + model[1] * x - (3 - 2 * x);
    gradient[0] += error / 8;
    gradient[1] += error * x / 8;
  }
}

int run(std::vector<float>& gradient) {
  flockstep::MpiWorker worker(MPI_COMM_WORLD);  // line one
  std::vector<float> model{0, 0};
  flockstep::Synchronizer adacons(worker, "adacons", model.size(), {{"magnitude", "matched"}});  // line two

  for (int step = 0; step < 2000; ++step) {
    compute(model, worker.rank(), gradient);
    adacons.after_backward(gradient);  // line three: the same bits everywhere
    for (std::size_t i = 0; i < model.size(); ++i) model[i] -= 0.5f * gradient[i];
  }
  if (std::abs(model[0] - 3) > 0.01f || std::abs(model[1] + 2) > 0.01f) return 1;
  if (worker.rank() == 0) std::printf("%d processes agree: y = %.2f + %.2f x\n", worker.size(), model[0], model[1]);
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<float> gradient(2);  // outlives the worker: MPI may still read it when something has failed
  int code = 1;
  try {
    code = run(gradient);
  } catch (const flockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return code;
}
