#include "tasks/navigation/rollout.h"

#include <algorithm>
#include <cmath>

#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

constexpr double kLeastDeviation = 1e-5;

template <typename T>
void put_all(base::Archive& archive, const std::string& name, std::span<const Track> tracks,
             std::vector<T> Track::*field) {
  std::vector<T> all;
  for (const Track& track : tracks) all.insert(all.end(), (track.*field).begin(), (track.*field).end());
  archive.put("rollout " + name, std::span<const T>(all));
}

[[noreturn]] void refuse_rollout() {
  throw Error(ErrorCode::bad_file, "the checkpoint's rollout does not fit together: start the run anew");
}

template <typename T>
void get_all(const base::Archive& archive, const std::string& name, std::span<Track> tracks,
             std::span<const std::int64_t> lengths, std::vector<T> Track::*field, std::size_t per_action = 1) {
  const std::vector<T> all = archive.get_vector<T>("rollout " + name);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const std::size_t size = static_cast<std::size_t>(lengths[i]) * per_action;
    if (lengths[i] < 1 || size > all.size() - begin) break;
    (tracks[i].*field).assign(all.data() + begin, all.data() + begin + size);
    begin += size;
  }
  if (begin != all.size() || tracks.empty() || (tracks.back().*field).empty()) refuse_rollout();
}

}  // namespace

std::size_t Rollout::actions() const {
  std::size_t sum = 0;
  for (const Track& track : tracks) sum += track.size();
  return sum;
}

void Rollout::estimate(const AdvantageOptions& options) {
  double sum = 0, squares = 0;
  for (Track& track : tracks) {
    track.advantages.resize(track.size());
    track.returns.resize(track.size());
    estimate_advantages(track.rewards, track.values, options, track.advantages);
    for (std::size_t t = 0; t < track.size(); ++t) {
      track.returns[t] = track.advantages[t] + track.values[t];
      const auto advantage = static_cast<double>(track.advantages[t]);
      sum += advantage, squares += advantage * advantage;
    }
  }
  const auto count = static_cast<double>(actions());
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean)) + kLeastDeviation;
  for (Track& track : tracks)
    for (float& advantage : track.advantages)
      advantage = static_cast<float>((static_cast<double>(advantage) - mean) / deviation);
}

void Rollout::save(base::Archive& archive) const {
  std::vector<std::int64_t> lengths;
  for (const Track& track : tracks) lengths.push_back(static_cast<std::int64_t>(track.size()));
  archive.put_value("rollout first step", first_step);
  archive.put("rollout lengths", std::span<const std::int64_t>(lengths));
  put_all(archive, "views", tracks, &Track::views);
  put_all(archive, "goals", tracks, &Track::goals);
  put_all(archive, "actions", tracks, &Track::actions);
  put_all(archive, "log chances", tracks, &Track::log_chances);
  put_all(archive, "rewards", tracks, &Track::rewards);
  put_all(archive, "values", tracks, &Track::values);
}

Rollout Rollout::restore(const base::Archive& archive, std::size_t cells_of_view) {
  Rollout rollout;
  rollout.first_step = archive.get_value<std::int64_t>("rollout first step");
  const auto lengths = archive.get_vector<std::int64_t>("rollout lengths");
  if (lengths.empty()) return rollout;  // nothing was collected yet
  rollout.tracks.resize(lengths.size());
  const std::span<Track> tracks = rollout.tracks;
  get_all(archive, "views", tracks, lengths, &Track::views, cells_of_view);
  get_all(archive, "goals", tracks, lengths, &Track::goals);
  get_all(archive, "actions", tracks, lengths, &Track::actions);
  get_all(archive, "log chances", tracks, lengths, &Track::log_chances);
  get_all(archive, "rewards", tracks, lengths, &Track::rewards);
  get_all(archive, "values", tracks, lengths, &Track::values);
  for (const Track& track : tracks)
    if (std::ranges::any_of(track.actions, [](int action) { return action < 0 || action >= kActions; }))
      refuse_rollout();
  return rollout;
}

}  // namespace flockstep::tasks
