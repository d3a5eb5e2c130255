// One run of the schedule explorer: everything that is drawn before it begins, all of it from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "math/update_guard.h"
#include "protocol/options.h"

namespace flockstep::simulation {

using protocol::Iteration;
class Draws;

constexpr int kMaxWorkers = 33;
constexpr int kMaxChunks = 4;

// How a worker's model and the average become one; the members of the protocol do not know.
enum class Merging {
  published,  // the worker's model with the average, by their number; what a round reads is what the worker published
  additive,   // the agent owns a shared model: updates are added to it, rounds move it to the mean
};

// Mostly up to `usual` seconds, sometimes up to `longest`, never longer.
struct Delays {
  double usual = 0, longest = 0;

  double draw(base::Random& random) const;
};

// A worker and its agent stop for a while, or for good, after so many actions; a crash may leave actions of one event
// undone.
struct Fault {
  enum class Kind { stop, crash };
  Kind kind = Kind::stop;
  int rank = 0;
  std::int64_t after = 0;
  double seconds = 0;
};

// A worker leaves once it has ended this iteration, or any later one, and comes back after a while, if at all.
struct Absence {
  int rank = 0;
  Iteration after = 0;
  double seconds = 0;
  bool is_for_good = false;
};

struct Scenario {
  std::uint64_t seed = 0;
  protocol::Options options;
  Merging merging = Merging::published;
  Iteration iterations = 1;
  std::vector<double> step_seconds;  // of each worker, for a usual iteration
  double spread = 0;                 // of an iteration's time, as a share of it
  double hiccups = 0, hiccup = 1;    // share of the iterations that take so many times as long
  bool parts_wait = false;           // to be expected before they are handed over
  double rendezvous = 0;             // share of those that are sent only when they are expected
  double read_late = 0;              // share of the parts whose bytes are read as late as possible
  bool as_bytes = false;             // control messages go through to_bytes
  Delays control, parts, sent, loss, timers;
  std::vector<Fault> faults;
  std::vector<Absence> absences;
  // For real agents, whose models are numbers.
  std::size_t parameters = 1, statistics = 0;  // running statistics travel with rounds over all workers alone
  Delays reactions;                            // until somebody who waits notices
  bool overlap = false;                        // additive: workers go on while their rounds run
  bool on_device = false;                      // additive: models are on a device that is late, too
  Delays device;
  bool guarded = false;  // updates are
  math::UpdateWeights weights = math::UpdateWeights::mean;
  double wrong = 0;       // share of all updates that are too long, point elsewhere or are not finite
  int wrong_worker = -1;  // whose updates mostly are
  double drift = 0;       // what all updates have in common

  std::size_t size() const { return parameters + statistics; }
  Iteration last() const { return options.first + iterations - 1; }
};

Scenario draw_scenario(std::uint64_t seed);
// Any of the ways to group; nodes of any sizes where all workers know how many there are, else equal ones.
void draw_groups(Draws& draws, protocol::Options& options, bool knows_all);
std::string describe(const Scenario& scenario);

std::string_view to_string(protocol::Sync sync);
std::string_view to_string(protocol::Activation activation);
std::string_view to_string(protocol::Grouping groups);
std::string_view to_string(Merging merging);

}  // namespace flockstep::simulation
