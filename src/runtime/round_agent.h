// Runs a member of the wait-avoiding protocol over an engine: its messages, its transfers and its sums, on an agent's
// thread, so that rounds go on while the worker computes.
//
// It knows nothing of what the numbers mean: see RoundData. A model travels in chunks, of which a few are under way at
// a time, so that transfers and sums overlap; beside what RoundData keeps, memory is needed for those chunks alone.
#pragma once

#include "protocol/member.h"
#include "runtime/agent_host.h"
#include "runtime/round_data.h"

namespace flockstep::runtime {

// One round that was completed here.
struct RoundRecord {
  protocol::Iteration round = 0, version = 0;  // the iteration of the model that was contributed
  // The worker who started it; -1 for a synchronisation, and where only word of a later round was heard.
  int activator = -1;
  bool is_synchronisation = false;
  base::Time begin{}, end{};
};

class RoundAgent final : private AgentHost::Service {
 public:
  // What its own buffer is for, as Memory counts it: as many chunks as are under way, however long the model.
  static constexpr const char* kStaging = "parts of models under way";

  // How many chunks models of this size travel in.
  static int chunks_of(std::size_t size);

  // Rounds are about the first `grouped` of `size` numbers, those that end a period about all of them. `options.chunks`
  // and `window` are set here. `data` must outlive it.
  RoundAgent(Context& context, protocol::Options options, std::size_t grouped, std::size_t size, RoundData& data);

  // The worker ends an iteration; returns when the next may begin. `values` are the worker's.
  protocol::Outcome arrive(protocol::Iteration iteration, std::span<float> values);
  // Rounds completed up to the last arrive(), since the last call.
  std::vector<RoundRecord> take_records() { return std::exchange(handed_over_, {}); }
  // Runs `action` on the agent's thread, once all workers are here and so no round can be under way; none may begin
  // another iteration before all are through. Throws Error{mismatch}, everywhere alike, if they have not done the same
  // number of iterations.
  void at_rest(const std::function<void()>& action);

 private:
  struct Flight {
    RoundRecord record;
    protocol::Ranks members{};
    std::size_t own = 0;  // one's place among them
    std::size_t size = 0;
    int begun = 0;  // chunks
  };

  void require_same_iterations();
  void on_control(int peer, std::span<const std::byte> payload) override;
  void on_time() override { step(protocol::Tick{}); }
  void step(const protocol::Event& event);

  void perform(const protocol::Send& action);
  void perform(const protocol::Freeze& action);
  void perform(const protocol::SendPart& action);
  void perform(const protocol::ExpectPart& action);
  void perform(const protocol::Sum& action);
  void perform(const protocol::Place& action);
  void perform(const protocol::Complete& action);
  void perform(const protocol::Merge& action);
  void perform(const protocol::Proceed& action);
  void perform(const protocol::WakeAt& action) { host_.wake_at(action.time); }

  std::size_t member_index(int rank) const;
  Range chunk_of(int chunk) const;
  Range part_of(int chunk, std::size_t member) const;
  std::span<const float> contribution(int chunk, std::size_t member);
  std::span<float> spare(int chunk, std::size_t member, std::size_t size) const;

  Context& context_;
  const std::size_t grouped_, size_;
  RoundData& data_;
  protocol::Options options_;
  protocol::Member member_;
  base::Buffer<float> spare_;  // for `window` chunks: contributions on arrival, then averages
  Flight flight_;
  std::span<float> values_;  // the worker's, while it waits
  protocol::Outcome outcome_{};
  std::vector<RoundRecord> records_;
  // The worker's.
  std::vector<RoundRecord> handed_over_;
  protocol::Iteration ended_;  // iterations
  AgentHost host_;             // last: its thread uses the others
};

}  // namespace flockstep::runtime
