#include "simulation/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using engines::ConstBytes;
using engines::Pending;
using engines::Tag;

// What lies where something will be received: as floats, not a number.
constexpr std::byte kUnwritten{0xff};

bool touch(ConstBytes a, ConstBytes b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

std::size_t place_of(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

template <typename T>
class Transfers::Operation final : public engines::Operation {
 public:
  Operation(Transfers& transfers, T& transfer) : transfers_(transfers), transfer_(transfer) {}
  ~Operation() override {
    const bool is_lied_about = transfer_.is_withdrawn && transfers_.network_.flaw().withdraws_at_once;
    if (!transfers_.network_.is_elastic())
      transfers_.require_end(transfer_, is_done_);
    else if (!transfer_.is_free && !is_lied_about)
      transfers_.free(transfer_);
  }
  bool done() override { return is_done_ = is_done_ || transfers_.end(transfer_); }
  void withdraw() override {
    if (!transfer_.is_free && !std::exchange(transfer_.is_withdrawn, true)) transfers_.withdraw(transfer_);
  }
  std::optional<int> gone() override {
    if (is_done_ || !transfer_.is_gone()) return {};
    if (!transfer_.is_free) transfers_.free(transfer_);
    return transfer_.peer;
  }

 private:
  Transfers& transfers_;
  T& transfer_;
  bool is_done_ = false;
};

Transfers::Transfers(SeededNetwork& network)
    : network_(network),
      cluster_(network.cluster()),
      sending_(place_of(network.scenario().ranks)),
      unmatched_(sending_.size()),
      receiving_(sending_.size()) {}

void Transfers::Transfer::is_at(const ConnectionPtr& its, Machine& own, int other, Tag with) {
  connection = its;
  side = its ? its->side_of(own) : 0;
  machine = &own;
  peer = other;
  tag = with;
}

Pending Transfers::send(Machine& from, int to, Tag tag, ConstBytes data) {
  const Scenario& scenario = cluster_.scenario();
  require_room(from, data, false);
  ++messages_;
  const auto connection = network_.connection(from, to);
  Message& message = all_messages_.emplace_back();
  message.is_at(connection, from, to, tag);
  message.data = data;
  message.bytes.assign(data.begin(), data.end());
  message.is_read_late = cluster_.random().uniform() < scenario.read_late;
  message.is_rendezvous = cluster_.random().uniform() < scenario.rendezvous;
  if (!connection) {
    message.is_free = true;
    return std::make_unique<Operation<Message>>(*this, message);
  }
  sending_[place_of(from.rank)].push_back(&message);
  const Receives& expected = receiving_[place_of(to)];
  const auto met = std::ranges::find_if(
      expected, [&](const Receive* receive) { return !receive->message && fits(message, *receive); });
  if (met == expected.end()) {
    unmatched_[place_of(to)].push_back(&message);
  } else {
    message.receive = *met;
    (*met)->message = &message;
  }
  if (!message.is_rendezvous) {
    if (!message.is_read_late) read(message);
    cluster_.at(cluster_.now() + draw(scenario.sent), [this, &message] { take_off(message); });
  }
  // It may have been sent before the other end has heard of the connection.
  const double there =
      connection->ends[static_cast<std::size_t>(1 - message.side)].is_met ? 0 : draw(network_.scenario().connect);
  cluster_.at(cluster_.now() + there + draw(scenario.parts), [this, &message] { arrive(message); });
  return std::make_unique<Operation<Message>>(*this, message);
}

Pending Transfers::receive(Machine& at, int peer, Tag tag, engines::Bytes data) {
  require_room(at, data, true);
  std::ranges::fill(data, kUnwritten);
  const auto connection = network_.connection(at, peer);
  Receive& receive = all_receives_.emplace_back();
  receive.is_at(connection, at, peer, tag);
  receive.data = data;
  receive.is_written_late = cluster_.random().below(2) == 0;
  if (!connection) {
    receive.is_free = true;
    return std::make_unique<Operation<Receive>>(*this, receive);
  }
  receiving_[place_of(at.rank)].push_back(&receive);
  Messages& sent = unmatched_[place_of(at.rank)];
  const auto met = std::ranges::find_if(sent, [&](const Message* message) { return fits(*message, receive); });
  if (met != sent.end()) {
    receive.message = *met;
    (*met)->receive = &receive;
    sent.erase(met);
    meet(*receive.message);
  }
  return std::make_unique<Operation<Receive>>(*this, receive);
}

bool Transfers::fits(const Message& message, const Receive& receive) const {
  const EngineFlaw& flaw = network_.flaw();
  if (receive.is_withdrawn || message.is_recalled || message.side == receive.side) return false;
  if (message.connection != receive.connection &&
      !(flaw.crosses_connections && message.machine->rank == receive.peer && message.peer == receive.machine->rank))
    return false;
  return (message.tag & flaw.compared) == (receive.tag & flaw.compared);
}

// What was read before its sender's end closed may yet arrive.
bool Transfers::reaches(const Message& message) const {
  const Connection::End &own = message.connection->ends[static_cast<std::size_t>(message.side)],
                        &other = message.connection->ends[static_cast<std::size_t>(1 - message.side)];
  if (network_.flaw().crosses_connections) return message.is_read || !own.is_closed;
  return !other.is_closed && !other.drops && (message.is_read || (!own.is_closed && !message.is_free));
}

void Transfers::arrive(Message& message) {
  if (cluster_.is_broken() || message.is_recalled || !reaches(message)) return;
  message.has_arrived = true;
  meet(message);
}

void Transfers::meet(Message& message) {
  if (!message.has_arrived || !message.receive) return;
  message.is_moving = true;
  if (!message.is_rendezvous) return hand_over(message);
  const double over = cluster_.now() + draw(cluster_.scenario().parts);
  cluster_.at(over, [this, &message] { hand_over(message); });
  cluster_.at(over + draw(cluster_.scenario().sent), [this, &message] { take_off(message); });
}

void Transfers::hand_over(Message& message) {
  if (cluster_.is_broken() || !reaches(message)) return;
  Receive& receive = *message.receive;
  if (receive.is_free) return;
  if (receive.data.size() != message.data.size())
    return cluster_.break_with(std::make_exception_ptr(
        Violation(property::kFits, receive.machine->rank, -1,
                  fmt::format("worker {} sends {} bytes where {} are expected", message.machine->rank,
                              message.data.size(), receive.data.size()))));
  if (network_.is_elastic()) read(message);  // its sender may not be there for long
  receive.has_come = true;
  if (!receive.is_written_late && !network_.flaw().receives_are_done) write(receive);
  cluster_.ring(receive.machine->rank);
}

void Transfers::take_off(Message& message) {
  if (message.is_free || message.connection->ends[static_cast<std::size_t>(message.side)].is_closed) return;
  message.is_off = true;
  cluster_.ring(message.machine->rank);
}

// From here on the sender may write the bytes again.
void Transfers::read(Message& message) {
  if (std::exchange(message.is_read, true)) return;
  if (!std::ranges::equal(message.bytes, message.data)) touched(message.machine->rank, message.peer, "sends");
}

void Transfers::write(Receive& receive) {
  read(*receive.message);
  if (!std::ranges::all_of(receive.data, [](std::byte byte) { return byte == kUnwritten; }))
    touched(receive.machine->rank, receive.peer, "receives");
  std::ranges::copy(receive.message->bytes, receive.data.begin());
  receive.is_written = true;
}

bool Transfers::end(Message& message) {
  if (network_.flaw().sends_are_off) return true;
  if (message.is_withdrawn && (message.is_free || network_.flaw().withdraws_at_once)) return true;
  if (!message.is_off || message.is_free) return false;
  read(message);
  free(message);
  return true;
}

bool Transfers::end(Receive& receive) {
  if (network_.flaw().receives_are_done) {
    std::erase(receiving_[place_of(receive.machine->rank)], &receive);
    return true;
  }
  if (receive.is_withdrawn && (receive.is_free || network_.flaw().withdraws_at_once)) return true;
  if (!receive.has_come || receive.is_free) return false;
  if (!receive.is_written) write(receive);
  if (!std::ranges::equal(receive.message->bytes, receive.data))
    touched(receive.machine->rank, receive.peer, "receives");
  free(receive);
  return true;
}

// ---- what is not wanted any more ----

// What is moving moves on to its end; what has not met anything may yet arrive, where its bytes are on their way.
void Transfers::withdraw(Message& message) {
  ++withdrawn_;
  if (message.is_off || message.is_moving) return;
  if (message.is_rendezvous || cluster_.random().below(2) == 0) {
    message.is_recalled = true;
    std::erase(unmatched_[place_of(message.peer)], &message);
    if (message.receive) std::exchange(message.receive, nullptr)->message = nullptr;
  } else {
    read(message);
  }
  cluster_.at(cluster_.now() + draw(cluster_.scenario().sent), [this, &message] {
    if (message.is_free || !message.machine->is_there) return;
    if (!std::ranges::equal(message.bytes, message.data)) touched(message.machine->rank, message.peer, "sends");
    free(message);
    cluster_.ring(message.machine->rank);
  });
}

void Transfers::withdraw(Receive& receive) {
  ++withdrawn_;
  if (receive.message && receive.message->is_moving) return;
  if (receive.message) {  // it has yet to arrive, for another one
    receive.message->receive = nullptr;
    Messages& sent = unmatched_[place_of(receive.machine->rank)];
    sent.insert(sent.begin(), std::exchange(receive.message, nullptr));
  }
  cluster_.at(cluster_.now() + draw(cluster_.scenario().sent), [this, &receive] {
    if (receive.is_free || !receive.machine->is_there) return;
    if (!std::ranges::all_of(receive.data, [](std::byte byte) { return byte == kUnwritten; }))
      touched(receive.machine->rank, receive.peer, "receives");
    free(receive);
    cluster_.ring(receive.machine->rank);
  });
}

void Transfers::free(Message& message) {
  message.is_free = true;
  std::erase(sending_[place_of(message.machine->rank)], &message);
}

void Transfers::free(Receive& receive) {
  receive.is_free = true;
  std::erase(receiving_[place_of(receive.machine->rank)], &receive);
}

// Where nothing can be withdrawn.
void Transfers::require_end(const Transfer& transfer, bool is_done) {
  if (is_done || cluster_.is_broken()) return;
  cluster_.break_with(std::make_exception_ptr(
      Violation(property::kNothingLeft, transfer.machine->rank, -1,
                fmt::format("a part to or from worker {} is under way at the end", transfer.peer))));
}

void Transfers::require_room(const Machine& machine, ConstBytes data, bool is_written) const {
  for (const Receive* receive : receiving_[place_of(machine.rank)])
    if (receive->machine == &machine && touch(data, receive->data)) touched(machine.rank, receive->peer, "receives");
  for (const Message* message : sending_[place_of(machine.rank)])
    if (is_written && message->machine == &machine && touch(data, message->data))
      touched(machine.rank, message->peer, "sends");
}

void Transfers::touched(int rank, int peer, const char* what) const {
  throw Violation(property::kUntouched, rank, -1,
                  fmt::format("it writes where it {} a part {} worker {}", what, *what == 's' ? "to" : "from", peer));
}

}  // namespace flockstep::simulation
