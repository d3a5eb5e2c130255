// Workers' processes and the connections between them, in a Cluster.
//
// Where workers come and go, connections are made, end and are made again. A connection has two ends. Each hears at its
// own time that it is made and that it has ended; what is said arrives in order, and from one message on not at all
// once the connection ends. Nothing crosses into the next one. Elsewhere all are connected from the beginning to the
// end, and there are the collectives that agents begin and end with.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <set>

#include "simulation/cluster.h"
#include "simulation/elastic_scenario.h"
#include "simulation/flaws.h"

namespace flockstep::simulation {

using engines::Incarnation;
using Who = std::pair<int, Incarnation>;  // rank and incarnation

// A worker's process.
struct Machine {
  int rank = 0, life_number = 0;
  Incarnation incarnation = 1;
  Life life;
  bool is_there = true;  // until it ends or crashes
  std::deque<engines::Control> controls;
  std::size_t collectives = 0;  // that it has come to
  std::int64_t calls = 0,
               crash_at = std::numeric_limits<std::int64_t>::max();  // of the engine; at the one after so many
  std::set<Who> told_lost, knows_lost;  // by the control stream; the second once it has reacted
  bool has_reacted = true;              // to all that it has taken
};

struct Connection {
  struct End {
    Machine* machine;
    Incarnation incarnation;
    bool is_met = false;     // was told so
    bool is_closed = false;  // nothing passes here any more
    bool is_gone = false;    // transfers say so
    bool is_told = false;    // lost
    bool drops = false;      // what would arrive here
    double met_at = 0;       // when it is told
    double newest = 0;       // when the newest message arrives here
  };
  std::array<End, 2> ends;
  bool is_ending = false;

  bool joins(const Machine& machine) const { return ends[0].machine == &machine || ends[1].machine == &machine; }
  int side_of(const Machine& machine) const { return ends[0].machine == &machine ? 0 : 1; }
  End& end_of(const Machine& machine) { return ends[static_cast<std::size_t>(side_of(machine))]; }
  bool is_up() const { return ends[0].is_met && ends[1].is_met && !is_ending; }
};
using ConnectionPtr = std::shared_ptr<Connection>;

class SeededNetwork {
 public:
  SeededNetwork(Cluster& cluster, const ElasticScenario& scenario, const EngineFlaw& flaw, std::FILE* history);

  Cluster& cluster() { return cluster_; }
  const ElasticScenario& scenario() const { return scenario_; }
  const EngineFlaw& flaw() const { return flaw_; }
  bool is_elastic() const { return scenario_.base.options.elastic; }
  int size() const { return scenario_.base.options.workers; }
  // A line of the history, if one is wanted.
  template <typename... Words>
  void tell(int rank, fmt::format_string<Words...> format, Words&&... words) const {
    if (history_)
      fmt::print(history_, "{:12.6f} {:3} {}\n", cluster_.now(), rank,
                 fmt::format(format, std::forward<Words>(words)...));
  }

  Machine& begin(int rank);
  void end(Machine& machine);    // its worker has
  void crash(Machine& machine);  // from anywhere
  void begin_again(Machine& machine, Incarnation next);
  // Something is sent, received or waited for: faults may be due, also the caller's own.
  void count_call(Machine& machine);
  // The connection that the machine has to the rank, as far as it knows; null for none.
  ConnectionPtr connection(const Machine& machine, int rank) const;
  void send_control(Machine& from, int to, engines::ConstBytes payload);
  std::optional<engines::Control> take_control(Machine& machine);
  // The machine's next collective; done once all workers have come to it.
  engines::Pending gather(Machine& machine, engines::ConstBytes mine, std::span<const engines::Bytes> receive);

  // ---- for whoever watches ----
  Machine* living(int rank) const { return current_[static_cast<std::size_t>(rank)]; }
  bool is_up(int one, int other, double since) const;
  // When a fault last began or ended, or one hears of it.
  double last_fault() const { return last_fault_; }
  bool is_quiet_for(double seconds) const { return breaks_under_way_ == 0 && cluster_.now() > last_fault_ + seconds; }
  void note_fault() { last_fault_ = std::max(last_fault_, cluster_.now()); }
  std::int64_t control_messages() const { return control_messages_; }
  int broken(Break::Kind kind) const { return broken_[static_cast<std::size_t>(kind)]; }
  int crashes() const { return crashes_; }
  int begun_again() const { return begun_again_; }
  int faults() const { return crashes_ + broken_[0] + broken_[1] + broken_[2] + cluster_.stops(); }
  // Called with those who do.
  std::function<void(Machine&)> on_crash, on_begin_again;

 private:
  using Pair = std::pair<int, int>;
  struct Collective {
    struct End {  // one worker's
      std::vector<std::byte> mine;
      std::vector<engines::Bytes> receive;
      bool is_done = false;
    };
    std::vector<End> ends;
    int missing;
  };
  class Gathering;

  static Pair pair_of(int one, int other) { return one < other ? Pair(one, other) : Pair(other, one); }
  double draw(const Delays& delays) { return delays.draw(cluster_.random()); }
  bool is_apart(int one, int other) const;
  void meet_others(const Machine& machine);
  void connect_later(int one, int other, double delay);
  void connect(int one, int other);
  ConnectionPtr make_connection(Pair pair);
  void meet(const ConnectionPtr& connection, int side);
  void put(Machine& machine, engines::Control control);
  // The first side decides; the other hears of it. Those that are cut hear of it each at their own time.
  void end_connection(const ConnectionPtr& connection, int first);
  void cut(const ConnectionPtr& connection);
  void close(const ConnectionPtr& connection, int side);
  void told(const ConnectionPtr& connection, int side);
  void end_all(Machine& machine, bool is_orderly);
  void begin_break(const Break& its);
  void heal(std::list<Break>::iterator at, const Break& its);

  Cluster& cluster_;
  const ElasticScenario& scenario_;
  const EngineFlaw& flaw_;
  std::FILE* history_;
  std::deque<Machine> machines_;
  std::vector<Machine*> current_;  // by rank; null where none is
  std::vector<Incarnation> book_;  // the newest, by rank
  std::vector<int> lives_;
  std::map<Pair, ConnectionPtr> connections_;
  std::set<Pair> waiting_;     // to be connected
  std::list<Break> apart_;     // under way
  std::vector<Break> breaks_;  // still to come
  std::deque<Collective> collectives_;
  std::int64_t calls_ = 0, control_messages_ = 0;
  std::array<int, 3> broken_{};  // by kind
  int breaks_under_way_ = 0, crashes_ = 0, begun_again_ = 0;
  double last_fault_ = 0;
};

}  // namespace flockstep::simulation
