// How messages travel between simulated workers. Control messages of a pair arrive once and in order; parts too, and
// are handed over when the scenario says. The bytes of a part are read between the moment it is sent and the moment its
// sender hears that it is off, or it is handed over: as early or as late as that allows.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "simulation/queue.h"
#include "simulation/truth.h"

namespace flockstep::simulation {

class Network {
 public:
  struct Post {  // a part on its way
    int from = 0, to = 0;
    protocol::Part part;
    Pieces pieces;
    bool rendezvous = false, read_late = false;
    bool read = false, arrived = false, expected = false, handed = false, told_sender = false, lost = false;
  };
  struct Expectation {
    int at = 0, peer = 0;
    protocol::Part part;
  };

  Network(Truth& truth, Queue& queue);

  void send(int from, int to, const protocol::Message& message);
  // A whole model, for one who comes back.
  void give(int from, int to);
  void post(int from, int to, const protocol::Part& part);
  void expect(int at, int peer, const protocol::Part& part);
  void arrives(int post);
  // An event about this part has come up: its bytes are read now at the latest.
  void read(int post);
  const Pieces& pieces(int post) const { return posts_[static_cast<std::size_t>(post)].pieces; }

  // Some of what it sent last is lost, and all that was sent to it.
  void crash(int rank);
  // The worker gives up its attempt at a round, or the round has begun again or ended: whoever waits to hand it a part
  // of what is void is told it is off, as if the engine took it and threw it away.
  void void_attempts(int rank);

  const std::vector<Post>& posts() const { return posts_; }
  const std::vector<Expectation>& expectations() const { return expectations_; }  // that nothing was sent for
  std::int64_t messages() const { return messages_; }

 private:
  std::size_t pair(int from, int to) const { return static_cast<std::size_t>(from * workers_ + to); }
  void hand_over(int post, double time);
  void tell_sender(int post, double time);
  void meet(int post);
  bool is_void(const Post& post) const;
  void lose_parts(int rank, double share);

  Truth& truth_;
  Queue& queue_;
  base::Random random_;
  int workers_;
  std::vector<double> control_arrives_, part_arrives_, part_handed_;  // newest, per pair
  std::vector<Post> posts_;
  std::vector<int> unexpected_;  // posts that no expectation was met with
  std::vector<Expectation> expectations_;
  std::int64_t messages_ = 0;
};

}  // namespace flockstep::simulation
