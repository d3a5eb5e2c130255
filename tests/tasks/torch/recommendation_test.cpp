// The recommendation task and its network against plain computations, in double, on tensors of their own.
#include <gtest/gtest.h>

#include "task_case.h"
#include "tasks/recommendation/click_metrics.h"
#include "tasks/recommendation/click_set.h"
#include "tasks/recommendation/recommendation.h"
#include "tasks/torch/dlrm.h"
#include "tasks/torch/recommendation.h"

namespace flockstep::tasks::recommendation_test {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr int kRank = 2, kWorkers = 3;
constexpr std::int64_t kStep = 5;

struct Case : TaskCase {
  explicit Case(base::Settings given, int rank = kRank)
      : TaskCase(make_recommendation, std::move(given), {.seed = kSeed, .rank = rank, .workers = kWorkers}) {}
};

DlrmPlan plan_of(const base::Settings& settings) { return recommendation_options_of(settings, kWorkers, 0).model; }

// Layer by layer, without the last rectifier.
torch::Tensor dense(torch::Tensor values, const Tensors& tensors, const std::string& name) {
  for (int layer = 1; tensors.contains(name + ".weights" + std::to_string(layer)); ++layer) {
    if (layer > 1) values = values.clamp_min(0);
    const std::string number = std::to_string(layer);
    values = values.matmul(tensors.at(name + ".weights" + number).t()) + tensors.at(name + ".bias" + number);
  }
  return values;
}

// The log odds of one click, with every product of two vectors written out.
torch::Tensor plain_log_odds(const Clicks& clicks, std::size_t click, const DlrmPlan& plan, const Tensors& tensors) {
  const auto numbers = clicks.numbers_of(click, plan.shape);
  const torch::Tensor input = torch::tensor(std::vector<double>(numbers.begin(), numbers.end()), torch::kFloat64);
  const torch::Tensor bottom = dense(input, tensors, "bottom").clamp_min(0);
  std::vector<torch::Tensor> vectors{bottom};
  std::int64_t first = 0;
  for (std::size_t table = 0; table < plan.shape.categories(); first += plan.shape.rows[table++])
    vectors.push_back(tensors.at("tables.values")[first + clicks.ids_of(click, plan.shape)[table]]);
  std::vector<torch::Tensor> seen;
  if (plan.interaction == Interaction::concatenate) {
    seen = vectors;
  } else {
    seen.push_back(bottom);
    for (std::size_t i = 1; i < vectors.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) seen.push_back((vectors[i] * vectors[j]).sum().view({1}));
  }
  return dense(at::cat(seen), tensors, "top")[0];
}

void expect_plain_gradient(const base::Settings& settings) {
  Case task(settings);
  base::Random(3, base::Purpose::test).fill_uniform(task.parameters(), -0.7, 0.7);
  const double loss = task.compute(kStep);

  const DlrmPlan plan = plan_of(settings);
  const auto set = load_click_set("", plan.shape);
  const WorkerData worker(TaskInputs{task.settings, kSeed, 20, kRank, kWorkers});
  const ShardOptions shard = recommendation_options_of(settings, kWorkers, 0).shard;
  const Clicks clicks = ClickSampler(set, shard, worker).draw(6, worker.random(kStep));
  const Dlrm shapes(plan);
  const Tensors tensors = cut_to_learn(task.model, shapes);
  torch::Tensor expected = torch::zeros({}, torch::kFloat64);
  for (std::size_t i = 0; i < clicks.count(); ++i) {
    const torch::Tensor odds = plain_log_odds(clicks, i, plan, tensors);
    expected = expected - (clicks.labels[i] ? odds : -odds).sigmoid().log() / 6;
  }
  expect_loss_and_gradient(loss, task.gradient, shapes, expected, tensors);
}

TEST(Recommendation, theGradientIsThatOfAPlainComputation) {
  expect_plain_gradient({{"buckets", "5"}, {"noisy_workers", "1"}});  // few rows, so that clicks share some
  expect_plain_gradient({{"bottom", ""}, {"top", "6,4"}, {"categories", "3"}, {"shard", "skewed"}});
  expect_plain_gradient({{"interaction", "concatenate"}, {"buckets", "5"}});
}

TEST(Recommendation, workersShareTheEvaluationAndAgreeOnIt) {
  std::vector<double> records;
  for (int rank = 0; rank < kWorkers; ++rank) {
    Case task({}, rank);
    const auto share = task.task->evaluate(task.model, train::Split::test);
    records.insert(records.end(), share.begin(), share.end());
  }
  const auto set = load_click_set("", plan_of({}).shape);
  ASSERT_EQ(records.size(), 3 * set->test.count());
  Case alone({});
  const Dlrm shapes(plan_of({}));
  const Tensors tensors = cut(alone.model, shapes);
  std::vector<double> odds;
  for (std::size_t i = 0; i < set->test.count(); ++i) {
    odds.push_back(records[3 * i]);
    EXPECT_EQ(records[3 * i + 1], set->test.labels[i]);
  }
  for (std::size_t i = 0; i < odds.size(); i += 500)
    EXPECT_NEAR(odds[i], plain_log_odds(set->test, i, plan_of({}), tensors).item<double>(), 1e-5);
  EXPECT_EQ(alone.task->quality(records), area_under_curve(odds, set->test.labels));
  const auto figures = alone.task->figures(records);
  EXPECT_EQ(figures.at(0).name, "log loss");
  EXPECT_EQ(figures.at(0).value, log_loss(odds, set->test.labels));
  EXPECT_EQ(figures.at(1).name, "Bayes AUC");
  EXPECT_EQ(figures.at(1).value, area_under_curve(set->test.probabilities, set->test.labels));
}

// By hand: tables of rows of 16, 13-512-256-64-16 and 367-512-256-1, and the two smaller sizes likewise.
TEST(Dlrm, hasAsManyParametersAsItsPlanSays) {
  const std::int64_t bottom = 13 * 512 + 512 + 512 * 256 + 256 + 256 * 64 + 64 + 64 * 16 + 16;
  const std::int64_t top = 367 * 512 + 512 + 512 * 256 + 256 + 256 + 1;
  EXPECT_EQ(parameters_of(Dlrm(plan_of({{"size", "paper"}, {"buckets", "7"}}))), 26 * 7 * 16 + bottom + top);
  EXPECT_EQ(parameters_of(Dlrm(plan_of({}))), 4'249);
  EXPECT_EQ(parameters_of(Dlrm(plan_of({{"size", "small"}}))), 24'745);
}

TEST(Dlrm, startsWithTablesWithinTheirBounds) {
  DlrmPlan plan = plan_of({});
  plan.shape.rows = {4, 10000};
  Dlrm network(plan);
  network.reset(1);
  const torch::Tensor values = network.named_parameters()["tables.values"].detach().abs();
  EXPECT_LE(values.slice(0, 0, 4).max().item<double>(), 0.5);
  EXPECT_GT(values.slice(0, 0, 4).max().item<double>(), 0.3);
  EXPECT_LE(values.slice(0, 4, 10004).max().item<double>(), 0.01);
  EXPECT_GT(values.slice(0, 4, 10004).max().item<double>(), 0.0099);
  EXPECT_LT(network.named_parameters()["top.weights1"].detach().std().item<double>(), 0.3);
}

}  // namespace
}  // namespace flockstep::tasks::recommendation_test
