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

class Walkers {
 public:
  Walkers(const View& view, std::span<Episode> episodes) : tracks(episodes.size()), view_(view), episodes_(episodes) {
    for (std::size_t i = 0; i < episodes.size(); ++i) walking_.push_back(i);
  }

  bool are_there() const { return !walking_.empty(); }
  Policy::Inputs look();
  // Returns the places, among those who have looked, of who goes on.
  std::vector<std::int64_t> act(const Policy::Outputs& outputs, const std::function<double(std::size_t)>& uniform);

  std::vector<Track> tracks;

 private:
  const View& view_;
  std::span<Episode> episodes_;
  std::vector<std::size_t> walking_;  // episodes that are not over
};

Policy::Inputs Walkers::look() {
  const auto count = static_cast<std::int64_t>(walking_.size());
  const std::size_t cells = view_.cells();
  const Policy::Inputs inputs{torch::empty({1, count, view_.side(), view_.side()}), torch::empty({1, count, kSenses}),
                              torch::empty({1, count}, torch::kInt64)};
  for (std::size_t place = 0; place < walking_.size(); ++place) {
    const Episode& episode = episodes_[walking_[place]];
    Track& track = tracks[walking_[place]];
    track.views.resize(track.views.size() + cells);
    const std::span<std::int8_t> seen = std::span(track.views).last(cells);
    view_.look(episode.maze(), episode.cell(), episode.heading(), seen);
    track.goals.push_back(sense_goal(episode.maze(), episode.cell(), episode.heading()));
    std::ranges::copy(seen, inputs.views.data_ptr<float>() + place * cells);
    std::ranges::copy(track.goals.back(), inputs.goals.data_ptr<float>() + place * kSenses);
    inputs.last_actions.data_ptr<std::int64_t>()[place] = track.actions.empty() ? kNoAction : track.actions.back();
  }
  return inputs;
}

std::vector<std::int64_t> Walkers::act(const Policy::Outputs& outputs,
                                       const std::function<double(std::size_t)>& uniform) {
  const torch::Tensor log_chances = outputs.scores.log_softmax(-1).cpu().contiguous(),
                      values = outputs.values.cpu().contiguous();
  std::vector<std::size_t> going_on;
  std::vector<std::int64_t> places;
  for (std::size_t place = 0; place < walking_.size(); ++place) {
    const std::size_t i = walking_[place];
    const std::span<const float, kActions> of_actions(log_chances.data_ptr<float>() + place * kActions, kActions);
    const int action = draw_action(of_actions, uniform(i));
    Track& track = tracks[i];
    track.actions.push_back(static_cast<std::int8_t>(action));
    track.log_chances.push_back(of_actions[static_cast<std::size_t>(action)]);
    track.values.push_back(values.data_ptr<float>()[place]);
    track.rewards.push_back(static_cast<float>(episodes_[i].act(static_cast<Action>(action))));
    if (episodes_[i].is_over()) continue;
    going_on.push_back(i);
    places.push_back(static_cast<std::int64_t>(place));
  }
  walking_ = std::move(going_on);
  return places;
}

}  // namespace

std::vector<Track> walk(Policy& policy, const View& view, std::span<Episode> episodes,
                        const std::function<double(std::size_t)>& uniform) {
  Walkers walkers(view, episodes);
  Policy::State state = policy.first_state(static_cast<std::int64_t>(episodes.size()));
  while (walkers.are_there()) {
    const auto going_on = walkers.act(policy.forward(walkers.look().to(state.cell.device()), state), uniform);
    if (static_cast<std::int64_t>(going_on.size()) == state.cell.size(1)) continue;
    const torch::Tensor places = torch::tensor(going_on, torch::kInt64).to(state.cell.device());
    state = {state.output.index_select(1, places), state.cell.index_select(1, places)};
  }
  return std::move(walkers.tracks);
}

}  // namespace flockstep::tasks
