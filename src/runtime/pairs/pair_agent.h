// Averages a worker's shared model x (shared_model.h) with one other worker's at a time, beside the worker.
//
//   merge     what the worker has added to its snapshot s since it was taken is added to x, and the worker goes on from
//             a new snapshot: x += model - s, s = model = x
//   average   both ends freeze their x, send it, and move by half of the difference: x_a += (b - a)/2, x_b += (a - b)/2
//
// The two moves are each other's negatives to the last bit, and are added to whatever x has become meanwhile: no merge
// is lost or counted twice, and the sum of all x changes by the merges alone, but for rounding. A worker never waits
// for another one's computing: the agents exchange models on their own, bucket by bucket, one average at a time per
// worker.
//
// How two agents find each other: one asks, and the other accepts, or is busy with a third. Two that ask each other
// have found each other.
//
// A worker may leave for a while: everybody hears of it and asks it no more, and who did not know yet is told that it
// is busy. It comes back with the x of one who is there.
//
// Where workers come and go (ElasticPairs), each begins alone and joins those that it meets, with the x and the steps
// of one of them. Where nobody is, the lowest rank of those who are ready begins: when as many are ready as the run
// begins with, or after a while. A loss ends what is under way with the lost one, at once: a question is answered by
// it, and an average is abandoned. One end may have had all of it and moved while the other has not: then the sum of
// all x changes by what the other did not move.
//
// Nobody is expelled. Where a network falls apart all parts train on, and when they meet again their workers average
// with each other as before. The same goes for a worker that was thought lost and was only slow: both greet each other
// again, and go on.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "runtime/layout.h"
#include "runtime/model_transfer.h"
#include "runtime/pairs/pair_peers.h"
#include "runtime/rounds/shared_model.h"

namespace flockstep::runtime {

// One average that this worker took part in.
struct PairRecord {
  std::int64_t number = 0;  // of averages here, from 0
  int activator = -1;       // who asked for it; where both did, this worker
  // Whether the worker waited, all of its updates in x, when x was frozen. Else it was computing the next one.
  bool is_newest = false;
  base::Time begin{}, end{};  // from freezing x to moving it
};

// For workers that come and go, on an engine that outlives its peers.
struct ElasticPairs {
  std::uint64_t fingerprint = 0;  // of whatever has to be equal
  std::int64_t steps = 0;         // that the model comes from
  base::Duration patience{10};    // with those who are missing, before the first begin without them
};

class PairAgent final : private AgentHost::Service {
 public:
  // What an agent that is busy does when another asks for an average.
  enum class WhenBusy {
    queue,   // takes it in turn
    refuse,  // says so, and the other may ask somebody else
  };

  struct Counts {
    std::int64_t averages = 0;  // that this worker took part in, asked for here or elsewhere
    std::int64_t skipped = 0;   // wishes that came to nothing: all partners were busy, or too many waited already
    std::int64_t met = 0;       // merges that found a new average in x
    std::int64_t alone = 0;     // merges that found none
  };

  // x = s = model. Others may ask from here on, or where workers come and go once it has come back for the first time.
  PairAgent(Context& context, const Layout& layout, WhenBusy when_busy, std::span<const float> model,
            std::optional<ElasticPairs> elastic = std::nullopt, const Guarded& guarded = {});

  // Lets the model's update land in x and takes a new snapshot. `partners`: whom to average with then, asked one after
  // the other until one accepts; empty for nobody. The average is not waited for. While one is asked for or under way
  // here, one more wish is kept, and further ones are skipped.
  void merge(std::span<float> model, const std::vector<int>& partners);

  // Takes no part until it is back; returns at once. An average under way is ended.
  void leave();
  // x = s = model = the x of a worker that is there, or where nobody is, one's own. Where workers come and go this
  // comes first of all: it returns when the worker is part of a run. Throws Error{mismatch} where that means another
  // training.
  void come_back(std::span<float> model);
  bool is_away() const { return is_away_; }
  // Who was there at the last merge, as far as was known.
  const std::vector<bool>& present() const { return seen_present_; }

  // Collective: waits until nobody averages with anybody any more; then model = x, without any rounding.
  void come_to_rest(std::span<float> model);
  // x = s = model.
  void adopt(std::span<const float> model);

  // ---- where workers come and go ----
  // The average over all who live and are there: waits until each of them has called it too, or has left, or is lost.
  // Then x = s = model = the average, the same bits for all of them. Returns when everybody has it, so that nobody
  // needs this worker any more.
  void consolidate(std::span<float> model);
  // Merges so far, and those that the model has come from; after come_back() what the one counts whose x it is, after
  // consolidate() the largest count.
  std::int64_t steps() const { return seen_steps_; }

  const Counts& counts() const { return seen_; }  // as of the last merge or rest
  // Averages up to there, since the last call.
  std::vector<PairRecord> take_records() { return std::exchange(handed_over_, {}); }

 private:
  using Kind = PairMessage::Kind;
  using Standing = PairMessage::Standing;
  enum class State { idle, asking, averaging, abandoning };
  static constexpr std::size_t kWindow = 2;  // buckets under way at once
  struct Question {
    int peer;
    std::uint64_t number;  // of those that the peer has asked; 0 in a fixed fleet
  };

  // Has the agent do `last` as soon as `due` is true, and waits for that.
  void wait_until(const std::function<bool()>& due, const std::function<void()>& last, std::string_view what);

