#include "protocol/membership.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "protocol/ranks.h"

namespace flockstep::protocol {
namespace {

constexpr Iteration kEver = -1;  // before all rounds

}  // namespace

Membership::Membership(const Options& options, int rank)
    : rank_(rank), elastic_(options.elastic), first_ranks_(options.workers), ranks_{{kEver, options.workers}} {}

void Membership::join(int ranks) {
  first_ranks_ = ranks;
  ranks_ = {{kEver, ranks}};
  agreed_.clear();
  has_settled_ = false;
  records_.clear();
  inquiries_.clear();
  postponed_.clear();
  records_[rank_].changes.push_back({kEver, true});
}

int Membership::ranks_at(Iteration round) const {
  int ranks = 0;
  for (const auto& [first, many] : ranks_)
    if (first <= round) ranks = std::max(ranks, many);
  return ranks;
}

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
  for (const auto& [rank, inquiry] : inquiries_) limit = std::min(limit, inquiry.answered);
  return limit;
}

void Membership::ask(const Turn& turn, Message::Kind kind) {
  asks_ = true;
  asked_ = kind;
  if (elastic_ && kind == Message::Kind::returning) {  // who lives tells of the schedule now
    ranks_ = agreed_;
    raise(ranks_, kEver, first_ranks_);
  }
  records_[rank_].is_leaving = kind == Message::Kind::leaving;
  newest_ = std::numeric_limits<Iteration>::min();
  for (int peer = 0; peer < turn.roster.ranks(); ++peer) {
    if (peer == rank_ || !turn.roster.lives(peer)) continue;
    awaited_.push_back(peer);
    turn.send(peer, {.kind = kind});
  }
}

void Membership::on_newest(int peer, const Message& message) {
  newest_ = std::max(newest_, message.number);
  awaited_ = without(awaited_, {peer});
  on_told(peer, message.numbers);
}

void Membership::on_told(int peer, const std::vector<Iteration>& numbers) {
  const auto is_count = [](Iteration number) { return number >= 0 && number <= kMostRanks; };
  if (numbers.size() % 2 == 0 || !is_count(numbers[0])) return;
  const auto changes = static_cast<std::size_t>(numbers[0]);
  Record& record = records_[peer];
  record.changes.clear();
  std::size_t i = 1;
  for (; i + 1 < numbers.size() && i <= 2 * changes; i += 2)
    record.changes.push_back({numbers[i], numbers[i + 1] != 0});
  for (; !has_settled_ && i + 1 < numbers.size(); i += 2)
    if (is_count(numbers[i + 1])) raise(ranks_, numbers[i], static_cast<int>(numbers[i + 1]));
}

void Membership::raise(RanksFrom& ranks, Iteration first, int many) {
  int& known = ranks[first];
  known = std::max(known, many);
}

void Membership::agree(Iteration first, int many) {
  if (many <= first_ranks_) return;
  raise(ranks_, first, many);
  raise(agreed_, first, many);
}

void Membership::agree(const std::vector<Iteration>& numbers) {
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2)
    if (numbers[i + 1] <= kMostRanks) agree(numbers[i], static_cast<int>(numbers[i + 1]));
}

// Only what this worker goes by itself.
std::vector<Iteration> Membership::told() const {
  std::vector<Iteration> numbers{0};
  if (const auto own = records_.find(rank_); own != records_.end())
    for (const Change& change : own->second.changes) {
      ++numbers[0];
      numbers.insert(numbers.end(), {change.first, change.is_away});
    }
  if (has_settled_)
    for (const auto& [first, ranks] : ranks_) numbers.insert(numbers.end(), {first, ranks});
  return numbers;
}

void Membership::note(int rank, Iteration first, bool is_away) {
  records_[rank].changes.push_back({first, is_away});
  if (!is_away && rank >= ranks_at(first)) ranks_[first] = rank + 1;
}

Iteration Membership::settle(const Turn& turn, Iteration newest) {
  const bool leaves = asked_ == Message::Kind::leaving;
  const Iteration first = std::max(newest_, newest) + 1;
  asks_ = false;
  has_settled_ = true;
  note(rank_, first, leaves);
  records_[rank_].is_leaving = false;
  // What of the schedule this worker has heard may be the word of one who is lost by now: so it tells what it goes by.
  Message message{.kind = leaves ? Message::Kind::away : Message::Kind::back, .number = first};
  if (elastic_ && !leaves) {
    const int ranks = ranks_at(first);
    message.root = ranks - 1;
    ranks_.erase(ranks_.begin(), ranks_.upper_bound(first));
    ranks_[kEver] = first_ranks_;
    agree(first, ranks);
    for (const auto& [later, many] : ranks_)  // also what one who is lost has told this worker alone
      if (later > first) message.numbers.insert(message.numbers.end(), {later, many});
    agree(message.numbers);
  }
  for (int peer = 0; peer < turn.roster.ranks(); ++peer)
    if (peer != rank_ && turn.roster.lives(peer)) turn.send(peer, message);
  return first;
}

