// Ways of breaking runtime/rounds, and the models behind it.
#include <algorithm>
#include <vector>

#include "simulation/sabotage.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using protocol::Outcome;
using runtime::Range;
using runtime::RoundData;

// ---- rounds that call the data wrongly ----

struct PlacesTwice final : PassedOn {
  using PassedOn::PassedOn;
  void settle(Range part, std::span<const float> average) override {
    data_.settle(part, average);
    data_.settle(part, average);
  }
};

struct PlacesElsewhere final : PassedOn {
  using PassedOn::PassedOn;
  void settle(Range part, std::span<const float> average) override {
    if (part.begin > 0) --part.begin;
    data_.settle(part, average);
  }
};

struct LeavesOutFirstChunk final : PassedOn {
  using PassedOn::PassedOn;
  void settle(Range part, std::span<const float> average) override {
    if (part.begin > 0) data_.settle(part, average);
  }
};

struct SendsFromElsewhere final : PassedOn {
  using PassedOn::PassedOn;
  std::span<const float> contribution(Range part) const override {
    if (part.begin > 0) --part.begin;
    return data_.contribution(part);
  }
};

struct LandsOnContribution final : PassedOn {
  using PassedOn::PassedOn;
  std::span<float> landing(Range part, std::span<float>) override {
    const std::span<const float> place = data_.contribution(part);
    return {const_cast<float*>(place.data()), place.size()};
  }
};

struct CountsOneMore final : PassedOn {
  using PassedOn::PassedOn;
  void complete(int members) override { data_.complete(members + 1); }
};

struct IsNeverReady final : PassedOn {
  using PassedOn::PassedOn;
  void ready(Range) override {}
};

struct LeavesOutStatistics final : PassedOn {
  using PassedOn::PassedOn;
  void freeze(std::size_t size, bool is_fresh) override {
    least_ = std::min(least_, size);
    data_.freeze(least_, is_fresh);
  }
  std::size_t least_ = ~std::size_t{0};
};

// ---- data that does wrongly what it is told ----

// Knows what real data would know: the round under way, the newest average, and the worker's span while it waits.
class Flawed : public PassedOn {
 public:
  using PassedOn::PassedOn;
  void arrive(std::span<float> values) override {
    span_ = values;
    is_waiting_ = true;
    data_.arrive(values);
  }
  void proceed(std::span<float> values) override {
    is_waiting_ = false;
    data_.proceed(values);
  }
  void freeze(std::size_t size, bool is_fresh) override {
    data_.freeze(size, is_fresh);
    size_ = size;
    landed_.assign(size, 0);
  }
  void settle(Range part, std::span<const float> average) override {
    std::ranges::copy(average, part.of(std::span(landed_)).begin());
    data_.settle(part, average);
  }
  void complete(int members) override {
    data_.complete(members);
    size_ = 0;
    older_ = std::exchange(newest_, landed_);
    members_ = members;
  }

 protected:
  // What the round under way sends.
  std::span<float> taken() const {
    const std::span<const float> place = data_.contribution({0, size_});
    return {const_cast<float*>(place.data()), place.size()};
  }
  static bool is_stale(Outcome outcome) {
    return outcome == Outcome::stale_in_flight || outcome == Outcome::stale_behind;
  }

  std::span<float> span_;
  bool is_waiting_ = false;
  std::size_t size_ = 0;  // of the round under way
  std::vector<float> landed_, newest_, older_;
  int members_ = 0;
};

struct OverwritesContribution final : Flawed {
  using Flawed::Flawed;
  void arrive(std::span<float> values) override {
    if (size_ > 0) std::ranges::copy(values.first(size_), taken().begin());
    Flawed::arrive(values);
  }
};

struct KeepsOldContribution final : Flawed {
  using Flawed::Flawed;
  void ready(Range range) override {
    data_.ready(range);
    const std::span<float> now = range.of(taken());
    const std::vector<float> right(now.begin(), now.end());
    if (range.end() <= before_.size()) std::ranges::copy(range.of(std::span(before_)), now.begin());
    before_.resize(std::max(before_.size(), range.end()));
    std::ranges::copy(right, range.of(std::span(before_)).begin());
  }
  std::vector<float> before_;
};

struct ReadsWorkersSpan final : Flawed {
  using Flawed::Flawed;
  void ready(Range range) override {
    data_.ready(range);
    if (!is_waiting_ && !span_.empty()) std::ranges::copy(range.of(span_), range.of(taken()).begin());
  }
};

struct LandsInWorkersSpan final : Flawed {
  using Flawed::Flawed;
  void complete(int members) override {
    Flawed::complete(members);
    if (!is_waiting_ && !span_.empty()) std::ranges::copy(newest_, span_.begin());
  }
};

struct MergesOlderAverage final : Flawed {
  using Flawed::Flawed;
  void merge(std::span<float> values, Outcome outcome) override {
    const std::vector<float> own(values.begin(), values.end());
    data_.merge(values, outcome);
    const auto members = static_cast<float>(members_);
    if (is_stale(outcome))
      for (std::size_t i = 0; i < older_.size(); ++i) values[i] = (members * older_[i] + own[i]) / (members + 1);
  }
};

struct ForgetsOwnModel final : Flawed {
  using Flawed::Flawed;
  void merge(std::span<float> values, Outcome outcome) override {
    data_.merge(values, outcome);
    if (is_stale(outcome)) std::ranges::copy(newest_, values.begin());
  }
};