  // ---- on the agent's thread ----
  void on_control(int peer, std::span<const std::byte> payload) override;
  void on_time() override;
  bool outlives_peers() const override { return elastic_.has_value(); }
  math::UpdateGuard* guard() override { return shared_.guard(); }
  void on_met(int peer, engines::Incarnation incarnation) override;
  void on_lost(int peer, engines::Incarnation incarnation) override;
  void hear(int peer, const PairMessage& message);
  void say(int peer, Kind kind, std::uint64_t number = 0);
  void hand_over();
  void wish(const std::vector<int>& partners);
  void tell_all(Kind kind);
  void end_absence(std::span<float> model, bool is_adopted);
  void go_on();
  void ask_next();
  void on_question(const Question& question);
  void start_average(int peer, engines::Tag tag);
  void start_bucket(std::size_t place);
  void end_bucket(std::size_t bucket, std::size_t place);
  void end_average();
  void abandon_average();
  void answer_if_due();
  bool is_present(int rank) const {
    return static_cast<std::size_t>(rank) < present_.size() && present_[static_cast<std::size_t>(rank)];
  }
  void set_present(int rank, bool is_present);
  std::size_t size() const { return buckets_.back().end(); }
  std::span<float> place(std::size_t place, std::size_t size) const {
    return received_.span().subspan(place * buckets_[0].size, size);
  }

  // Workers that come and go: pair_joins.cpp.
  void greet(int peer);
  void greet_all();
  std::int64_t steps_told() const { return rest_.stage == Stage::holds ? rest_.steps : steps_; }
  void on_greeting(int peer, PairPeers::Worth worth);
  void leave_out(int peer, std::string_view why);
  void forget(int peer);
  void set_standing(Standing standing);
  void join_if_due();
  void refuse_strangers();
  std::optional<int> donor() const;
  bool may_begin_alone() const;
  void want(int peer, std::span<float> place, std::function<void(std::int64_t steps)> done);
  void on_given(int peer, const PairMessage& message);
  void give_next();
  engines::Tag tag_of(int peer, Kind kind, int asker, std::uint64_t number) const;

  // Averages over all who live: pair_rest.cpp.
  void look_at_rest();
  bool is_at_rest_with_others() const { return rest_.stage > Stage::waits; }
  bool all_others_rest() const;
  std::optional<int> one_with_result() const;
  std::vector<int> others_present() const;
  void lead();
  void collect(std::size_t place);
  void add_up(std::size_t bucket, std::size_t place);
  void stop_leading();
  void give_to(int leader);
  void give_bucket();
  void stop_giving();
  void fetch_result(int peer);
  void withdraw_parts();
  void hold(std::uint64_t result, std::int64_t steps);
  void end_rest();
  std::span<float> rest_row(std::size_t place, std::size_t member, std::size_t size) const;

  Context& context_;
  const std::optional<ElasticPairs> elastic_;
  const WhenBusy when_busy_;
  const std::vector<Range> buckets_;  // never larger than the first
  SharedModel shared_;
  base::Buffer<float> received_;  // the peer's buckets that have just arrived
  std::vector<bool> present_;     // everybody, and oneself, as far as is known
  ModelTransfer models_;          // for those who come back
  // The worker's copies.
  bool is_away_ = false;
  std::vector<bool> seen_present_;
  Counts seen_;
  std::int64_t seen_steps_ = 0;
  std::vector<PairRecord> handed_over_;

  State state_ = State::idle;
  int peer_ = -1;                         // asked, or averaged with
  bool asked_here_ = false;               // for the average under way
  std::uint64_t asked_ = 0;               // questions so far
  base::Time ask_deadline_{};             // of the question that is asked
  engines::Tag tag_ = 0;                  // of the average under way
  PairRecord record_;                     // of the same
  std::deque<std::vector<int>> wishes_;   // the first is under way, with the partners that are left to ask
  std::deque<Question> queue_;            // what has no answer yet
  std::size_t started_ = 0, ended_ = 0;   // buckets of the average under way
  std::array<int, kWindow> transfers_{};  // under way, by place
  bool averaged_since_merge_ = false;
  Counts counts_;
  std::vector<PairRecord> records_;
  const std::function<bool()>* due_ = nullptr;  // of a request that is not answered yet
  const std::function<void()>* last_ = nullptr;

  // Where workers come and go.
  PairPeers peers_;
  Standing standing_ = Standing::idle;
  std::int64_t steps_ = 0;
  struct Join {
    std::span<float> model;
    base::Time begin_at;  // alone, if nobody is there by then
  };
  std::optional<Join> join_;  // the worker waits to become part of a run
  struct Wanted {
    int peer;
    std::uint64_t number;
    std::span<float> place;
    std::function<void(std::int64_t steps)> done;
    std::int64_t steps = 0;
  };
  std::optional<Wanted> wanted_;  // the model that this worker has asked a peer for
  bool is_forgoing_ = false;      // one who is lost had it, and it is withdrawn
  std::uint64_t requests_ = 0;    // for models, so far
  std::deque<Question> wanted_by_;
  int gifts_ = 0;  // models under way to others
  enum class Stage {
    none,
    ends_wishes,
    waits,    // for the others
    leads,    // adds up everybody's x
    gives,    // its x to the one who adds up
    fetches,  // the result
    stops,    // what was under way
    holds,    // the result, until everybody has it
  };
  struct Resting {
    Stage stage = Stage::none;
    std::span<float> model;      // the worker's
    int leader = -1;             // whom it gives its x to
    std::uint64_t number = 0;    // of the average under way, or of the result
    std::int64_t steps = 0;      // that it counts
    std::vector<int> members{};  // the others, where this worker adds up
    base::Buffer<float> rows{};  // ... and their buckets
    std::size_t started = 0, ended = 0;
    std::array<std::size_t, kWindow> missing{};  // of the bucket at each place
  };
  Resting rest_;
  std::uint32_t led_ = 0;          // averages over all so far
  std::uint64_t last_result_ = 0;  // that this worker has gone on from

  AgentHost host_;  // last: from its construction on everything above is the agent's
};

}  // namespace flockstep::runtime
