// The navigation task against a plain computation with torch, in double, on tensors of its own.
#include "tasks/torch/navigation.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "task_case.h"
#include "tasks/torch/ppo.h"

namespace flockstep::tasks::navigation_test {
namespace {

const base::Settings kNarrow{{"hidden", "8"}, {"view", "3"}, {"limit", "12"}, {"layers", "2"}};

TaskCase navigation(base::Settings settings = kNarrow, int rank = 2) {
  return TaskCase(make_navigation, std::move(settings), {.rank = rank});
}

PolicyOptions policy_of(const base::Settings& settings) { return navigation_options_of(settings, 3, 0).policy; }

// What the task has collected, as its checkpoint tells.
Rollout rollout_of(const TaskCase& task) {
  base::Archive archive;
  task.task->save(archive);
  const NavigationOptions options = navigation_options_of(task.settings, 3, 0);
  Rollout rollout = Rollout::restore(archive, static_cast<std::size_t>(options.policy.view * options.policy.view));
  rollout.estimate(options.advantages);
  return rollout;
}

torch::Tensor layer(const torch::Tensor& input, const Tensors& tensors, const std::string& name) {
  return tensors.at(name + "weights").matmul(input) + tensors.at(name + "bias");
}

// One layer of an LSTM on one episode's inputs, one action at a time.
std::vector<torch::Tensor> plain_lstm(const std::vector<torch::Tensor>& inputs, const Tensors& tensors,
                                      const std::string& number) {
  const auto of = [&](const std::string& name) { return tensors.at("lstm." + name + number); };
  torch::Tensor output = torch::zeros({8}, torch::kFloat64), cell = output;
  std::vector<torch::Tensor> outputs;
  for (const torch::Tensor& input : inputs) {
    const auto gates =
        (of("input_weights").matmul(input) + of("input_bias") + of("state_weights").matmul(output) + of("state_bias"))
            .chunk(4);
    cell = gates[1].sigmoid() * cell + gates[0].sigmoid() * gates[2].tanh();
    output = gates[3].sigmoid() * cell.tanh();
    outputs.push_back(output);
  }
  return outputs;
}

// The sum over one episode's actions.
torch::Tensor plain_loss(const Track& track, const Tensors& tensors) {
  std::vector<torch::Tensor> inputs;
  for (std::size_t t = 0; t < track.size(); ++t) {
    const auto view = torch::from_blob(const_cast<std::int8_t*>(track.views.data() + 9 * t), {9}, torch::kInt8);
    const auto goal = torch::from_blob(const_cast<float*>(track.goals[t].data()), {3});
    const std::int64_t last = t == 0 ? kActions : track.actions[t - 1];
    inputs.push_back(at::cat({layer(view.to(torch::kFloat64), tensors, "encoder.").relu(),
                              layer(goal.to(torch::kFloat64), tensors, "embedding.goal_"),
                              tensors.at("embedding.last_actions")[last]}));
  }
  const auto outputs = plain_lstm(plain_lstm(inputs, tensors, "0"), tensors, "1");
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (std::size_t t = 0; t < track.size(); ++t) {
    const torch::Tensor chances = layer(outputs[t], tensors, "heads.action_").softmax(0);
    const torch::Tensor value = layer(outputs[t], tensors, "heads.value_")[0];
    const auto advantage = static_cast<double>(track.advantages[t]);
    const torch::Tensor ratio = chances[track.actions[t]] / std::exp(static_cast<double>(track.log_chances[t]));
    const torch::Tensor gain = at::minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage);
    const torch::Tensor error = value - static_cast<double>(track.returns[t]);
    sum = sum - gain + 0.25 * error * error + 0.01 * (chances * chances.log()).sum();
  }
  return sum;
}

TEST(Navigation, theGradientIsThatOfAPlainComputation) {
  TaskCase task = navigation();
  base::Random random(3, base::Purpose::test);
  random.fill_uniform(task.parameters(), -0.5, 0.5);
  task.compute(0);
  std::vector<float> change(task.gradient.size());
  random.fill_uniform(change, -0.1f, 0.1f);
  for (std::size_t i = 0; i < change.size(); ++i) task.model[i] += change[i];
  const double loss = task.compute(1);  // the second half of the rollout, by another policy than that which walked it

  const Rollout rollout = rollout_of(task);
  ASSERT_EQ(rollout.first_step, 0);
  ASSERT_EQ(rollout.tracks.size(), 12u);
  const Policy shapes(policy_of(kNarrow));
  const Tensors tensors = cut_to_learn(task.parameters(), shapes);
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  double actions = 0;
  for (const Track& track : std::span(rollout.tracks).last(6)) {
    sum = sum + plain_loss(track, tensors);
    actions += static_cast<double>(track.size());
  }
  expect_loss_and_gradient(loss, task.gradient, shapes, sum / actions, tensors);
}

TEST(Navigation, aRolloutGoesOnWhereACheckpointLeftIt) {
  TaskCase whole = navigation(), before = navigation(), after = navigation(), without = navigation();
  for (std::int64_t step = 0; step < 2; ++step) {
    EXPECT_EQ(whole.compute(step), before.compute(step));
    for (float& value : whole.parameters()) value *= 0.9f;
    before.model = whole.model;
  }
  base::Archive archive;
  before.task->save(archive);
  after.task->restore(archive);
  EXPECT_THROW(navigation(kNarrow, 0).task->restore(archive), Error) << "of 7 episodes in a batch, not 6";
  for (std::int64_t step = 2; step < 7; ++step) {  // at 4 comes another rollout
    after.model = without.model = whole.model;
    const double loss = whole.compute(step);
    EXPECT_EQ(loss, after.compute(step));
    EXPECT_EQ(whole.gradient, after.gradient);
    EXPECT_EQ(rollout_of(after).first_step, step < 4 ? 0 : 4);
    without.compute(step);  // with other workers than before: it collects at once
    EXPECT_EQ(rollout_of(without).first_step, step < 6 ? 2 : 6);
    for (float& value : whole.parameters()) value *= 0.9f;
  }
}

TEST(Navigation, qualityAndFiguresAreMeansOverTheEpisodesOfAllWorkers) {
  const TaskCase task = navigation();
  EXPECT_EQ(task.task->evaluate(task.model, train::Split::test).size(), 3 * (256u / 3));
  const std::vector<double> records{1, 1, 10, 0.5, 1, 30, 0, 0, 50, 0, 0, 2};
  EXPECT_EQ(task.task->quality(records), 0.375);
  const auto figures = task.task->figures(records);
  ASSERT_EQ(figures.size(), 2u);
  EXPECT_EQ(figures[0].value, 0.5);
  EXPECT_EQ(figures[1].value, 23);
}

}  // namespace
}  // namespace flockstep::tasks::navigation_test
