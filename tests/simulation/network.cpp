#include "simulation/network.h"

#include <algorithm>

namespace flockstep::simulation {

using protocol::Message;
using protocol::Part;
using protocol::PartReceived;
using protocol::PartSent;
using protocol::Received;

Network::Network(Truth& truth, Queue& queue)
    : truth_(truth),
      queue_(queue),
      random_(truth.scenario.seed, base::Purpose::test, 1),
      workers_(truth.options().workers),
      control_arrives_(static_cast<std::size_t>(workers_ * workers_)),
      part_arrives_(control_arrives_.size()),
      part_handed_(control_arrives_.size()) {}

void Network::send(int from, int to, const Message& message) {
  ++messages_;
  if (!truth_.lives(to)) return;
  double& newest = control_arrives_[pair(from, to)];
  newest = std::max(newest, truth_.now + truth_.scenario.control.draw(random_));
  const bool as_bytes = truth_.scenario.as_bytes;
  queue_.put(newest,
             {.rank = to,
              .event = Received{from, as_bytes ? protocol::message_from_bytes(to_bytes(message), workers_) : message}});
}

void Network::give(int from, int to) {
  if (!truth_.lives(to)) return;
  queue_.put(truth_.now + truth_.scenario.parts.draw(random_), {.rank = to, .event = protocol::Adopted{from}});
}

void Network::post(int from, int to, const Part& part) {
  const Scenario& scenario = truth_.scenario;
  const int number = static_cast<int>(posts_.size());
  Post& post = posts_.emplace_back();
  post.from = from;
  post.to = to;
  post.part = part;
  post.read_late = random_.uniform() < scenario.read_late;
  post.rendezvous = truth_.lives(to) && random_.uniform() < scenario.rendezvous;
  if (!post.read_late && !post.rendezvous) read(number);
  if (!post.rendezvous) {
    double off = truth_.now + scenario.sent.draw(random_);
    if (!truth_.lives(to)) off += scenario.loss.draw(random_);
    tell_sender(number, off);
  }
  const auto met = std::ranges::find_if(expectations_, [&](const Expectation& expectation) {
    return expectation.at == to && expectation.peer == from && expectation.part == part;
  });
  if (met != expectations_.end()) {
    post.expected = true;
    expectations_.erase(met);
  } else {
    unexpected_.push_back(number);
  }
  if (!truth_.lives(to)) {
    post.lost = true;
    return;
  }
  double& newest = part_arrives_[pair(from, to)];
  newest = std::max(newest, truth_.now + scenario.parts.draw(random_));
  queue_.put(newest, {.kind = Happening::Kind::part_arrives, .rank = to, .post = number});
}

void Network::expect(int at, int peer, const Part& part) {
  const auto met = std::ranges::find_if(unexpected_, [&](int number) {
    const Post& post = posts_[static_cast<std::size_t>(number)];
    return post.to == at && post.from == peer && post.part == part;
  });
  if (met == unexpected_.end()) {
    expectations_.push_back({at, peer, part});
    return;
  }
  const int number = *met;
  unexpected_.erase(met);
  Post& post = posts_[static_cast<std::size_t>(number)];
  post.expected = true;
  if (post.arrived && !post.handed && !post.lost) meet(number);
}

void Network::arrives(int number) {
  Post& post = posts_[static_cast<std::size_t>(number)];
  post.arrived = true;
  if (!post.rendezvous) read(number);
  if (post.expected || !truth_.scenario.parts_wait)
    meet(number);
  else if (is_void(post) && !post.told_sender)
    tell_sender(number, truth_.now + truth_.scenario.sent.draw(random_));
}

// The part is there and may be handed over; with a rendezvous its bytes only now begin to travel.
void Network::meet(int number) {
  Post& post = posts_[static_cast<std::size_t>(number)];
  const Scenario& scenario = truth_.scenario;
  double& newest = part_handed_[pair(post.from, post.to)];
  newest = std::max(newest, truth_.now + (post.rendezvous ? scenario.parts.draw(random_) : 0));
  if (post.rendezvous) {
    if (!post.read_late) read(number);
    tell_sender(number, newest + scenario.sent.draw(random_));
  }
  hand_over(number, newest);
}

void Network::hand_over(int number, double time) {
  Post& post = posts_[static_cast<std::size_t>(number)];
  post.handed = true;
  queue_.put(time, {.rank = post.to, .event = PartReceived{post.from, post.part}, .post = number});
}

void Network::tell_sender(int number, double time) {
  Post& post = posts_[static_cast<std::size_t>(number)];
  post.told_sender = true;
  queue_.put(time, {.rank = post.from, .event = PartSent{post.to, post.part}, .post = number});
}

void Network::read(int number) {
  Post& post = posts_[static_cast<std::size_t>(number)];
  if (post.read || post.lost) return;
  post.pieces = truth_.worker(post.from).read(post.to, post.part);
  post.read = true;
}

bool Network::is_void(const Post& post) const {
  const StandIn& receiver = truth_.worker(post.to);
  if (receiver.executed() >= post.part.round) return true;
  const auto& flight = receiver.flight();
  return flight && flight->round == post.part.round && !std::ranges::includes(post.part.absent, flight->left_out);
}

void Network::void_attempts(int rank) {
  if (truth_.crashed == 0 || truth_.scenario.rendezvous == 0) return;
  for (const int number : unexpected_) {
    const Post& post = posts_[static_cast<std::size_t>(number)];
    if (post.to == rank && post.arrived && !post.told_sender && !post.lost && is_void(post))
      tell_sender(number, truth_.now + truth_.scenario.sent.draw(random_));
  }
}

// Messages of one pair are lost from one on, so the `share` is that of the pairs' losing more at each message.
void Network::crash(int rank) {
  const double share = random_.below(3) * 0.5;
  lose_parts(rank, share);
  RankSet losing = 0;
  for (Happening* happening : queue_.waiting()) {
    if (happening->post >= 0 && happening->rank != rank) {
      const Post& post = posts_[static_cast<std::size_t>(happening->post)];
      const bool is_notice =
          happening->kind == Happening::Kind::event && std::holds_alternative<PartSent>(happening->event);
      if (!is_notice && post.lost) happening->withdrawn = true;
    } else if (const auto* received = std::get_if<Received>(&happening->event);
               received && received->peer == rank && happening->kind == Happening::Kind::event) {
      if (random_.uniform() < share) losing |= bit(happening->rank);
      if (contains(losing, happening->rank)) happening->withdrawn = true;
    }
    if (happening->rank == rank) happening->withdrawn = true;
  }
}

// Bytes that were not read yet are lost with their sender; sends to the crashed worker are off at last.
void Network::lose_parts(int rank, double share) {
  RankSet losing = 0;
  for (std::size_t number = 0; number < posts_.size(); ++number) {
    Post& post = posts_[number];
    if (post.from == rank && !(post.arrived && post.read)) {
      if (!post.read || random_.uniform() < share) losing |= bit(post.to);
      if (!post.read || contains(losing, post.to)) post.lost = true;
    }
    if (post.to == rank) {
      post.lost = true;
      if (!post.told_sender && truth_.lives(post.from))
        tell_sender(static_cast<int>(number), truth_.now + truth_.scenario.loss.draw(random_));
    }
  }
}

}  // namespace flockstep::simulation
