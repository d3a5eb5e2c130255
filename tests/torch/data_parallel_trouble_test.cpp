// What users do wrong, in one sentence each; what is random; and checkpoints. On threads.
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>

#include "algorithms/registry.h"
#include "base/files.h"
#include "torch/bucket_queue.h"
#include "training.h"

namespace flockstep::test {
namespace {

using Floats = std::vector<float>;

void on_workers(int count, const std::function<void(Worker&)>& body, std::uint64_t seed = 1) {
  torch::set_num_threads(1);
  launch({.workers = count, .deadline_s = 20, .deterministic = true, .seed = seed}, body);
}

// `body` is refused with this code, on some worker, in a sentence with `part` in it.
testing::AssertionResult refuses(ErrorCode code, const std::string& part, int count,
                                 const std::function<void(Worker&)>& body) {
  try {
    on_workers(count, body);
  } catch (const Error& error) {
    return error.code() == code && std::string(error.what()).find(part) != std::string::npos
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << to_string(error.code()) << ": " << error.what();
  }
  return testing::AssertionFailure() << "nothing was refused";
}

void take_step(Worker& worker, DataParallel& parallel, Net& net, torch::optim::Optimizer& optimizer, int step) {
  optimizer.zero_grad();
  loss_of(net, batch_of(worker.rank(), step, 4)).backward();
  parallel.step(optimizer);
}

TEST(Mismatch, namesTheFirstTensorThatDiffersAndBothSides) {
  const auto sentence = [](const std::string& part, const std::function<void(Net&)>& change) {
    return refuses(ErrorCode::mismatch, part, 3, [&](Worker& worker) {
      Net net;
      if (worker.rank() == 2) change(net);
      DataParallel parallel(worker, net);
    });
  };
  EXPECT_TRUE(
      sentence("worker 2 has as tensor 0 convolution.weight Float [3, 3] where worker 0 has convolution.weight "
               "Float [6, 2, 3, 3]",
               [](Net& net) {
                 net.convolution->weight.set_data(torch::zeros({3, 3}));
               }));
  EXPECT_TRUE(sentence("more Float [2] where worker 0 has nothing",
                       [](Net& net) { net.register_buffer("more", torch::zeros({2})); }));
  EXPECT_TRUE(sentence("as tensor 2 frozen.weight Float [12, 6] where worker 0 has frozen.weight frozen Float [12, 6]",
                       [](Net& net) { net.frozen->weight.requires_grad_(true); }));
  EXPECT_TRUE(sentence("with strides [18, 1, 6, 2]", [](Net& net) {
    net.convolution->weight.set_data(net.convolution->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }));
}

TEST(Mismatch, namesAnOrderThatDiffersAndASettingThatDiffers) {
  EXPECT_TRUE(refuses(ErrorCode::mismatch, "worker 1 has as tensor 0 b Float [2] where worker 0 has a Float [2]", 2,
                      [](Worker& worker) {
                        nn::Module module;
                        module.register_parameter(worker.rank() == 0 ? "a" : "b", torch::zeros({2}));
                        module.register_parameter(worker.rank() == 0 ? "b" : "a", torch::zeros({2}));
                        DataParallel parallel(worker, module);
                      }));
  EXPECT_TRUE(refuses(ErrorCode::mismatch, "worker 1 has seed 2 where worker 0 has 1", 2, [](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.seed = worker.rank() == 1 ? 2u : 1u});
  }));
}

TEST(Misuse, ofSettingsIsNamed) {
  const auto with = [](const std::string& part, const DataParallelSettings& settings) {
    return refuses(ErrorCode::bad_input, part, 2, [&](Worker& worker) {
      Net net;
      DataParallel parallel(worker, net, settings);
    });
  };
  EXPECT_TRUE(with("adacon", {.algorithm = "adacon"}));
  EXPECT_TRUE(with("nonsense", {.algorithm = "adacons", .options = {{"nonsense", "1"}}}));
  EXPECT_TRUE(with("bucket_kib is 1 to", {.bucket_kib = 0}));
  EXPECT_TRUE(
      with("local_sgd averages buffers with the models", {.algorithm = "local_sgd", .buffers = Buffers::broadcast}));
  Net one;
  EXPECT_TRUE(refuses(ErrorCode::bad_input, "every worker needs a module of its own", 2,
                      [&](Worker& worker) { DataParallel parallel(worker, one); }));
}

TEST(Misuse, ofStepsIsNamed) {
  using Body = std::function<void(int rank, DataParallel&, Net&, torch::optim::Optimizer&)>;
  const auto in = [](const std::string& part, const Body& body) {
    return refuses(ErrorCode::bad_input, part, 2, [&](Worker& worker) {
      Net net;
      DataParallel parallel(worker, net, {.bucket_kib = 1});
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      body(worker.rank(), parallel, net, optimizer);
    });
  };
  const auto backward = [](Net& net) { loss_of(net, batch_of(0, 0, 2)).backward(); };
  EXPECT_TRUE(in("need no_sync()", [&](int, auto&, Net& net, auto&) {
    backward(net);
    backward(net);
  }));
  EXPECT_TRUE(in("need no_sync()", [&](int, DataParallel& parallel, Net& net, auto&) {
    backward(net);
    const auto no_sync = parallel.no_sync();
    backward(net);
  }));
  EXPECT_TRUE(in("while a no_sync() lives", [&](int, DataParallel& parallel, Net& net, auto& optimizer) {
    const auto no_sync = parallel.no_sync();
    backward(net);
    parallel.step(optimizer);
  }));
  EXPECT_TRUE(in("worker 0 has had a backward pass in a step that it told join it has no batch for",
                 [&](int rank, DataParallel& parallel, Net& net, auto& optimizer) {
                   parallel.join(1 + rank);
                   for (int step = 0; step < 2; ++step) {
                     backward(net);
                     parallel.step(optimizer);
                   }
                 }));
  EXPECT_TRUE(in("0 or more", [](int, DataParallel& parallel, auto&, auto&) { parallel.join(-1); }));
  EXPECT_TRUE(in("finish_epoch comes after the last", [](int, DataParallel& parallel, auto&, auto& optimizer) {
    parallel.join(2);
    parallel.finish_epoch(optimizer);
  }));
  EXPECT_TRUE(in("call what waits for others after it", [](int, DataParallel& parallel, auto&, auto& optimizer) {
    parallel.random([&] { parallel.step(optimizer); });
  }));
  EXPECT_TRUE(in("head.bias Double [3] was Float [3]", [](int, DataParallel& parallel, Net& net, auto& optimizer) {
    net.to(torch::kDouble);
    parallel.step(optimizer);
  }));
}

TEST(BucketQueue, letsBucketsGoInOneOrderHoweverTheyAreCompleted) {
  const runtime::Layout layout(10, 4);  // of 4, 3 and 3
  torch_front::BucketQueue queue(layout);
  using Next = std::optional<std::size_t>;
  queue.add({7, 3});
  EXPECT_EQ(queue.next(), Next()) << "complete, but not first";
  queue.add({0, 5});
  EXPECT_EQ(queue.next(), Next(0));
  EXPECT_EQ(queue.next(), Next());
  queue.add({5, 2});
  EXPECT_EQ(queue.next(), Next(1));
  EXPECT_EQ(queue.next(), Next(2));
  EXPECT_TRUE(queue.at_end());
  EXPECT_EQ(queue.completed(), (std::vector<std::size_t>{2, 0, 1}));
  queue.set_order(queue.completed());
  queue.begin();
  queue.add({0, 7});
  EXPECT_EQ(queue.next(), Next()) << "now the last is first";
  queue.add({7, 3});
  EXPECT_EQ(queue.next(), Next(2));
}

TEST(Magnitude, isTheMeansByDefault) {
  on_workers(3, [](Worker& worker) {
    const auto norm_of = [&](const std::string& algorithm, const std::map<std::string, std::string>& options) {
      Net net;
      DataParallel parallel(worker, net, {.algorithm = algorithm, .options = options});
      loss_of(net, batch_of(worker.rank(), 0, 2)).backward();
      parallel.finish_backward();
      double square = 0;
      std::set<const void*> seen;  // shared parameters are listed twice
      for (const Tensor& parameter : net.parameters())
        if (parameter.grad().defined() && seen.insert(parameter.unsafeGetTensorImpl()).second)
          square += parameter.grad().square().sum().item<double>();
      return std::sqrt(square);
    };
    const double mean = norm_of("mean", {});
    EXPECT_NEAR(norm_of("adacons", {}), mean, 1e-5 * mean);
    EXPECT_NEAR(norm_of("direction_consensus", {}), mean, 1e-5 * mean);
    EXPECT_GT(std::abs(norm_of("adacons", {{"magnitude", "own"}}) - mean), 1e-3 * mean);
  });
}

TEST(Join, whereModelsAreAveragedWhoHasNoBatchMakesNoUpdate) {
  on_workers(2, [](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.algorithm = "local_sgd", .options = {{"period", "4"}}});
    const Optimizer optimizer = make_optimizer("SGD", net);
    EXPECT_EQ(parallel.join(worker.rank() == 0 ? 4 : 1), 4);
    take_step(worker, parallel, net, *optimizer, 0);
    const Floats after_one = numbers(net);
    if (worker.rank() == 1) {
      for (int step = 1; step < 3; ++step) parallel.step(*optimizer);
      EXPECT_EQ(numbers(net), after_one);
    }
    for (int step = 1; worker.rank() == 0 && step < 4; ++step) take_step(worker, parallel, net, *optimizer, step);
    parallel.finish_epoch(*optimizer);
    EXPECT_NE(numbers(net), after_one) << "the average came after the fourth step";
    expect_same_bits_everywhere(worker, numbers(net));
    take_step(worker, parallel, net, *optimizer, 4);  // after the epoch everybody counts again
    EXPECT_TRUE(net.head->weight.grad().defined());
  });
}

