#include "protocol/membership.h"

#include <algorithm>
#include <limits>

#include "protocol/ranks.h"

namespace flockstep::protocol {

Membership::Membership(const Options& options, int rank) : workers_(options.workers), rank_(rank) {}

bool Membership::is_away_at(const Record& record, Iteration round) {
  bool is_away = false;
  for (const Change& change : record.changes)
    if (change.first <= round) is_away = change.is_away;
  return is_away;
}

bool Membership::takes_part(int rank, Iteration round) const {
  const auto found = records_.find(rank);
  return found == records_.end() || !is_away_at(found->second, round);
}

Ranks Membership::away_at(Iteration round) const {
  Ranks away;
  for (const auto& [rank, record] : records_)
    if (is_away_at(record, round)) away.push_back(rank);
  return away;
}

Ranks Membership::missing_at(Iteration round) const {
  Ranks missing;
  for (const auto& [rank, record] : records_)
    if (record.is_leaving || is_away_at(record, round)) missing.push_back(rank);
  return missing;
}

Iteration Membership::limit() const {
  Iteration limit = std::numeric_limits<Iteration>::max();
  for (const auto& [rank, record] : records_)
    if (record.answered) limit = std::min(limit, *record.answered);
  return limit;
}

void Membership::ask(const Turn& turn, Message::Kind kind) {
  asked_ = kind;
  records_[rank_].is_leaving = kind == Message::Kind::leaving;
  newest_ = std::numeric_limits<Iteration>::min();
  for (int peer = 0; peer < workers_; ++peer) {
    if (peer == rank_ || contains(turn.lost, peer)) continue;
    awaited_.push_back(peer);
    turn.send(peer, {.kind = kind});
  }
}

void Membership::on_newest(int peer, const Message& message) {
  newest_ = std::max(newest_, message.number);
  awaited_ = without(awaited_, {peer});
}

Iteration Membership::settle(const Turn& turn, Iteration newest) {
  const bool leaves = asked_ == Message::Kind::leaving;
  const Iteration first = std::max(newest_, newest) + 1;
  Record& own = records_[rank_];
  own.changes.push_back({first, leaves});
  own.is_leaving = false;
  for (int peer = 0; peer < workers_; ++peer)
    if (peer != rank_ && !contains(turn.lost, peer))
      turn.send(peer, {.kind = leaves ? Message::Kind::away : Message::Kind::back, .number = first});
  return first;
}

void Membership::on_asked(const Turn& turn, int peer, const Message& message, Iteration newest) {
  if (contains(turn.lost, peer)) return;  // word of its end came first
  Record& record = records_[peer];
  record.answered = newest;
  record.is_leaving = message.kind == Message::Kind::leaving;
  turn.send(peer, {.kind = Message::Kind::newest, .number = newest});
}

void Membership::on_settled(int peer, const Message& message) {
  Record& record = records_[peer];
  record.changes.push_back({message.number, message.kind == Message::Kind::away});
  record.answered.reset();
  record.is_leaving = false;
}

// The lost are left out of everything, whatever they have asked for.
void Membership::on_lost(const Turn& turn) {
  awaited_ = without(awaited_, turn.lost);
  for (auto& [rank, record] : records_)
    if (contains(turn.lost, rank)) record.answered.reset();
}

void Membership::forget_before(Iteration round) {
  for (auto& [rank, record] : records_)
    while (record.changes.size() > 1 && record.changes[1].first <= round) record.changes.erase(record.changes.begin());
}

}  // namespace flockstep::protocol
