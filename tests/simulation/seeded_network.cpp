#include "simulation/seeded_network.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "math/update_guard.h"
#include "protocol/message.h"
#include "simulation/history.h"

namespace flockstep::simulation {
namespace {

using engines::Control;

std::size_t place(int rank) { return static_cast<std::size_t>(rank); }

constexpr std::size_t kPrefix = 4;  // of an agent's messages

// Of an update, for whoever guards those of others: no message of the protocol.
bool is_news(std::span<const std::byte> payload) { return payload.size() == kPrefix + sizeof(math::UpdateNews); }

protocol::Message message_of(std::span<const std::byte> payload) {
  return protocol::message_from_bytes(payload.subspan(kPrefix), protocol::kMostRanks);
}

std::string words_of(std::span<const std::byte> payload) {
  if (is_news(payload)) return "how long its update is";
  try {
    return describe(message_of(payload));
  } catch (const Error&) {  // what hosts of agents say to each other
    return "whether it is at rest, or how far";
  }
}

}  // namespace

// Done once all workers have come to it.
class SeededNetwork::Gathering final : public engines::Operation {
 public:
  explicit Gathering(const bool& is_done) : is_done_(is_done) {}
  bool done() override { return is_done_; }

 private:
  const bool& is_done_;
};

SeededNetwork::SeededNetwork(Cluster& cluster, const ElasticScenario& scenario, const EngineFlaw& flaw,
                             std::FILE* history)
    : cluster_(cluster),
      scenario_(scenario),
      flaw_(flaw),
      history_(history),
      current_(place(scenario.ranks)),
      book_(current_.size()),
      lives_(current_.size()),
      breaks_(scenario.breaks) {}

// ---- processes ----

Machine& SeededNetwork::begin(int rank) {
  Machine& machine = machines_.emplace_back();
  machine.rank = rank;
  machine.life_number = lives_[place(rank)]++;
  machine.incarnation = ++book_[place(rank)];
  current_[place(rank)] = &machine;
  if (is_elastic()) tell(rank, "begins as incarnation {}", machine.incarnation);
  meet_others(machine);
  return machine;
}

void SeededNetwork::end(Machine& machine) {
  if (!machine.is_there) return;
  tell(machine.rank, "ends");
  machine.is_there = false;
  current_[place(machine.rank)] = nullptr;
  end_all(machine, true);
}

void SeededNetwork::crash(Machine& machine) {
  if (!machine.is_there) return;
  tell(machine.rank, "crashes");
  ++crashes_;
  note_fault();
  machine.is_there = false;
  current_[place(machine.rank)] = nullptr;
  end_all(machine, false);
  cluster_.crash(machine.rank, machine.life);
  if (on_crash) on_crash(machine);
}

// What it has not taken yet was said to the one that it was.
void SeededNetwork::begin_again(Machine& machine, Incarnation next) {
  tell(machine.rank, "begins again as incarnation {}", next);
  ++begun_again_;
  if (on_begin_again) on_begin_again(machine);
  end_all(machine, false);
  machine.controls.clear();
  machine.told_lost.clear();
  machine.incarnation = next;
  Incarnation& newest = book_[place(machine.rank)];
  if (!scenario_.stale_book) newest = std::max(newest, next);
  meet_others(machine);
}

void SeededNetwork::count_call(Machine& machine) {
  if (machine.life.is_over) throw Crash{};
  ++machine.calls;
  ++calls_;
  cluster_.count_call(machine.rank);
  if (machine.calls > machine.crash_at) crash(machine);
  while (true) {
    const auto due = std::ranges::find_if(breaks_, [&](const Break& its) { return its.calls < calls_; });
    if (due == breaks_.end()) break;
    const Break its = std::move(*due);
    breaks_.erase(due);
    begin_break(its);
  }
  if (machine.life.is_over) throw Crash{};
}

void SeededNetwork::begin_break(const Break& its) {
  note_fault();
  const auto found = connections_.find(pair_of(its.one, its.other));
  const Machine* const decides = living(its.one);
  const bool is_suspicion = its.kind == Break::Kind::suspicion;
  if (is_suspicion &&
      (found == connections_.end() || !decides || found->second->is_ending || !found->second->joins(*decides)))
    return;
  tell(its.one, "loses sight: {}", describe(its));
  ++broken_[static_cast<std::size_t>(its.kind)];
  ++breaks_under_way_;
  const auto at = apart_.insert(apart_.end(), its);
  if (is_suspicion) {
    end_connection(found->second, found->second->side_of(*decides));
  } else {
    for (const auto& [pair, connection] : connections_)
      if (its.separates(pair.first, pair.second)) cut(connection);
  }
  cluster_.at(cluster_.now() + its.heals_after, [this, at, its] { heal(at, its); });
}

// Of two that are apart for two reasons, the first one that is over brings them together again.
void SeededNetwork::heal(std::list<Break>::iterator at, const Break& its) {
  tell(its.one, "may meet again: {}", describe(its));
  note_fault();
  --breaks_under_way_;
  const bool is_partition = its.kind == Break::Kind::partition;
  if (is_partition)
    apart_.erase(at);
  else
    std::erase_if(apart_, [&](const Break& other) {
      return other.kind != Break::Kind::partition && other.separates(its.one, its.other);
    });
  for (int one = 0; one < scenario_.ranks; ++one)
    for (int other = one + 1; other < scenario_.ranks; ++other)
      if ((is_partition || its.separates(one, other)) && living(one) && living(other))
        connect_later(one, other, draw(scenario_.connect));
}

// ---- connections ----

bool SeededNetwork::is_apart(int one, int other) const {
  return std::ranges::any_of(apart_, [&](const Break& its) { return its.separates(one, other); });
}

void SeededNetwork::meet_others(const Machine& machine) {
  for (int other = 0; other < scenario_.ranks; ++other) {
    if (other == machine.rank || !living(other)) continue;
    if (is_elastic())
      connect_later(machine.rank, other, draw(scenario_.connect));
    else
      for (auto& end : make_connection(pair_of(machine.rank, other))->ends) end.is_met = true;
  }
}

void SeededNetwork::connect_later(int one, int other, double delay) {
  if (!waiting_.insert(pair_of(one, other)).second) return;
  cluster_.at(cluster_.now() + delay, [this, one, other] {
    waiting_.erase(pair_of(one, other));
    connect(one, other);
  });
}

void SeededNetwork::connect(int one, int other) {
  if (cluster_.is_broken() || !living(one) || !living(other) || is_apart(one, other)) return;
  const Pair pair = pair_of(one, other);
  if (const auto found = connections_.find(pair); found != connections_.end()) {
    const Connection& last = *found->second;
    if (!last.is_ending) return;
    for (const auto& end : last.ends)  // the last end tells when it has heard
      if (end.machine->is_there && !end.is_told) return;
  }
  const ConnectionPtr connection = make_connection(pair);
  for (const int side : {0, 1}) {
    Connection::End& end = connection->ends[place(side)];
    end.met_at = end.newest = cluster_.now() + draw(scenario_.connect);
    cluster_.at(end.met_at, [this, connection, side] { meet(connection, side); });
  }
}

ConnectionPtr SeededNetwork::make_connection(Pair pair) {
  auto connection = std::make_shared<Connection>();
  Machine *const low = living(pair.first), *const high = living(pair.second);
  connection->ends = {Connection::End{low, low->incarnation}, Connection::End{high, high->incarnation}};
  return connections_[pair] = connection;
}

void SeededNetwork::meet(const ConnectionPtr& connection, int side) {
  Connection::End &end = connection->ends[place(side)], &other = connection->ends[place(1 - side)];
  if (end.is_closed || end.drops) return;
  end.is_met = true;
  put(*end.machine, {other.machine->rank, {}, Control::What::met, other.incarnation});
}

void SeededNetwork::put(Machine& machine, Control control) {
  machine.controls.push_back(std::move(control));
  cluster_.ring(machine.rank);
}

ConnectionPtr SeededNetwork::connection(const Machine& machine, int rank) const {
  const auto found = connections_.find(pair_of(machine.rank, rank));
  if (found == connections_.end()) return nullptr;
  Connection& connection = *found->second;
  if (!connection.joins(machine)) return nullptr;
  const Connection::End& end = connection.end_of(machine);
  return end.is_met && !end.is_closed && end.incarnation == machine.incarnation ? found->second : nullptr;
}

bool SeededNetwork::is_up(int one, int other, double since) const {
  const auto found = connections_.find(pair_of(one, other));
  return found != connections_.end() && found->second->is_up() && found->second->ends[0].met_at <= since &&
         found->second->ends[1].met_at <= since;
}

void SeededNetwork::send_control(Machine& from, int to, engines::ConstBytes payload) {
  std::vector<std::byte> bytes(payload.begin(), payload.end());
  if (flaw_.tamper && !is_news(bytes)) {
    protocol::Message message = message_of(bytes);
    if (!flaw_.tamper(to, message)) return;
    bytes.resize(kPrefix);
    std::ranges::copy(protocol::to_bytes(message), std::back_inserter(bytes));
  }
  ++control_messages_;
  const auto connection = this->connection(from, to);
  if (history_) tell(from.rank, "tells {}{}: {}", to, connection ? "" : ", who is not there", words_of(bytes));
  if (!connection) return;
  const int side = 1 - connection->side_of(from);
  Connection::End& end = connection->ends[place(side)];
  end.newest = std::max(end.newest, cluster_.now() + draw(scenario_.base.control));
  cluster_.at(end.newest, [this, connection, side, sender = from.rank, bytes = std::move(bytes)]() mutable {
    Connection::End& its = connection->ends[place(side)];
    if (its.is_closed || its.drops) return;
    put(*its.machine,
        {sender, std::move(bytes), Control::What::message, connection->ends[place(1 - side)].incarnation});
  });
}

std::optional<Control> SeededNetwork::take_control(Machine& machine) {
  if (machine.has_reacted) machine.knows_lost = machine.told_lost;  // who takes again has reacted to what it took
  machine.has_reacted = machine.controls.empty();
  if (machine.controls.empty()) return std::nullopt;
  Control first = std::move(machine.controls.front());
  machine.controls.pop_front();
  if (first.what == Control::What::lost) machine.told_lost.insert({first.peer, first.incarnation});
  if (first.what == Control::What::met) machine.told_lost.erase({first.peer, first.incarnation});
  if (history_) {
    if (first.what == Control::What::message)
      tell(machine.rank, "hears from {}: {}", first.peer, words_of(first.payload));
    else
      tell(machine.rank, "{} {}, incarnation {}", first.what == Control::What::met ? "meets" : "loses", first.peer,
           first.incarnation);
  }
  return first;
}

engines::Pending SeededNetwork::gather(Machine& machine, engines::ConstBytes mine,
                                       std::span<const engines::Bytes> receive) {
  base::check(!is_elastic(), "an engine that has collectives");
  const std::size_t number = machine.collectives++;
  if (number == collectives_.size()) collectives_.push_back({std::vector<Collective::End>(current_.size()), size()});
  Collective& collective = collectives_[number];
  Collective::End& end = collective.ends[place(machine.rank)];
  end = {{mine.begin(), mine.end()}, {receive.begin(), receive.end()}};
  if (--collective.missing == 0)
    for (int rank = 0; rank < size(); ++rank)
      cluster_.at(cluster_.now() + draw(scenario_.base.control), [this, rank, &collective] {
        Collective::End& its = collective.ends[place(rank)];
        if (cluster_.is_broken()) return;
        for (std::size_t i = 0; i < its.receive.size(); ++i)
          std::ranges::copy(collective.ends[i].mine, its.receive[i].begin());
        its.is_done = true;
        cluster_.ring(rank);
      });
  return std::make_unique<Gathering>(end.is_done);
}

// ---- their ends ----

void SeededNetwork::end_connection(const ConnectionPtr& connection, int first) {
  if (std::exchange(connection->is_ending, true)) return;
  Connection::End& other = connection->ends[place(1 - first)];
  const double hears = cluster_.now() + draw(scenario_.close);
  if (cluster_.random().below(2) == 0)
    other.drops = true;
  else
    cluster_.at(cluster_.now() + cluster_.random().uniform() * (hears - cluster_.now()),
                [connection, &other] { other.drops = true; });
  close(connection, first);
  cluster_.at(hears, [this, connection, first] { close(connection, 1 - first); });
}

void SeededNetwork::cut(const ConnectionPtr& connection) {
  if (std::exchange(connection->is_ending, true)) return;
  for (const int side : {0, 1}) {
    connection->ends[place(side)].drops = true;
    cluster_.at(cluster_.now() + draw(scenario_.close), [this, connection, side] { close(connection, side); });
  }
}

// Transfers and the control stream tell of it in any order.
void SeededNetwork::close(const ConnectionPtr& connection, int side) {
  Connection::End& end = connection->ends[place(side)];
  if (std::exchange(end.is_closed, true)) return;
  const auto later = [this] {
    return cluster_.now() + (cluster_.random().below(2) == 0 ? 0 : draw(scenario_.base.reactions));
  };
  const bool is_same_life = end.machine->is_there && end.machine->incarnation == end.incarnation;
  note_fault();
  if (!is_same_life || !end.is_met || flaw_.tells_no_loss) {
    end.is_gone = true;
    return told(connection, side);
  }
  cluster_.at(later(), [this, connection, side] {
    Connection::End& its = connection->ends[place(side)];
    its.is_gone = true;
    cluster_.ring(its.machine->rank);
    if (its.is_told) connect_later(connection->ends[0].machine->rank, connection->ends[1].machine->rank, 0);
  });
  cluster_.at(later(), [this, connection, side] {
    Connection::End &its = connection->ends[place(side)], &other = connection->ends[place(1 - side)];
    if (its.machine->incarnation == its.incarnation)
      put(*its.machine, {other.machine->rank, {}, Control::What::lost, other.incarnation});
    told(connection, side);
  });
}

void SeededNetwork::told(const ConnectionPtr& connection, int side) {
  connection->ends[place(side)].is_told = true;
  note_fault();
  connect_later(connection->ends[0].machine->rank, connection->ends[1].machine->rank, draw(scenario_.connect));
}

void SeededNetwork::end_all(Machine& machine, bool is_orderly) {
  for (const auto& [pair, connection] : connections_) {
    if (!connection->joins(machine)) continue;
    const int side = connection->side_of(machine);
    Connection::End &own = connection->ends[place(side)], &other = connection->ends[place(1 - side)];
    if (connection->is_ending) {
      own.is_closed = own.is_gone = own.is_told = true;
      continue;
    }
    if (!is_orderly) {
      end_connection(connection, side);
      own.is_gone = own.is_told = true;
      continue;
    }
    connection->is_ending = own.is_closed = own.is_gone = own.is_told = true;  // all that was said arrives
    cluster_.at(std::max(other.newest, cluster_.now() + draw(scenario_.close)),
                [this, connection, side] { close(connection, 1 - side); });
  }
}

}  // namespace flockstep::simulation
