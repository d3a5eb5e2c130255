// What the loop asks of an algorithm that averages without waiting, and what it makes of the answers.
#include <array>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "runtime/gradient/one_pass.h"
#include "support/refusal.h"
#include "train/pull.h"

namespace flockstep::train::hooks_test {
namespace {

constexpr int kWorkers = 3;

// What each worker was asked, in order; every worker writes to its own.
std::array<std::vector<std::string>, kWorkers> asked;

constexpr std::array<base::OptionSpec, 2> kOptions{
    {{"drained", "", "every number of the drained gradient; empty: none"},
     {"apart", "no", "whether to resume apart: yes or no"}}};

// Local steps, and made-up meetings: worker i counts i + 1 of each kind and step.
class Loner final : public algorithms::Algorithm {
 public:
  explicit Loner(const algorithms::AlgorithmInputs& inputs)
      : context_(inputs.context),
        reader_("loner", kOptions, inputs.settings),
        average_(inputs.context, inputs.layout, "average") {}

  void begin(std::int64_t step, std::span<const float> model) override {
    note("begin after " + std::to_string(step));
    began_with_ = model[0];
  }
  void after_update(std::int64_t step, std::span<float>) override {
    const auto count = context_.rank() + 1;
    meetings_ += {count, 2 * count, count, count, {count, 0, 3 * count}, 0.5 * count};
    const base::Time now = context_.engine().now();
    context_.record({step % 2 == 0 ? base::RoundRole::fresh : base::RoundRole::synchronisation, now - base::Duration(1),
                     now, step, 1});
  }
  bool drain(std::span<float> gradient) override {
    note("drain");
    if (reader_.text("drained").empty()) return false;
    std::ranges::fill(gradient, std::stof(reader_.text("drained")));
    return true;
  }
  void consolidate(std::span<float> model) override {
    note("consolidate");
    average_.average(model);
  }
  const algorithms::MeetingReport* meetings() const override { return &meetings_; }
  void save(base::Archive& archive) const override {
    note("save");
    archive.put_value("began with", began_with_);
  }

 private:
  void note(const std::string& what) const { asked[static_cast<std::size_t>(context_.rank())].push_back(what); }

