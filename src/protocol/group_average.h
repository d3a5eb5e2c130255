// One attempt at averaging inside a group: a reduce-scatter and an all-gather, chunk by chunk, a few chunks under way.
//
// The members stand in a Grid. Of each chunk every member sends the holders of its row their columns (reduce); each
// holder adds up what it receives of its own, sends the other holders of the column their pieces of that, and averages
// what it receives of its own piece; then pieces are gathered along the column, and columns along the row. In one row a
// column is a piece, and two of the four are all there is. Either way a group of m sends 2 D (m-1) numbers, in
// 2 m (m-1) messages per chunk, or 4 m sqrt(m). Chunk k + window begins when chunk k is over, so whoever keeps the
// numbers needs places for `window` chunks.
#pragma once

#include <map>

#include "protocol/events.h"
#include "protocol/grid.h"
#include "protocol/options.h"

namespace flockstep::protocol {

class GroupAverage {
 public:
  GroupAverage(Iteration round, Ranks members, Ranks absent, int rank, const Options& options);

  Iteration round() const { return round_; }
  const Ranks& members() const { return members_; }
  const Ranks& absent() const { return absent_; }

  void begin(std::vector<Action>& actions);
  // Parts of this attempt, from members.
  void received(std::vector<Action>& actions, int peer, const Part& part);
  void sent(std::vector<Action>& actions, int peer, const Part& part);
  bool complete() const { return finished_ == chunks_; }

  // Nothing more is sent; over once nothing is under way.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }
  void withdraw() { withdrawn_ = true; }
  bool withdrawn() const { return withdrawn_; }

 private:
  struct Neighbour {  // in the row, or in the column
    int rank;
    bool is_in_row, holds_column;
  };
  struct PeerChunk {  // with one neighbour, of one chunk
    bool reduce_received = false, reduce_sent = false, gather_received = false, is_placed = false;
  };
  struct Chunk {
    std::vector<PeerChunk> exchanges;  // as neighbours_
    int row_missing, column_missing;   // reduces that have not come
    int pieces_missing;                // of one's own column that are not averaged
    int left;                          // sends that are not off, and averages that are not placed
    bool is_added;                     // one's own column, over the row; true where none is held
  };

  std::size_t neighbour_of(int peer) const;
  void begin_chunk(std::vector<Action>& actions, int number);
  void end_chunk_if_over(std::vector<Action>& actions, int number);
  void add_row(std::vector<Action>& actions, int number, Chunk& chunk);
  void average_piece(std::vector<Action>& actions, int number, Chunk& chunk);
  void piece_is_averaged(std::vector<Action>& actions, int number, Chunk& chunk);
  void place_if_ready(std::vector<Action>& actions, int number, Chunk& chunk, std::size_t neighbour);
  void expect(std::vector<Action>& actions, const Neighbour& from, Phase phase, int number) const;
  void send(std::vector<Action>& actions, const Neighbour& to, Phase phase, int number) const;

  Iteration round_;
  Ranks members_, absent_;
  int chunks_, window_;
  Grid grid_;
  int own_;  // one's index among the members
  bool holds_column_;
  std::vector<Neighbour> neighbours_;  // beginning with the next one, so that not all send to the same at once
  std::map<int, Chunk> under_way_;
  std::vector<std::pair<int, Part>> early_;  // of chunks that have not begun here
  int finished_ = 0;
  bool abandoned_ = false, withdrawn_ = false;
};

}  // namespace flockstep::protocol
