#include "engines/sim/engine.h"

#include <fmt/core.h>

#include <utility>

#include "base/check.h"
#include "engines/own_block.h"

namespace flockstep::engines::sim {
class SimEngine::SendOperation final : public Operation {
 public:
  SendOperation(const SimWorld& world, std::shared_ptr<Message> message)
      : world_(world), message_(std::move(message)) {}
  ~SendOperation() override {
    if (!message_->has_arrived && !world_.is_broken()) message_->keep();
  }
  bool done() override { return message_->has_arrived; }

 private:
  const SimWorld& world_;
  const std::shared_ptr<Message> message_;
};

class SimEngine::CollectiveOperation final : public Operation {
 public:
  CollectiveOperation(std::shared_ptr<Collective> collective, int rank)
      : collective_(std::move(collective)), rank_(rank) {}
  ~CollectiveOperation() override { collective_->leave(rank_); }
  bool done() override { return collective_->done(rank_); }
  std::vector<int> missing() override { return collective_->missing(); }

 private:
  std::shared_ptr<Collective> collective_;
  int rank_;
};

class SimEngine::FlagSignal final : public Signal {
 public:
  explicit FlagSignal(SimBell& bell) : bell_(bell) {}
  void raise() override {
    raised_ = true;
    bell_.ring();
  }
  bool take() override { return std::exchange(raised_, false); }

 private:
  SimBell& bell_;
  bool raised_ = false;
};

class SimEngine::ActorAgent final : public Agent {
 public:
  ActorAgent(SimEngine& engine, std::shared_ptr<bool> returned) : engine_(engine), returned_(std::move(returned)) {}
  ~ActorAgent() override {
    engine_.send_off();
    const std::function<bool()> returned = [this] { return *returned_; };
    while (!*returned_) engine_.bell().wait(returned, kForever_s);
  }
  bool done() override { return *returned_; }

 private:
  SimEngine& engine_;
  std::shared_ptr<bool> returned_;
};

SimEngine::SimEngine(SimWorld& world, const std::vector<std::unique_ptr<SimEngine>>& peers, int rank)
    : world_(world), peers_(peers), rank_(rank), inbox_(world, rank) {}

SimEngine::~SimEngine() = default;

Place SimEngine::place() const {
  Place place{0, 0};
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_ && !in_one_node(world_.nodes(), rank, rank_)) continue;
    ++place.workers;
    place.number += rank < rank_;
  }
  return place;
}

Pending SimEngine::join(Collective::Call call) {
  world_.throw_if_broken();
  call.owner = owner();
  auto collective = world_.collective(next_collective_++);
  collective->join(rank_, std::move(call));
  return std::make_unique<CollectiveOperation>(std::move(collective), rank_);
}

Pending SimEngine::all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> receive, Traffic traffic) {
  const auto self = static_cast<std::size_t>(rank_), count = static_cast<std::size_t>(size());
  base::check(send.size() == count && receive.size() == count, "a block per worker");
  copy_own_block(send[self], receive[self]);
  Collective::Call call;
  call.kind = Collective::Kind::all_to_all;
  call.traffic = traffic;
  call.send = Blocks(send);
  call.receive = Blocks(receive);
  for (std::size_t peer = 0; peer < count; ++peer)
    if (peer != self) call.bytes_for_all += send[peer].size();
  bytes_sent_in_collectives_ += world_.pretended(static_cast<double>(call.bytes_for_all), traffic);
  return join(std::move(call));
}

Pending SimEngine::all_gather(ConstBytes mine, std::span<const Bytes> receive, Traffic traffic) {
  const auto count = static_cast<std::size_t>(size());
  base::check(receive.size() == count, "a block per worker");
  copy_own_block(mine, receive[static_cast<std::size_t>(rank_)]);
  Collective::Call call;
  call.kind = Collective::Kind::all_gather;
  call.traffic = traffic;
  call.send.add(mine, count);
  call.receive = Blocks(receive);
  call.bytes_for_all = (count - 1) * mine.size();
  bytes_sent_in_collectives_ += world_.pretended(static_cast<double>(call.bytes_for_all), traffic);
  return join(std::move(call));
}

Pending SimEngine::broadcast(Bytes data, int root) {
  const auto count = static_cast<std::size_t>(size());
  base::check(root >= 0 && root < size(), "a root among the workers");
  Collective::Call call;
  call.kind = Collective::Kind::broadcast;
  call.root = root;
  call.bytes_for_all = data.size();
  call.send.add(rank_ == root ? data : Bytes(), count);
  call.receive.add(Bytes(), static_cast<std::size_t>(root));
  call.receive.add(rank_ == root ? Bytes() : data);
  call.receive.add(Bytes(), count - 1 - static_cast<std::size_t>(root));
  for (const Transfer& transfer : broadcast_schedule(rank_, size(), root, data, world_.goes_in_slices(data.size())))
    bytes_sent_in_collectives_ += world_.pretended(static_cast<double>(transfer.send.size()));
  return join(std::move(call));
}

Pending SimEngine::barrier() { return join({}); }

bool SimEngine::send_off() {
  if (outbox_.empty() && control_outbox_.empty()) return false;
  Simulator::at_once([this] {
    const auto messages = std::exchange(outbox_, {}), controls = std::exchange(control_outbox_, {});
    if (world_.is_broken()) return;
    for (const auto& control : controls) carry_control(control);
    if (!messages.empty()) carry(messages);
  });
  return true;
}

void SimEngine::carry_control(const Outgoing& control) {
  const double seconds = world_.simulator().time_alone({rank_, control.peer, control.simulated_bytes});
  Simulator::after(seconds, [this, message = control.message, &inbox = inbox_of(control.peer)] {
    if (!world_.is_broken()) inbox.arrive_control(rank_, *message);
  });
}

