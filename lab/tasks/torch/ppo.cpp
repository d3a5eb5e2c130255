#include "tasks/torch/ppo.h"

#include <torch/types.h>

namespace flockstep::tasks {

PpoBatch batch_of(std::span<const Track> tracks, std::int64_t view) {
  std::size_t longest = 0;
  for (const Track& track : tracks) longest = std::max(longest, track.size());
  const auto count = static_cast<std::int64_t>(tracks.size()), most = static_cast<std::int64_t>(longest);
  const auto numbers = [&] { return torch::zeros({most, count}); };
  PpoBatch batch{.inputs = {.views = torch::zeros({most, count, view, view}),
                            .goals = torch::zeros({most, count, kSenses}),
                            .last_actions = torch::full({most, count}, kNoAction, torch::kInt64)},
                 .actions = torch::zeros({most, count}, torch::kInt64),
                 .log_chances = numbers(),
                 .advantages = numbers(),
                 .returns = numbers(),
                 .taken = numbers()};
  const std::size_t cells = static_cast<std::size_t>(view * view);
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const Track& track = tracks[i];
    for (std::size_t t = 0; t < track.size(); ++t) {
      const std::size_t at = t * tracks.size() + i;
      std::copy_n(track.views.data() + t * cells, cells, batch.inputs.views.data_ptr<float>() + at * cells);
      std::copy_n(track.goals[t].data(), kSenses, batch.inputs.goals.data_ptr<float>() + at * kSenses);
      if (t > 0) batch.inputs.last_actions.data_ptr<std::int64_t>()[at] = track.actions[t - 1];
      batch.actions.data_ptr<std::int64_t>()[at] = track.actions[t];
      batch.log_chances.data_ptr<float>()[at] = track.log_chances[t];
      batch.advantages.data_ptr<float>()[at] = track.advantages[t];
      batch.returns.data_ptr<float>()[at] = track.returns[t];
      batch.taken.data_ptr<float>()[at] = 1;
    }
  }
  return batch;
}

PpoBatch PpoBatch::to(torch::Device device) const {
  return {.inputs = inputs.to(device),
          .actions = actions.to(device),
          .log_chances = log_chances.to(device),
          .advantages = advantages.to(device),
          .returns = returns.to(device),
          .taken = taken.to(device)};
}

torch::Tensor ppo_loss(const Policy::Outputs& outputs, const PpoBatch& batch, const PpoOptions& options) {
  const torch::Tensor log_chances = outputs.scores.log_softmax(-1);
  const torch::Tensor now = log_chances.gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1);
  const torch::Tensor ratio = (now - batch.log_chances).exp();
  const torch::Tensor clipped = ratio.clamp(1 - options.clip, 1 + options.clip);
  const torch::Tensor gain = at::minimum(ratio * batch.advantages, clipped * batch.advantages);
  const torch::Tensor error = (outputs.values - batch.returns).square() / 2;
  const torch::Tensor entropy = -(log_chances.exp() * log_chances).sum(-1);
  const torch::Tensor losses = options.value * error - gain - options.entropy * entropy;
  return (losses * batch.taken).sum() / batch.taken.sum();
}

}  // namespace flockstep::tasks
