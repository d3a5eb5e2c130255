// Exchanges as direct sends and receives, for engines whose machine offers nothing better: every block goes straight
// from its owner to its reader, each worker starting with its next neighbour so that no link is asked first by all.
#pragma once

#include "engines/transfer.h"

namespace flockstep::engines {

class PairwiseEngine : public Engine {
 public:
  Pending all_to_all(std::span<const ConstBytes> send, std::span<const Bytes> receive, Traffic traffic) final;
  Pending all_gather(ConstBytes mine, std::span<const Bytes> receive, Traffic traffic) final;
  std::uint64_t bytes_sent_in_collectives() const final { return bytes_sent_in_collectives_; }
  bool may_be_called_from_a_hook() const override { return true; }

 protected:
  // Whoever calls with others has made a mistake.
  void check_message(int peer, Tag tag) const;
  void check_control(int peer, ConstBytes payload) const;

  Pending count_and_start(std::span<const Transfer> transfers);
  // Starts the transfers of one collective, those of later waves when their time has come. Collectives match by the
  // order in which they are issued. A worker's transfers to itself never get here.
  virtual Pending start_collective(std::span<const Transfer> transfers) = 0;

 private:
  std::uint64_t bytes_sent_in_collectives_ = 0;  // the worker's own thread only
};

}  // namespace flockstep::engines
