// Rounds of groups that stand in a grid, on whichever engine the command line names, with as many workers as it says.
#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/random.h"
#include "engines/conformance.h"
#include "runtime/gather.h"
#include "runtime/rounds/published_model.h"
#include "runtime/rounds/round_agent.h"
#include "runtime/rounds/shared_model.h"

namespace flockstep::runtime {
namespace {

using engines::Engine;
using engines::conformance::on_every_worker;
using engines::conformance::subject;
using Model = std::vector<float>;

constexpr int kDirect = 3;

// What is averaged takes the place of what was contributed as soon as it may, as it does with gradients.
class InPlace final : public RoundData {
 public:
  InPlace(Context&, std::size_t size) : values_(size) {}
  void reset(std::span<const float> values) { std::ranges::copy(values, values_.begin()); }
  void arrive(std::span<float> values) override { reset(values); }
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float> values) override { std::ranges::copy(values_, values.begin()); }
  void freeze(std::size_t, bool) override {}
  std::span<const float> contribution(Range part) const override { return part.of(std::span(values_)); }
  std::span<float> landing(Range, std::span<float> spare) override { return spare; }
  void settle(Range part, std::span<const float> average) override {
    std::ranges::copy(average, part.of(std::span(values_)).begin());
  }
  void complete(int) override {}

 private:
  Model values_;
};

// Numbers from -0.5 to 0.5.
Model model_of(int rank, int step, std::size_t size) {
  const std::uint32_t seed = static_cast<std::uint32_t>(rank + 100 * step) * 0x9e3779b9u;
  Model model(size);
  for (std::size_t k = 0; k < size; ++k) {
    const std::uint32_t mixed = (static_cast<std::uint32_t>(k) ^ seed) * 0x85ebca6bu;
    model[k] = static_cast<float>((mixed ^ mixed >> 13) >> 8) * 0x1p-24f - 0.5f;
  }
  return model;
}

std::vector<double> mean_of(int workers, int step, std::size_t size) {
  std::vector<double> mean(size);
  for (int rank = 0; rank < workers; ++rank) {
    const Model model = model_of(rank, step, size);
    for (std::size_t k = 0; k < size; ++k) mean[k] += static_cast<double>(model[k]) / workers;
  }
  return mean;
}

double error_of(std::span<const float> model, const std::vector<double>& expected) {
  double most = 0;
  for (std::size_t k = 0; k < expected.size(); ++k)
    most = std::max(most, std::abs(static_cast<double>(model[k]) - expected[k]));
  return most;
}

// Over all, and all wait for all.
protocol::Options rounds_over_all(int workers) {
  return {.workers = workers,
          .group_size = workers,
          .sync = protocol::Sync::none,
          .activation = protocol::Activation::quorum,
          .quorum = workers,
          .direct = kDirect};
}

void expect_the_same_everywhere(Context& context, const Model& model) {
  const double mine = static_cast<double>(base::hash_of(std::span<const float>(model)) % (std::uint64_t{1} << 52));
  for (const double hash : gather_doubles(context, std::array{mine})) EXPECT_EQ(hash, mine);
}

template <typename Data>
class LargeRounds : public testing::Test {};
using Kinds = testing::Types<PublishedModel, SharedModel, InPlace>;
TYPED_TEST_SUITE(LargeRounds, Kinds);

// Rounded to float at the row's sum, at the sum of these, and at the division: at most P/4 epsilon, over P, each time.
TYPED_TEST(LargeRounds, giveEverybodyTheAverageToTheSameBit) {
  on_every_worker([&](Engine& engine) {
    Context context(engine, base::Duration(600));
    for (const std::size_t size : {std::size_t{3}, std::size_t{1001}, std::size_t{1'300'001}}) {
      TypeParam data(context, size);
      data.reset(Model(size));
      RoundAgent agent(context, rounds_over_all(context.size()), size, size, data);
      Model model = model_of(context.rank(), 0, size);
      EXPECT_EQ(agent.arrive(0, model), protocol::Outcome::fresh);
      const double error = context.rank() == 0 ? error_of(model, mean_of(context.size(), 0, size)) : 0;
      EXPECT_LE(error, 1e-7);
      expect_the_same_everywhere(context, model);
    }
  });
}

// Uneven steps and impatient rounds: contributions are taken while workers compute, and updates land during rounds.
TEST(RoundsInAGrid, whileWorkersCompute_loseNoUpdate) {
  constexpr std::size_t kSize = 1001;
  constexpr int kSteps = 25;
  on_every_worker([&](Engine& engine) {
    Context context(engine, base::Duration(600));
    protocol::Options options = rounds_over_all(context.size());
    options.sync = protocol::Sync::rolling;
    options.period = 4;
    options.activation = protocol::Activation::first;
    SharedModel data(context, kSize);
    Model model(kSize);
    data.reset(model);
    RoundAgent agent(context, options, kSize - 1, kSize, data);
    for (int step = 0; step < kSteps; ++step) {
      base::Random random(7, base::Purpose::test, static_cast<std::uint32_t>(context.rank()),
                          static_cast<std::uint32_t>(step));
      if (random.below(4) == 0) engine.sleep(base::Duration(1e-4 * random.below(30)));
      const Model update = model_of(context.rank(), step, kSize);
      for (std::size_t k = 0; k < kSize; ++k) model[k] += update[k];
      agent.arrive(step, model);
    }
    agent.at_rest([&] { data.proceed(model); });
    const std::vector<double> all = gather_doubles(context, std::vector<double>(model.begin(), model.end()));
    std::vector<double> expected(kSize), mean(kSize);
    for (int step = 0; step < kSteps; ++step) {
      const auto of_step = mean_of(context.size(), step, kSize);
      for (std::size_t k = 0; k < kSize; ++k) expected[k] += of_step[k];
    }
    for (std::size_t i = 0; i < all.size(); ++i) mean[i % kSize] += all[i] / context.size();
    for (std::size_t k = 0; k < kSize; ++k) ASSERT_NEAR(mean[k], expected[k], 1e-5) << "at " << k;
    context.wait(engine.barrier(), "barrier");
  });
}

TEST(RoundsInAGrid, needAFewChunksBesideWhatTheDataKeeps) {
  constexpr std::size_t kSize = 1'500'000, kChunk = kSize / 3;
  ASSERT_EQ(RoundAgent::chunks_of(kSize), 3);
  on_every_worker([&](Engine& engine) {
    Context context(engine, base::Duration(600));
    InPlace data(context, kSize);
    RoundAgent agent(context, rounds_over_all(context.size()), kSize, kSize, data);
    EXPECT_LE(engine.memory().held()[RoundParts::kStaging], 2 * sizeof(float) * (kChunk * 5 / 2 + 100));
    context.wait(engine.barrier(), "barrier");
  });
}

}  // namespace
}  // namespace flockstep::runtime
