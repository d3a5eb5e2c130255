#include "engines/schedules.h"

#include "base/partition.h"

namespace flockstep::engines {
namespace {

// Of less than this a message costs more than its bytes do.
constexpr double kPartBytes = 4096;

std::vector<Transfer> in_parts_schedule(int rank, int size, int root, Bytes data) {
  const auto others = static_cast<std::size_t>(size) - 1;
  const base::Partition parts(data.size(), others);
  const auto part_of = [&](int peer) {  // counted from the root's successor on
    const auto index = static_cast<std::size_t>((peer - root + size) % size) - 1;
    return data.subspan(parts.begin(index), parts.size(index));
  };
  std::vector<Transfer> transfers;
  if (rank != root) transfers.push_back({root, false, {}, part_of(rank), 0});
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    if (rank == root) {
      transfers.push_back({to, true, part_of(to), {}, 0});
      continue;
    }
    if (from != root) transfers.push_back({from, false, {}, part_of(from), 1});
    if (to != root) transfers.push_back({to, true, part_of(rank), {}, 1});
  }
  return transfers;
}

}  // namespace

int rounds_among(int size) {
  int rounds = 0;
  while (1 << rounds < size) ++rounds;
  return rounds;
}

std::vector<Transfer> barrier_schedule(int rank, int size) {
  std::vector<Transfer> transfers;
  for (int round = 0; round < rounds_among(size); ++round) {
    const int distance = 1 << round;
    transfers.push_back({(rank + size - distance) % size, false, {}, {}, round});
    transfers.push_back({(rank + distance) % size, true, {}, {}, round});
  }
  return transfers;
}

std::vector<Transfer> broadcast_schedule(int rank, int size, int root, Bytes data, bool in_parts) {
  if (in_parts) return in_parts_schedule(rank, size, root, data);
  const int place = (rank - root + size) % size;  // counted from the root on
  std::vector<Transfer> transfers;
  for (int round = 0; round < rounds_among(size); ++round) {
    const int reached = 1 << round;  // before this round
    if (place >= reached && place < 2 * reached)
      transfers.push_back({(rank + size - reached) % size, false, {}, data, round});
    else if (place < reached && place + reached < size)
      transfers.push_back({(rank + reached) % size, true, data, {}, round});
  }
  return transfers;
}

bool goes_in_parts(double bytes, int size) { return size > 2 && bytes >= kPartBytes * size; }

}  // namespace flockstep::engines
