// The numbers of a round on one worker: which of them a part carries, where it lies, and the sums that are made of
// them.
//
// Beside what RoundData keeps it needs memory for the chunks under way alone: contributions and sums of rows on
// arrival, then averages.
#pragma once

#include "protocol/options.h"
#include "runtime/context.h"
#include "runtime/rounds/round_cut.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

class RoundParts {
 public:
  // What its own buffer is for, as Memory counts it: as many chunks as are under way, however long the model.
  static constexpr const char* kStaging = "parts of models under way";

  // For rounds over up to `size` numbers; `data` must outlive it.
  RoundParts(Context& context, const protocol::Options& options, std::size_t size, RoundData& data);

  // A round over the first `size` numbers.
  void begin(const protocol::Ranks& members, std::size_t size);
  const protocol::Ranks& members() const { return members_; }
  std::span<const float> to_send(int peer, const protocol::Part& part);
  std::span<float> to_receive(int peer, const protocol::Part& part);
  void add_row(int chunk);
  void average(int chunk);
  void place(int peer, int chunk);

 private:
  std::span<const float> contribution(int chunk, Range range);
  std::span<float> spare(int chunk, Range place) const;
  std::span<float> own_average(int chunk, Range range);
  std::span<float> average_by(int chunk, int neighbour);
  std::vector<const void*> row_contributions(int chunk);
  std::vector<const void*> row_sums(int chunk) const;

  Context& context_;
  const protocol::Options options_;
  RoundData& data_;
  base::Buffer<float> spare_;  // for `window` chunks
  protocol::Ranks members_;
  RoundCut cut_{protocol::Grid(1, 1), 0, 0, 1};
  int begun_ = 0;  // chunks
};

}  // namespace flockstep::runtime
