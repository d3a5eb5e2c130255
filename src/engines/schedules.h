// Broadcast and barrier as waves of messages, few of them for many workers. Pure: engines whose workers are processes
// carry these out, and `sim` tells how long they take.
#pragma once

#include <vector>

#include "engines/transfer.h"

namespace flockstep::engines {

// ceil(log2(size)): so many waves reach everybody when in wave k each reaches the one 2^k further on.
int waves_among(int size);

// Dissemination: whoever has come tells the one 2^k further on in wave k, and hears of all after the last wave.
std::vector<Transfer> barrier_schedule(int rank, int size);

// What the root has reaches twice as many in each wave (a binomial tree). Long data are cut into a slice for each of
// the others instead, which then exchange them: everybody receives them once, and nobody sends them more often than
// that.
std::vector<Transfer> broadcast_schedule(int rank, int size, int root, Bytes data, bool in_slices);

// Whether a broadcast of so many bytes goes in slices: once these are worth a message each.
bool goes_in_slices(double bytes, int size);

}  // namespace flockstep::engines
