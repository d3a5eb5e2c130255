// What users do wrong, in one sentence each; what goes on beside gradients; and what is random. On threads.
#include <set>

#include "on_threads.h"
#include "torch/bucket_queue.h"

namespace flockstep::test::data_parallel_trouble_test {
namespace {

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
  EXPECT_TRUE(with("eager_solo does not exchange buffers in every step",
                   {.algorithm = "eager_solo", .buffers = Buffers::broadcast}));
  Net one;
  EXPECT_TRUE(refuses(ErrorCode::bad_input, "every worker needs a module of its own", 2,
                      [&](Worker& worker) { DataParallel parallel(worker, one); }));
}

struct Subject {
  explicit Subject(Worker& worker) : rank(worker.rank()), parallel(worker, net, {.bucket_kib = 1}) {}
  void backward() { loss_of(net, batch_of(0, 0, 2)).backward(); }
  void step() { parallel.step(optimizer); }

  const int rank;
  Net net;
  DataParallel parallel;
  torch::optim::SGD optimizer{net.parameters(), 0.1};
};
void expect_misuse(const std::string& part, const std::function<void(Subject&)>& body) {
  EXPECT_TRUE(refuses(ErrorCode::bad_input, part, 2, [&](Worker& worker) {
    Subject subject(worker);
    body(subject);
  }));
}

TEST(Misuse, ofStepsIsNamed) {
  expect_misuse("need no_sync()", [](Subject& my) {
    my.backward();
    my.backward();
  });
  expect_misuse("need no_sync()", [](Subject& my) {
    my.backward();
    const auto no_sync = my.parallel.no_sync();
    my.backward();
  });
  expect_misuse("while a no_sync() lives", [](Subject& my) {
    const auto no_sync = my.parallel.no_sync();
    my.backward();
    my.step();
  });
  for (const bool accumulates : {false, true})
    expect_misuse("worker 0 has had a backward pass in a step that it told join it has no batch for", [&](Subject& my) {
      my.parallel.join(my.rank);
      if (accumulates && my.rank == 0) {
        const auto no_sync = my.parallel.no_sync();
        my.backward();
      } else {
        my.backward();
      }
      my.step();
    });
  expect_misuse("0 or more", [](Subject& my) { my.parallel.join(-1); });
  expect_misuse("call finish_epoch after the last", [](Subject& my) {
    my.parallel.join(2);
    my.parallel.finish_epoch(my.optimizer);
  });
  expect_misuse("call functions that wait for other workers after it",
                [](Subject& my) { my.parallel.random([&] { my.step(); }); });
  expect_misuse("head.bias Double [3] was Float [3]", [](Subject& my) {
    my.net.to(torch::kDouble);
    my.step();
  });
}

// What others wait for would be taken for a bucket that is under way, or the other way round.
TEST(Misuse, ofCallsBetweenBackwardAndStepIsNamed) {
  const std::vector<std::function<void(Subject&)>> calls{
      [](Subject& my) { my.parallel.join(1); }, [](Subject& my) { my.parallel.consolidate(); },
      [](Subject& my) { my.parallel.broadcast(); }, [](Subject& my) { my.parallel.finish(my.optimizer); },
      [](Subject& my) { my.parallel.save(".", my.optimizer); }};
  for (const auto& call : calls)
    expect_misuse("call finish_backward, or step, first", [&](Subject& my) {
      my.net.demands = my.rank == 0;  // some buckets travel only from worker 0 so far
      my.backward();
      call(my);
    });
}

// Backward completes the two in another order where one is not used, and equal buckets would be taken for each other.
TEST(TwoModules, inOneBackwardPassKeepTheirGradientsApart) {
  on_workers(2, [](Worker& worker) {
    nn::Module first, second;
    const Tensor a = first.register_parameter("a", torch::zeros({300})),
                 b = second.register_parameter("b", torch::zeros({300}));
    DataParallel of_first(worker, first, {.bucket_kib = 1}), of_second(worker, second, {.bucket_kib = 1});
    torch::optim::SGD moves_first({a}, 1.0), moves_second({b}, 1.0);
    for (int step = 0; step < 3; ++step) {
      moves_first.zero_grad();
      moves_second.zero_grad();
      Tensor loss = 3 * b.sum();
      if (worker.rank() == 0 || step != 1) loss = loss + a.sum();
      loss.backward();
      of_first.step(moves_first);
      of_second.step(moves_second);
    }
    EXPECT_EQ(numbers(a), Floats(300, -2.5f));
    EXPECT_EQ(numbers(b), Floats(300, -9.0f));
  });
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

TEST(Magnitude, isTheMeansOrMatchedByDefault) {
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
    EXPECT_NEAR(norm_of("adasum", {}), mean, 1e-5 * mean);
    for (const std::string rule : {"normalized_mean", "adacons", "direction_consensus", "geometric_median"})
      EXPECT_NEAR(norm_of(rule, {}), norm_of(rule, {{"magnitude", "matched"}}), 1e-6 * mean) << rule;
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

// However late a gradient is, it counts by how many had one in its own step.
TEST(Join, leavesWhoHasNoBatchOutOfEagerSums) {
  for (const std::string algorithm : {"eager_solo", "eager_majority"})
    on_workers(4, [&](Worker& worker) {
      nn::Module module;
      const Tensor x = module.register_parameter("x", torch::zeros({3}));
      DataParallel parallel(worker, module, {.algorithm = algorithm});
      torch::optim::SGD optimizer({x}, 1.0);
      const int own = worker.rank() == 0 ? 6 : worker.rank() - 1;
      EXPECT_EQ(parallel.join(own), 6);
      for (int step = 0; step < own; ++step) {
        optimizer.zero_grad();
        x.sum().backward();
        parallel.step(optimizer);
      }
      parallel.finish_epoch(optimizer);
      parallel.finish(optimizer);
      expect_near(numbers(x), Floats(3, -6.0f), 1e-5);
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

// What each worker draws in a run of this seed, with others' draws in between.
std::vector<Floats> drawn_by_workers(std::uint64_t seed, bool deterministic = true) {
  std::vector<Floats> all(4);  // each worker writes to its own
  launch({.workers = 4, .deadline_s = 20, .deterministic = deterministic, .seed = seed + 10}, [&](Worker& worker) {
    nn::Module module;
    module.register_parameter("weight", torch::zeros({2}));
    DataParallel parallel(worker, module, {.seed = seed});
    Floats& mine = all[static_cast<std::size_t>(worker.rank())];
    for (int times = 0; times < 100; ++times) {
      parallel.random([&] {
        parallel.random([&] { mine.push_back(torch::rand({1}).item<float>()); });
        for (const float number : numbers(torch::dropout(torch::ones({8}), 0.5, true))) mine.push_back(number);
      });
      if (times % 10 == 0) parallel.consolidate();
    }
  });
  return all;
}

TEST(Random, numbersAreEachWorkersOwnAndRepeatAndLeaveTheDefaultOnesAlone) {
  torch::manual_seed(5);
  const Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  const auto first = drawn_by_workers(1);
  EXPECT_EQ(drawn_by_workers(1), first);
  EXPECT_EQ(drawn_by_workers(1, false), first) << "also where workers run at once";
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
  EXPECT_NE(drawn_by_workers(2), first);
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

}  // namespace
}  // namespace flockstep::test::data_parallel_trouble_test
