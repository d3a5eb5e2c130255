// One step of a member, as its parts see it: when it is, who lives, who takes part, and where actions go.
#pragma once

#include <utility>

#include "protocol/events.h"
#include "protocol/roster.h"

namespace flockstep::protocol {

class Membership;

struct Turn {
  base::Time now;
  const Roster& roster;
  const Membership& attendance;
  std::vector<Action>& actions;

  void send(int peer, Message message) const {
    message.roster = roster.versions();
    actions.push_back(Send{peer, std::move(message)});
  }
};

// Whether the sender knew the same of everybody as is known here: then both have the same trees.
inline bool is_same(const Message& message, const Turn& turn) { return message.roster == turn.roster.versions(); }

}  // namespace flockstep::protocol
