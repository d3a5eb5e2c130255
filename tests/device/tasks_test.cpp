// Tasks of the laboratory whose network is on a device, against the same in main memory: alone, and in training loops.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/files.h"
#include "engines/threads/backend.h"
#include "pretended_device.h"
#include "support/temporary_folder.h"
#include "tasks/registry.h"
#include "tasks/torch/navigation.h"
#include "tasks/torch/translation.h"
#include "tasks/torch/vision.h"
#include "train/loop.h"

namespace flockstep::tasks {
namespace {

using Make = std::unique_ptr<train::Task>(const TaskInputs& inputs);

struct Subject {
  std::string name;
  Make* make;
  base::Settings settings;
};
void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

const base::Settings kSmallVision{{"width", "4"}, {"augment", "yes"}, {"label_smoothing", "0.1"}};
const base::Settings kSmallTranslation{
    {"width", "16"}, {"layers", "1"}, {"heads", "2"}, {"dropout", "0.1"}, {"test_sentences", "8"}};

// On a GPU sums are in another order, and convolutions in TF32.
double tolerance() { return test::device().is_cuda() ? 2e-2 : 1e-5; }

void expect_near(std::span<const float> a, std::span<const float> b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  EXPECT_LE(difference, tolerance() * (largest + 1e-3)) << what;
}

// One worker of two, as the training loop holds it.
class Alone {
 public:
  Alone(const Subject& subject, const std::string& device, bool looks_at_gradients = true)
      : settings_(subject.settings), task_(subject.make({settings_, 7, 6, 1, 2, 1, 10, device})) {
    const std::size_t parameters = task_->parameters(), numbers = parameters + task_->buffers();
    train::OnDevice* const side = task_->on_device();
    model = side ? side->pinned(memory_, numbers, "model") : memory_.allocate<float>(numbers, "model");
    if (!side || looks_at_gradients)
      gradient = side ? side->pinned(memory_, parameters, "gradient") : memory_.allocate<float>(parameters, "gradient");
    if (side) side->attach(model.span(), gradient.span());
    optimizer = task_->make_optimizer();
    task_->initialise(model.span());
  }

  double compute(std::int64_t step) {
    ranges.clear();
    const double loss = task_->gradient(step, model.span(), gradient.span(),
                                        [&](std::size_t begin, std::size_t) { ranges.push_back(begin); });
    return loss;
  }
  void update() {
    if (train::OnDevice* const side = task_->on_device()) side->put_gradient();
    optimizer->update(model.span().first(task_->parameters()), gradient.span());
    fetch();
  }
  void fetch() {
    if (train::OnDevice* const side = task_->on_device()) side->fetch_model();
  }
  train::Task& task() { return *task_; }

  base::Buffer<float> model, gradient;
  std::vector<std::size_t> ranges;  // in the order in which they were reported

 private:
  base::Settings settings_;
  base::Memory memory_;
  std::unique_ptr<train::Task> task_;

 public:
  std::unique_ptr<train::Optimizer> optimizer;
};

class DeviceTasks : public testing::TestWithParam<Subject> {};

TEST_P(DeviceTasks, trainAsInMainMemory) {
  Alone here(GetParam(), "cpu"), there(GetParam(), test::device().str());
  EXPECT_EQ(here.task().on_device(), nullptr);
  ASSERT_NE(there.task().on_device(), nullptr);
  expect_near(there.model.span(), here.model.span(), "initial model");
  for (std::int64_t step = 0; step < 4; ++step) {
    const double loss = here.compute(step);
    EXPECT_NEAR(there.compute(step), loss, tolerance() * (1 + std::abs(loss)));
    EXPECT_EQ(there.ranges, here.ranges);
    expect_near(there.gradient.span(), here.gradient.span(), "gradient of step " + std::to_string(step));
    here.update();
    there.update();
    expect_near(there.model.span(), here.model.span(), "model after step " + std::to_string(step));
  }
}

TEST_P(DeviceTasks, theGradientMayStayThere) {
  Alone looked_at(GetParam(), test::device().str()), alone(GetParam(), test::device().str(), false);
  for (std::int64_t step = 0; step < 2; ++step) {
    EXPECT_EQ(alone.compute(step), looked_at.compute(step));
    EXPECT_TRUE(alone.task().on_device()->gradient_is_finite());
    alone.update();
    looked_at.update();
  }
  expect_near(alone.model.span(), looked_at.model.span(), "model");

  alone.fetch();
  std::ranges::fill(alone.model.span(), std::nanf(""));
  alone.task().on_device()->put_model();
  alone.compute(2);
  EXPECT_FALSE(alone.task().on_device()->gradient_is_finite());
}

TEST_P(DeviceTasks, anEvaluationOfAnotherModelLeavesTheirOwn) {
  Alone here(GetParam(), "cpu"), there(GetParam(), test::device().str());
  const auto own = here.task().evaluate(here.model.span(), train::Split::test);
  EXPECT_EQ(there.task().evaluate(there.model.span(), train::Split::test).size(), own.size());
  std::vector<float> other(here.model.span().begin(), here.model.span().end());
  for (float& value : other) value *= 0.5f;
  const auto of_other = here.task().evaluate(other, train::Split::test);
  const auto on_device = there.task().evaluate(other, train::Split::test);
  if (!test::device().is_cuda()) {
    EXPECT_EQ(on_device, of_other);
  }
  there.fetch();
  expect_near(there.model.span(), here.model.span(), "its own model");
}

TEST_P(DeviceTasks, optimizersGoOnFromEachOthersState) {
  Alone here(GetParam(), "cpu"), there(GetParam(), test::device().str());
  for (Alone* each : {&here, &there}) {
    each->compute(0);
    each->update();
  }
  base::Archive of_here, of_there;
  here.optimizer->save(of_here);
  there.optimizer->save(of_there);
  there.optimizer->restore(of_here);
  here.optimizer->restore(of_there);
  for (Alone* each : {&here, &there}) {
    each->compute(1);
    each->optimizer->skip();
    each->compute(2);
    each->update();
  }
  expect_near(there.model.span(), here.model.span(), "model");
}

INSTANTIATE_TEST_SUITE_P(, DeviceTasks,
                         testing::Values(Subject{"vision", make_vision, kSmallVision},
                                         Subject{"translation", make_translation, kSmallTranslation}),
                         [](const auto& info) { return info.param.name; });

// ---- in training loops ----

class DeviceLoops : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    options_.task = "vision";
    options_.steps = 8;
    options_.evaluate_every = 4;
    options_.batch = 12;
    options_.seed = 3;
    options_.bucket_kib = 1;
    options_.patience = base::Duration(120);
    options_.out = folder_ / "out";
    options_.checkpoint_every = 4;
    options_.algorithm = GetParam();
  }
  void remove_out() { std::filesystem::remove_all(options_.out); }

