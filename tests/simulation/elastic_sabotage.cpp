// Ways of breaking what workers that come and go rely on.
#include <algorithm>
#include <cstring>

#include "simulation/sabotage.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using protocol::Message;

// ---- words that are changed on their way, or lost, though the connection holds ----

using Tamper = std::function<bool(int, int, std::vector<std::byte>&)>;

constexpr std::size_t kPrefix = 4;  // of an agent's messages

// `change` returns whether the message is sent at all.
Tamper tampering(std::function<bool(int to, Message& message)> change) {
  return [change = std::move(change)](int, int to, std::vector<std::byte>& payload) {
    Message message = protocol::message_from_bytes(std::span(payload).subspan(kPrefix), protocol::kMostRanks);
    if (!change(to, message)) return false;
    const std::vector<std::byte> bytes = protocol::to_bytes(message);
    payload.resize(kPrefix);
    payload.insert(payload.end(), bytes.begin(), bytes.end());
    return true;
  };
}

Tamper dropping(Message::Kind kind) {
  return tampering([kind](int, const Message& message) { return message.kind != kind; });
}

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

bool leave_out_nobody(int, Message& message) {
  if (message.kind == Message::Kind::absent) message.ranks.clear();
  return true;
}

// ---- rounds that call the data wrongly ----

struct ForgetsToAbandon final : PassedOn {
  using PassedOn::PassedOn;
  void abandon() override {}
};

struct JoinsWithItsOwn final : PassedOn {
  using PassedOn::PassedOn;
  void rejoin(std::span<float> values, bool) override { data_.rejoin(values, false); }
};

struct CountsOneLost final : PassedOn {
  using PassedOn::PassedOn;
  void complete(int members) override { data_.complete(members + 1); }
};

struct KeepsWhatIsVoid final : PassedOn {
  using PassedOn::PassedOn;
  void freeze(std::size_t size, bool is_fresh) override {
    if (!std::exchange(is_void_, false)) data_.freeze(size, is_fresh);
  }
  void abandon() override { is_void_ = true; }
  bool is_void_ = false;
};

template <typename T>
ElasticRun::Wrap wrapped_as() {
  return [](runtime::RoundData& data) { return std::make_unique<T>(data); };
}

}  // namespace

std::vector<ElasticSabotage> elastic_sabotages() {
  const auto counts = [](const ElasticScenario& scenario) { return scenario.counts_models; };
  const auto publishes = [](const ElasticScenario& scenario) {
    return !scenario.counts_models && scenario.base.merging == Merging::published;
  };
  const auto has_link_down = [](const ElasticScenario& scenario) {
    return std::ranges::any_of(scenario.breaks, [](const Break& its) { return its.kind == Break::Kind::link; });
  };
  const auto has_no_link_down = [=](const ElasticScenario& scenario) { return !has_link_down(scenario); };
  return {
      // engines
      {"attempts at a round share tags", property::kFits, {.attempts_share_tags = true}, {}, counts},
      {"withdrawing reports too early", property::kUntouched, {.withdraws_at_once = true}},
      {"nobody is told of a loss", property::kEnds, {.tells_no_loss = true}, {}, has_no_link_down},
      {"nobody is told that a link is down", property::kEnds, {.tells_no_loss = true}, {}, has_link_down},
      // words
      {"a joiner begins a round too early", property::kEnds, {.tamper = tampering(tell_older_round)}},
      {"the expelled do not hear of it", property::kBound, {.tamper = tampering(hide_loss)}},
      {"nobody says who takes no part", property::kEnds, {.tamper = dropping(Message::Kind::absent)}},
      {"what is said of absent ones is lost", property::kEnds, {.tamper = tampering(leave_out_nobody)}},
      {"nobody says that it has the last average", property::kEnds, {.tamper = dropping(Message::Kind::completed)}},
      {"an answer about growth is lost", property::kEnds, {.tamper = dropping(Message::Kind::grown)}},
      // data
      {"a void round is not abandoned", property::kUnchanged, {}, wrapped_as<ForgetsToAbandon>(), publishes},
      {"a void attempt is kept", property::kCounted, {}, wrapped_as<KeepsWhatIsVoid>(), counts},
      {"a joiner keeps its own model", property::kCurrentModel, {}, wrapped_as<JoinsWithItsOwn>()},
      {"the divisor counts one more", property::kCounted, {}, wrapped_as<CountsOneLost>(), counts},
  };
}

}  // namespace flockstep::simulation
