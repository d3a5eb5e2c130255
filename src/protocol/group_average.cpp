#include "protocol/group_average.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {

GroupAverage::GroupAverage(Iteration round, Ranks members, Ranks absent, int rank, const Options& options)
    : round_(round),
      members_(std::move(members)),
      absent_(std::move(absent)),
      chunks_(options.chunks),
      window_(options.window),
      grid_(static_cast<int>(members_.size()), options.direct),
      own_(index_of(members_, rank)),
      holds_column_(grid_.holds_column(own_)) {
  const int row = grid_.row_of(own_), place = grid_.place_in_row(own_), length = grid_.row_size(row);
  const auto add = [this](int index, bool is_in_row) {
    neighbours_.push_back({members_[static_cast<std::size_t>(index)], is_in_row, grid_.holds_column(index)});
  };
  for (int step = 1; step < length; ++step) add(grid_.row_begin(row) + (place + step) % length, true);
  if (!holds_column_) return;
  for (int step = 1; step < grid_.rows(); ++step) add(grid_.holder((row + step) % grid_.rows(), place), false);
}

// Where the constructor has put it.
std::size_t GroupAverage::neighbour_of(int peer) const {
  const int theirs = index_of(members_, peer), row = grid_.row_of(own_), their_row = grid_.row_of(theirs),
            length = grid_.row_size(row), rows = grid_.rows();
  const int place =
      their_row == row ? (theirs - own_ + length) % length - 1 : length - 1 + (their_row - row + rows) % rows - 1;
  const auto found = static_cast<std::size_t>(place);
  base::check(found < neighbours_.size() && neighbours_[found].rank == peer, "parts from one's row and column");
  return found;
}

void GroupAverage::begin(std::vector<Action>& actions) {
  if (members_.size() == 1) {
    for (int number = 0; number < chunks_; ++number) actions.push_back(Sum{number});
    finished_ = chunks_;
    return;
  }
  for (int number = 0; number < std::min(window_, chunks_); ++number) begin_chunk(actions, number);
}

void GroupAverage::expect(std::vector<Action>& actions, const Neighbour& from, Phase phase, int number) const {
  actions.push_back(ExpectPart{from.rank, {round_, phase, number, absent_}});
}

void GroupAverage::send(std::vector<Action>& actions, const Neighbour& to, Phase phase, int number) const {
  actions.push_back(SendPart{to.rank, {round_, phase, number, absent_}});
}

void GroupAverage::begin_chunk(std::vector<Action>& actions, int number) {
  const int rows = grid_.rows(), in_row = grid_.row_size(grid_.row_of(own_)) - 1;
  int left = 0;
  for (const Neighbour& neighbour : neighbours_) left += (holds_column_ ? 1 : 0) + (neighbour.holds_column ? 2 : 0);
  under_way_[number] = {.exchanges = std::vector<PeerChunk>(neighbours_.size()),
                        .row_missing = in_row,
                        .column_missing = rows - 1,
                        .pieces_missing = rows,
                        .left = left,
                        .is_added = !holds_column_};
  if (holds_column_)
    for (const Neighbour& neighbour : neighbours_) expect(actions, neighbour, Phase::reduce, number);
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.is_in_row && neighbour.holds_column) send(actions, neighbour, Phase::reduce, number);
  if (!holds_column_)
    for (const Neighbour& neighbour : neighbours_)
      if (neighbour.holds_column) expect(actions, neighbour, Phase::gather, number);
  const auto early = std::exchange(early_, {});
  for (const auto& [peer, part] : early) received(actions, peer, part);
}

void GroupAverage::received(std::vector<Action>& actions, int peer, const Part& part) {
  if (abandoned_) return;
  const auto found = under_way_.find(part.chunk);
  if (found == under_way_.end()) {
    early_.emplace_back(peer, part);
    return;
  }
  Chunk& chunk = found->second;
  const std::size_t neighbour = neighbour_of(peer);
  PeerChunk& theirs = chunk.exchanges[neighbour];
  bool& seen = part.phase == Phase::reduce ? theirs.reduce_received : theirs.gather_received;
  base::check(!std::exchange(seen, true), "every part once");
  if (part.phase == Phase::gather) {
    place_if_ready(actions, part.chunk, chunk, neighbour);
  } else if (neighbours_[neighbour].is_in_row) {
    if (--chunk.row_missing == 0) add_row(actions, part.chunk, chunk);
  } else {
    if (--chunk.column_missing == 0 && chunk.is_added) average_piece(actions, part.chunk, chunk);
  }
  end_chunk_if_over(actions, part.chunk);
}

// What is gathered is expected only now: it may lie where contributions lay.
void GroupAverage::add_row(std::vector<Action>& actions, int number, Chunk& chunk) {
  const bool is_all = grid_.rows() == 1;
  chunk.is_added = true;
  actions.push_back(is_all ? Action(Sum{number}) : Action(AddRow{number}));
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.holds_column) expect(actions, neighbour, Phase::gather, number);
  for (const Neighbour& neighbour : neighbours_)
    if (!neighbour.is_in_row) send(actions, neighbour, Phase::reduce, number);
  if (is_all)
    piece_is_averaged(actions, number, chunk);
  else if (chunk.column_missing == 0)
    average_piece(actions, number, chunk);
  for (std::size_t neighbour = 0; neighbour < neighbours_.size(); ++neighbour)
    place_if_ready(actions, number, chunk, neighbour);
}

void GroupAverage::average_piece(std::vector<Action>& actions, int number, Chunk& chunk) {
  actions.push_back(Sum{number});
  for (const Neighbour& neighbour : neighbours_)
    if (!neighbour.is_in_row) send(actions, neighbour, Phase::gather, number);
  piece_is_averaged(actions, number, chunk);
}

// The last one makes the column whole, for the row.
void GroupAverage::piece_is_averaged(std::vector<Action>& actions, int number, Chunk& chunk) {
  if (--chunk.pieces_missing > 0) return;
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.is_in_row) send(actions, neighbour, Phase::gather, number);
}

void GroupAverage::sent(std::vector<Action>& actions, int peer, const Part& part) {
  if (abandoned_) return;
  Chunk& chunk = under_way_.at(part.chunk);
  --chunk.left;
  if (part.phase == Phase::reduce) {
    const std::size_t neighbour = neighbour_of(peer);
    chunk.exchanges[neighbour].reduce_sent = true;
    place_if_ready(actions, part.chunk, chunk, neighbour);
  }
  end_chunk_if_over(actions, part.chunk);
}

void GroupAverage::place_if_ready(std::vector<Action>& actions, int number, Chunk& chunk, std::size_t neighbour) {
  PeerChunk& theirs = chunk.exchanges[neighbour];
  if (!chunk.is_added || !theirs.gather_received || !theirs.reduce_sent || theirs.is_placed) return;
  theirs.is_placed = true;
  --chunk.left;
  actions.push_back(Place{neighbours_[neighbour].rank, number});
  if (!neighbours_[neighbour].is_in_row) piece_is_averaged(actions, number, chunk);
}

void GroupAverage::end_chunk_if_over(std::vector<Action>& actions, int number) {
  if (under_way_.at(number).left > 0) return;
  under_way_.erase(number);
  ++finished_;
  if (number + window_ < chunks_) begin_chunk(actions, number + window_);
}

}  // namespace flockstep::protocol