TEST(NonFinite, gradientsAreCountedAndNotApplied) {
  for (const std::string algorithm : {"mean", "adacons", "local_sgd"})
    on_workers(2, [&](Worker& worker) {
      Net net;
      DataParallel parallel(worker, net, {.algorithm = algorithm});
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      const Floats before = numbers(net);
      const bool is_hit = worker.rank() == 1 || algorithm != "local_sgd";
      loss_of(net, batch_of(0, 0, 2)).mul(worker.rank() == 1 ? NAN : 1.0).backward();
      parallel.step(optimizer);
      EXPECT_EQ(numbers(net) == before, is_hit) << algorithm;
      EXPECT_EQ(parallel.report().guards.at("non_finite"), is_hit ? 1 : 0) << algorithm;
    });
}

TEST(FrozenTensors, ofAnyTypeComeFromWorkerZero) {
  on_workers(3, [](Worker& worker) {
    nn::Module module;
    module.register_parameter("weight", torch::ones({2}));
    const Tensor wide = module.register_parameter("wide", torch::full({3}, worker.rank() + 0.5, torch::kDouble), false),
                 flag = module.register_buffer("flag", torch::full({1}, worker.rank() == 0, torch::kBool)),
                 half = module.register_buffer("half", torch::full({2, 2}, 1.0 + worker.rank(), torch::kHalf));
    DataParallel parallel(worker, module);
    EXPECT_TRUE(torch::equal(wide, torch::full({3}, 0.5, torch::kDouble)));
    EXPECT_TRUE(flag.item<bool>());
    EXPECT_TRUE(torch::equal(half, torch::ones({2, 2}, torch::kHalf)));
  });
}

