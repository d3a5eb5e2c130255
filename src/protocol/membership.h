// Who takes part in which round, while workers leave and come back.
//
// Whoever leaves asks every other member. Each answers with the newest round that it knows to run, and begins none
// after that before it has heard more: two messages' time, and no worker is waited for. The first round that nobody has
// begun is the first without the one who leaves, who tells everybody so; coming back is the same. So everybody knows
// who takes part in a round before beginning it, whoever leaves or comes back at the same time.
//
// One who joins a run is one who was away and comes back. Beyond the ranks of the first workers it makes the schedule
// larger, from its first round on.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "protocol/options.h"
#include "protocol/turn.h"

namespace flockstep::protocol {

class Membership {
 public:
  Membership(const Options& options, int rank);

  // What is agreed on; known for every round up to limit().
  bool takes_part(int rank, Iteration round) const;
  Ranks away_at(Iteration round) const;
  // How many ranks the schedule of groups is about.
  int ranks_at(Iteration round) const;
  // No round after this one may begin yet.
  Iteration limit() const;
  // Those who will not arrive at the round, as far as is known: also those who have just left. For rounds to come.
  Ranks missing_at(Iteration round) const;

  // ---- this worker's own change: one at a time ----
  void leave(const Turn& turn) { ask(turn, Message::Kind::leaving); }
  void come_back(const Turn& turn) { ask(turn, Message::Kind::returning); }
  // One worker alone, which is away, among this many ranks.
  void join(int ranks);
  void on_newest(int peer, const Message& message);
  bool all_have_answered() const { return awaited_.empty() && inquiries_.empty(); }
  // Then: `newest` is the newest round known here. Returns the first round that the change is about, and tells all.
  Iteration settle(const Turn& turn, Iteration newest);

  // The change is not made: whoever has answered may go on.
  void give_up(const Turn& turn);

  // ---- those of others ----
  void on_asked(const Turn& turn, int peer, const Message& message, Iteration newest);
  // Those who asked while this worker had yet to hear what one who is lost has told: it would answer too little.
  void answer_postponed(const Turn& turn, Iteration newest);
  void on_settled(int peer, const Message& message);
  // turn.roster has changed, by those who are lost; by one who has joined, and is away.
  void on_roster(const Turn& turn);
  void on_added(const Turn& turn, int rank);
  // One who is lost may have told some of a larger schedule, and others not. Who has answered it begins no round that
  // may be about before all have said what they know.
  void on_asking(const Turn& turn, int peer, const Message& message) const;
  void on_grown(int peer, const Message& message);
  // What a worker tells of its own changes, and of how many ranks there are, to those who join or are joined.
  std::vector<Iteration> told() const;
  void on_told(int peer, const std::vector<Iteration>& numbers);
  void forget_before(Iteration round);

 private:
  struct Change {
    Iteration first;
    bool is_away;
  };
  struct Record {  // of one worker that has ever left
    std::vector<Change> changes;
    bool is_leaving = false;
    std::optional<Iteration> answered;  // a change is asked for: the newest round by the answer
  };

  struct Inquiry {  // about one who is lost
    Iteration number, answered;
    Ranks awaited;
  };

  void ask(const Turn& turn, Message::Kind kind);
  void inquire(const Turn& turn, int rank, Iteration answered);
  using RanksFrom = std::map<Iteration, int>;  // of the schedule, from a round on
  void agree(Iteration first, int many);
  void agree(const std::vector<Iteration>& numbers);  // rounds and ranks by turns
  static void raise(RanksFrom& ranks, Iteration first, int many);
  static void forget_before(RanksFrom& ranks, Iteration round);
  void note(int rank, Iteration first, bool is_away);
  static bool is_away_at(const Record& record, Iteration round);

  int rank_;
  bool elastic_;
  int first_ranks_;  // that the schedule began with
  RanksFrom ranks_;
  Iteration inquired_ = 0;  // so far: an answer to an earlier question is void
  RanksFrom agreed_;        // of these, what those who came back have told
  std::map<int, Record> records_;
  std::map<int, Inquiry> inquiries_;
  std::map<int, Message> postponed_;  // questions, by who asks
  bool has_settled_ = true;           // a change, since it has joined
  bool asks_ = false;                 // this worker does, until settle()
  Message::Kind asked_{};             // what
  Ranks awaited_;                     // who has not answered yet
  Iteration newest_ = 0;              // of the answers
};

}  // namespace flockstep::protocol
