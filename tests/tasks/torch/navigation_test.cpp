// The navigation task against a plain computation with torch, in double, on tensors of its own; its policy's memory,
// and the clipped loss on episodes of uneven lengths.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "task_case.h"
#include "tasks/torch/navigation.h"
#include "tasks/torch/ppo.h"
#include "tasks/torch/walk.h"

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

constexpr PolicyOptions kSmall{.view = 3, .hidden = 8, .layers = 2};

std::shared_ptr<Policy> random_policy(const PolicyOptions& options = kSmall) {
  auto policy = std::make_shared<Policy>(options);
  const torch::NoGradGuard no_grad;
  base::Random random(4, base::Purpose::test);
  for (torch::Tensor& parameter : policy->parameters())
    random.fill_uniform({parameter.data_ptr<float>(), static_cast<std::size_t>(parameter.numel())}, -0.7f, 0.7f);
  return policy;
}

// Episodes in generated mazes, of whatever lengths they come to.
std::vector<Track> walked(Policy& policy, std::size_t count) {
  const torch::NoGradGuard no_grad;
  base::Random random(5, base::Purpose::test);
  std::vector<Episode> episodes;
  for (std::size_t i = 0; i < count; ++i) episodes.emplace_back(generate_maze(3, 0.3, random), 15);
  Rollout rollout{.first_step = 0,
                  .tracks = walk(policy, View(3), episodes, [&](std::size_t) { return random.uniform(); })};
  rollout.estimate({});
  return rollout.tracks;
}

Policy::Outputs outputs_of(Policy& policy, const Policy::Inputs& inputs) {
  Policy::State state = policy.first_state(inputs.views.size(1));
  return policy.forward(inputs, state);
}

double difference(const torch::Tensor& a, const torch::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Policy, ofThePaperHasItsParametersAndTakesViews) {
  const torch::NoGradGuard no_grad;
  Policy policy(navigation_options_of({{"size", "paper"}}, 4, 0).policy);
  EXPECT_EQ(parameters_of(policy), 8'476'421);
  policy.reset(1);
  const auto outputs =
      outputs_of(policy, {torch::ones({2, 1, 15, 15}), torch::ones({2, 1, 3}), torch::zeros({2, 1}, torch::kInt64)});
  EXPECT_TRUE(outputs.scores.isfinite().all().item<bool>() && outputs.values.isfinite().all().item<bool>());
  EXPECT_LT(difference(outputs.scores.softmax(-1), torch::full({1}, 0.25)), 0.02);  // all actions alike
}

// navigation_test.cpp compares a policy with a memory with plain LSTMs.
TEST(Policy, withoutAMemoryOutputsFollowFromWhatIsSeenAlone) {
  const torch::NoGradGuard no_grad;
  const auto policy = random_policy({.view = 3, .hidden = 8, .layers = 2, .memory = false});
  Policy::Inputs inputs{torch::ones({6, 2, 3, 3}), torch::ones({6, 2, 3}), torch::zeros({6, 2}, torch::kInt64)};
  const torch::Tensor plain = outputs_of(*policy, inputs).scores;
  inputs.views[2][0].fill_(-1);
  const torch::Tensor other = outputs_of(*policy, inputs).scores;
  for (std::int64_t t = 0; t < 6; ++t) EXPECT_EQ(difference(other[t][0], plain[t][0]) > 1e-6, t == 2) << t;
}

// Episodes end at different times, and the others go on with what they remember.
TEST(Walk, chancesAndValuesAreThoseOfThePolicyOnWholeEpisodes) {
  for (const bool memory : {true, false}) {
    const auto policy = random_policy({.view = 3, .hidden = 8, .layers = 2, .memory = memory});
    const std::vector<Track> tracks = walked(*policy, 12);
    std::size_t shortest = 100, longest = 0;
    for (const Track& track : tracks)
      shortest = std::min(shortest, track.size()), longest = std::max(longest, track.size());
    ASSERT_LT(shortest + 5, longest);
    const torch::NoGradGuard no_grad;
    const PpoBatch batch = batch_of(tracks, 3);
    const Policy::Outputs outputs = outputs_of(*policy, batch.inputs);
    const auto now = outputs.scores.log_softmax(-1).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1);
    EXPECT_LT(difference(now * batch.taken, batch.log_chances), 1e-5);
    for (std::size_t i = 0; i < tracks.size(); ++i)
      for (std::size_t t = 0; t < tracks[i].size(); ++t)
        EXPECT_NEAR(outputs.values[static_cast<std::int64_t>(t)][static_cast<std::int64_t>(i)].item<float>(),
                    tracks[i].values[t], 1e-5);
  }
}

TEST(Walk, drawsActionsInProportionToTheirChances) {
  const auto policy = random_policy();
  std::vector<double> expected(kActions), drawn(kActions);
  const std::vector<Track> tracks = walked(*policy, 400);
  for (const Track& track : tracks) {
    ++drawn[static_cast<std::size_t>(track.actions[0])];
    const torch::NoGradGuard no_grad;
    const PpoBatch batch = batch_of({&track, 1}, 3);
    const torch::Tensor chances = outputs_of(*policy, batch.inputs).scores[0][0].softmax(0);
    for (int action = 0; action < kActions; ++action)
      expected[static_cast<std::size_t>(action)] += chances[action].item<double>();
  }
  for (std::size_t action = 0; action < expected.size(); ++action) EXPECT_NEAR(drawn[action], expected[action], 40);
}

// Chances 0.4, 0.3, 0.2 and 0.1; the first action has become likelier or less likely by the ratio. navigation_test.cpp
// compares the whole loss with a plain computation.
TEST(PpoLoss, stopsAtTheBorderOnlyOnTheWayOut) {
  const auto number = [](double value) { return torch::full({1, 1}, value); };
  struct Case {
    double ratio, advantage, loss;
    bool moves;
  };
  for (const auto& [ratio, advantage, expected, moves] : std::vector<Case>{{1, 2, -2, true},
                                                                           {1.1, 1, -1.1, true},
                                                                           {1.5, 1, -1.2, false},
                                                                           {1.5, -1, 1.5, true},
                                                                           {0.5, 1, -0.5, true},
                                                                           {0.5, -1, 0.8, false}}) {
    const torch::Tensor scores = torch::tensor({0.4, 0.3, 0.2, 0.1}).log().view({1, 1, 4}).set_requires_grad(true);
    const PpoBatch batch{.inputs = {},
                         .actions = torch::zeros({1, 1}, torch::kInt64),
                         .log_chances = number(std::log(0.4 / ratio)),
                         .advantages = number(advantage),
                         .returns = number(0),
                         .taken = number(1)};
    const torch::Tensor loss = ppo_loss({scores, number(0)}, batch, {.clip = 0.2, .entropy = 0, .value = 0});
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), expected, 1e-5) << ratio << ' ' << advantage;
    // By the chain rule: -A r times the gradient of the log-softmax.
    EXPECT_NEAR(scores.grad()[0][0][0].item<double>(), moves ? -advantage * ratio * 0.6 : 0, 1e-5)
        << ratio << ' ' << advantage;
  }
}

}  // namespace
}  // namespace flockstep::tasks::navigation_test