  telemetry::Summary run(const std::string& device, std::int64_t until = 1000) {
    options_.device = device == "cpu" ? "cpu" : "cuda";
    std::mutex mutex;
    std::optional<telemetry::Summary> told;
    train::Observer observer;
    observer.may_take_step = [&](std::int64_t step) { return step <= until; };
    engines::threads::run({.workers = 3, .deterministic = true, .sim = {}, .elastic = {}}, [&](engines::Engine&
                                                                                                   engine) {
      const auto make = [&](int rank, int workers) {
        return make_vision({kSmallVision, options_.seed, options_.batch, rank, workers, rank, options_.steps, device});
      };
      telemetry::Summary summary = train::train(engine, options_, make, observer);
      const std::lock_guard lock(mutex);
      if (engine.rank() == 0) told = std::move(summary);
    });
    return *told;
  }
  void expect_alike(const telemetry::Summary& a, const telemetry::Summary& b) {
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_NEAR(a.train_loss, b.train_loss, 100 * tolerance() * b.train_loss);
    EXPECT_EQ(a.replicas_equal, b.replicas_equal);
    if (!test::device().is_cuda()) {
      EXPECT_NEAR(a.quality, b.quality, 0.02);
    }
  }

  const test::TemporaryFolder folder_;
  train::TrainOptions options_;
};

TEST_P(DeviceLoops, trainAsInMainMemory) {
  const telemetry::Summary here = run("cpu");
  remove_out();
  expect_alike(run(test::device().str()), here);
}

TEST_P(DeviceLoops, goOnFromEachOthersCheckpoints) {
  const std::string device = test::device().str();
  const auto with_a_break = [&](const std::string& first, const std::string& second) {
    options_.resume = false;
    run(first, 4);
    options_.resume = true;
    const telemetry::Summary summary = run(second);
    remove_out();
    return summary;
  };
  const telemetry::Summary here = with_a_break("cpu", "cpu");
  expect_alike(with_a_break("cpu", device), here);
  expect_alike(with_a_break(device, "cpu"), here);
}

INSTANTIATE_TEST_SUITE_P(, DeviceLoops,
                         testing::Values("mean", "adacons", "local_sgd", "post_local_sgd", "dpsgd", "wagma", "flock",
                                         "eager_solo"),
                         [](const auto& info) { return info.param; });

TEST(DeviceLoop, aFaultyWorkersGradientIsSeenThere) {
  train::TrainOptions options;
  options.task = "vision", options.algorithm = "local_sgd", options.steps = 2, options.evaluate_every = 2,
  options.batch = 4, options.faults = train::parse_faults("0:nan:1");
  std::int64_t skipped = 0;
  engines::threads::run({.workers = 1, .sim = {}, .elastic = {}}, [&](engines::Engine& engine) {
    const auto make = [&](int rank, int workers) {
      return make_vision({kSmallVision, 1, options.batch, rank, workers, rank, 2, test::device().str()});
    };
    skipped = train::train(engine, options, make, {}).skipped_steps;
  });
  EXPECT_EQ(skipped, 1);
}

// After steps that are far too long.
TEST(DeviceLoop, aGradientThatStaysThereAndIsNotFinite_isNotTaken) {
  train::TrainOptions options;
  options.task = "vision", options.algorithm = "local_sgd", options.steps = 20, options.evaluate_every = 20,
  options.batch = 4;
  base::Settings settings = kSmallVision;
  settings["learning_rate"] = "1000";
  settings["weight_decay"] = "1";
  settings["schedule"] = "constant";
  settings["warmup"] = "0";
  const auto skipped_on = [&](const std::string& device) {
    std::int64_t skipped = 0;
    engines::threads::run({.workers = 1, .sim = {}, .elastic = {}}, [&](engines::Engine& engine) {
      const auto make = [&](int rank, int workers) {
        return make_vision({settings, 1, options.batch, rank, workers, rank, 20, device});
      };
      skipped = train::train(engine, options, make, {}).skipped_steps;
    });
    return skipped;
  };
  EXPECT_GT(skipped_on("cpu"), 0);
  EXPECT_EQ(skipped_on(test::device().str()), skipped_on("cpu"));
}

}  // namespace
}  // namespace flockstep::tasks