// All workers of one exchange use the same tags, so the first one gives them the same turn.
void SimEngine::carry(const std::vector<Outgoing>& messages) {
  std::vector<Parcel> parcels;
  for (const auto& message : messages) parcels.push_back({message.peer, message.simulated_bytes});
  const auto turn = static_cast<std::uint64_t>(messages.front().tag);
  for (const auto& [flows, which] : shipments_of(rank_, size(), parcels, turn, world_.nodes())) {
    const auto carried = std::make_shared<Carried>();
    carried->flows_under_way = flows.size();
    for (const auto index : which) carried->messages.push_back(messages[index]);
    world_.simulator().start(flows, [this, carried] {
      if (--carried->flows_under_way == 0) arrive(carried->messages);
    });
  }
}

void SimEngine::arrive(std::span<const Outgoing> messages) {
  for (const auto& [peer, tag, bytes, message] : messages)
    if (!world_.is_broken()) inbox_of(peer).arrive(rank_, tag, *message);
  bell().ring();  // the sends are done too
}

void SimEngine::check_address(int peer, Tag tag) const {
  base::check(peer >= 0 && peer < size(), "a peer among the workers");
  base::check(tag >= 0 && tag <= kMaximalTag, "a tag in 0 .. kMaximalTag");
}

Pending SimEngine::send(int peer, Tag tag, ConstBytes data) {
  world_.throw_if_broken();
  check_address(peer, tag);
  const auto message = std::make_shared<Message>(data);
  inbox_of(peer).announce(rank_, tag, message);
  const double bytes = world_.pretended(static_cast<double>(data.size()));
  const Outgoing outgoing{peer, tag, world_.simulated_bytes(bytes), message};
  if (peer == rank_) {
    arrive({&outgoing, 1});
  } else {
    bytes_sent_in_messages_ += bytes;
    outbox_.push_back(outgoing);
  }
  return std::make_unique<SendOperation>(world_, message);
}

Pending SimEngine::receive(int peer, Tag tag, Bytes data) {
  world_.throw_if_broken();
  check_address(peer, tag);
  auto receiver = inbox_.receive(peer, tag, data);
  world_.throw_if_broken();
  return receiver;
}

void SimEngine::send_control(int peer, ConstBytes payload) {
  world_.throw_if_broken();
  check_address(peer, 0);
  base::check(payload.size() <= kControlBytes, "a control message of at most kControlBytes");
  const auto message = std::make_shared<Message>(payload);
  message->keep();
  inbox_of(peer).announce_control(rank_, message);
  if (peer == rank_)
    inbox_.arrive_control(rank_, *message);
  else
    control_outbox_.push_back({peer, 0, world_.simulated_control_bytes(payload.size()), message});
}

std::optional<Control> SimEngine::take_control() {
  world_.throw_if_broken();
  return inbox_.take_control();
}

void SimEngine::sleep(base::Duration duration) {
  world_.throw_if_broken();
  if (duration.count() <= 0) return;
  send_off();
  if (agents_ > 0)
    Simulator::sleep(duration.count());
  else
    world_.simulator().doze(rank_, duration.count());
  world_.throw_if_broken();
}

void SimEngine::charge(double bytes_touched, Traffic traffic) {
  world_.throw_if_broken();
  const auto& options = world_.options();
  const double scale = traffic == Traffic::data ? options.bytes_scale : 1;
  const double seconds = bytes_touched * scale / (options.memory_gbytes_s * 1e9);
  if (seconds <= 0) return;
  send_off();
  world_.simulator().add_up(rank_, seconds);
  world_.throw_if_broken();
}

std::unique_ptr<Signal> SimEngine::make_signal() {
  world_.throw_if_broken();
  return std::make_unique<FlagSignal>(bell());
}

std::unique_ptr<Agent> SimEngine::spawn(const std::string& name, std::function<void()> body) {
  world_.throw_if_broken();
  auto returned = std::make_shared<bool>(false);
  ++agents_;
  world_.simulator().spawn(rank_, name, [this, returned, body = std::move(body)] {
    try {
      body();
      send_off();
    } catch (const Error& error) {
      world_.fail(error, -1);
    } catch (const std::exception& error) {
      world_.fail(
          Error(ErrorCode::peer_lost, fmt::format("an agent of worker {} stopped: {}", rank_, error.what()), "sim"),
          -1);
    } catch (...) {
      world_.fail(Error(ErrorCode::peer_lost, fmt::format("an agent of worker {} stopped", rank_), "sim"), -1);
    }
    *returned = true;
    --agents_;
    bell().ring();
  });
  return std::make_unique<ActorAgent>(*this, std::move(returned));
}

bool SimEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  const std::function<bool()> met = [&] { return world_.is_broken() || ready(); };
  const double left_s = (deadline - now()).count();
  bool is_met = met();
  if (!is_met && left_s > 0) {
    // What others do while this sets out may be what is waited for.
    is_met = (send_off() && met()) || bell().wait(met, left_s);
    if (!is_met && left_s >= kForever_s)
      fail(Error(ErrorCode::deadline,
                 fmt::format("worker {} waited for something that never happens in this simulation", rank_), "sim"));
    // The sum of the clock's steps may be a rounding error short of the deadline, which nobody should see.
    if (!is_met && now() < deadline) Simulator::sleep(kTick_s);
    is_met = is_met || met();
  }
  world_.throw_if_broken();
  return is_met;
}

void SimEngine::fail(const Error& error) {
  world_.fail(error, rank_);
  world_.throw_error();
}

}  // namespace flockstep::engines::sim
