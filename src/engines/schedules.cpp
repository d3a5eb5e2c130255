#include "engines/schedules.h"

#include "base/partition.h"

namespace flockstep::engines {
namespace {

// Of less than this a message costs more than its bytes do.
constexpr double kSliceBytes = 4096;

std::vector<Transfer> in_slices_schedule(int rank, int size, int root, Bytes data) {
  const auto others = static_cast<std::size_t>(size) - 1;
  const base::Partition slices(data.size(), others);
  const auto slice_of = [&](int peer) {  // counted from the root's successor on
    const auto index = static_cast<std::size_t>((peer - root + size) % size) - 1;
    return data.subspan(slices.begin(index), slices.size(index));
  };
  std::vector<Transfer> transfers;
  if (rank != root) transfers.push_back({root, false, {}, slice_of(rank), 0});
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    if (rank == root) {
      transfers.push_back({to, true, slice_of(to), {}, 0});
      continue;
    }
    if (from != root) transfers.push_back({from, false, {}, slice_of(from), 1});
    if (to != root) transfers.push_back({to, true, slice_of(rank), {}, 1});
  }
  return transfers;
}

}  // namespace

int waves_among(int size) {
  int waves = 0;
  while (1 << waves < size) ++waves;
  return waves;
}

std::vector<Transfer> barrier_schedule(int rank, int size) {
  std::vector<Transfer> transfers;
  for (int wave = 0; wave < waves_among(size); ++wave) {
    const int distance = 1 << wave;
    transfers.push_back({(rank + size - distance) % size, false, {}, {}, wave});
    transfers.push_back({(rank + distance) % size, true, {}, {}, wave});
  }
  return transfers;
}

std::vector<Transfer> broadcast_schedule(int rank, int size, int root, Bytes data, bool in_slices) {
  if (in_slices) return in_slices_schedule(rank, size, root, data);
  const int place = (rank - root + size) % size;  // counted from the root on
  std::vector<Transfer> transfers;
  for (int wave = 0; wave < waves_among(size); ++wave) {
    const int reached = 1 << wave;  // before this wave
    if (place >= reached && place < 2 * reached)
      transfers.push_back({(rank + size - reached) % size, false, {}, data, wave});
    else if (place < reached && place + reached < size)
      transfers.push_back({(rank + reached) % size, true, data, {}, wave});
  }
  return transfers;
}

bool goes_in_slices(double bytes, int size) { return size > 2 && bytes >= kSliceBytes * size; }

}  // namespace flockstep::engines
