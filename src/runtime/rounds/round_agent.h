// Runs a member of the wait-avoiding protocol over an engine: its messages, its transfers and its sums, on an agent's
// thread, so that rounds go on while the worker computes.
//
// A worker waits until its round is complete, or overlaps it: then it hands its numbers over and goes on, and waits
// where it arrives again before that. So at most one round of a worker is in flight.
//
// Where workers come and go (protocol::Options::elastic) the worker joins those that are there. An agent that is
// expelled begins again by itself, and the worker joins anew with its next step.
//
// It knows nothing of what the numbers mean: see RoundData. A model travels in chunks, of which a few are under way at
// a time, so that transfers and sums overlap; beside what RoundData keeps, memory is needed for those chunks alone.
#pragma once

#include <atomic>
#include <map>
#include <optional>

#include "engines/run_record.h"
#include "protocol/member.h"
#include "runtime/model_transfer.h"
#include "runtime/rounds/round_parts.h"

namespace flockstep::runtime {

class RoundAgent final : private AgentHost::Service {
 public:
  enum class Pace { waits, overlaps };
  static constexpr std::size_t kChunkFloats = std::size_t{1} << 19;  // 2 MiB
  // How many chunks models of this size travel in.
  static int chunks_of(std::size_t size, std::size_t chunk_floats = kChunkFloats);

  // Rounds are about the first `grouped` of `size` numbers, those that end a period about all of them. `options.chunks`
  // is set here. `data` must outlive it.
  RoundAgent(Context& context, const protocol::Options& options, std::size_t grouped, std::size_t size, RoundData& data,
             Pace pace = Pace::waits, std::size_t chunk_floats = kChunkFloats);

  // The worker ends an iteration; returns when the next may begin. `values` are the worker's. How the worker has met
  // the round, and where it overlaps rounds how it has met the one before, if there was one.
  std::optional<protocol::Outcome> arrive(protocol::Iteration iteration, std::span<float> values);
  // The same for an iteration whose round waits for everybody who lives and is over all: all workers call it. Only
  // where workers come and go.
  void synchronise(std::span<float> values);
  // Between two of these, for a worker that overlaps rounds: if one is complete that its numbers know nothing of, they
  // are handed over once more.
  void catch_up(std::span<float> values);
  // Rounds completed up to the last arrive(), since the last call.
  std::vector<base::Round> take_records() { return std::exchange(handed_over_, {}); }
  // Iterations that the worker has ended, or skipped while it was away.
  protocol::Iteration ended() const { return ended_; }

  // The worker takes no part until it is back, see protocol::Membership; returns at once, or when its round is
  // complete.
  void leave();
  // Returns when the worker may begin iteration ended(): with the model of one who is there, or where nobody is with
  // its own, in `values`. Where workers come and go it comes first of all. `load` fills `values` where the worker
  // begins alone, on the agent's thread, and returns the iteration that it then begins with.
  void come_back(std::span<float> values, std::function<protocol::Iteration()> load = nullptr);
  // Whether the worker has joined anew in the last arrive() or synchronise(): its numbers are another one's, and
  // ended() is what those count.
  bool has_joined_anew() { return std::exchange(has_joined_anew_, false); }

  struct Standing {
    protocol::Iteration ended;
    bool is_away;
  };
  // Collective: once all workers are here, waits until no round is under way anywhere; none can begin before a worker
  // ends another iteration. Returns how far everybody is, by rank. Throws Error{mismatch}, everywhere alike, if those
  // who are there have not done the same number of iterations.
  std::vector<Standing> come_to_rest();
  // Then: runs `action` on the agent's thread.
  void with_data(const std::function<void()>& action);
  // Both.
  void at_rest(const std::function<void()>& action);
  // Then: `values` are what rounds have made of them. How the worker has met a round that it overlapped, if any.
  std::optional<protocol::Outcome> settle(std::span<float> values);

