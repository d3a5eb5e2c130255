// The one transfer path of all synchronous rules: result = sum_i c_i x_i, for the price of one all-reduce.
//
//   all-to-all      worker r receives shard r of everybody's span, bucket by bucket, as each becomes ready
//   sweep           of what arrived: r's part of the Gram matrix, or of its row sums, while later buckets travel
//   small sum       of those parts over the workers; then everybody knows the same statistics and coefficients
//   weighted sum    r adds its shard up, in rank order, and
//   all-gather      sends it to everybody, bucket by bucket
//
// Each shard has one owner, so everybody ends on the same bits. Who needs no statistics skips the sweep and the small
// sum: coefficients that are known beforehand let results set out while later buckets are still being made
// (start_known), and a gradient that is there at once runs through few places that stay in cache (run). In place:
// results overwrite the inputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "math/statistics.h"
#include "runtime/gradient/sections.h"
#include "runtime/gradient/shard_transfers.h"

namespace flockstep::runtime {

// For how many buckets there is room where shards are received.
enum class Room {
  all,     // any may be started before any is finished
  window,  // the few that travel at a time: enough for run() and average(), and for nothing else
};

struct OnePassOptions {
  Wire wire = Wire::float32;
  Granularity granularity = Granularity::model;
  math::Need need = math::Need::nothing;  // what is swept as shards arrive; see look_for()
  Room room = Room::all;
};

// One list per section, one number per worker.
using Coefficients = std::vector<std::vector<double>>;

// The norm that a section's result is to have, unless its own is no larger than `rounding`; infinite where the result
// is to stay as it is.
struct Norm {
  double wanted, rounding;
};

class OnePass {
 public:
  using Arrived = std::function<void(std::size_t bucket)>;
  enum class Target { everywhere, own_shard };

  // `purpose` names the buffers in memory counts.
  OnePass(Context& context, const Layout& layout, const std::string& purpose, const OnePassOptions& options = {});
  // For other shards than those of the layout's buckets.
  OnePass(Context& context, const Layout& layout, Shards shards, const std::string& purpose,
          const OnePassOptions& options);

  // What is swept of passes that start from now on.
  void look_for(math::Need need) { options_.need = need; }

  // Starts a bucket of `whole`; may be called in any order of buckets, the same on every worker. From here to the end
  // of finish() nobody else may touch the bucket.
  void start(std::size_t bucket, Whole whole);
  void start_all(Whole whole);
  bool any_started() const { return !arrivals_.empty(); }
  bool is_known() const { return !known_.empty(); }  // by start_known()
  // Whether the next of the started buckets has arrived and waits to be swept; the sweep of those that have arrived, or
  // of all that were started.
  bool can_sweep() const { return swept_ < arrivals_.size() && arrivals_[swept_].all_to_all->done(); }
  void sweep_arrived(Whole whole);
  void sweep_started(Whole whole);

  // What the gradients are like, per section; the same bits on every worker. Starts all buckets if none was started,
  // else every one must have been. `need` must not be nothing.
  std::vector<math::Statistics> statistics(Whole whole, const std::vector<double>& weights);
  // Row sums over the workers `included` alone, from what was received: zeros for the others.
  std::vector<math::Statistics> row_sums_of(Whole whole, const std::vector<double>& weights,
                                            const std::vector<bool>& included);

  // Turns every bucket into the weighted sum over the workers. Every bucket must have been started. With `norms`, one
  // per section, the results are scaled to them. Own shards are complete either way.
  // `arrived(bucket)` is called as each result is whole, in the order of the starts.
  void finish(Whole whole, const Coefficients& coefficients, Target target = Target::everywhere,
              const std::vector<Norm>& norms = {}, const Arrived& arrived = {});
  // From now on finish() returns once the results have set out, and receive() waits for them: then others may go on
  // meanwhile. Until then nobody may touch a bucket, and nothing may start.
  void let_results_set_out() { leaves_results_ = true; }
  void receive(Whole whole);
  bool can_receive() const;  // whether they have come; asking moves bytes, as it does for what has started
  // Waits for what was started, every bucket of it; or so many of them as have been.
  void wait_for_all();
  void wait_for_started();
  // Forgets what has arrived: there is no use for it. After statistics() or a wait only.
  void drop() {
    results_.clear();
    known_.clear();
    arrivals_.clear();
  }

  // The same for a pass whose coefficients, one per worker, are known before its gradients are. A bucket's results set
  // out once a few later ones have started: never earlier on one worker than on another, since all have to issue their
  // collectives in one order. With `spreads_nan` a row that does not count but begins with NaN still makes the result
  // NaN: so a worker that does not count tells that it is not finite.
  void start_known(std::size_t bucket, Whole whole, std::vector<double> coefficients, bool spreads_nan = false);
  void finish_known(Whole whole, const Arrived& arrived = {});

  // For a span that is ready as a whole, in buckets of which none is larger than an earlier one, and coefficients that
  // are known, one per worker. The fastest way.
  void run(Whole whole, std::span<const float> coefficients);
  void average(Whole whole) { average(whole, {}); }
  // Over these workers alone, if any are named; all of them get it.
  void average(Whole whole, const std::vector<bool>& counted);

  const Sections& sections() const { return sections_; }
  // How many numbers of the results this worker owns; and where what the wire loses is kept, of passes from now on.
  std::size_t own_numbers() const { return exchange_.own_numbers(); }
  void feed_back(const Feedback& feedback) { exchange_.feed_back(feedback); }

  // How many results are on their way at a time, where the engine can use more than the usual few.
  void let_travel(std::size_t buckets) { travelling_ = buckets; }

 private:
  using Arrival = ShardTransfers::Arrival;
  class Withdrawal;
  struct Known {
    std::vector<double> coefficients;
    bool spreads_nan;
  };

  void sweep_next(Whole whole);
  void sweep(const Arrival& arrival, Whole whole);
  std::vector<math::Statistics> reduce(std::vector<double> sums, math::Need need, const std::vector<double>& weights);
  void sum(const Arrival& arrival, Whole whole, const Coefficients& coefficients);
  void sum(const Arrival& arrival, Whole whole, const Known& known);
  void gather_next(Whole whole);
  void bring_to(const std::vector<Norm>& norms, Whole whole);

  Context& context_;
  OnePassOptions options_;
  Sections sections_;
  ShardTransfers exchange_;
  std::size_t travelling_;
  bool leaves_results_ = false;
  std::vector<std::vector<Sections::Segment>> segments_;  // of one's own shard, per bucket
  std::vector<double> sums_;                              // statistics of what was swept, section by section
  std::vector<Arrival> arrivals_;                         // in the order they were started; dropped before the buffers
  std::size_t swept_ = 0;                                 // of them, from the first: swept, or summed
  std::vector<Known> known_;                              // of the arrivals, where they are known beforehand
  std::vector<ShardTransfers::Result> results_;           // of these that have set out, or of the pass before
};

}  // namespace flockstep::runtime
