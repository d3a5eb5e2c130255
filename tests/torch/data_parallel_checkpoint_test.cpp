// What a DataParallel saves, and what may go on from it. On threads. How a folder of checkpoints keeps what is whole is
// in tests/session/checkpoints_test.cpp.

#include <filesystem>
#include <mutex>

#include "algorithms/registry.h"
#include "base/files.h"
#include "on_threads.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace flockstep::test::data_parallel_checkpoint_test {
namespace {

class Checkpoint : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;

  // Steps `from` to `to` with dropout, saved after step 4; what every worker ends with.
  std::vector<Floats> trained(const std::string& algorithm, int from, int to, int count = 3,
                              const std::string& warning = "") {
    std::mutex mutex;
    std::vector<Floats> all(static_cast<std::size_t>(count));
    on_workers(count, [&](Worker& worker) {
      Net net(true);
      DataParallelSettings settings{.algorithm = algorithm, .buffers = Buffers::leave, .bucket_kib = 1};
      if (algorithm == "wagma" || algorithm == "flock")
        settings.options = {{"activation", "quorum"}, {"quorum", std::to_string(count)}};
      DataParallel parallel(worker, net, settings);
      const Optimizer optimizer = make_optimizer("Adam", net);
      if (from > 0) {
        const std::string told = parallel.restore(folder_.string(), *optimizer);
        EXPECT_TRUE(warning.empty() ? told.empty() : told.starts_with(warning)) << told;
      }
      for (int step = from; step < to; ++step) {
        optimizer->zero_grad();
        Batch batch = batch_of(worker.rank(), step, 4);
        parallel.random([&] { batch.x = torch::dropout(batch.x, 0.3, true); });
        loss_of(net, batch).backward();
        parallel.step(*optimizer);
        if (step == 3) parallel.save(folder_.string(), *optimizer);
      }
      const std::lock_guard lock(mutex);
      all[static_cast<std::size_t>(worker.rank())] = numbers(net);
    });
    return all;
  }
  void save(int count, const std::string& algorithm) {
    on_workers(count, [&](Worker& worker) {
      Net net;
      DataParallel parallel(worker, net, {.algorithm = algorithm, .bucket_kib = 1});
      const Optimizer optimizer = make_optimizer("Adam", net);
      for (int step = 0; step < 3; ++step) take_step(worker, parallel, net, *optimizer, step);
      parallel.save(folder_.string(), *optimizer);
    });
  }
  testing::AssertionResult refuses_to_go_on(const std::string& part, const std::string& optimizer_name = "Adam",
                                            bool normalises = false, const std::string& algorithm = "mean") {
    return refuses(ErrorCode::bad_file, part, 3, [&](Worker& worker) {
      Net net(normalises);
      DataParallel parallel(worker, net, {.algorithm = algorithm, .bucket_kib = 1});
      parallel.restore(folder_.string(), *make_optimizer(optimizer_name, net));
    });
  }
};

// wagma and flock wait for all here. Where nobody can be made to wait, results depend on who came first, which a run
// that begins in the middle cannot know: it goes on all the same.
TEST_F(Checkpoint, resumedRunsEndOnTheBitsOfUninterruptedOnesWithEveryAlgorithm) {
  for (const auto& row : algorithms::algorithms()) {
    const std::string algorithm(row.name);
    const bool waits = algorithm != "adpsgd" && row.family != algorithms::Family::partial_gradient;
    const auto uninterrupted = trained(algorithm, 0, 8), resumed = trained(algorithm, 4, 8);
    EXPECT_EQ(trained(algorithm, 4, 8), resumed) << algorithm << " in deterministic mode, twice";
    if (waits) {
      EXPECT_EQ(resumed, uninterrupted) << algorithm;
    }
  }
}

TEST_F(Checkpoint, isAFileThatPlainTorchReads) {
  const auto ended = trained("mean", 0, 4);
  torch::serialize::InputArchive file, part;
  file.load_from((folder_ / "a" / "worker-0.pt").string());
  file.read("module", part);
  Net net(true);
  net.load(part);
  EXPECT_EQ(numbers(net), ended[0]);
}

