// What stands in for a model without gradients, and how much memory a run needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "algorithms/registry.h"
#include "base/partition.h"
#include "runs/memory_need.h"
#include "runs/run.h"
#include "runs/stand_in.h"
#include "runs/workload.h"
#include "runtime/layout.h"
#include "runtime/rounds/round_parts.h"
#include "support/refusal.h"
#include "tasks/registry.h"

namespace flockstep::runs {
namespace {

constexpr std::int64_t kResnet = 25559081;
constexpr std::int64_t kBucketKib = 4096;

TEST(StandIn, hasAsManyBucketsAsTheModelThatItStandsFor) {
  const runtime::Layout real(static_cast<std::size_t>(kResnet), kBucketKib * 1024 / sizeof(float));
  for (const int workers : {1, 2, 3, 64, 100, 1024}) {
    const StandInSize size = stand_in_size(kResnet, kBucketKib, workers);
    EXPECT_EQ(static_cast<std::size_t>(size.buckets), real.buckets().size()) << workers;
  }
}

TEST(StandIn, hasNoMoreBucketsThanASimulationCanServe) {
  for (const std::int64_t parameters : {std::int64_t{3'000'000'000}, std::int64_t{1} << 40}) {
    EXPECT_EQ(stand_in_size(parameters, kBucketKib, 4).buckets, 256);
    EXPECT_EQ(stand_in_size(parameters, kBucketKib, 1024).buckets, 256);
    EXPECT_EQ(stand_in_size(parameters, kBucketKib, 4096).buckets, 64) << "of 262,144 numbers, evenly";
  }
  EXPECT_EQ(stand_in_size(256 << 20, kBucketKib, 4).buckets, 256);
  EXPECT_EQ(stand_in_size(255 << 20, kBucketKib, 4).buckets, 255);
  EXPECT_EQ(stand_in_size(1000, kBucketKib, 4096).numbers, 1000u) << "never larger than the model";
  EXPECT_EQ(stand_in_size(1, kBucketKib, 1).numbers, 1u);
}

TEST(StandIn, givesAllWorkersEqualSharesOfEveryBucketAndStaysSmall) {
  for (const int workers : {1, 2, 3, 7, 64, 100, 1000, 1024, 4096})
    for (const std::int64_t parameters : {kResnet, std::int64_t{61362176}, std::int64_t{8476421}}) {
      const StandInSize size = stand_in_size(parameters, kBucketKib, workers);
      EXPECT_EQ(size.numbers % static_cast<std::size_t>(workers * size.buckets), 0u) << workers;
      EXPECT_LE(size.numbers, 1u << 18);
    }
}

TEST(StandIn, hasAGradientThatRulesTakeForOne) {
  const auto task = make_stand_in(10, 5);
  EXPECT_EQ(task->parameters(), 10u);
  EXPECT_EQ(task->samples_per_step(), 5);
  std::vector<float> model(10), gradient(10);
  std::size_t told = 0;
  const auto ready = [&](std::size_t, std::size_t size) { told += size; };
  task->gradient(0, model, gradient, ready);
  EXPECT_EQ(gradient, std::vector<float>(10, 1.0f));
  std::ranges::fill(gradient, 1e-40f);  // as sums of few would leave it in the end
  task->gradient(1, model, gradient, ready);
  EXPECT_EQ(gradient, std::vector<float>(10, 1.0f));
  EXPECT_EQ(told, 20u);
}

train::TrainOptions without_gradients(std::int64_t pretended) {
  train::TrainOptions options;
  options.gradients = false;
  options.pretend_parameters = pretended;
  options.batch = 10;
  return options;
}

TEST(Workload, withoutGradientsPretendsToHaveTheTasksParametersOnSim) {
  train::TrainOptions options = without_gradients(0);
  options.task_settings = {{"dimension", "4000000"}};
  options.batch = 12;
  const Workload workload(options, "sim", 4);
  const auto task = workload.make(2);
  EXPECT_LT(task->parameters(), 1u << 15);
  EXPECT_NEAR(workload.bytes_scale() * static_cast<double>(task->parameters()), 4e6, 1e-3);
  EXPECT_EQ(task->samples_per_step(), 6) << "in two micro-batches of three";
  EXPECT_EQ(workload.options().pretend_parameters, 4000000);
  EXPECT_EQ(workload.options().buckets, 4);
}

TEST(Workload, onAnEngineThatMovesBytesHasThemAll) {
  const Workload workload(without_gradients(123457), "threads", 4);
  EXPECT_EQ(workload.make(0)->parameters(), 123457u);
  EXPECT_EQ(workload.bytes_scale(), 1);
  EXPECT_EQ(workload.options().buckets, 0);
  std::int64_t samples = 0;
  for (int rank = 0; rank < 4; ++rank) samples += workload.make(rank)->samples_per_step();
  EXPECT_EQ(samples, 10) << "those of the batch";
}

TEST(Workload, withGradientsScalesTheTask) {
  train::TrainOptions options;
  options.pretend_parameters = 2500;
  options.batch = 4;
  const Workload workload(options, "sim", 4);
  EXPECT_EQ(workload.bytes_scale(), 2.5) << "linear has 1000";
  EXPECT_EQ(workload.make(1)->parameters(), 1000u);
  EXPECT_THROW(Workload(options, "threads", 4), Error);
}

constexpr std::size_t kNumbers = 40000;
constexpr int kWorkers = 4;

class MemoryNeedTest : public testing::TestWithParam<std::string_view> {};

// In many buckets, so that the few under way weigh little; chunks of rounds are larger than this model, and told apart.
TEST_P(MemoryNeedTest, isWhatAWorkersBuffersComeTo) {
  for (const bool gradients : {true, false}) {
    RunRequest request;
    request.launch.workers = kWorkers;
    request.train.algorithm = GetParam();
    request.train.task_settings = {{"dimension", std::to_string(kNumbers)}};
    request.train.batch = kWorkers;
    request.train.steps = 10;
    if (gradients) request.train.evaluate_every = 4;  // two snapshots
    request.train.bucket_kib = 2;
    request.train.gradients = gradients;
    auto held = run(request, {}).summary.memory;
    held.erase(runtime::RoundParts::kStaging);
    const double counted = std::accumulate(held.begin(), held.end(), 0.0, [](double sum, const auto& each) {
      return sum + static_cast<double>(each.second);
    });
    const double need = memory_need(request.train, {kNumbers, 0}, kWorkers);
    EXPECT_NEAR(counted / need, 1, 0.05) << "gradients " << gradients;
  }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const auto& row : algorithms::algorithms()) all.push_back(row.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, MemoryNeedTest, testing::ValuesIn(names()),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(MemoryNeed, countsTheOptimizerAndAHalfOnTheWire) {
  train::TrainOptions options;
  options.algorithm = "mean";
  EXPECT_EQ(memory_need(options, {1000, 5000}, 4), 2.75 * 4000 + 5000);
  options.algorithm_settings = {{"wire", "bfloat16"}};
  EXPECT_EQ(memory_need(options, {1000, 0}, 4), (2 + 0.375 + 0.5) * 4000);
  options.algorithm = "wagma";
  options.algorithm_settings = {};
  EXPECT_EQ(memory_need(options, {1000, 0}, 1), 2 * 4000) << "alone there is nothing to average";
}

TEST(MemoryNeed, countsTwoMatricesOfAllPairsWhereARuleTakesThem) {
  const auto beside_mean = [](const std::string& algorithm, int workers) {
    train::TrainOptions mean, rule;
    mean.algorithm = "mean";
    rule.algorithm = algorithm;
    return memory_need(rule, {1000, 0}, workers) - memory_need(mean, {1000, 0}, workers);
  };
  for (const char* algorithm : {"adasum", "direction_consensus", "geometric_median"}) {
    EXPECT_EQ(beside_mean(algorithm, 1024), 2.0 * 8 * 1024 * 1025 / 2) << algorithm;
    EXPECT_EQ(beside_mean(algorithm, 1), 0) << algorithm;
  }
  EXPECT_EQ(beside_mean("adacons", 64), 2.0 * 8 * 64 * 65 / 2);
  EXPECT_EQ(beside_mean("adacons", 1024), 0) << "row sums";
}

TEST(MemoryNeed, whatDoesNotFitIsRefusedWithWhatWould) {
  const auto sentence_of = [](double bytes, std::optional<std::uint64_t> available, const std::string& ways) {
    return test::refusal([&] { require_memory([&](int) { return bytes; }, 64, available, ways); });
  };
  EXPECT_EQ(sentence_of(1e9, 16000000000, "a smaller --size"),
            "64 workers need 64 GB of memory, and 16 GB are free: use up to 16 workers, or a smaller --size");
  EXPECT_EQ(sentence_of(2e11, 16000000000, ""),
            "64 workers need 12.8 TB of memory, and 16 GB are free: use a smaller model");
  EXPECT_EQ(sentence_of(1e9, 64000000000, ""), "");
  EXPECT_EQ(sentence_of(1e9, std::nullopt, ""), "") << "what is free is unknown";
  // Pairs grow with the workers, so that those it names do fit, and one more would not.
  EXPECT_EQ(test::refusal([] { require_memory([](int workers) { return 1e6 * workers; }, 4096, 1000000000, ""); }),
            "4096 workers need 16.8 TB of memory, and 1 GB are free: use up to 31 workers");
}

}  // namespace
}  // namespace flockstep::runs