struct CutsNothing final : PassedOn {
  using PassedOn::PassedOn;
  void arrive(std::span<float> values) override {
    const std::vector<float> own(values.begin(), values.end());
    data_.arrive(values);
    std::ranges::copy(own, values.begin());
  }
};

struct CorrectsTwice final : PassedOn {
  using PassedOn::PassedOn;
  void settle(Range part, std::span<const float> average) override {
    data_.settle(part, average);
    data_.settle(part, average);
  }
};

struct LosesUpdate final : PassedOn {
  using PassedOn::PassedOn;
  void arrive(std::span<float> values) override {
    if (++arrivals_ % 3 > 0) data_.arrive(values);
  }
  int arrivals_ = 0;
};

struct KeepsCorrection final : PassedOn {
  using PassedOn::PassedOn;
  void hand_over(std::span<float> values) override {
    std::vector<float> copy(values.begin(), values.end());
    data_.hand_over(copy);
  }
};

struct DoesNotPublishSynchronised final : PassedOn {
  using PassedOn::PassedOn;
  void merge(std::span<float> values, Outcome outcome) override {
    data_.merge(values, outcome == Outcome::synchronised ? Outcome::fresh : outcome);
  }
};

struct GivesHalfAnAverage final : Flawed {
  using Flawed::Flawed;
  void give(std::span<float> values) override {
    data_.give(values);
    std::ranges::copy(std::span(newest_).first(newest_.size() / 2), values.begin());
  }
};

struct KeepsModelOfBefore final : PassedOn {
  using PassedOn::PassedOn;
  std::span<float> place_for_model(std::span<float> values) override { return values; }
  void rejoin(std::span<float>, bool) override {}
};

template <typename T>
AgentFlaw::Wrap wrapped() {
  return [](RoundData& data) { return std::make_unique<T>(data); };
}

}  // namespace

std::vector<AgentSabotage> agent_sabotages() {
  const auto published = [](const Scenario& scenario) { return scenario.merging == Merging::published; };
  const auto in_turn = [](const Scenario& scenario) {
    return scenario.merging == Merging::additive && !scenario.overlap && !scenario.on_device;
  };
  const auto overlapped = [](const Scenario& scenario) { return scenario.overlap && !scenario.on_device; };
  return {
      // rounds
      {"a part is placed twice", property::kAverage, {.rounds = wrapped<PlacesTwice>()}},
      {"a part is placed elsewhere", property::kAverage, {.rounds = wrapped<PlacesElsewhere>()}},
      {"the first chunk is not placed", property::kAverage, {.rounds = wrapped<LeavesOutFirstChunk>()}},
      {"a part is sent from elsewhere", property::kAverage, {.rounds = wrapped<SendsFromElsewhere>()}},
      {"averages land on contributions", property::kUntouched, {.rounds = wrapped<LandsOnContribution>()}, true},
      {"the divisor is that of a larger group", property::kAverage, {.rounds = wrapped<CountsOneMore>()}},
      {"a fresh contribution is not made ready",
       property::kAverage,
       {.rounds = wrapped<IsNeverReady>()},
       false,
       published},
      {"running statistics are left out", property::kAverage, {.rounds = wrapped<LeavesOutStatistics>()}},
      // transfers
      {"a buffer is used again before it is off", property::kUntouched, {.lie = Lie::sends_are_off}},
      {"a part is summed before it is there", property::kAverage, {.lie = Lie::receives_are_done}},
      {"the parts of two chunks have one tag", property::kAverage, {.lie = Lie::tags_are_equal}},
      // models
      {"a contribution is overwritten on its way",
       property::kUntouched,
       {.data = wrapped<OverwritesContribution>()},
       true},
      {"a snapshot is that of the round before", property::kAverage, {.data = wrapped<KeepsOldContribution>()}},
      {"a snapshot is taken from a worker that computes", property::kAverage, {.data = wrapped<ReadsWorkersSpan>()}},
      {"an average lands where a worker computes", property::kOwnSpan, {.data = wrapped<LandsInWorkersSpan>()}},
      {"a merge takes the average of the round before",
       property::kMerged,
       {.data = wrapped<MergesOlderAverage>()},
       false,
       published},
      {"a stale merge forgets the own model",
       property::kMerged,
       {.data = wrapped<ForgetsOwnModel>()},
       false,
       published},
      {"a stale merge weighs another number of members",
       property::kMerged,
       {.data = wrapped<CountsOneMore>()},
       false,
       published},
      {"nothing is cut of an update",
       property::kGuarded,
       {.data = wrapped<CutsNothing>()},
       false,
       [](const Scenario& scenario) { return scenario.merging == Merging::published && scenario.guarded; }},
      {"a synchronised model is not published",
       property::kAverage,
       {.data = wrapped<DoesNotPublishSynchronised>()},
       false,
       published},
      {"a correction is applied twice", property::kMerged, {.data = wrapped<CorrectsTwice>()}, false, in_turn},
      {"an update is lost", property::kAverage, {.data = wrapped<LosesUpdate>()}, false, in_turn},
      {"a correction does not reach a worker that goes on",
       property::kMerged,
       {.data = wrapped<KeepsCorrection>()},
       false,
       overlapped},
      // away and back
      {"a model is given that is half an average", property::kCurrentModel, {.data = wrapped<GivesHalfAnAverage>()}},
      {"who comes back contributes its old model",
       property::kAverage,
       {.data = wrapped<KeepsModelOfBefore>()},
       false,
       published},
  };
}

}  // namespace flockstep::simulation
