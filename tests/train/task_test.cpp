// What the loop passes on for a task: further figures, and state that lives beside the model.

#include "train/pull.h"

namespace flockstep::train {
namespace {

// Its gradients depend on numbers that it draws itself, every fifth step, each worker its own: as a task would that
// learns for some steps from what it has gathered. Its evaluations have as many records as the worker's rank.
class Gathering final : public Pull {
 public:
  explicit Gathering(int rank) : Pull(rank, -1), rank_(rank) {}

  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                  const RangeReady& ready) override {
    if (step % 5 == 0) {
      drawn_ = drawn_ * 6364136223846793005u + static_cast<std::uint64_t>(rank_) + 1442695040888963407u;
      ++draws_;
    }
    return Pull::gradient(step, model, gradient, [&](std::size_t begin, std::size_t size) {
      for (float& each : gradient.subspan(begin, size)) each += static_cast<float>(drawn_ >> 40) * 1e-6f;
      ready(begin, size);
    });
  }
  std::vector<double> evaluate(std::span<const float> model, Split /*split*/) override {
    return std::vector<double>(static_cast<std::size_t>(rank_), model[0]);
  }
  double quality(std::span<const double> records) const override { return records.empty() ? 0 : records[0]; }
  std::vector<telemetry::Figure> figures(std::span<const double> records) const override {
    return {{"records", static_cast<double>(records.size())}, {"draws", static_cast<double>(draws_)}};
  }
  void save(base::Archive& archive) const override {
    archive.put_value("drawn", drawn_);
    archive.put_value("draws", draws_);
  }
  void restore(const base::Archive& archive) override {
    drawn_ = archive.get_value<std::uint64_t>("drawn");
    draws_ = archive.get_value<std::int64_t>("draws");
  }

 private:
  int rank_;
  std::uint64_t drawn_ = 1;
  std::int64_t draws_ = 0;
};

class GatheringTest : public PullTest {
 protected:
  std::unique_ptr<Task> make_task(int rank) override { return std::make_unique<Gathering>(rank); }
};

double figure_of(const telemetry::Summary& summary, std::string_view name) {
  return std::ranges::find(summary.figures, name, &telemetry::Figure::name)->value;
}

TEST_F(GatheringTest, figuresOfTheRecordsOfAllWorkersAreInTheSummaryAndInTheMetrics) {
  options_.out = folder_;
  const telemetry::Summary summary = run(4);
  ASSERT_EQ(summary.figures.size(), 2u);
  EXPECT_EQ(figure_of(summary, "records"), 0 + 1 + 2 + 3);
  EXPECT_EQ(figure_of(summary, "draws"), 6);
  const auto saved = nlohmann::json::parse(base::read_text(folder_ / "summary.json"));
  EXPECT_EQ(saved.at("figures").at("records"), 6);
  EXPECT_EQ(figure_of(telemetry::summary_from_json(saved), "draws"), 6);
  const auto evaluations = lines("evaluation");
  ASSERT_EQ(evaluations.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(evaluations[static_cast<std::size_t>(i)].at("figures").at("draws"), 2 * i);
}

TEST_F(GatheringTest, aRunThatGoesOnInTheMiddleOfWhatWasGatheredEndsOnTheSameBits) {
  const std::string whole = run(3).model_hash;
  options_.out = folder_;
  run(3, {.may_take_step = [](std::int64_t step) { return step <= 7; }});  // between two draws
  options_.resume = true;
  const telemetry::Summary second = run(3);
  EXPECT_EQ(second.model_hash, whole);
  EXPECT_EQ(figure_of(second, "draws"), 6);
}

TEST_F(GatheringTest, stateOfOtherWorkersIsNotGiven) {
  options_.out = folder_;
  options_.checkpoint_every = options_.steps = 10;
  run(3);
  options_.resume = true;
  options_.steps = 30;
  EXPECT_EQ(figure_of(run(2), "draws"), 4) << "those of the last twenty steps";
}

}  // namespace
}  // namespace flockstep::train
