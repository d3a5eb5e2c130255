// The machine that the simulated workers share: hosts of a platform, a clock, actors, and a way to block. Only this and
// the platform know SimGrid.
//
// A message of n bytes alone on the network takes the latency of its way plus n over the bandwidth, and messages that
// meet on a link share it fairly (max-min). Without --platform the network is a star: each host has a full-duplex link
// of its own to a switch that is never the bottleneck. SimGrid's models of TCP (window, slow start, 3% of headers,
// acknowledgements that disturb the way back) are all switched off: what a run costs can then be computed by hand.
//
// Not here: payloads, matching, errors. A flow is a number of bytes that calls back when the last of them is there.
//
// Everything runs on one thread at a time. Actors switch only inside the calls marked "may switch".
#pragma once

#include <simgrid/forward.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engines/backend.h"
#include "engines/sim/bundle.h"
#include "engines/sim/platform.h"

namespace flockstep::engines::sim {

// SimGrid takes two events closer than this for simultaneous.
inline constexpr double kTick_s = 1e-9;
// A wait that nothing ends for this long, about thirty years, is for ever.
inline constexpr double kForever_s = 1e9;

class Simulator {
 public:
  // Throws Error{unavailable} where this process has had a simulation: SimGrid's clock never restarts.
  Simulator(int hosts, const SimOptions& options);
  ~Simulator();

  static std::string version();
  // Hosts of one node have the same number. Messages inside a node do not meet those of its hosts to others.
  int node_of(int host) const { return platform_.nodes[static_cast<std::size_t>(host)]; }
  double memory_gbytes_s() const { return platform_.memory_gbytes_s; }  // what the platform says about sums
  static double now();                                                  // seconds
  // Starts all flows at once; `arrived` is called at the end of each. Callbacks run in SimGrid's own context: they may
  // start flows and ring bells, but neither block nor throw. May switch.
  void start(std::span<const Flow> flows, const std::function<void()>& arrived);
  // How long so many bytes take where nothing else is on their way.
  double time_alone(const Flow& flow) const;
  // Calls `action` once this time has passed, like a flow's callback. May switch.
  static void after(double seconds, std::function<void()> action);
  // An actor that starts at the present time; `body` must not throw. May switch. Throws Error{bad_input} where there is
  // no room for another stack.
  void spawn(int host, const std::string& name, const std::function<void()>& body);
  void run();  // until every actor has returned and every flow has arrived

  // Lets the time pass that a sum of the calling actor takes, so long by itself. May switch.
  void add_up(int host, double seconds) const;
  // Of a worker that sleeps, and nobody looks after its messages meanwhile. May switch.
  void doze(int host, double seconds) const;
  static void sleep(double seconds);  // of the calling actor; at least a tick. May switch.
  // Runs `work` between two steps of all actors, so that what it does costs one switch in all. May switch.
  static void at_once(const std::function<void()>& work);

 private:
  struct Flights;
  simgrid::s4u::Engine* engine_;
  Platform platform_;
  std::shared_ptr<Flights> flights_;  // shared with SimGrid's list of callbacks, from which nothing is ever removed
};

// Where the actors of one worker wait for something to happen to it.
class SimBell {
 public:
  SimBell();
  ~SimBell();

  // True once ready(), which is asked at each ring by whoever rings: what it throws is thrown here. False when
  // `seconds` (at least a tick) have passed. It is not asked at first. May switch, but not before it hears the bell.
  bool wait(const std::function<bool()>& ready, double seconds);
  // Wakes those who wait now and are ready; rings for nobody otherwise. May switch.
  void ring();

 private:
  struct Waiting;
  std::vector<Waiting*> waiting_;  // one per waiting actor, in order of arrival
};

}  // namespace flockstep::engines::sim
