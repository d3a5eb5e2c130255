// The policy's memory and the loss on episodes of uneven lengths.
#include "tasks/torch/ppo.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "task_case.h"
#include "tasks/torch/walk.h"

namespace flockstep::tasks::ppo_test {
namespace {

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
}  // namespace flockstep::tasks::ppo_test
