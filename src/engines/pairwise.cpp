#include "engines/pairwise.h"

#include "base/check.h"
#include "engines/own_block.h"

namespace flockstep::engines {
Pending PairwiseEngine::all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> receive) {
  const int self = rank(), count = size();
  base::check(send.size() == static_cast<std::size_t>(count) && receive.size() == send.size(), "a block per worker");
  copy_own_block(send[static_cast<std::size_t>(self)], receive[static_cast<std::size_t>(self)]);
  std::vector<Transfer> transfers;
  transfers.reserve(2 * send.size());
  for (int distance = 1; distance < count; ++distance) {
    const int from = (self + count - distance) % count, to = (self + distance) % count;
    transfers.push_back({from, false, {}, receive[static_cast<std::size_t>(from)]});
    transfers.push_back({to, true, send[static_cast<std::size_t>(to)], {}});
  }
  return count_and_start(transfers);
}

Pending PairwiseEngine::all_gather(ConstBytes mine, std::span<const Bytes> receive) {
  const std::vector<ConstBytes> send(static_cast<std::size_t>(size()), mine);
  return all_to_all(send, receive);
}

Pending PairwiseEngine::broadcast(Bytes data, int root) {
  std::vector<Transfer> transfers;
  if (rank() != root) {
    transfers.push_back({root, false, {}, data});
  } else {
    for (int distance = 1; distance < size(); ++distance)
      transfers.push_back({(root + distance) % size(), true, data, {}});
  }
  return count_and_start(transfers);
}

Pending PairwiseEngine::barrier() {
  const std::vector<ConstBytes> send(static_cast<std::size_t>(size()));
  const std::vector<Bytes> receive(send.size());
  return all_to_all(send, receive);
}

Pending PairwiseEngine::count_and_start(std::span<const Transfer> transfers) {
  for (const Transfer& transfer : transfers)
    if (transfer.is_send) bytes_sent_in_collectives_ += transfer.send.size();
  return start_collective(transfers);
}

}  // namespace flockstep::engines
