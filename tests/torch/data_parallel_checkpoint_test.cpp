// What a DataParallel saves, and who may go on from it. On threads.

#include <filesystem>
#include <mutex>

#include "algorithms/registry.h"
#include "base/files.h"
#include "on_threads.h"
#include "support/temporary_folder.h"

namespace flockstep::test::data_parallel_checkpoint_test {
namespace {

class Checkpoint : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;
  std::filesystem::path file_of(int rank) const { return folder_ / "a" / ("worker-" + std::to_string(rank) + ".pt"); }

  // Steps `from` to `to` with dropout, saved after step 4; what every worker ends with.
  std::vector<Floats> trained(const std::string& algorithm, int from, int to, int count = 3) {
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
        EXPECT_EQ(parallel.restore(folder_.string(), *optimizer), "");
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
  file.load_from(file_of(0).string());
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

  const std::string whole = base::read_text(file_of(1));
  base::write_atomically(file_of(1), whole.substr(0, whole.size() / 2));
  EXPECT_TRUE(refuses_to_go_on("worker-1.pt is not the file that was saved"));
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
  base::write_atomically(file_of(1), changed);
  EXPECT_TRUE(refuses_to_go_on("worker-1.pt is not the file that was saved"));
  std::filesystem::copy_file(file_of(0), file_of(1), std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(
      refuses_to_go_on("worker-1.pt is the file of worker 0 of 3 after step 3, not of worker 1 of 3 after step 3"));
  std::filesystem::remove(file_of(1));
  EXPECT_TRUE(refuses_to_go_on("cannot read"));
  for (const char* text : {"flockstep-torch-1 a 3 1\n", "", R"({"schema": 1, "generations": []})"}) {
    base::write_atomically(folder_ / "latest", std::string_view(text));
    EXPECT_TRUE(refuses_to_go_on("does not list checkpoints as this version writes them")) << text;
  }
  base::write_atomically(folder_ / "latest", R"({"schema": 99})");
  EXPECT_TRUE(refuses_to_go_on("latest has schema 99, and this version of flockstep reads up to 1"));
}

TEST_F(Checkpoint, aBadFileSendsEverybodyBackToTheGenerationBeforeWhichTheNextSaveKeeps) {
  const auto uninterrupted = trained("mean", 0, 8);
  base::remove_folder(folder_);
  trained("mean", 0, 4);  // a, after step 4
  std::filesystem::copy(folder_ / "a", folder_ / "aside");
  save(3, "mean");  // b
  base::write_atomically(folder_ / "b" / "worker-2.pt", "nothing");
  const auto restore = [&](const std::string& expected) {
    on_workers(3, [&](Worker& worker) {
      Net net(true);
      DataParallel parallel(worker, net, {.algorithm = "mean", .buffers = Buffers::leave, .bucket_kib = 1});
      const Optimizer optimizer = make_optimizer("Adam", net);
      EXPECT_NE(parallel.restore(folder_.string(), *optimizer).find(expected), std::string::npos) << worker.rank();
      parallel.save(folder_.string(), *optimizer);
    });
  };
  restore("going back to the checkpoint after step 4: " + (folder_ / "b").string() +
          "/worker-2.pt is not the file that was saved");
  EXPECT_EQ(base::read_text(folder_ / "a" / "worker-2.pt"), base::read_text(folder_ / "aside" / "worker-2.pt"));
  EXPECT_EQ(trained("mean", 4, 8), uninterrupted) << "from b, which was written anew";
  base::write_atomically(folder_ / "a" / "worker-0.pt", "nothing");
  base::write_atomically(folder_ / "b" / "worker-1.pt", "nothing");
  EXPECT_TRUE(refuses_to_go_on("is whole: "));
}

TEST_F(Checkpoint, theOldGenerationStaysUntilTheNewOneIsWhole) {
  save(2, "mean");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a"));
  save(2, "mean");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a" / "worker-1.pt"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "b" / "worker-1.pt"));
  std::filesystem::create_directories(folder_ / "a" / "worker-1.pt.part");  // nothing can be written there
  EXPECT_TRUE(refuses(ErrorCode::bad_file, "cannot write", 2, [&](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    const Optimizer optimizer = make_optimizer("Adam", net);
    EXPECT_EQ(parallel.restore(folder_.string(), *optimizer), "");
    parallel.save(folder_.string(), *optimizer);
  }));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "b" / "worker-1.pt"));
}

TEST_F(Checkpoint, aFolderThatCannotBeIsRefusedEverywhereWithOneSentence) {
  const std::string folder = folder_ / std::string(400, 'x');
  const auto with = [&](const std::function<void(DataParallel&, torch::optim::Optimizer&)>& body) {
    return [&, body](Worker& worker) {
      Net net;
      DataParallel parallel(worker, net);
      body(parallel, *make_optimizer("SGD", net));
    };
  };
  EXPECT_TRUE(refuses(ErrorCode::bad_file, "cannot make the folder", 3,
                      with([&](auto& parallel, auto& optimizer) { parallel.save(folder, optimizer); })));
  EXPECT_TRUE(refuses(ErrorCode::bad_file, "there is no checkpoint in", 3,
                      with([&](auto& parallel, auto& optimizer) { parallel.restore(folder, optimizer); })));
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
    try {
      parallel.save(folder_.string(), *optimizer);
      ADD_FAILURE() << "worker " << worker.rank() << " has saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_NE(std::string(error.what()).find("this module cannot be saved"), std::string::npos);
    }
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
