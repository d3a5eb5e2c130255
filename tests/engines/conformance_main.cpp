// main() of every test program: tests on engines run on the one that is named, from those that the command can start,
// c10d over lanes in memory, and mesh over this host.
//   engines_test --engine threads --workers 3 --gtest_filter=Conformance.*
// With --alone every test runs in a process of its own, one after the other: tests that end with a broken engine, and
// those on sim, whose clock cannot start again.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
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

namespace {

LaunchOptions launch_options() {
  LaunchOptions options;
  options.workers = subject().workers;
  options.deterministic = subject().deterministic;
  options.seed = subject().seed;
  return options;
}

}  // namespace

void on_every_worker(const WorkerMain& body) {
  if (subject().engine == "c10d") return on_lanes(body);
  if (subject().engine == "mesh") return on_mesh(body);
  find_backend(subject().engine).run(launch_options(), body);
}

bool subject_outlives_peers() { return subject().engine == "threads" || subject().engine == "mesh"; }

void on_mortal_workers(const WorkerMain& body) {
  if (subject().engine == "mesh") return on_mesh(body);
  LaunchOptions options = launch_options();
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

namespace {

int run_tests() {
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

// GoogleTest's shards: of as many as this, each has one test of those that the filter names, or none.
constexpr const char* kMostTests = "100000";
constexpr int kNoTestLeft = 77;
constexpr unsigned kMostSeconds = 900;  // of one test: after that it counts as hanging

// The `index`th test of those that the filter names. The process that started this one is `parent`.
int run_one(int index, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return 1;
  ::alarm(kMostSeconds);
  ::setenv("GTEST_TOTAL_SHARDS", kMostTests, 1);
  ::setenv("GTEST_SHARD_INDEX", std::to_string(index).c_str(), 1);
  const int result = run_tests();
  return testing::UnitTest::GetInstance()->test_to_run_count() == 0 ? kNoTestLeft : result;
}

// What the process's main() returns.
int run_each_alone() {
  const pid_t parent = ::getpid();
  int failed = 0;
  for (int index = 0;; ++index) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) return run_one(index, parent);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) return std::perror("a test's process"), 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoTestLeft) {
      std::printf("%d tests ran, each in a process of its own; %d failed\n", index, failed);
      return index > 0 && failed == 0 ? 0 : 1;
    }
    if (WIFSIGNALED(status)) std::printf("signal %d ended the process of the test that began last\n", WTERMSIG(status));
    if (status != 0) ++failed;
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool alone = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--deterministic") {
      subject().deterministic = true;
    } else if (flag == "--alone") {
      alone = true;
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
  return alone ? run_each_alone() : run_tests();
}
