#include "simulation/watched_data.h"

#include <fmt/format.h>

#include <optional>

#include "simulation/violation.h"

namespace flockstep::simulation {

template <typename... Words>
void WatchedData::tell(const char* format, const Words&... words) const {
  if (!history_) return;
  fmt::print(history_, "{:12.6f} {:3} {}\n", context_.engine().now().time_since_epoch().count(), context_.rank(),
             fmt::format(fmt::runtime(format), words...));
}

template <typename Call>
void WatchedData::set_out_in(Call call) {
  ledger_.sets_out(context_.rank(), agent_->ended() - 1, model_);
  ledger_.judges_late() ? call() : judge_in(call);
}

template <typename Call>
void WatchedData::judge_in(Call call) {
  const std::optional<math::UpdateGuard> before = guard() ? std::optional(*guard()) : std::nullopt;
  call();
  if (before) ledger_.judges(context_.rank(), *before, guard()->news());
}

void WatchedData::land_if_here() {
  if (!on_the_way()) ledger_.lands(context_.rank());
}

void WatchedData::arrive(std::span<float> values) {
  tell("arrives at {}", agent_->ended() - 1);
  set_out_in([&] { PassedOn::arrive(values); });
  ledger_.arrives(context_.rank(), model_);
  land_if_here();
}

void WatchedData::land() {
  tell("has its numbers here");
  judge_in([&] { PassedOn::land(); });
  ledger_.lands(context_.rank());
}

void WatchedData::merge(std::span<float> values, protocol::Outcome outcome) {
  tell("merges: {}", to_string(outcome));
  PassedOn::merge(values, outcome);
  ledger_.merges(context_.rank(), values, outcome);
}

void WatchedData::proceed(std::span<float> values) {
  tell("goes on");
  PassedOn::proceed(values);
  ledger_.proceeds(context_.rank(), model_);
}

void WatchedData::hand_over(std::span<float> values) {
  tell("hands {} over and goes on", agent_->ended() - 1);
  set_out_in([&] { PassedOn::hand_over(values); });
  ledger_.goes_on(context_.rank(), model_);
  land_if_here();
}

void WatchedData::freeze(std::size_t size, bool is_fresh) {
  ledger_.freezes(context_.rank(), agent_ ? agent_->ended() : 0, size, is_fresh);
  tell("begins round {} over {} numbers", ledger_.round_of(context_.rank()), size);
  PassedOn::freeze(size, is_fresh);
}

void WatchedData::settle(runtime::Range part, std::span<const float> average) {
  tell("settles numbers {} to {}", part.begin, part.end());
  ledger_.settles(context_.rank(), part, average);
  PassedOn::settle(part, average);
}

void WatchedData::complete(int members) {
  tell("completes the round of {} members", members);
  ledger_.completes(context_.rank(), members);
  PassedOn::complete(members);
}

void WatchedData::give(std::span<float> values) {
  tell("gives its model");
  PassedOn::give(values);
  ledger_.gives(context_.rank(), values);
}

void WatchedData::rejoin(std::span<float> values, bool is_adopted) {
  tell("is back with {} model", is_adopted ? "another one's" : "its own");
  PassedOn::rejoin(values, is_adopted);
  ledger_.rejoins(context_.rank(), model_, is_adopted);
}

}  // namespace flockstep::simulation
