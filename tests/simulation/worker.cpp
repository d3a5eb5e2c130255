#include "simulation/worker.h"

#include <algorithm>

namespace flockstep::simulation {

using protocol::Outcome;
using protocol::Phase;

void Piece::add(const Piece& other) {
  value += other.value;
  more |= other.more | (once & other.once);
  once |= other.once;
  origin += other.origin;
}

Worker::Worker(const Scenario& scenario, int rank, const Model& initial, Flaw flaw)
    : workers_(scenario.options.workers),
      rank_(rank),
      chunks_(scenario.options.chunks),
      merging_(scenario.merging),
      flaw_(flaw),
      model_(initial),
      shared_(initial),
      version_(scenario.options.first - 1),
      merged_(version_),
      begun_(scenario.options.first),
      executed_(version_),
      pieces_(static_cast<std::size_t>(workers_ * chunks_)) {}

void Worker::arrive(Iteration iteration, const Model& update) {
  update_ = update;
  version_ = iteration;
  if (merging_ == Merging::published) shared_ = model_;
  for (std::size_t k = 0; k < kMaxChunks; ++k) shared_[k] += update[k];
}

void Worker::merge(const protocol::Merge& merge) {
  merged_ = merge.iteration;
  if (merging_ == Merging::additive) return;
  const double members = mean_members_;
  switch (merge.outcome) {
    case Outcome::synchronised:
    case Outcome::fresh: model_ = mean_; break;
    case Outcome::stale_in_flight:
    case Outcome::stale_behind:
      for (std::size_t k = 0; k < kMaxChunks; ++k) model_[k] = (members * mean_[k] + shared_[k]) / (members + 1);
      break;
    case Outcome::alone: model_ = shared_; break;
  }
}

void Worker::proceed(const protocol::Proceed& proceed) {
  begun_ = proceed.iteration;
  if (merging_ == Merging::additive) model_ = shared_;
}

void Worker::adopt(const Model& model) { model_ = shared_ = model; }

// With its own model if there was none to adopt.
void Worker::rejoin(const protocol::Rejoin& rejoin) {
  if (merging_ == Merging::additive)
    model_ = shared_;
  else
    shared_ = model_;
  version_ = merged_ = executed_ = begun_ = rejoin.iteration - 1;
}

Contribution Worker::freeze(const protocol::Freeze& freeze, const protocol::Ranks& group, std::size_t contribution) {
  Flight flight{freeze.round, freeze.members, {}, contribution};
  std::ranges::set_difference(group, freeze.members, std::back_inserter(flight.absent));
  flight.left_out = flight.absent;
  frozen_ = shared_;
  for (int chunk = 0; chunk < chunks_; ++chunk)
    for (const int owner : freeze.members)
      pieces_[index_of(chunk, owner)] = {frozen_[static_cast<std::size_t>(chunk)], bit(rank_), 0,
                                         mark_of(contribution)};
  flight_ = std::move(flight);
  return {rank_, freeze.round, version_, set_of(freeze.members), frozen_};
}

void Worker::leave_out(Iteration round, const protocol::Ranks& ranks) {
  if (flight_ && flight_->round == round) flight_->left_out = ranks;
}

Piece Worker::read(int peer, const protocol::Part& part) const {
  return piece(part.chunk, part.phase == Phase::reduce ? peer : rank_);
}

void Worker::receive(int peer, const protocol::Part& part, const Piece& piece) {
  if (part.round > executed_) staged_.push_back({peer, part, piece});
}

const Piece* Worker::find_staged(int peer, Phase phase, int chunk) const {
  for (const Staged& staged : staged_)
    if (staged.peer == peer && staged.part.chunk == chunk && staged.part.phase == phase &&
        staged.part.round == flight_->round && staged.part.absent == flight_->absent)
      return &staged.piece;
  return nullptr;
}

// In the order of ranks, so that all parts of a chunk get the same bits.
void Worker::sum(int chunk) {
  if (!flight_) return;
  Piece total;
  for (const int member : flight_->members) {
    if (flaw_ == Flaw::last_member_not_summed && member != rank_ && member == flight_->members.back()) continue;
    if (member == rank_)
      total.add(piece(chunk, rank_));
    else if (const Piece* staged = find_staged(member, Phase::reduce, chunk))
      total.add(*staged);
  }
  pieces_[index_of(chunk, rank_)] = total;
}

void Worker::place(int peer, int chunk) {
  if (!flight_) return;
  if (const Piece* staged = find_staged(peer, Phase::gather, chunk)) pieces_[index_of(chunk, peer)] = *staged;
}

void Worker::complete(const protocol::Complete& complete) {
  executed_ = complete.round;
  mean_members_ = complete.members;
  const int owner = flight_ ? flight_->members.front() : rank_;
  for (std::size_t k = 0; k < static_cast<std::size_t>(chunks_); ++k)
    mean_[k] = piece(static_cast<int>(k), owner).value / complete.members;
  std::erase_if(staged_, [&](const Staged& staged) { return staged.part.round <= executed_; });
  flight_.reset();
  if (complete.is_synchronisation) {
    if (flaw_ != Flaw::synchronised_not_published) shared_ = mean_;
  } else if (merging_ == Merging::additive) {
    const int times = flaw_ == Flaw::correction_twice ? 2 : 1;
    for (int i = 0; i < times; ++i)
      for (std::size_t k = 0; k < static_cast<std::size_t>(chunks_); ++k) shared_[k] += mean_[k] - frozen_[k];
  }
}

}  // namespace flockstep::simulation