TEST(Module, withoutParametersHasNothingToDo) {
  on_workers(2, [](Worker& worker) {
    nn::Module empty;
    Tensor weight = torch::zeros({1}, torch::requires_grad());
    torch::optim::SGD optimizer({weight}, 0.1);
    for (const std::string algorithm : {"mean", "adacons", "wagma"}) {
      DataParallel parallel(worker, empty, {.algorithm = algorithm});
      parallel.step(optimizer);
      parallel.consolidate();
    }
  });
}

TEST(Broadcast, givesEverybodyWhatWorkerZeroHasLoadedAndStepsGoOn) {
  for (const std::string algorithm : {"mean", "local_sgd", "sgp", "wagma", "flock", "eager_solo"})
    on_workers(3, [&](Worker& worker) {
      Net net(true);
      DataParallel parallel(worker, net, {.algorithm = algorithm, .bucket_kib = 1});
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      for (int step = 0; step < 3; ++step) take_step(worker, parallel, net, optimizer, step);
      if (worker.rank() == 0) net.fill(88);
      if (worker.rank() == 0) net.normalisation->num_batches_tracked.fill_(40);
      parallel.broadcast();
      Net expected(true);
      expected.fill(88);
      EXPECT_EQ(numbers(net.head->weight), numbers(expected.head->weight)) << algorithm;
      EXPECT_EQ(numbers(net.frozen->weight), numbers(expected.frozen->weight)) << algorithm;
      EXPECT_EQ(net.normalisation->num_batches_tracked.item<int>(), 40);
      expect_same_bits_everywhere(worker, numbers(net));
      parallel.after_update();  // an average of equal models is that model
      expect_near(numbers(net.head->weight), numbers(expected.head->weight), 1e-6);
      for (int step = 3; step < 6; ++step) take_step(worker, parallel, net, optimizer, step);
      parallel.finish(optimizer);
      expect_same_bits_everywhere(worker, numbers(net));
    });
}

