// One step of a member, as its parts see it: when it is, who is lost, who takes part, and where actions go.
#pragma once

#include <utility>

#include "protocol/events.h"

namespace flockstep::protocol {

class Membership;

struct Turn {
  base::Time now;
  const Ranks& lost;
  const Membership& attendance;
  std::vector<Action>& actions;

  void send(int peer, Message message) const {
    message.lost = lost;
    actions.push_back(Send{peer, std::move(message)});
  }
};

}  // namespace flockstep::protocol
