// What can happen to a member of the protocol, and what it may want done.
#pragma once

#include <variant>

#include "base/time.h"
#include "protocol/message.h"

namespace flockstep::protocol {

// ---- events ----
struct Arrived {  // the worker has ended this iteration, and its model is published: every one in turn, from the first
  Iteration iteration;
  bool synchronises = false;  // the round waits for everybody who lives, and is over all: all workers say so
};
struct Received {
  int peer;
  Message message;
};
struct PartReceived {  // after it was expected; earlier does no harm
  int peer;
  Part part;
};
struct PartSent {  // its bytes may be written again
  int peer;
  Part part;
};
struct Tick {};  // a time asked for by WakeAt has come; late or needless ones do no harm
struct PeerLost {
  int peer;
  Incarnation incarnation = 1;
};
struct Met {  // a connection to the peer is there: messages pass, until it is lost
  int peer;
  Incarnation incarnation;
};
struct Withdrawn {};  // as Withdraw has asked for: nothing of the round is under way
struct Leaves {};     // the worker, between two iterations, until it comes back
struct ComesBack {};  // it wants to begin an iteration again, and waits for Proceed
struct Adopted {      // the model of that worker, as Adopt has asked for
  int peer;
};
struct Forgone {};  // as Forgo has asked for: no model is on its way here
struct MayBegin {   // as AskToBegin has asked for: alone, and its model is that of iteration `first - 1`
  Iteration first;
};
using Event = std::variant<Arrived, Received, PartReceived, PartSent, Tick, PeerLost, Leaves, ComesBack, Adopted,
                           Forgone, Met, Withdrawn, MayBegin>;

// ---- actions, to be done in order ----
struct Send {
  int peer;
  Message message;
};
// Take the contribution to the round, now: what was last published. It begins a round, and begins it again with fewer
// members after a loss: what was received and summed before is void.
struct Freeze {
  Iteration round;
  Iteration version;  // the iteration of the published model; first - 1 for the initial one
  Ranks members;      // those who take part, in rising order, oneself included
  bool is_synchronisation;
  bool ends_period;  // a round over all workers; running statistics travel with it
};
// The round under way is void: nothing of it that is not done is wanted. Then Withdrawn; and Freeze begins it again.
struct Withdraw {
  Iteration round;
};
struct SendPart {
  int peer;
  Part part;
};
struct ExpectPart {
  int peer;
  Part part;
};
struct AddRow {  // in a grid: the whole row's contributions to one's own column of the chunk are there: add them up
  int chunk;
};
struct Sum {  // all that makes one's own piece of the chunk is there: average it
  int chunk;
};
struct Place {  // an average of the chunk is there, the piece of one in the column or the column of one in the row; and
                // one's own part of it has been sent
  int peer;
  int chunk;
};
struct Complete {  // the whole average is there and nothing is under way
  Iteration round;
  int members;
  bool is_synchronisation;
};

enum class Outcome {
  synchronised,     // everybody's model of this iteration was averaged
  fresh,            // round t was waited for, and this iteration's model is in it
  stale_in_flight,  // round t was waited for, but had taken an older model when the worker arrived
  stale_behind,     // a round of this number or later had run before the worker arrived
  alone,            // the same, and its average was merged before: nothing new to merge with
};

struct Merge {  // the worker's model with the average of `round`, the newest that is complete
  Iteration iteration, round;
  Outcome outcome;
};
struct Proceed {  // the worker may begin `iteration`
  Iteration iteration;
};
struct WakeAt {  // give a Tick then; replaces what was asked for before
  base::Time time;
};
struct Adopt {  // receive the peer's model, which becomes this worker's; no round is under way
  int peer;
};
struct Forgo {};  // that model is not wanted any more. Then Forgone
struct Give {     // send the peer a model that is all of one iteration, such as what is published
  int peer;
};
struct Rejoin {  // what the worker has now is the model of iteration `iteration - 1`, for rounds to take; Proceed
                 // follows
  Iteration iteration;
};
// The others go on without this worker, or have gone before it had their model (`by` is its own rank): it has to begin
// again, as another member under `incarnation`.
struct Expelled {
  int by;
  Incarnation incarnation;
};
struct WaitsFor {  // for a while, to join: for this peer, which was not met and which `by` counts among the living
  int peer, by;
};
struct AskToBegin {};  // no worker is there to join: may this one begin alone? If it may, MayBegin, at once
struct Refused {       // the peer is part of another training: this worker cannot join it
  int by;
};
using Action = std::variant<Send, Freeze, Withdraw, SendPart, ExpectPart, AddRow, Sum, Place, Complete, Merge, Proceed,
                            WakeAt, Adopt, Forgo, Give, Rejoin, Expelled, WaitsFor, AskToBegin, Refused>;

}  // namespace flockstep::protocol
