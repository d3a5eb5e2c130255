#include "simulation/elastic_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

std::string words_of(std::span<const std::byte> payload) {
  if (is_news(payload)) return "how long its update is";
  return describe(protocol::message_from_bytes(payload.subspan(kPrefix), protocol::kMostRanks));
}

}  // namespace

template <typename... Words>
void ElasticNetwork::tell(const char* format, const Words&... words) const {
  if (history_) fmt::print(history_, "{:12.6f}     {}\n", cluster_.now(), fmt::format(fmt::runtime(format), words...));
}

ElasticNetwork::ElasticNetwork(Cluster& cluster, const ElasticScenario& scenario, const ElasticFlaw& flaw,
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

Machine& ElasticNetwork::begin(int rank) {
  Machine& machine = machines_.emplace_back();
  machine.rank = rank;
  machine.life_number = lives_[place(rank)]++;
  machine.incarnation = ++book_[place(rank)];
  current_[place(rank)] = &machine;
  tell("{} begins as incarnation {}", rank, machine.incarnation);
  for (int other = 0; other < scenario_.ranks; ++other)
    if (other != rank && living(other)) connect_later(rank, other, draw(scenario_.connect));
  return machine;
}

void ElasticNetwork::end(Machine& machine) {
  if (!machine.is_there) return;
  tell("{} ends", machine.rank);
  machine.is_there = false;
  current_[place(machine.rank)] = nullptr;
  end_all(machine, true);
}

void ElasticNetwork::crash(Machine& machine) {
  if (!machine.is_there) return;
  tell("{} crashes", machine.rank);
  ++crashes_;
  note_fault();
  machine.is_there = false;
  current_[place(machine.rank)] = nullptr;
  end_all(machine, false);
  cluster_.crash(machine.rank, machine.life);
  if (on_crash) on_crash(machine);
}

// What it has not taken yet was said to the one that it was.
void ElasticNetwork::begin_again(Machine& machine, Incarnation next) {
  tell("{} begins again as incarnation {}", machine.rank, next);
  ++begun_again_;
  if (on_begin_again) on_begin_again(machine);
  end_all(machine, false);
  machine.controls.clear();
  machine.told_lost.clear();
  machine.incarnation = next;
  Incarnation& newest = book_[place(machine.rank)];
  if (!scenario_.stale_book) newest = std::max(newest, next);
  for (int other = 0; other < scenario_.ranks; ++other)
    if (other != machine.rank && living(other)) connect_later(machine.rank, other, draw(scenario_.connect));
}

void ElasticNetwork::count_call(Machine& machine) {
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

void ElasticNetwork::begin_break(const Break& its) {
  note_fault();
  const double heals = cluster_.now() + its.heals_after;
  if (its.kind == Break::Kind::partition) {
    tell("the network falls apart");
    ++partitions_;
    ++breaks_under_way_;
    const auto* const partition = &*std::ranges::find_if(scenario_.breaks, [&](const Break& other) {
      return other.kind == its.kind && other.half == its.half && other.calls == its.calls;
    });
    partitioned_.push_back(partition);
    for (const auto& [pair, connection] : connections_)
      if (is_apart(pair.first, pair.second)) cut(connection);
    cluster_.at(heals, [this, partition] {
      tell("the network has healed");
      note_fault();
      --breaks_under_way_;
      partitioned_.erase(std::ranges::find(partitioned_, partition));
      for (int one = 0; one < scenario_.ranks; ++one)
        for (int other = one + 1; other < scenario_.ranks; ++other)
          if (living(one) && living(other)) connect_later(one, other, draw(scenario_.connect));
    });
    return;
  }
  if (its.kind == Break::Kind::link) return cut_link(its);
  const auto found = connections_.find(pair_of(its.one, its.other));
  Machine* const decides = living(its.one);
  if (found == connections_.end() || !decides || found->second->is_ending) return;
  if (found->second->ends[0].machine != decides && found->second->ends[1].machine != decides) return;
  tell("{} suspects {}", its.one, its.other);
  ++suspicions_;
  ++breaks_under_way_;
  const Pair pair = found->first;
  suspected_.insert(pair);
  end_connection(found->second, found->second->side_of(*decides));
  cluster_.at(heals, [this, pair] {
    note_fault();
    --breaks_under_way_;
    suspected_.erase(pair);
    if (living(pair.first) && living(pair.second)) connect_later(pair.first, pair.second, draw(scenario_.connect));
  });
}

void ElasticNetwork::cut_link(const Break& its) {
  tell("{} and {} do not reach each other", its.one, its.other);
  ++links_;
  ++breaks_under_way_;
  const Pair pair = pair_of(its.one, its.other);
  suspected_.insert(pair);
  if (const auto found = connections_.find(pair); found != connections_.end()) cut(found->second);
  cluster_.at(cluster_.now() + its.heals_after, [this, pair] {
    tell("{} and {} reach each other", pair.first, pair.second);
    note_fault();
    --breaks_under_way_;
    suspected_.erase(pair);
    if (living(pair.first) && living(pair.second)) connect_later(pair.first, pair.second, draw(scenario_.connect));
  });
}

// ---- connections ----

bool ElasticNetwork::is_apart(int one, int other) const {
  return std::ranges::any_of(partitioned_,
                             [&](const Break* its) { return its->half[place(one)] != its->half[place(other)]; }) ||
         suspected_.contains(pair_of(one, other));
}

void ElasticNetwork::connect_later(int one, int other, double delay) {
  if (!waiting_.insert(pair_of(one, other)).second) return;
  cluster_.at(cluster_.now() + delay, [this, one, other] {
    waiting_.erase(pair_of(one, other));
    connect(one, other);
  });
}

void ElasticNetwork::connect(int one, int other) {
  if (cluster_.is_broken() || !living(one) || !living(other) || is_apart(one, other)) return;
  const Pair pair = pair_of(one, other);
  if (const auto found = connections_.find(pair); found != connections_.end()) {
    const Connection& last = *found->second;
    if (!last.is_ending) return;
    for (const auto& end : last.ends)  // the last end tells when it has heard
      if (end.machine->is_there && !end.is_told) return;
  }
  auto connection = std::make_shared<Connection>();
  Machine *const low = living(pair.first), *const high = living(pair.second);
  connection->ends = {Connection::End{low, low->incarnation}, Connection::End{high, high->incarnation}};
  connection->made = cluster_.now();
  connections_[pair] = connection;
  for (const int side : {0, 1}) {
    Connection::End& end = connection->ends[place(side)];
    end.met_at = end.newest = cluster_.now() + draw(scenario_.connect);
    cluster_.at(end.met_at, [this, connection, side] { meet(connection, side); });
  }
}

void ElasticNetwork::meet(const ConnectionPtr& connection, int side) {
  Connection::End &end = connection->ends[place(side)], &other = connection->ends[place(1 - side)];
  if (end.is_closed || end.drops) return;
  end.is_met = true;
  put(*end.machine, {other.machine->rank, {}, Control::What::met, other.incarnation});
}

void ElasticNetwork::put(Machine& machine, Control control) {
  machine.controls.push_back(std::move(control));
  cluster_.ring(machine.rank);
}

ConnectionPtr ElasticNetwork::connection(const Machine& machine, int rank) const {
  const auto found = connections_.find(pair_of(machine.rank, rank));
  if (found == connections_.end()) return nullptr;
  Connection& connection = *found->second;
  if (connection.ends[0].machine != &machine && connection.ends[1].machine != &machine) return nullptr;
  const Connection::End& end = connection.end_of(machine);
  return end.is_met && !end.is_closed && end.incarnation == machine.incarnation ? found->second : nullptr;
}

bool ElasticNetwork::is_up(int one, int other, double since) const {
  const auto found = connections_.find(pair_of(one, other));
  return found != connections_.end() && found->second->is_up() && found->second->ends[0].met_at <= since &&
         found->second->ends[1].met_at <= since;
}

void ElasticNetwork::send_control(Machine& from, int to, engines::ConstBytes payload) {
  std::vector<std::byte> bytes(payload.begin(), payload.end());
  if (flaw_.tamper && !is_news(bytes) && !flaw_.tamper(from.rank, to, bytes)) return;
  ++control_messages_;
  const auto connection = this->connection(from, to);
  if (history_) tell("{} tells {}{}: {}", from.rank, to, connection ? "" : ", who is not there", words_of(bytes));
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

std::optional<Control> ElasticNetwork::take_control(Machine& machine) {
  if (machine.has_reacted) machine.knows_lost = machine.told_lost;  // who takes again has reacted to what it took
  machine.has_reacted = machine.controls.empty();
  if (machine.controls.empty()) return std::nullopt;
  Control first = std::move(machine.controls.front());
  machine.controls.pop_front();
  if (first.what == Control::What::lost) machine.told_lost.insert({first.peer, first.incarnation});
  if (first.what == Control::What::met) machine.told_lost.erase({first.peer, first.incarnation});
  if (history_) {
    if (first.what == Control::What::message)
      tell("{} hears from {}: {}", machine.rank, first.peer, words_of(first.payload));
    else
      tell("{} {} {}, incarnation {}", machine.rank, first.what == Control::What::met ? "meets" : "loses", first.peer,
           first.incarnation);
  }
  return first;
}

// ---- their ends ----

void ElasticNetwork::end_connection(const ConnectionPtr& connection, int first) {
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

void ElasticNetwork::cut(const ConnectionPtr& connection) {
  if (std::exchange(connection->is_ending, true)) return;
  for (const int side : {0, 1}) {
    connection->ends[place(side)].drops = true;
    cluster_.at(cluster_.now() + draw(scenario_.close), [this, connection, side] { close(connection, side); });
  }
}

// Transfers and the control stream tell of it in any order.
void ElasticNetwork::close(const ConnectionPtr& connection, int side) {
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

void ElasticNetwork::told(const ConnectionPtr& connection, int side) {
  connection->ends[place(side)].is_told = true;
  note_fault();
  connect_later(connection->ends[0].machine->rank, connection->ends[1].machine->rank, draw(scenario_.connect));
}

void ElasticNetwork::end_all(Machine& machine, bool is_orderly) {
  for (const auto& [pair, connection] : connections_) {
    if (connection->ends[0].machine != &machine && connection->ends[1].machine != &machine) continue;
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
