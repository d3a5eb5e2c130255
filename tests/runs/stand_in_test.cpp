#include "runs/stand_in.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/partition.h"
#include "flockstep/error.h"
#include "runs/workload.h"
#include "runtime/layout.h"
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

}  // namespace
}  // namespace flockstep::runs
