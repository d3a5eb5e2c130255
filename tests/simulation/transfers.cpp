#include "simulation/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using engines::Bytes;
using engines::ConstBytes;
using engines::Pending;
using engines::Tag;

// What lies where something will be received: as floats, not a number.
constexpr std::byte kNothing{0xff};

bool overlap(ConstBytes a, ConstBytes b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

std::size_t place_of(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

template <typename Transfer>
class Transfers::Operation final : public engines::Operation {
 public:
  Operation(Transfers& transfers, Transfer& transfer) : transfers_(transfers), transfer_(transfer) {}
  ~Operation() override {
    if (!is_done_) transfers_.withdraw(transfer_);
  }
  bool done() override { return is_done_ = is_done_ || transfers_.end(transfer_); }

 private:
  Transfers& transfers_;
  Transfer& transfer_;
  bool is_done_ = false;
};

Transfers::Transfers(Cluster& cluster, Lie lie)
    : cluster_(cluster),
      lie_(lie),
      sending_(place_of(cluster.scenario().options.workers)),
      unmatched_(sending_.size()),
      receiving_(sending_.size()) {}

// With a rendezvous the bytes do not begin to travel before they are expected.
Pending Transfers::send(int from, int to, Tag tag, ConstBytes data) {
  const Scenario& scenario = cluster_.scenario();
  require_room(from, data, false);
  Message& message =
      messages_.emplace_back(Message{.from = from,
                                     .to = to,
                                     .tag = tag,
                                     .data = data,
                                     .bytes = {data.begin(), data.end()},
                                     .is_read_late = cluster_.random().uniform() < scenario.read_late,
                                     .is_rendezvous = cluster_.random().uniform() < scenario.rendezvous});
  sending_[place_of(from)].push_back(&message);
  auto& expected = receiving_[place_of(to)];
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
  cluster_.at(cluster_.now() + draw(scenario.parts), [this, &message] {
    message.has_arrived = true;
    meet(message);
  });
  return std::make_unique<Operation<Message>>(*this, message);
}

Pending Transfers::receive(int at, int peer, Tag tag, Bytes data) {
  require_room(at, data, true);
  std::ranges::fill(data, kNothing);
  Receive& receive = receives_.emplace_back(
      Receive{.at = at, .peer = peer, .tag = tag, .data = data, .is_written_late = cluster_.random().below(2) == 0});
  receiving_[place_of(at)].push_back(&receive);
  auto& sent = unmatched_[place_of(at)];
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
  return message.from == receive.peer && message.to == receive.at &&
         (message.tag == receive.tag || lie_ == Lie::tags_are_equal);
}

void Transfers::meet(Message& message) {
  if (!message.has_arrived || !message.receive) return;
  if (!message.is_rendezvous) return hand_over(message);
  const double over = cluster_.now() + draw(cluster_.scenario().parts);
  cluster_.at(over, [this, &message] { hand_over(message); });
  cluster_.at(over + draw(cluster_.scenario().sent), [this, &message] { take_off(message); });
}

void Transfers::hand_over(Message& message) {
  if (cluster_.is_broken()) return;
  Receive& receive = *message.receive;
  if (receive.data.size() != message.data.size())
    return cluster_.break_with(
        std::make_exception_ptr(Violation(property::kFits, receive.at, -1,
                                          fmt::format("worker {} sends {} bytes where {} are expected", message.from,
                                                      message.data.size(), receive.data.size()))));
  receive.has_come = true;
  if (!receive.is_written_late && lie_ != Lie::receives_are_done) write(receive);
  cluster_.ring(receive.at);
}

void Transfers::take_off(Message& message) {
  message.is_off = true;
  cluster_.ring(message.from);
}

// From here on the sender may write the bytes again.
void Transfers::read(Message& message) {
  if (std::exchange(message.is_read, true)) return;
  if (!std::ranges::equal(message.bytes, message.data)) touched(message.from, message.to, "sends");
}

void Transfers::write(Receive& receive) {
  read(*receive.message);
  if (!std::ranges::all_of(receive.data, [](std::byte byte) { return byte == kNothing; }))
    touched(receive.at, receive.peer, "receives");
  std::ranges::copy(receive.message->bytes, receive.data.begin());
  receive.is_written = true;
}

bool Transfers::end(Message& message) {
  if (lie_ == Lie::sends_are_off) return true;
  if (!message.is_off) return false;
  read(message);
  std::erase(sending_[place_of(message.from)], &message);
  return true;
}

bool Transfers::end(Receive& receive) {
  if (lie_ == Lie::receives_are_done) {
    std::erase(receiving_[place_of(receive.at)], &receive);
    return true;
  }
  if (!receive.has_come) return false;
  if (!receive.is_written) write(receive);
  if (!std::ranges::equal(receive.message->bytes, receive.data)) touched(receive.at, receive.peer, "receives");
  std::erase(receiving_[place_of(receive.at)], &receive);
  return true;
}

void Transfers::require_room(int rank, ConstBytes data, bool is_written) const {
  for (const Receive* receive : receiving_[place_of(rank)])
    if (overlap(data, receive->data)) touched(rank, receive->peer, "receives");
  for (const Message* message : sending_[place_of(rank)])
    if (is_written && overlap(data, message->data)) touched(rank, message->to, "sends");
}

void Transfers::touched(int rank, int peer, const char* what) const {
  throw Violation(property::kUntouched, rank, -1,
                  fmt::format("it writes where it {} a part {} worker {}", what, *what == 's' ? "to" : "from", peer));
}

void Transfers::withdraw(const Message& message) {
  if (cluster_.is_broken()) return;
  cluster_.break_with(
      std::make_exception_ptr(Violation(property::kNothingLeft, message.from, -1,
                                        fmt::format("a part to worker {} is under way at the end", message.to))));
}

void Transfers::withdraw(const Receive& receive) {
  if (cluster_.is_broken()) return;
  cluster_.break_with(std::make_exception_ptr(Violation(
      property::kNothingLeft, receive.at, -1, fmt::format("a part from worker {} is still expected", receive.peer))));
}

}  // namespace flockstep::simulation