// As one who comes back is away already, to say so changes nothing.
void Membership::give_up(const Turn& turn) {
  asks_ = false;
  awaited_.clear();
  for (int peer = 0; peer < turn.roster.ranks(); ++peer)
    if (peer != rank_ && turn.roster.lives(peer))
      turn.send(peer, {.kind = Message::Kind::away, .number = std::max(newest_, kEver)});
}

void Membership::on_asked(const Turn& turn, int peer, const Message& message, Iteration newest) {
  if (!turn.roster.lives(peer)) return;  // word of its end came first
  if (!inquiries_.empty()) {
    postponed_[peer] = message;
    return;
  }
  Record& record = records_[peer];
  record.answered = newest;
  record.is_leaving = message.kind == Message::Kind::leaving;
  turn.send(peer,
            {.kind = Message::Kind::newest, .number = newest, .numbers = elastic_ ? told() : std::vector<Iteration>()});
}

void Membership::answer_postponed(const Turn& turn, Iteration newest) {
  if (!inquiries_.empty()) return;
  for (const auto& [peer, message] : std::exchange(postponed_, {})) on_asked(turn, peer, message, newest);
}

void Membership::on_settled(int peer, const Message& message) {
  note(peer, message.number, message.kind == Message::Kind::away);
  if (elastic_ && message.kind == Message::Kind::back) {
    agree(message.number, message.root + 1);
    agree(message.numbers);
  }
  postponed_.erase(peer);  // who gives up does not wait for an answer
  Record& record = records_[peer];
  record.answered.reset();
  record.is_leaving = false;
}

// The lost are left out of everything, whatever they have asked for.
void Membership::on_roster(const Turn& turn) {
  awaited_ = without(awaited_, turn.roster.lost());
  std::erase_if(postponed_, [&](const auto& question) { return !turn.roster.lives(question.first); });
  for (auto& [rank, inquiry] : inquiries_) inquiry.awaited = without(inquiry.awaited, turn.roster.lost());
  for (auto& [rank, record] : records_)
    if (!turn.roster.lives(rank) && record.answered) inquire(turn, rank, *std::exchange(record.answered, std::nullopt));
  std::erase_if(inquiries_, [](const auto& inquiry) { return inquiry.second.awaited.empty(); });
}

void Membership::inquire(const Turn& turn, int rank, Iteration answered) {
  if (!elastic_) return;
  Inquiry& inquiry = inquiries_.try_emplace(rank, Inquiry{0, answered, {}}).first->second;
  inquiry.number = ++inquired_;
  inquiry.answered = std::min(inquiry.answered, answered);
  for (int peer = 0; peer < turn.roster.ranks(); ++peer) {
    if (peer == rank_ || !turn.roster.lives(peer)) continue;
    inquiry.awaited = united(inquiry.awaited, {peer});
    turn.send(peer, {.kind = Message::Kind::asking, .number = inquiry.number, .root = rank});
  }
}

void Membership::on_asking(const Turn& turn, int peer, const Message& message) const {
  Message answer{.kind = Message::Kind::grown, .number = message.number, .root = message.root};
  for (const auto& [first, ranks] : agreed_) answer.numbers.insert(answer.numbers.end(), {first, ranks});
  turn.send(peer, answer);
}

void Membership::on_grown(int peer, const Message& message) {
  const auto found = inquiries_.find(message.root);
  if (found == inquiries_.end() || found->second.number != message.number) return;
  agree(message.numbers);
  found->second.awaited = without(found->second.awaited, {peer});
  if (found->second.awaited.empty()) inquiries_.erase(found);
}

// Whoever asks needs its answer, too.
void Membership::on_added(const Turn& turn, int rank) {
  postponed_.erase(rank);
  records_[rank] = {};
  records_[rank].changes.push_back({kEver, true});
  if (!asks_) return;
  awaited_ = united(awaited_, {rank});
  turn.send(rank, {.kind = asked_});
}

void Membership::forget_before(Iteration round) {
  for (auto& [rank, record] : records_)
    while (record.changes.size() > 1 && record.changes[1].first <= round) record.changes.erase(record.changes.begin());
  forget_before(ranks_, round);
  forget_before(agreed_, round);
}

void Membership::forget_before(RanksFrom& ranks, Iteration round) {
  while (ranks.size() > 1 && std::next(ranks.begin())->first <= round) {
    const int many = ranks.begin()->second;
    ranks.erase(ranks.begin());
    ranks.begin()->second = std::max(ranks.begin()->second, many);
  }
}

}  // namespace flockstep::protocol
