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
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <utility>

#include "runtime/layout.h"
#include "runtime/model_transfer.h"
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

  // x = s = model. Others may ask from here on.
  PairAgent(Context& context, const Layout& layout, WhenBusy when_busy, std::span<const float> model,
            const Guarded& guarded = {});

  // Lets the model's update land in x and takes a new snapshot. `partners`: whom to average with then, asked one after
  // the other until one accepts; empty for nobody. The average is not waited for. While one is asked for or under way
  // here, one more wish is kept, and further ones are skipped.
  void merge(std::span<float> model, const std::vector<int>& partners);

  // Takes no part until it is back; returns at once. An average under way is ended.
  void leave();
  // x = s = model = the x of a present worker; if no worker is present, this worker's own x.
  void come_back(std::span<float> model);
  bool is_away() const { return is_away_; }
  // Who was there at the last merge, as far as was known.
  const std::vector<bool>& present() const { return seen_present_; }

  // Collective: waits until nobody averages with anybody any more; then model = x, without any rounding.
  void come_to_rest(std::span<float> model);
  // x = s = model.
  void adopt(std::span<const float> model);
  // Runs the action on the agent's thread, which hears of others' updates.
  void with_data(const std::function<void()>& action);

  const Counts& counts() const { return seen_; }  // as of the last merge or rest
  // Averages up to there, since the last call.
  std::vector<PairRecord> take_records() { return std::exchange(handed_over_, {}); }

 private:
  enum class State { idle, asking, averaging };
  // A control message is one of these, alone.
  enum class Message : std::uint8_t {
    ask,     // for an average
    accept,  // it begins
    busy,    // it does not
    away,    // the sender has left
    back,    // ... is there again
    wanted,  // the receiver's x
  };
  static constexpr std::size_t kWindow = 2;  // buckets under way at once

  // Has the agent do `last` as soon as `due` is true, and waits for that.
  void wait_until(const std::function<bool()>& due, const std::function<void()>& last, std::string_view what);

  // ---- on the agent's thread ----
  void on_control(int peer, std::span<const std::byte> payload) override;
  void on_time() override;
  math::UpdateGuard* guard() override { return shared_.guard(); }
  void say(int peer, Message message);
  void hand_over();
  void wish(const std::vector<int>& partners);
  void tell_all(Message message);
  void end_absence(std::span<float> model, bool is_adopted);
  void go_on();
  void ask_next();
  void on_question(int peer);
  void start_average(int peer);
  void start_bucket(std::size_t place);
  void end_bucket(std::size_t bucket, std::size_t place);
  void end_average();
  void answer_if_due();
  std::size_t size() const { return buckets_.back().end(); }
  std::span<float> place(std::size_t place, std::size_t size) const {
    return received_.span().subspan(place * buckets_[0].size, size);
  }

  Context& context_;
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
  std::vector<PairRecord> handed_over_;

  State state_ = State::idle;
  int peer_ = -1;                         // asked, or averaged with
  bool asked_here_ = false;               // for the average under way
  base::Time ask_deadline_{};             // of the question that is asked
  PairRecord record_;                     // of the average under way
  std::deque<std::vector<int>> wishes_;   // the first is under way, with the partners that are left to ask
  std::deque<int> queue_;                 // peers that have asked and have no answer yet
  std::size_t started_ = 0, ended_ = 0;   // buckets of the average under way
  std::array<int, kWindow> transfers_{};  // under way, by place
  bool averaged_since_merge_ = false;
  Counts counts_;
  std::vector<PairRecord> records_;
  const std::function<bool()>* due_ = nullptr;  // of a request that is not answered yet
  const std::function<void()>* last_ = nullptr;

  AgentHost host_;  // last: from its construction on everything above is the agent's
};

}  // namespace flockstep::runtime
