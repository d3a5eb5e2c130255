#include "conformance.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "engines/mpi/backend.h"

namespace flockstep::engines::conformance {

Subject& subject() {
  static Subject chosen;
  return chosen;
}

void on_every_worker(const WorkerMain& body) {
  LaunchOptions options;
  options.workers = subject().workers;
  options.deterministic = subject().deterministic;
  options.seed = subject().seed;
  find_backend(subject().engine).run(options, body);
}

Exchange::Exchange(Engine& engine, int round, std::size_t base_size) : round_(round), base_size_(base_size) {
  std::vector<ConstBytes> send;
  std::vector<Bytes> receive;
  for (int peer = 0; peer < engine.size(); ++peer) {
    send_.push_back(words(round, engine.rank(), peer, block_size(engine.rank(), peer)));
    receive_.emplace_back(block_size(peer, engine.rank()));
  }
  for (auto& block : send_) send.push_back(bytes(std::as_const(block)));
  for (auto& block : receive_) receive.push_back(bytes(block));
  operation_ = engine.all_to_all(send, receive);
}

std::size_t Exchange::block_size(int from, int to) const {
  return base_size_ == 0 ? 0 : base_size_ + static_cast<std::size_t>((7 * from + 3 * to + round_) % 5);
}

void Exchange::finish_and_check(Engine& engine) {
  finish(engine, operation_);
  for (int peer = 0; peer < engine.size(); ++peer)
    EXPECT_EQ(receive_[static_cast<std::size_t>(peer)],
              words(round_, peer, engine.rank(), block_size(peer, engine.rank())));
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
      std::fprintf(stderr, "conformance_test: unknown argument %s\n", argv[i]);
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
