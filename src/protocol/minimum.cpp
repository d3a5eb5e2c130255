#include "protocol/minimum.h"

#include <algorithm>

#include "protocol/tree.h"

namespace flockstep::protocol {
namespace {

// Rooted at the lowest worker that lives.
Tree tree_of(const Turn& turn) { return {turn.roster, turn.roster.lowest()}; }

}  // namespace

Minimum::Minimum(const Options& options, int rank)
    : rank_(rank),
      first_(options.first),
      own_(options.elastic ? kAway : options.first),
      known_(options.first),
      told_(options.first) {}

void Minimum::finished(const Turn& turn, Iteration count) {
  own_ = count;
  update(turn);
}

// A count from a tree of another shape stands for other workers. Its sender will tell again once it knows what it
// lacks.
void Minimum::on_finished(const Turn& turn, int peer, const Message& message) {
  if (!is_same(message, turn)) return;
  below_[peer] = message.number;
  update(turn);
}

void Minimum::on_minimum(const Turn& turn, const Message& message) {
  if (message.number <= known_) return;
  known_ = message.number;
  tell_below(turn);
}

void Minimum::leave(const Turn& turn) {
  own_ = kAway;
  update(turn);
}

void Minimum::come_back(const Turn& turn) {
  own_ = known_;
  is_counted_ = false;
  ask_to_be_counted(turn, rank_, {++returns_});
}

// Told upwards even where it is no news, so that the root answers.
void Minimum::ask_to_be_counted(const Turn& turn, int rank, const Ranks& time) {
  const Tree tree = tree_of(turn);
  told_ = least(turn);
  const Message answer{.kind = Message::Kind::counted, .number = known_, .root = rank, .ranks = time};
  if (const auto parent = tree.parent(rank_))
    turn.send(*parent, {.kind = Message::Kind::count_me, .number = told_, .root = rank, .ranks = time});
  else if (rank == rank_)
    on_counted(turn, answer);
  else
    turn.send(rank, answer);
}

void Minimum::on_count_me(const Turn& turn, int peer, const Message& message) {
  if (!is_same(message, turn)) return;
  below_[peer] = message.number;
  ask_to_be_counted(turn, message.root, message.ranks);
}

void Minimum::on_counted(const Turn& turn, const Message& message) {
  if (is_counted_ || message.ranks != Ranks{returns_}) return;
  is_counted_ = true;
  on_minimum(turn, message);
}

void Minimum::on_roster(const Turn& turn) {
  below_.clear();
  told_ = first_;
  tell_below(turn);
  update(turn);
  if (!is_counted_) ask_to_be_counted(turn, rank_, {returns_});
}

Iteration Minimum::least(const Turn& turn) const {
  Iteration least = own_;
  for (const int child : tree_of(turn).children(rank_)) {
    const auto told = below_.find(child);
    least = std::min(least, told == below_.end() ? first_ : told->second);
  }
  return least;
}

// Where all are away there is no minimum, and the last one known stays.
void Minimum::update(const Turn& turn) {
  const Iteration least = this->least(turn);
  if (const auto parent = tree_of(turn).parent(rank_)) {
    if (least == told_) return;
    told_ = least;
    turn.send(*parent, {.kind = Message::Kind::finished, .number = least});
  } else if (least > known_ && least != kAway) {
    known_ = least;
    tell_below(turn);
  }
}

void Minimum::tell_below(const Turn& turn) const {
  if (known_ == first_) return;
  for (const int child : tree_of(turn).children(rank_))
    turn.send(child, {.kind = Message::Kind::minimum, .number = known_});
}

}  // namespace flockstep::protocol
