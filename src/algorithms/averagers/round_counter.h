// Counts, and puts into the trace, how a worker's steps met the rounds that its agent ran.
#pragma once

#include <optional>

#include "algorithms/report.h"
#include "protocol/events.h"
#include "runtime/context.h"

namespace flockstep::algorithms {

class RoundCounter {
 public:
  explicit RoundCounter(runtime::Context& context) : context_(context) {}

  void add(std::optional<protocol::Outcome> outcome);
  void add(const std::vector<base::Round>& rounds);
  const MeetingReport& report() const { return report_; }

 private:
  runtime::Context& context_;
  MeetingReport report_;
};

}  // namespace flockstep::algorithms
