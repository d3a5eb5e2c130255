#include "protocol/activator.h"

#include <algorithm>
#include <optional>

#include "base/random.h"
#include "protocol/membership.h"
#include "protocol/ranks.h"
#include "protocol/tree.h"

namespace flockstep::protocol {
namespace {

constexpr std::size_t kRememberedArrivals = 64;

}  // namespace

Activator::Activator(const Options& options, int rank)
    : options_(options), rank_(rank), newest_(options.first - 1), own_(newest_), oldest_(options.first) {}

int Activator::root_of(Iteration round) const {
  const auto found = roots_.find(round);
  return found == roots_.end() ? -1 : found->second;
}

bool Activator::is_counted() const {
  return options_.activation != Activation::first && options_.activation != Activation::appointed;
}

Ranks Activator::missing_at(const Turn& turn, Iteration round) const {
  return united(turn.roster.lost(), turn.attendance.missing_at(round));
}

// Asked for by one who arrives, and so is not missing itself.
int Activator::present_from(const Turn& turn, Iteration round, int rank) const {
  const Ranks missing = missing_at(turn, round);
  while (contains(missing, rank)) rank = (rank + 1) % turn.roster.ranks();
  return rank;
}

int Activator::counter_of(const Turn& turn, Iteration round) const {
  return present_from(turn, round, static_cast<int>(round % turn.roster.ranks()));
}

int Activator::appointed_for(const Turn& turn, Iteration round) const {
  base::Random random(options_.seed, base::Purpose::appointment, 0, static_cast<std::uint32_t>(round));
  return present_from(turn, round, static_cast<int>(random.below(static_cast<std::uint32_t>(turn.roster.ranks()))));
}

// With deadlines late arrivals are told too: they are what the deadline is learned from.
void Activator::arrived(const Turn& turn, Iteration round) {
  own_ = round;
  const bool is_open = round > newest_;
  if (is_counted()) {
    if (!is_open && options_.activation != Activation::deadline) return;
    const int counter = counter_of(turn, round);
    if (counter == rank_)
      count(turn, round, rank_);
    else
      turn.send(counter, {.kind = Message::Kind::arrived, .number = round});
  } else if (is_open && (options_.activation == Activation::first || appointed_for(turn, round) == rank_)) {
    activate(turn, round, rank_);
  }
}

void Activator::on_arrived(const Turn& turn, int peer, const Message& message) { count(turn, message.number, peer); }

void Activator::count(const Turn& turn, Iteration round, int rank) {
  if (round < oldest_ || (round <= newest_ && options_.activation != Activation::deadline)) return;
  auto [entry, is_first] = arrivals_.try_emplace(round, Arrivals{{}, turn.now});
  Arrivals& arrivals = entry->second;
  if (contains(arrivals.ranks, rank)) return;
  arrivals.ranks = united(arrivals.ranks, {rank});
  if (!is_first) {
    lateness_.push_back(turn.now - arrivals.first);
    if (lateness_.size() > kRememberedArrivals) lateness_.pop_front();
  }
  decide(turn, round);
}

// Nothing before anything was learned.
std::optional<base::Duration> Activator::patience() const {
  if (options_.deadline.count() > 0) return options_.deadline;
  if (lateness_.empty()) return std::nullopt;
  std::vector<base::Duration> sorted(lateness_.begin(), lateness_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return 2 * *middle;
}

void Activator::decide(const Turn& turn, Iteration round) {
  if (round <= newest_) return;
  const Arrivals& arrivals = arrivals_.at(round);
  const Ranks missing = missing_at(turn, round);
  const int there = static_cast<int>(without(arrivals.ranks, missing).size()),
            all = std::max(1, turn.roster.ranks() - static_cast<int>(missing.size()));
  int needed = std::max(1, all / 2);
  if (options_.activation == Activation::quorum) needed = std::min(options_.quorum, all);
  if (options_.activation == Activation::deadline) {
    if (const auto patience = this->patience()) {
      const base::Time end = arrivals.first + *patience;
      needed = turn.now >= end ? 1 : all;
      // Once it is over, the next arrival decides: all that are there may be lost.
      if (there < needed && turn.now < end) turn.actions.push_back(WakeAt{end});
    }
  }
  if (there >= needed) activate(turn, round, rank_);
}

void Activator::decide_all(const Turn& turn) {
  std::vector<Iteration> open;
  for (const auto& [round, arrivals] : arrivals_)
    if (round > newest_) open.push_back(round);
  for (const Iteration round : open) decide(turn, round);
}

void Activator::on_tick(const Turn& turn) {
  if (options_.activation == Activation::deadline) decide_all(turn);
}

void Activator::activate(const Turn& turn, Iteration round, int root) {
  const auto [entry, is_new] = roots_.try_emplace(round, root);
  if (!is_new && entry->second <= root) return;
  entry->second = root;
  newest_ = std::max(newest_, round);
  for (const int child : Tree(turn.roster, root).children(rank_))
    turn.send(child, {.kind = Message::Kind::activate, .number = round, .root = root});
}

// Who sent it may not know yet of a loss that is known here. Its tree then has a hole, so this member makes one of its
// own.
void Activator::on_activate(const Turn& turn, const Message& message) {
  if (message.number < oldest_) return;
  activate(turn, message.number, is_same(message, turn) ? message.root : rank_);
}

// Trees that were being handed on may end at a lost worker, which may have been the one who counts; and one who has
// come knows nothing. So everybody says again what it knows and wants.
void Activator::on_roster(const Turn& turn) {
  for (auto& [round, arrivals] : arrivals_) arrivals.ranks = without(arrivals.ranks, turn.roster.lost());
  roots_.clear();
  if (newest_ >= oldest_) activate(turn, newest_, rank_);
  if (own_ > newest_) arrived(turn, own_);
  decide_all(turn);
}

// The one who counts may be another one, and need fewer.
void Activator::on_attendance(const Turn& turn) {
  if (own_ > newest_) arrived(turn, own_);
  decide_all(turn);
}

void Activator::forget_before(Iteration round) {
  oldest_ = std::max(oldest_, round);
  roots_.erase(roots_.begin(), roots_.lower_bound(oldest_));
  arrivals_.erase(arrivals_.begin(), arrivals_.lower_bound(oldest_));
}

}  // namespace flockstep::protocol