 private:
  std::optional<protocol::Outcome> arrive(const protocol::Arrived& event, std::span<float> values, Pace pace);
  void when_free(std::function<void()> action);
  void go_on_if_free();
  bool is_free() const { return !is_in_flight_ && !is_landing_; }
  void once_landed(std::function<void()> action);
  void answer_with_records();
  void answer_if_at_rest();
  void give(int peer);
  void on_control(int peer, std::span<const std::byte> payload) override;
  void on_time() override { step(protocol::Tick{}); }
  bool outlives_peers() const override { return options_.elastic; }
  math::UpdateGuard* guard() override { return data_.guard(); }
  void on_met(int peer, engines::Incarnation incarnation) override;
  void on_lost(int peer, engines::Incarnation incarnation) override;
  std::optional<Progress> progress() const override { return Progress{member_->arrived(), member_->needed()}; }
  std::optional<std::string> obstacle() const override { return unmet_; }
  std::optional<std::int64_t> counted() const override {
    return is_away_ ? std::nullopt : std::optional<std::int64_t>(ended_);
  }
  engines::Tag tag_of(const protocol::Part& part) const;
  void join();
  void begin_alone();
  void step(const protocol::Event& event);
  base::RoundRole role_in(const protocol::Freeze& action) const;

  void perform(const protocol::Send& action);
  void perform(const protocol::Freeze& action);
  void perform(const protocol::Withdraw& action);
  void perform(const protocol::SendPart& action);
  void perform(const protocol::ExpectPart& action);
  void perform(const protocol::AddRow& action) { parts_.add_row(action.chunk); }
  void perform(const protocol::Sum& action) { parts_.average(action.chunk); }
  void perform(const protocol::Place& action) { parts_.place(action.peer, action.chunk); }
  void perform(const protocol::Complete& action);
  void perform(const protocol::Merge& action);
  void perform(const protocol::Proceed& action);
  void perform(const protocol::WakeAt& action) { host_.wake_at(action.time); }
  void perform(const protocol::Adopt& action);
  void perform(const protocol::Forgo& action);
  void perform(const protocol::Give& action);
  void perform(const protocol::Rejoin& action);
  void perform(const protocol::Expelled& action);
  void perform(const protocol::WaitsFor& action);
  void perform(const protocol::AskToBegin& action);
  void perform(const protocol::Refused& action);

  Context& context_;
  const protocol::Options options_;
  engines::RunRecord* const record_;  // nothing where the engine has none
  protocol::Iteration begins_at_;     // where this worker would begin alone
  std::function<protocol::Iteration()> load_;
  bool asks_to_begin_ = false;
  const std::size_t grouped_, size_;
  RoundData& data_;
  std::optional<protocol::Member> member_;
  std::map<int, engines::Incarnation> met_;
  RoundParts parts_;
  base::Round round_{};  // under way, or the newest
  bool is_under_way_ = false;
  const Pace pace_;
  std::span<float> values_;                     // the worker's, while it waits
  bool waits_ = false;                          // it does, for a round or to come back
  bool is_in_flight_ = false;                   // the round that it has handed its numbers over to
  bool is_landing_ = false;                     // what the worker has handed over is on its way here
  std::atomic<bool> is_behind_rounds_ = false;  // one is complete that the worker's numbers know nothing of
  std::function<void()> once_free_;             // a request that waits for both
  std::optional<protocol::Outcome> outcome_;
  std::vector<int> wanted_by_;                     // who waits for a model until the round under way is over
  bool is_adopted_ = false;                        // `values_` is another one's model
  bool must_join_ = false;                         // once the worker is here
  std::optional<std::string> unmet_;               // which worker it has yet to reach to join, and what to do
  std::optional<protocol::Iteration> rest_after_;  // the worker waits until there is nothing to do up to this round
  std::vector<base::Round> records_;
  ModelTransfer models_;  // for those who come back
  // The worker's.
  std::vector<base::Round> handed_over_;
  std::optional<protocol::Outcome> outcome_met_;
  protocol::Iteration ended_;  // iterations; written by the agent when the worker comes back
  bool is_away_ = false;
  bool has_joined_anew_ = false;  // written by the agent
  AgentHost host_;                // last: its thread uses the others
};

}  // namespace flockstep::runtime
