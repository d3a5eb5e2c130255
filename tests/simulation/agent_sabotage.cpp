// Ways of breaking runtime/rounds, the models behind it, and what workers that come and go rely on.
#include <algorithm>
#include <vector>

#include "simulation/sabotage.h"

namespace flockstep::simulation {
namespace {

using protocol::Message;
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

struct CountsOneMore final : PassedOn {
  using PassedOn::PassedOn;
  void complete(int members) override { data_.complete(members + 1); }
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
    newest_ = landed_;
  }

 protected:
  // What the round under way sends.
  std::span<float> taken() const {
    const std::span<const float> place = data_.contribution({0, size_});
    return {const_cast<float*>(place.data()), place.size()};
  }

  std::span<float> span_;
  bool is_waiting_ = false;
  std::size_t size_ = 0;  // of the round under way
  std::vector<float> landed_, newest_;
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

struct ForgetsOwnModel final : Flawed {
  using Flawed::Flawed;
  void merge(std::span<float> values, Outcome outcome) override {
    data_.merge(values, outcome);
    if (outcome == Outcome::stale_in_flight || outcome == Outcome::stale_behind)
      std::ranges::copy(newest_, values.begin());
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

struct KeepsModelOfBefore final : PassedOn {
  using PassedOn::PassedOn;
  std::span<float> place_for_model(std::span<float> values) override { return values; }
  void rejoin(std::span<float>, bool) override {}
};

struct ForgetsToAbandon final : PassedOn {
  using PassedOn::PassedOn;
  void abandon() override {}
};

struct JoinsWithItsOwn final : PassedOn {
  using PassedOn::PassedOn;
  void rejoin(std::span<float> values, bool) override { data_.rejoin(values, false); }
};

struct KeepsWhatIsVoid final : PassedOn {
  using PassedOn::PassedOn;
  void freeze(std::size_t size, bool is_fresh) override {
    if (!std::exchange(is_void_, false)) data_.freeze(size, is_fresh);
  }
  void abandon() override { is_void_ = true; }
  bool is_void_ = false;
};

// ---- words that are changed on their way, or lost, though the connection holds ----

bool tell_older_round(int, Message& message) {
  if (message.kind == Message::Kind::newest) message.number = std::max<Iteration>(message.number - 1, -1);
  return true;
}

// The receiver does not hear that it is lost itself.
bool hide_loss(int to, Message& message) {
  const auto place = static_cast<std::size_t>(to);
  if (place < message.roster.size() && message.roster[place] > 0 && message.roster[place] % 2 == 0)
    --message.roster[place];
  return true;
}

// ---- which runs they are for ----

// Most are about the span of a worker that waits.
bool waits(const ElasticScenario& scenario) { return !scenario.base.overlap && !scenario.base.on_device; }
bool publishes(const ElasticScenario& scenario) { return scenario.base.merging == Merging::published; }
bool adds_in_turn(const ElasticScenario& scenario) { return !publishes(scenario) && waits(scenario); }
bool overlaps(const ElasticScenario& scenario) { return scenario.base.overlap && !scenario.base.on_device; }
bool counts(const ElasticScenario& scenario) { return scenario.counts_models; }

template <typename T>
std::unique_ptr<PassedOn> make_flawed(RoundData& data) {
  return std::make_unique<T>(data);
}

// Rounds, data or engines of agents go wrong.
template <typename T>
Sabotage rounds(std::string_view name, std::string_view property, const Applies& applies = waits) {
  return {name, property, Kind::agents, {.rounds = make_flawed<T>}, applies};
}
template <typename T>
Sabotage data(std::string_view name, std::string_view property, const Applies& applies = waits) {
  return {name, property, Kind::agents, {.data = make_flawed<T>}, applies};
}
Sabotage lies(std::string_view name, std::string_view property, const EngineFlaw& flaw) {
  return {name, property, Kind::agents, {.engine = flaw}, waits};
}

// Where workers come and go.
template <typename T>
Sabotage elastic(std::string_view name, std::string_view property, const Applies& applies) {
  return {name, property, Kind::elastic, {.rounds = make_flawed<T>}, applies};
}
Sabotage elastic(std::string_view name, std::string_view property, const EngineFlaw& flaw) {
  return {name, property, Kind::elastic, {.engine = flaw}};
}

}  // namespace

// tests/sabotage has twenty more, in the sources of rounds and models themselves.
std::vector<Sabotage> agent_sabotages() {
  using namespace property;
  return {
      rounds<PlacesTwice>("a part is placed twice", kAverage),
      lies("a buffer is used again before it is off", kUntouched, {.sends_are_off = true}),
      lies("a part is summed before it is there", kAverage, {.receives_are_done = true}),
      data<ReadsWorkersSpan>("a snapshot is taken from a worker that computes", kAverage),
      data<LandsInWorkersSpan>("an average lands where a worker computes", kOwnSpan),
      data<ForgetsOwnModel>("a stale merge forgets the own model", kMerged, publishes),
      data<CountsOneMore>("a stale merge weighs another number of members", kMerged, publishes),
      data<PlacesTwice>("a correction is applied twice", kMerged, adds_in_turn),
      data<LosesUpdate>("an update is lost", kAverage, adds_in_turn),
      data<KeepsCorrection>("a correction does not reach a worker that goes on", kMerged, overlaps),
      data<KeepsModelOfBefore>("who comes back contributes its old model", kAverage, publishes),
  };
}

std::vector<Sabotage> elastic_sabotages() {
  using namespace property;
  const auto has_link_down = [](const ElasticScenario& scenario) {
    return std::ranges::any_of(scenario.breaks, [](const Break& its) { return its.kind == Break::Kind::link; });
  };
  constexpr engines::Tag kBitsOfRound = (engines::Tag{1} << 18) - 1;
  Sabotage shared = elastic("attempts at a round share tags", kFits, {.compared = kBitsOfRound}),
           unheard = elastic("nobody is told of a loss", kEnds, {.tells_no_loss = true}), unlinked = unheard;
  shared.applies = counts;
  unheard.applies = [=](const ElasticScenario& scenario) { return !has_link_down(scenario); };
  unlinked.name = "nobody is told that a link is down";
  unlinked.applies = has_link_down;
  return {
      shared,
      unheard,
      unlinked,
      elastic("withdrawing reports too early", kUntouched, {.withdraws_at_once = true}),
      elastic("a joiner begins a round too early", kEnds, {.tamper = tell_older_round}),
      elastic("the expelled do not hear of it", kBound, {.tamper = hide_loss}),
      elastic<ForgetsToAbandon>("a void round is not abandoned", kUnchanged,
                                [](const auto& scenario) { return publishes(scenario) && !counts(scenario); }),
      elastic<KeepsWhatIsVoid>("a void attempt is kept", kCounted, counts),
      elastic<JoinsWithItsOwn>("a joiner keeps its own model", kCurrentModel, [](const auto&) { return true; }),
      elastic<CountsOneMore>("the divisor counts one more", kCounted, counts),
  };
}

}  // namespace flockstep::simulation