// What `draw` gives each worker in a run of this seed.
std::vector<Floats> drawn_by_workers(std::uint64_t seed, const std::function<Floats(Worker&, DataParallel&)>& draw) {
  std::mutex mutex;
  std::vector<Floats> all(3);
  on_workers(
      3,
      [&](Worker& worker) {
        nn::Module module;
        module.register_parameter("weight", torch::zeros({2}));
        DataParallel parallel(worker, module, {.seed = seed});
        const Floats mine = draw(worker, parallel);
        const std::lock_guard lock(mutex);
        all[static_cast<std::size_t>(worker.rank())] = mine;
      },
      seed + 10);
  return all;
}

TEST(Random, numbersAreEachWorkersOwnAndRepeatAndLeaveTheDefaultOnesAlone) {
  const auto draw = [](Worker&, DataParallel& parallel) {
    Floats values;
    for (int times = 0; times < 3; ++times) {
      parallel.random([&] {
        parallel.random([&] { values.push_back(torch::rand({1}).item<float>()); });
        values.push_back(torch::dropout(torch::ones({1}), 0.5, true).item<float>());
      });
      parallel.consolidate();  // others draw in between
    }
    return values;
  };
  torch::manual_seed(5);
  const Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  const auto first = drawn_by_workers(1, draw), second = drawn_by_workers(1, draw), other = drawn_by_workers(2, draw);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
}

TEST(Random, mayHoldABackwardPassWhoseBucketsThenStartAfterIt) {
  on_workers(3, [](Worker& worker) {
    Net net, expected;
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    torch::optim::SGD optimizer(net.parameters(), 0.1), other(expected.parameters(), 0.1);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      parallel.random([&] { loss_of(net, batch_of(worker.rank(), step, 4)).backward(); });
      parallel.step(optimizer);
      other.zero_grad();
      loss_of(expected, joined({batch_of(0, step, 4), batch_of(1, step, 4), batch_of(2, step, 4)})).backward();
      other.step();
    }
    expect_near(numbers(net), numbers(expected), 2e-5);
  });
}

// A folder that goes away with the test.
class Checkpoint : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("flockstep-torch-" + std::to_string(::getpid()));
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
        EXPECT_EQ(parallel.restore(folder_, *optimizer), "");
      }
      for (int step = from; step < to; ++step) {
        optimizer->zero_grad();
        Batch batch = batch_of(worker.rank(), step, 4);
        parallel.random([&] { batch.x = torch::dropout(batch.x, 0.3, true); });
        loss_of(net, batch).backward();
        parallel.step(*optimizer);
        if (step == 3) parallel.save(folder_, *optimizer);
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
      parallel.save(folder_, *optimizer);
    });
  }
  testing::AssertionResult refuses_to_go_on(const std::string& part, const std::string& optimizer_name = "Adam",
                                            bool normalises = false, const std::string& algorithm = "mean") {
    return refuses(ErrorCode::bad_file, part, 3, [&](Worker& worker) {
      Net net(normalises);
      DataParallel parallel(worker, net, {.algorithm = algorithm, .bucket_kib = 1});
      parallel.restore(folder_, *make_optimizer(optimizer_name, net));
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
        const std::string remade = parallel.restore(folder_, *optimizer);
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
  EXPECT_TRUE(refuses_to_go_on("worker-1.pt is not the whole file"));
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
  base::write_atomically(file_of(1), changed);
  EXPECT_TRUE(refuses_to_go_on("worker-1.pt is not the whole file"));
  std::filesystem::remove(file_of(1));
  EXPECT_TRUE(refuses_to_go_on("cannot read"));
  base::write_atomically(folder_ / "latest", "flockstep-torch-1 a 3 1\n");
  EXPECT_TRUE(refuses_to_go_on("does not name a whole set"));
}

TEST_F(Checkpoint, theOldSetStaysUntilTheNewOneIsWhole) {
  save(2, "mean");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "a"));
  save(2, "mean");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "b" / "worker-1.pt"));
  std::filesystem::create_directories(folder_ / "a" / "worker-1.pt.part");  // nothing can be written there
  EXPECT_TRUE(refuses(ErrorCode::bad_file, "cannot write", 2, [&](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    const Optimizer optimizer = make_optimizer("Adam", net);
    EXPECT_EQ(parallel.restore(folder_, *optimizer), "");
    parallel.save(folder_, *optimizer);
  }));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "b" / "worker-1.pt"));
}

TEST_F(Checkpoint, comesBeforeTheFirstStep) {
  save(2, "mean");
  EXPECT_TRUE(refuses(ErrorCode::bad_input, "restore was called after a step", 2, [&](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    const Optimizer optimizer = make_optimizer("Adam", net);
    take_step(worker, parallel, net, *optimizer, 0);
    parallel.restore(folder_, *optimizer);
  }));
}

}  // namespace
}  // namespace flockstep::test
