// `navigation`: a recurrent policy that learns by PPO to find its way in mazes. What a worker learns from, it walks
// itself: at the first of a few steps it collects whole episodes, however long they are, and all of these steps use
// them.
#include "tasks/torch/navigation.h"

#include <torch/types.h>

#include "tasks/torch/ppo.h"
#include "tasks/torch/torch_task.h"
#include "tasks/torch/walk.h"

namespace flockstep::tasks {
namespace {

constexpr std::uint64_t kFixedSeed = 0x77616c6b73;  // of the actions in evaluations
constexpr double kActionsPerMove = 2;               // on a good way: turns and moves
constexpr std::size_t kEpisodeRecord = 3;           // numbers per episode: SPL, success and length

double mean_of(std::span<const double> records, std::size_t number) {
  double sum = 0;
  for (std::size_t i = number; i < records.size(); i += kEpisodeRecord) sum += records[i];
  return sum / static_cast<double>(records.size() / kEpisodeRecord);
}

class Navigation final : public TorchTask {
 public:
  Navigation(const NavigationOptions& options, const TaskInputs& inputs)
      : Navigation(options, inputs, std::make_shared<Policy>(options.policy)) {}

  std::int64_t samples_per_step() const override { return static_cast<std::int64_t>(worker_.samples); }
  train::Metric metric() const override { return {"SPL", false}; }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return adam(options_.adam); }
  double load() const override { return load_; }

  bool has_validation() const override { return mazes_.count(train::Split::validation) > 0; }
  double quality(std::span<const double> records) const override { return mean_of(records, 0); }
  std::vector<telemetry::Figure> figures(std::span<const double> records) const override {
    return {{"success", mean_of(records, 1)}, {"actions per episode", mean_of(records, 2)}};
  }

  void save(base::Archive& archive) const override { rollout_.save(archive); }
  void restore(const base::Archive& archive) override {
    rollout_ = Rollout::restore(archive, view_.cells());
    if (!rollout_.tracks.empty() && rollout_.tracks.size() != episodes_per_rollout())
      throw Error(ErrorCode::bad_file, "the checkpoint's rollout has another number of episodes: start the run anew");
    rollout_.estimate(options_.advantages);
  }

 private:
  Navigation(const NavigationOptions& options, const TaskInputs& inputs, std::shared_ptr<Policy> policy)
      : TorchTask(policy, inputs.device),
        options_(options),
        worker_(inputs),
        mazes_(options.mazes, options.shard, worker_),
        view_(static_cast<int>(options.policy.view)),
        policy_(std::move(policy)),
        usual_actions_(kActionsPerMove * mazes_.mean_distance()) {}

  void reset() override { policy_->reset(worker_.seed); }
  torch::Tensor loss(std::int64_t step) override;
  std::vector<double> score(train::Split split) override;
  void collect(std::int64_t step);
  void set_load(std::size_t walked, std::span<const Track> learned);
  std::size_t episodes_per_rollout() const {
    return worker_.samples * static_cast<std::size_t>(options_.ppo.minibatches);
  }
  bool is_used_up(std::int64_t step) const {
    const std::int64_t used = step - rollout_.first_step;
    return rollout_.tracks.empty() || used < 0 || used >= options_.ppo.epochs * options_.ppo.minibatches;
  }

  NavigationOptions options_;
  WorkerData worker_;
  Mazes mazes_;
  View view_;
  std::shared_ptr<Policy> policy_;
  Rollout rollout_;
  double usual_actions_;  // of an episode
  double load_ = 1;
};

void Navigation::collect(std::int64_t step) {
  const torch::NoGradGuard no_grad;
  base::Random random = worker_.random(step);
  std::vector<Episode> episodes;
  for (std::size_t i = 0; i < episodes_per_rollout(); ++i) episodes.emplace_back(mazes_.draw(random), options_.limit);
  rollout_.first_step = step;
  rollout_.tracks = walk(*policy_, view_, episodes, [&](std::size_t) { return random.uniform(); });
  if (worker_.is_noisy(options_.shard))
    for (Track& track : rollout_.tracks)
      for (float& reward : track.rewards) reward = static_cast<float>(2 * random.uniform() - 1);
  rollout_.estimate(options_.advantages);
}

// An action costs as much to take as to learn from. Each is taken once and learned from in every epoch.
void Navigation::set_load(std::size_t walked, std::span<const Track> learned) {
  std::size_t actions = walked;
  for (const Track& track : learned) actions += track.size();
  const double usual = usual_actions_ * static_cast<double>(learned.size());
  load_ = static_cast<double>(actions) / (usual + usual / static_cast<double>(options_.ppo.epochs));
}

torch::Tensor Navigation::loss(std::int64_t step) {
  const bool collects = is_used_up(step);
  if (collects) collect(step);
  const auto part = static_cast<std::size_t>((step - rollout_.first_step) % options_.ppo.minibatches);
  const std::span tracks = std::span<const Track>(rollout_.tracks).subspan(part * worker_.samples, worker_.samples);
  set_load(collects ? rollout_.actions() : 0, tracks);
  Policy::State state = policy_->first_state(static_cast<std::int64_t>(tracks.size()));
  const PpoBatch batch = batch_of(tracks, options_.policy.view).to(state.cell.device());
  return ppo_loss(policy_->forward(batch.inputs, state), batch, options_.ppo);
}

std::vector<double> Navigation::score(train::Split split) {
  const auto [first, count] = worker_.share_of(mazes_.count(split));
  std::vector<Episode> episodes;
  std::vector<base::Random> randoms;
  for (std::size_t i = first; i < first + count; ++i) {
    episodes.emplace_back(mazes_.fixed(split, i), options_.limit);
    randoms.emplace_back(kFixedSeed, base::Purpose::fixed_data, static_cast<std::uint32_t>(i),
                         static_cast<std::uint32_t>(split));
  }
  walk(*policy_, view_, episodes, [&](std::size_t i) { return randoms[i].uniform(); });
  std::vector<double> records;
  for (const Episode& episode : episodes) {
    records.push_back(episode.success_by_length());
    records.push_back(episode.succeeded() ? 1 : 0);
    records.push_back(episode.actions());
  }
  return records;
}

}  // namespace

std::unique_ptr<train::Task> make_navigation(const TaskInputs& inputs) {
  const NavigationOptions options = navigation_options_of(inputs.settings, inputs.workers, inputs.steps);
  return with_short_errors([&] { return std::make_unique<Navigation>(options, inputs); });
}

}  // namespace flockstep::tasks
