// main() of every test program: tests on engines run on the one that is named, from those that the command can start,
// c10d over lanes in memory, and mesh over this host.
//   engines_test --engine threads --workers 3 --gtest_filter=Conformance.*
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "conformance.h"
#include "engines/mpi/backend.h"
#include "engines/registry.h"
#include "engines/threads/losses.h"
#include "mortal.h"

namespace flockstep::engines::conformance {

void on_every_worker(const WorkerMain& body) {
  if (subject().engine == "c10d") return on_lanes(body);
  if (subject().engine == "mesh") return on_mesh(body);
  LaunchOptions options;
  options.workers = subject().workers;
  options.deterministic = subject().deterministic;
  options.seed = subject().seed;
  find_backend(subject().engine).run(options, body);
}

bool subject_outlives_peers() { return subject().engine == "threads" || subject().engine == "mesh"; }

void on_mortal_workers(const WorkerMain& body) {
  if (subject().engine == "mesh") return on_mesh(body);
  LaunchOptions options;
  options.workers = subject().workers;
  options.deterministic = subject().deterministic;
  options.seed = subject().seed;
  options.elastic.outlives_peers = true;
  find_backend(subject().engine).run(options, [&](Engine& engine) {
    if (engine.incarnation() == 1) meet(engine, engine.size() - 1);
    try {
      body(engine);
    } catch (const Killed& killed) {
      throw threads::Lost{killed.comes_back};
    }
  });
}

}  // namespace flockstep::engines::conformance

using flockstep::engines::conformance::subject;

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--deterministic") {
      subject().deterministic = true;
    } else if (flag == "--engine" && i + 1 < argc) {
      subject().engine = argv[++i];
    } else if (flag == "--workers" && i + 1 < argc) {
      subject().workers = std::atoi(argv[++i]);
    } else if (flag == "--seed" && i + 1 < argc) {
      subject().seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  const int result = RUN_ALL_TESTS();
  if (subject().engine == "mpi" && testing::GTEST_FLAG(filter).find("Failure") != std::string::npos) {
    // A broken MPI engine can only be aborted, which kills the peers: say how it went and give them time to say so too.
    std::printf("conformance: this process %s\n", result == 0 ? "passed" : "failed");
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    flockstep::engines::mpi::abort_all(1);
  }
  return result;
}