  runtime::Context& context_;
  base::SettingsReader reader_;
  runtime::OnePass average_;
  algorithms::MeetingReport meetings_;
  float began_with_ = 0;
};

const algorithms::AlgorithmRow kLoner{
    .name = "loner",
    .family = algorithms::Family::model,
    .description = "for tests",
    .bytes_text = "",
    .bytes_per_step = [](int, double, const base::Settings&) { return 0.0; },
    .models_held = [](int, const base::Settings&) { return 0.0; },
    .options = kOptions,
    .make = [](const algorithms::AlgorithmInputs& inputs) -> std::unique_ptr<algorithms::Algorithm> {
      return std::make_unique<Loner>(inputs);
    },
    .check = [](const base::Settings&, int) {},
    .facts =
        [](const base::Settings& settings) {
          const base::SettingsReader reader("loner", kOptions, settings);
          return algorithms::Facts{.resumes_apart = reader.text("apart") == "yes"};
        },
};

class HooksTest : public PullTest {
 protected:
  HooksTest() {
    options_.algorithm = "loner";
    for (auto& each : asked) each.clear();
  }
  telemetry::Summary run_loner(int workers = kWorkers, const Observer& observer = {}) {
    return run(workers, observer, &kLoner);
  }
};

using Words = std::vector<std::string>;

TEST_F(HooksTest, aRunBeginsDrainsAndConsolidatesOnEveryWorkerEvenIfItEndsEarly) {
  for (const int steps : {30, 13}) {
    for (auto& each : asked) each.clear();
    const telemetry::Summary summary =
        run_loner(kWorkers, {.may_take_step = [=](std::int64_t step) { return step <= steps; }});
    for (const auto& each : asked) EXPECT_EQ(each, (Words{"begin after 0", "drain", "consolidate"}));
    EXPECT_EQ(summary.steps, steps);
    if (steps < options_.steps) continue;
    EXPECT_TRUE(summary.replicas_equal);
    EXPECT_NEAR(summary.quality, 1 + 7 * std::pow(0.9, steps), 1e-5);  // of the mean of models that never met
  }
}

TEST_F(HooksTest, aDrainedGradientIsOneMoreUpdateUnlessItIsNotFinite) {
  options_.algorithm_settings = {{"drained", "2"}};
  EXPECT_NEAR(run_loner().quality, 1 + 7 * std::pow(0.9, 30) - 2 * kRate, 1e-5);
  options_.algorithm_settings = {{"drained", "inf"}};
  const telemetry::Summary skipped = run_loner();
  EXPECT_NEAR(skipped.quality, 1 + 7 * std::pow(0.9, 30), 1e-5);
  EXPECT_EQ(skipped.skipped_steps, kWorkers);
}

// Workers that never wait for each other take as long as the slowest of them, evaluated often or not at all, and over
// the halts after every 50 steps.
TEST_F(HooksTest, noEvaluationMakesAWorkerWait) {
  launch_.deterministic = true;
  options_.steps = 600;
  options_.pace.compute = base::Duration(0.005);
  options_.pace.random_stragglers = 1;
  options_.pace.random_delay = base::Duration(0.02);
  for (const std::int64_t every : {600, 7}) {
    options_.evaluate_every = every;
    const telemetry::Summary summary = run_loner();
    double mean = 0;
    std::array<double, kWorkers> took{};
    auto evaluation = summary.evaluations.begin();
    EXPECT_EQ(summary.evaluations.size(), every == 7 ? 87 : 2);
    for (std::int64_t step = 0; step <= options_.steps; ++step) {
      if (evaluation->step == step) {
        EXPECT_NEAR(evaluation->time_s, std::ranges::max(took), 1e-3) << "step " << step;
        EXPECT_NEAR(evaluation->quality, 1 + 7 * std::pow(0.9, step), 1e-5) << "step " << step;
        ++evaluation;
      }
      for (int rank = 0; rank < kWorkers && step < options_.steps; ++rank) {
        const Pace pace(options_.pace, options_.seed, rank, kWorkers);
        const double seconds = (pace.compute(step) + pace.delay(step)).count();
        took[static_cast<std::size_t>(rank)] += seconds;
        mean += seconds / kWorkers;
      }
    }
    EXPECT_NEAR(summary.time_s, std::ranges::max(took), 1e-3) << "evaluated every " << every;
    EXPECT_NEAR(summary.wait_share, 1 - mean / std::ranges::max(took), 1e-3) << "evaluated every " << every;
  }
}

TEST_F(HooksTest, aCheckpointHoldsOneModelWithWhichAnyNumberOfWorkersGoesOn) {
  options_.out = folder_;
  options_.checkpoint_every = 20;
  options_.steps = 20;
  run_loner();
  EXPECT_EQ(asked[1], (Words{"begin after 0", "drain", "consolidate", "save", "consolidate"}));
  std::vector<float> models[kWorkers];
  for (int rank = 0; rank < kWorkers; ++rank) {
    const auto file = folder_ / "checkpoint" / "a" / ("worker-" + std::to_string(rank) + ".bin");
    models[rank] = base::Archive::from_bytes(base::read_bytes(file), file).get_vector<float>("model");
  }
  EXPECT_NEAR(models[0][0], 1 + 7 * std::pow(0.9, 20), 1e-5);
  EXPECT_EQ(models[1], models[0]);
  EXPECT_EQ(models[2], models[0]);

  for (auto& each : asked) each.clear();
  options_.resume = true;
  options_.steps = 30;
  options_.checkpoint_every = 0;
  const telemetry::Summary summary = run_loner(2);
  EXPECT_EQ(asked[1], (Words{"begin after 20", "drain", "consolidate"}));
  EXPECT_NEAR(summary.quality, 0.5 + (models[0][0] - 0.5) * std::pow(0.9, 10), 1e-5);
  EXPECT_EQ(summary.notes, (Words{"resumed after step 20 with 2 workers where there had been 3; every optimizer "
                                  "continues from worker 0's state"}));
}

TEST_F(HooksTest, anAlgorithmMayKeepItsReplicasApartOverACheckpoint) {
  options_.algorithm_settings = {{"apart", "yes"}};
  options_.out = folder_;
  options_.checkpoint_every = 20;
  run_loner();
  EXPECT_EQ(asked[2], (Words{"begin after 0", "save", "drain", "consolidate"}));
  options_.resume = true;
  EXPECT_THROW(run_loner(2), Error);
  // One worker alone trains plainly and has nothing that could be apart; the files still hold three models.
  std::filesystem::remove_all(folder_);
  options_.algorithm = "eager_solo";
  options_.algorithm_settings = {};
  options_.resume = false;
  run(3);
  options_.resume = true;
  const std::string sentence = test::refusal([&] { run(1); });
  EXPECT_NE(sentence.find("a run with workers 3, which one with 1 cannot"), std::string::npos) << sentence;
}

TEST_F(HooksTest, meetingsAreAddedUpOverTheWorkersAndOverAResume) {
  options_.out = folder_;
  options_.checkpoint_every = 20;
  options_.steps = 20;
  run_loner();
  options_.steps = 30;
  options_.resume = true;
  const telemetry::Summary summary = run_loner(2);
  ASSERT_TRUE(summary.meetings);
  const std::int64_t steps = 20 * (1 + 2 + 3) + 10 * (1 + 2);  // in units of what worker 0 counts per step
  EXPECT_DOUBLE_EQ(summary.meetings->fresh_fraction, 0.5);
  EXPECT_DOUBLE_EQ(summary.meetings->alone_share, 0.2);
  EXPECT_DOUBLE_EQ(summary.meetings->mean_staleness, 1.5);
  EXPECT_DOUBLE_EQ(summary.meetings->mean_round_s, 0.125);
  EXPECT_EQ(summary.meetings->staleness, (std::vector<std::int64_t>{steps, 0, 3 * steps}));

  const auto evaluations = lines("evaluation");
  EXPECT_TRUE(evaluations.front().at("fresh_fraction").is_null());  // before the first step there is no share
  EXPECT_EQ(evaluations[1].at("staleness"), (std::vector<std::int64_t>{60, 0, 180}));
  EXPECT_EQ(evaluations.back().at("fresh_fraction"), 0.5);
  const auto saved = nlohmann::json::parse(base::read_text(folder_ / "summary.json"));
  EXPECT_EQ(saved.at("alone_share"), 0.2);
  EXPECT_EQ(saved.at("staleness"), summary.meetings->staleness);
}

TEST_F(HooksTest, roundsHaveATrackOfTheirOwnWithTheirNumberAndActivator) {
  options_.out = folder_;
  run_loner();
  const auto trace = nlohmann::json::parse(base::read_text(folder_ / "trace.json"));
  std::map<int, std::int64_t> tracks;
  std::array<std::int64_t, kWorkers> next{};
  for (const auto& event : trace.at("traceEvents")) {
    const int worker = event.at("pid");
    if (event.at("name") == "thread_name" && event.at("args").at("name") == "rounds") tracks[worker] = event.at("tid");
    if (event.at("ph") != "X" || event.at("tid") != static_cast<int>(base::Track::rounds)) continue;
    const std::int64_t round = event.at("args").at("round");
    EXPECT_EQ(round, next[static_cast<std::size_t>(worker)]++);
    EXPECT_EQ(event.at("args").at("activator"), 1);
    EXPECT_EQ(event.at("name"), round % 2 == 0 ? "round, fresh" : "synchronisation");
    EXPECT_NEAR(event.at("dur").get<double>(), 1e6, 1);
  }
  EXPECT_EQ(tracks.size(), static_cast<std::size_t>(kWorkers));
  for (const std::int64_t rounds : next) EXPECT_EQ(rounds, 30);
  for (const auto& line : lines("step")) EXPECT_GT(line.at("transfer_s"), 0.99);  // rounds are transfers
}

}  // namespace
}  // namespace flockstep::train::hooks_test
