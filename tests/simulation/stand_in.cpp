#include "simulation/stand_in.h"

#include <algorithm>

#include "protocol/ranks.h"

namespace flockstep::simulation {

using protocol::Phase;

void Piece::add(const Piece& other) {
  more |= other.more | (once & other.once);
  once |= other.once;
  origin += other.origin;
}

StandIn::StandIn(const Scenario& scenario, int rank)
    : workers_(scenario.options.workers),
      rank_(rank),
      chunks_(scenario.options.chunks),
      version_(scenario.options.first - 1),
      merged_(version_),
      begun_(scenario.options.first),
      executed_(version_),
      direct_(scenario.options.direct),
      pieces_(static_cast<std::size_t>(workers_ * chunks_)),
      row_sums_(pieces_.size()) {}

Contribution StandIn::freeze(const protocol::Freeze& freeze, const protocol::Ranks& group, std::size_t contribution) {
  Flight flight{
      freeze.round, freeze.members, {}, contribution, protocol::Grid(static_cast<int>(freeze.members.size()), direct_)};
  std::ranges::set_difference(group, freeze.members, std::back_inserter(flight.absent));
  flight.left_out = flight.absent;
  for (int chunk = 0; chunk < chunks_; ++chunk)
    for (const int owner : freeze.members) pieces_[index_of(chunk, owner)] = {bit(rank_), 0, mark_of(contribution)};
  flight_ = std::move(flight);
  return {rank_, freeze.round, version_, set_of(freeze.members)};
}

void StandIn::leave_out(Iteration round, const protocol::Ranks& ranks) {
  if (flight_ && flight_->round == round) flight_->left_out = ranks;
}

int StandIn::place_of(int member) const { return protocol::index_of(flight_->members, member); }

bool StandIn::is_in_row(int member) const {
  return flight_->grid.row_of(place_of(member)) == flight_->grid.row_of(place_of(rank_));
}

protocol::Ranks StandIn::column_of(int member) const {
  const protocol::Grid& grid = flight_->grid;
  protocol::Ranks owners;
  for (int row = 0; row < grid.rows(); ++row)
    owners.push_back(flight_->members[static_cast<std::size_t>(grid.holder(row, grid.place_in_row(place_of(member))))]);
  return owners;
}

protocol::Ranks StandIn::averaged_by(int member) const {
  return is_in_row(member) ? column_of(member) : protocol::Ranks{member};
}

// Without a round that it belongs to, a part carries nothing that anybody can use.
Pieces StandIn::read(int peer, const protocol::Part& part) const {
  if (!flight_ || !std::ranges::binary_search(flight_->members, peer)) return {};
  if (part.phase == Phase::reduce && !is_in_row(peer)) return {row_sum(part.chunk, peer)};
  Pieces pieces;
  const bool is_own_column = part.phase == Phase::gather && is_in_row(peer);
  const protocol::Ranks owners = part.phase == Phase::reduce ? column_of(peer)
                                 : is_own_column             ? column_of(rank_)
                                                             : protocol::Ranks{rank_};
  for (const int owner : owners) pieces.push_back(piece(part.chunk, owner));
  return pieces;
}

void StandIn::receive(int peer, const protocol::Part& part, const Pieces& pieces) {
  if (part.round > executed_) staged_.push_back({peer, part, pieces});
}

const Pieces* StandIn::find_staged(int peer, Phase phase, int chunk) const {
  for (const Staged& staged : staged_)
    if (staged.peer == peer && staged.part.chunk == chunk && staged.part.phase == phase &&
        staged.part.round == flight_->round && staged.part.absent == flight_->absent)
      return &staged.pieces;
  return nullptr;
}

// What another member has sent to be summed, if anything: the piece of that number.
Piece StandIn::contribution_of(int member, int chunk, std::size_t number) const {
  const Pieces* staged = find_staged(member, Phase::reduce, chunk);
  return staged && number < staged->size() ? (*staged)[number] : Piece{};
}

void StandIn::add_row(int chunk) {
  if (!flight_) return;
  const int row = flight_->grid.row_of(place_of(rank_)), begin = flight_->grid.row_begin(row),
            end = begin + flight_->grid.row_size(row);
  const protocol::Ranks owners = column_of(rank_);
  for (std::size_t number = 0; number < owners.size(); ++number) {
    Piece total;
    for (int place = begin; place < end; ++place) {
      const int member = flight_->members[static_cast<std::size_t>(place)];
      total.add(member == rank_ ? piece(chunk, owners[number]) : contribution_of(member, chunk, number));
    }
    row_sums_[index_of(chunk, owners[number])] = total;
  }
}

void StandIn::sum(int chunk) {
  if (!flight_) return;
  if (flight_->grid.rows() == 1) {
    add_row(chunk);
    pieces_[index_of(chunk, rank_)] = row_sum(chunk, rank_);
    return;
  }
  Piece total;
  for (const int holder : column_of(rank_))
    total.add(holder == rank_ ? row_sum(chunk, rank_) : contribution_of(holder, chunk, 0));
  pieces_[index_of(chunk, rank_)] = total;
}

void StandIn::place(int peer, int chunk) {
  if (!flight_) return;
  const Pieces* staged = find_staged(peer, Phase::gather, chunk);
  if (!staged) return;
  const protocol::Ranks owners = averaged_by(peer);
  for (std::size_t number = 0; number < std::min(owners.size(), staged->size()); ++number)
    pieces_[index_of(chunk, owners[number])] = (*staged)[number];
}

void StandIn::complete(const protocol::Complete& complete) {
  executed_ = complete.round;
  std::erase_if(staged_, [&](const Staged& staged) { return staged.part.round <= executed_; });
  flight_.reset();
}

}  // namespace flockstep::simulation
