// Ways in which members, engines, rounds and models can go wrong: for showing that it is noticed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engines/engine.h"
#include "protocol/message.h"
#include "protocol/options.h"
#include "simulation/passed_on.h"

namespace flockstep::simulation {

// A member as a run sees it, so that something can stand between the two.
class Participant {
 public:
  virtual ~Participant() = default;
  virtual std::vector<protocol::Action> step(base::Time now, const protocol::Event& event) = 0;
};
using MakeParticipant = std::function<std::unique_ptr<Participant>(const protocol::Options&, int rank)>;
std::unique_ptr<Participant> make_honest(const protocol::Options& options, int rank);

struct EngineFlaw {
  bool sends_are_off = false, receives_are_done = false, withdraws_at_once = false;  // or so it says
  bool tells_no_loss = false, crosses_connections = false;
  engines::Tag compared = ~engines::Tag{0};  // bits of tags
  // Changes what agents say; false drops it.
  std::function<bool(int to, protocol::Message& message)> tamper{};
};

using Wrap = std::function<std::unique_ptr<PassedOn>(runtime::RoundData&)>;

struct Flaws {
  MakeParticipant make = make_honest;
  Wrap rounds{};  // as if rounds called the data wrongly
  Wrap data{};    // as if the data did wrongly what it is told
  EngineFlaw engine{};
};

}  // namespace flockstep::simulation
