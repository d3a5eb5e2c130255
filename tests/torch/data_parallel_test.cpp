// DataParallel with `mean` against one process that computes the same on the joined batch; and every algorithm.
#include "algorithms/registry.h"
#include "load_from.h"
#include "training.h"

namespace flockstep::test::data_parallel_test {
namespace {

// A training as worker `rank` of many sees it, and as one process that has everybody's batches.
struct Plan {
  std::function<void(Net&)> prepare = [](Net&) {};
  // Tiny buckets of tiny batches differ from step to step by more than a guard would let pass: there is none.
  DataParallelSettings settings{.bucket_kib = 1};
  int steps = 5;
  int micro_batches = 1;
  std::function<int(int worker, int step)> samples = [](int, int) { return 4; };  // 0: no batch
  bool is_weighted = false, joins = false;
  std::function<void(Net&, int step)> meddle = [](Net&, int) {};  // between two steps
  double tolerance = 2e-5;
};

// Of one step; `step` counts micro-batches on.
std::vector<Batch> batches_of(const Plan& plan, int worker, int step) {
  std::vector<Batch> batches;
  for (int part = 0; part < plan.micro_batches; ++part)
    batches.push_back(batch_of(worker, step * plan.micro_batches + part, plan.samples(worker, step)));
  return batches;
}

std::vector<float> in_one_process(const Plan& plan, const std::string& optimizer_name) {
  Net net;
  plan.prepare(net);
  const Optimizer optimizer = make_optimizer(optimizer_name, net);
  for (int step = 0; step < plan.steps; ++step) {
    plan.meddle(net, step);
    std::vector<Batch> all;
    for (int worker = 0; worker < workers(); ++worker)
      if (plan.samples(worker, step) > 0)
        for (const Batch& batch : batches_of(plan, worker, step)) all.push_back(batch);
    optimizer->zero_grad(step % 2 == 0);
    loss_of(net, joined(all)).backward();
    optimizer->step();
  }
  return numbers(net);
}

void train(const Plan& plan, Worker& worker, DataParallel& parallel, Net& net, torch::optim::Optimizer& optimizer) {
  int own = 0;  // steps with a batch
  while (own < plan.steps && plan.samples(worker.rank(), own) > 0) ++own;
  if (plan.joins) {
    EXPECT_EQ(parallel.join(own), plan.steps);
  }
  for (int step = 0; step < own; ++step) {
    plan.meddle(net, step);
    optimizer.zero_grad(step % 2 == 0);
    const std::vector<Batch> batches = batches_of(plan, worker.rank(), step);
    for (std::size_t part = 0; part + 1 < batches.size(); ++part) {
      const auto no_sync = parallel.no_sync();
      (loss_of(net, batches[part]) / plan.micro_batches).backward();
    }
    (loss_of(net, batches.back()) / plan.micro_batches).backward();
    parallel.step(optimizer, plan.is_weighted ? plan.samples(worker.rank(), step) : 1);
  }
  if (plan.joins) parallel.finish_epoch(optimizer);
}

void expect_what_one_process_gives(
    const Plan& plan, const std::string& optimizer_name, const std::function<void(Net&)>& check = [](Net&) {}) {
  const std::vector<float> expected = in_one_process(plan, optimizer_name);
  on_every_worker([&](Worker& worker) {
    Net net;
    plan.prepare(net);
    net.fill(static_cast<std::uint32_t>(worker.rank()));  // but for worker 0's, another start
    const Optimizer early = make_optimizer(optimizer_name, net);
    DataParallel parallel(worker, net, plan.settings);
    const Optimizer late = make_optimizer(optimizer_name, net);  // tensors keep their identity: either will do
    train(plan, worker, parallel, net, worker.rank() % 2 == 0 ? *early : *late);
    const std::vector<float> mine = numbers(net);
    expect_near(mine, expected, plan.tolerance);
    expect_same_bits_everywhere(worker, mine);
    check(net);
  });
}

class WithOptimizer : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, WithOptimizer, testing::Values("SGD", "Adam", "AdamW"),
                         [](const auto& info) { return info.param; });

TEST_P(WithOptimizer, severalBucketsAndBothKindsOfZeroGrad) {
  expect_what_one_process_gives({}, GetParam(), [](Net& net) {
    EXPECT_FALSE(net.unused->weight.grad().defined()) << "unused on every worker";
    EXPECT_FALSE(net.frozen->weight.grad().defined());
    EXPECT_TRUE(net.shared->weight.grad().defined());
    EXPECT_FALSE(net.shared->weight.grad().is_view());
  });
}

TEST_P(WithOptimizer, oneLargeBucket) { expect_what_one_process_gives({.settings = {.bucket_kib = 4096}}, GetParam()); }

// Both of these re-point parameters and buffers.
void load_or_move(Net& net, int step) {
  if (step == 2) {
    Net other;
    other.fill(77);
    load_from(other, net);
  }
  if (step == 3) {
    net.to(torch::kDouble);
    net.to(torch::kFloat);
  }
}

TEST_P(WithOptimizer, parametersThatWereLoadedOrMovedInBetween) {
  expect_what_one_process_gives({.meddle = load_or_move}, GetParam());
}

TEST(Parameters, areBackInTheirPlaceAStepAfterTheyWereLoadedOrMoved) {
  on_every_worker([](Worker& worker) {
    Net net;
    DataParallel parallel(worker, net, {.bucket_kib = 1});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    const void* const place = net.head->weight.const_data_ptr();
    for (const int step : {2, 3}) {
      load_or_move(net, step);
      ASSERT_NE(net.head->weight.const_data_ptr(), place);
      optimizer.zero_grad();
      loss_of(net, batch_of(worker.rank(), step, 4)).backward();
      parallel.step(optimizer);
      EXPECT_EQ(net.head->weight.const_data_ptr(), place) << "where algorithms read and write it";
    }
  });
}

// Without momentum, models that are averaged after every step take the step of the mean gradient.
TEST(Models, thatWereLoadedOrMovedInBetweenAreAveraged) {
  expect_what_one_process_gives(
      {.settings = {.algorithm = "local_sgd", .options = {{"period", "1"}, {"guard", "off"}}}, .meddle = load_or_move},
      "plain SGD");
}

TEST_P(WithOptimizer, channelsLast) {
  const auto prepare = [](Net& net) {
    Tensor& weight = net.convolution->weight;
    weight.set_data(weight.contiguous(torch::MemoryFormat::ChannelsLast));
  };
  expect_what_one_process_gives({.prepare = prepare}, GetParam(), [](Net& net) {
    EXPECT_TRUE(net.convolution->weight.is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_FALSE(net.convolution->weight.is_contiguous());
    EXPECT_EQ(net.convolution->weight.grad().strides(), net.convolution->weight.strides());
  });
}

TEST_P(WithOptimizer, bfloat16) {
  expect_what_one_process_gives({.prepare = [](Net& net) { net.to(torch::kBFloat16); }, .steps = 3, .tolerance = 0.03},
                                GetParam(),
                                [](Net& net) { EXPECT_EQ(net.head->weight.grad().scalar_type(), torch::kBFloat16); });
}

TEST_P(WithOptimizer, oneLayerInBfloat16) {
  expect_what_one_process_gives(
      {.prepare = [](Net& net) { net.head->to(torch::kBFloat16); }, .steps = 3, .tolerance = 0.01}, GetParam(),
      [](Net& net) { EXPECT_EQ(net.shared->weight.grad().scalar_type(), torch::kFloat); });
}

TEST_P(WithOptimizer, severalBatchesBehindOneStep) {
  expect_what_one_process_gives({.steps = 3, .micro_batches = 3}, GetParam());
}

TEST_P(WithOptimizer, unevenBatchesByWeight) {
  expect_what_one_process_gives({.settings = {.algorithm = "weighted_mean", .bucket_kib = 1},
                                 .samples = [](int worker, int step) { return 1 + (worker + step) % 4; },
                                 .is_weighted = true},
                                GetParam());
}

TEST_P(WithOptimizer, unevenNumbersOfBatchesByJoin) {
  expect_what_one_process_gives(
      {.samples = [](int worker, int step) { return step < 5 - worker % 3 ? 4 : 0; }, .joins = true}, GetParam());
}

// What differs between workers has no joined batch: one process takes each worker's in turn.
TEST_P(WithOptimizer, aLayerThatOnlyOneWorkerUses) {
  const auto demands = [](int worker, int step) { return step == 3 || (step > 0 && worker == 0); };
  Net net;
  const Optimizer optimizer = make_optimizer(GetParam(), net);
  for (int step = 0; step < 5; ++step) {
    optimizer->zero_grad();
    for (int worker = 0; worker < workers(); ++worker) {
      net.demands = demands(worker, step);
      (loss_of(net, batch_of(worker, step, 4)) / workers()).backward();
    }
    optimizer->step();
  }
  on_every_worker([&](Worker& worker) {
    Net mine;
    DataParallel parallel(worker, mine, {.bucket_kib = 1});
    const Optimizer own = make_optimizer(GetParam(), mine);
    for (int step = 0; step < 5; ++step) {
      own->zero_grad();
      mine.demands = demands(worker.rank(), step);
      loss_of(mine, batch_of(worker.rank(), step, 4)).backward();
      {
        const torch::NoGradGuard no_grad;  // of this worker alone, also where all share a thread
        parallel.finish_backward();
        EXPECT_FALSE(torch::GradMode::is_enabled());
      }
      EXPECT_EQ(mine.on_demand->weight.grad().defined(), step > 0);
      own->step();
      parallel.after_update();
    }
    expect_near(numbers(mine), numbers(net), 2e-5);
    expect_same_bits_everywhere(worker, numbers(mine));
  });
}

class WithBuffers : public testing::TestWithParam<Buffers> {};
std::string name_of(const testing::TestParamInfo<Buffers>& info) {
  return info.param == Buffers::average ? "average" : info.param == Buffers::broadcast ? "broadcast" : "leave";
}
INSTANTIATE_TEST_SUITE_P(Kinds, WithBuffers, testing::Values(Buffers::average, Buffers::broadcast, Buffers::leave),
                         name_of);

// Each worker's statistics of a step are those of its own batch.
TEST_P(WithBuffers, runningStatisticsAreThoseOfWorkersInOneProcess) {
  Net net(true);
  const Optimizer optimizer = make_optimizer("SGD", net);
  const auto buffers = [](Net& from) {
    return std::array{from.normalisation->running_mean, from.normalisation->running_var};
  };
  std::vector<std::array<Tensor, 2>> each(static_cast<std::size_t>(workers()));
  for (auto& mine : each) mine = {torch::zeros(6), torch::ones(6)};
  const auto mean_of = [&](std::size_t kind) {
    Tensor sum = torch::zeros(6);
    for (const auto& mine : each) sum += mine[kind];
    return sum / workers();
  };
  const auto set = [&](std::size_t kind, const Tensor& value) {
    const torch::NoGradGuard no_grad;
    buffers(net)[kind].copy_(value);
  };
  for (int step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    for (int worker = 0; worker < workers(); ++worker) {
      auto& mine = each[static_cast<std::size_t>(worker)];
      for (std::size_t kind : {0, 1}) set(kind, mine[kind]);
      (loss_of(net, batch_of(worker, step, 4)) / workers()).backward();
      for (std::size_t kind : {0, 1}) mine[kind] = buffers(net)[kind].clone();
    }
    optimizer->step();
    for (std::size_t kind : {0, 1}) {
      const Tensor agreed = GetParam() == Buffers::average ? mean_of(kind) : each[0][kind].clone();
      if (GetParam() != Buffers::leave)
        for (auto& mine : each) mine[kind] = agreed.clone();
    }
  }
  on_every_worker([&](Worker& worker) {
    Net mine(true);
    DataParallel parallel(worker, mine, {.options = {{"guard", "0"}}, .buffers = GetParam(), .bucket_kib = 1});
    const Optimizer own = make_optimizer("SGD", mine);
    for (int step = 0; step < 4; ++step) {
      own->zero_grad();
      loss_of(mine, batch_of(worker.rank(), step, 4)).backward();
      parallel.step(*own);
    }
    const auto& expected = each[static_cast<std::size_t>(worker.rank())];
    for (std::size_t kind : {0, 1}) expect_near(numbers(buffers(mine)[kind]), numbers(expected[kind]), 1e-5);
    expect_near(numbers(mine.convolution->weight), numbers(net.convolution->weight), 2e-5);
    parallel.consolidate();
    for (std::size_t kind : {0, 1}) expect_near(numbers(buffers(mine)[kind]), numbers(mean_of(kind)), 1e-5);
    EXPECT_EQ(mine.normalisation->num_batches_tracked.item<int>(), 4);
    expect_same_bits_everywhere(worker, numbers(mine));
  });
}

std::vector<std::string> every_algorithm() {
  std::vector<std::string> names;
  for (const auto& row : algorithms::algorithms()) names.emplace_back(row.name);
  return names;
}
class WithAlgorithm : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, WithAlgorithm, testing::ValuesIn(every_algorithm()),
                         [](const auto& info) { return info.param; });

// Everybody is told the same function by other batches, has other numbers of them, and changes buffers on the way.
TEST_P(WithAlgorithm, trainsABatchNormalisedNetworkAndEndsOnTheSameBitsEverywhere) {
  on_every_worker([&](Worker& worker) {
    Net net(true);
    DataParallel parallel(worker, net, {.algorithm = GetParam(), .bucket_kib = 1});
    torch::optim::SGD optimizer(net.parameters(), 0.05);
    const Batch test{drawn({64, 2, 5, 5}, 900, 0), torch::zeros({64, 3})};
    const auto targets = [](const Tensor& x) { return x.mean({2, 3}).sum(1, true).expand({-1, 3}); };
    const auto quality = [&] {
      net.eval();
      const double loss = torch::mse_loss(net.forward(test.x), targets(test.x)).item<double>();
      net.train();
      return loss;
    };
    const double before = quality();
    for (int epoch = 0; epoch < 2; ++epoch) {
      const int own = 12 - worker.rank() % 3;
      EXPECT_EQ(parallel.join(own), 12);
      for (int step = 0; step < own; ++step) {
        const Batch batch = batch_of(worker.rank(), 100 * epoch + step, 8);
        optimizer.zero_grad();
        torch::mse_loss(net.forward(batch.x), targets(batch.x)).backward();
        parallel.step(optimizer, GetParam() == "weighted_mean" ? 8 : 1);
      }
      parallel.finish_epoch(optimizer);
    }
    parallel.finish(optimizer);
    expect_same_bits_everywhere(worker, numbers(net));
    EXPECT_LT(quality(), 0.8 * before) << GetParam();
    EXPECT_TRUE(parallel.findings().empty());
  });
}

}  // namespace
}  // namespace flockstep::test::data_parallel_test
