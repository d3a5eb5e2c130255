#include "tasks/torch/walk.h"

#include <torch/types.h>

#include <cmath>

namespace flockstep::tasks {
namespace {

// The first action whose chances, with all before it, exceed the number.
int draw_action(std::span<const float, kActions> log_chances, double number) {
  int action = 0;
  for (double sum = 0; action + 1 < kActions; ++action) {
    sum += std::exp(static_cast<double>(log_chances[static_cast<std::size_t>(action)]));
    if (number < sum) break;
  }
  return action;
}

void look(const Episode& episode, const View& view, Track& track) {
  track.views.resize(track.views.size() + view.cells());
  view.look(episode.maze(), episode.cell(), episode.heading(), std::span(track.views).last(view.cells()));
  track.goals.push_back(sense_goal(episode.maze(), episode.cell(), episode.heading()));
}

}  // namespace

std::vector<Track> walk(Policy& policy, const View& view, std::span<Episode> episodes,
                        const std::function<double(std::size_t)>& uniform) {
  std::vector<Track> tracks(episodes.size());
  std::vector<std::int64_t> walking;  // episodes that are not over
  for (std::size_t i = 0; i < episodes.size(); ++i) walking.push_back(static_cast<std::int64_t>(i));
  Policy::State state = policy.first_state(static_cast<std::int64_t>(episodes.size()));
  const auto cells = static_cast<std::ptrdiff_t>(view.cells());
  const std::int64_t side = std::llround(std::sqrt(static_cast<double>(cells)));

  while (!walking.empty()) {
    const auto count = static_cast<std::int64_t>(walking.size());
    const Policy::Inputs inputs{torch::empty({1, count, side, side}), torch::empty({1, count, kSenses}),
                                torch::empty({1, count}, torch::kInt64)};
    for (std::int64_t place = 0; place < count; ++place) {
      const auto i = static_cast<std::size_t>(walking[static_cast<std::size_t>(place)]);
      look(episodes[i], view, tracks[i]);
      std::copy(tracks[i].views.end() - cells, tracks[i].views.end(), inputs.views.data_ptr<float>() + place * cells);
      std::ranges::copy(tracks[i].goals.back(), inputs.goals.data_ptr<float>() + place * kSenses);
      inputs.last_actions.data_ptr<std::int64_t>()[place] =
          tracks[i].actions.empty() ? kNoAction : tracks[i].actions.back();
    }
    const Policy::Outputs outputs = policy.forward(inputs, state);
    const torch::Tensor log_chances = outputs.scores.log_softmax(-1).contiguous(), values = outputs.values.contiguous();

    std::vector<std::int64_t> going_on, places;
    for (std::int64_t place = 0; place < count; ++place) {
      const std::int64_t number = walking[static_cast<std::size_t>(place)];
      const auto i = static_cast<std::size_t>(number);
      const std::span<const float, kActions> of_actions(log_chances.data_ptr<float>() + place * kActions, kActions);
      const int action = draw_action(of_actions, uniform(i));
      Track& track = tracks[i];
      track.actions.push_back(static_cast<std::int8_t>(action));
      track.log_chances.push_back(of_actions[static_cast<std::size_t>(action)]);
      track.values.push_back(values.data_ptr<float>()[place]);
      track.rewards.push_back(static_cast<float>(episodes[i].act(static_cast<Action>(action))));
      if (episodes[i].is_over()) continue;
      going_on.push_back(number);
      places.push_back(place);
    }
    if (going_on.size() < walking.size() && !going_on.empty()) {
      const torch::Tensor kept = torch::tensor(places, torch::kInt64);
      state = {state.output.index_select(1, kept), state.cell.index_select(1, kept)};
    }
    walking = std::move(going_on);
  }
  return tracks;
}

}  // namespace flockstep::tasks
