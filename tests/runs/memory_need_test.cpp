#include "runs/memory_need.h"

#include <gtest/gtest.h>

#include <numeric>

#include "algorithms/registry.h"
#include "runs/run.h"
#include "runtime/rounds/round_parts.h"
#include "support/refusal.h"

namespace flockstep::runs {
namespace {

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
