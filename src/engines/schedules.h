// Broadcast and barrier as rounds of messages, in few steps for many workers. Pure: engines whose workers are processes
// carry these out, and `sim` tells how long they take.
#pragma once

#include <vector>

#include "engines/transfer.h"

namespace flockstep::engines {

// ceil(log2(size)): so many rounds reach everybody when in round k each reaches the one 2^k further on.
int rounds_among(int size);

// Dissemination: whoever has come tells the one 2^k further on in round k, and hears of all after the last round.
std::vector<Transfer> barrier_schedule(int rank, int size);

// What the root has reaches twice as many in each round (a binomial tree). Long data are cut into a part for each of
// the others instead, which then exchange them: everybody receives them once, and nobody sends them more often than
// that.
std::vector<Transfer> broadcast_schedule(int rank, int size, int root, Bytes data, bool in_parts);

// Whether a broadcast of so many bytes goes in parts: once these are worth a message each.
bool goes_in_parts(double bytes, int size);

}  // namespace flockstep::engines
