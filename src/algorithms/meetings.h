// What algorithms that average without waiting have in common beside their rounds.
#pragma once

#include "algorithms/algorithm.h"
#include "runtime/round_agent.h"

namespace flockstep::algorithms {

// Counts, and puts into the trace, how a worker's steps met the rounds.
class Meetings {
 public:
  explicit Meetings(runtime::Context& context) : context_(context) {}

  void add(protocol::Outcome outcome, const std::vector<runtime::RoundRecord>& rounds);
  const MeetingReport& report() const { return report_; }

 private:
  runtime::Context& context_;
  MeetingReport report_;
};

// A blocking average over all workers, by the worker itself. Takes the memory that it needs for as long as it lasts.
void average_over_all(runtime::Context& context, const runtime::Layout& layout, std::span<float> values);

// What every averager is where there is nobody to average with.
class PlainSgd final : public Algorithm {
 public:
  bool replicas_are_equal() const override { return true; }
};

}  // namespace flockstep::algorithms