TEST_F(Checkpoint, anotherNumberOfWorkersGoesOnFromWorkerZerosAndSaysWhatIsRemade) {
  for (const std::string algorithm : {"mean", "adacons", "flock"})
    for (const int count : {1, 2, 4}) {
      save(3, algorithm);
      on_workers(count, [&](Worker& worker) {
        Net net;
        net.fill(99);
        DataParallel parallel(worker, net, {.algorithm = algorithm, .bucket_kib = 1});
        const Optimizer optimizer = make_optimizer("Adam", net);
        const std::string remade = parallel.restore(folder_.string(), *optimizer);
        EXPECT_NE(remade.find("3 workers have saved where there are " + std::to_string(count)), std::string::npos);
        EXPECT_EQ(remade.find("re-sampled") != std::string::npos, algorithm == "adacons") << remade;
        EXPECT_EQ(optimizer->state().size(), 8u) << "tensors with a gradient";
        take_step(worker, parallel, net, *optimizer, 3);
        parallel.finish(*optimizer);
        expect_same_bits_everywhere(worker, numbers(net));
      });
    }
  save(2, "local_sgd");
  EXPECT_TRUE(refuses_to_go_on("which local_sgd keeps apart: go on with as many, not 3", "Adam", false, "local_sgd"));
}

TEST_F(Checkpoint, whatDoesNotFitIsRefusedEverywhereWithOneSentence) {
  EXPECT_TRUE(refuses_to_go_on("there is no checkpoint in"));
  save(3, "mean");
  EXPECT_TRUE(refuses_to_go_on("is of a training with mean", "Adam", false, "adacons"));
  EXPECT_TRUE(
      refuses_to_go_on("is of another module: it has frozen.weight frozen Float [12, 6] where this one has "
                       "normalisation.weight Float [6]",
                       "Adam", true));
  EXPECT_TRUE(refuses_to_go_on("does not fit this module and optimizer", "SGD"));
  base::write_atomically(folder_ / "a" / "worker-1.pt", "nothing");
  EXPECT_TRUE(refuses_to_go_on("worker-1.pt is not the file that was saved"));
}

TEST_F(Checkpoint, aBadFileSendsAllWorkersBackToTheGenerationBefore) {
  const auto uninterrupted = trained("mean", 0, 8);
  base::remove_folder(folder_);
  trained("mean", 0, 4);  // a, after step 4
  save(3, "mean");        // b
  base::write_atomically(folder_ / "b" / "worker-2.pt", "nothing");
  EXPECT_EQ(trained("mean", 4, 8, 3, "going back to the checkpoint after step 4"), uninterrupted);
}

TEST_F(Checkpoint, whatOneWorkerCannotSaveNobodySavesAndStepsGoOn) {
  struct Stubborn : Net {
    explicit Stubborn(bool refuses) : refuses(refuses) {}
    void save(torch::serialize::OutputArchive& archive) const override {
      if (refuses) throw std::runtime_error("this module cannot be saved");
      Net::save(archive);
    }
    bool refuses;
  };
  on_workers(3, [&](Worker& worker) {
    Stubborn net(worker.rank() == 1);
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    const Optimizer optimizer = make_optimizer("SGD", net);
    take_step(worker, parallel, net, *optimizer, 0);
    const std::string sentence = refusal(ErrorCode::bad_file, [&] { parallel.save(folder_.string(), *optimizer); });
    EXPECT_NE(sentence.find("this module cannot be saved"), std::string::npos) << "worker " << worker.rank();
    take_step(worker, parallel, net, *optimizer, 1);
    expect_same_bits_everywhere(worker, numbers(net));
  });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "latest"));
}

TEST_F(Checkpoint, comesBeforeTheFirstStep) {
  save(2, "mean");
  EXPECT_TRUE(refuses(ErrorCode::bad_input, "restore was called after a step", 2, [&](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    const Optimizer optimizer = make_optimizer("Adam", net);
    take_step(worker, parallel, net, *optimizer, 0);
    parallel.restore(folder_.string(), *optimizer);
  }));
}

}  // namespace
}  // namespace flockstep::test::data_parallel_checkpoint_test
