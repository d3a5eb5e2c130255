// Where a step is counted, whoever has the loop: how many gradients were combined, what they told about the workers,
// and which of them no optimizer may take.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/report.h"
#include "math/watch.h"

namespace flockstep::session {

class Steps {
 public:
  // `watches`: whether findings are of interest on this worker.
  explicit Steps(bool watches = true) : watches_(watches) {}

  // A gradient was combined, and told this; null where nobody looked.
  void add(const algorithms::GradientReport* report);
  // Whether the optimizer may take it. If it is not finite the update is to be left out, and that is counted.
  bool accepts(std::span<const float> gradient);
  // Counts one that is not finite, for who has looked at it elsewhere: whether it is nobody's but this worker's, and
  // whether a guard has told of it.
  void refuse(bool is_own, bool is_told);

  std::int64_t count() const { return counts_.steps; }
  // What the guards saw in the last step, or that its result was not finite.
  math::Event event() const { return event_; }
  // Results for all workers that were not finite though no guard had told of it: a rule that does not look at gradients
  // cannot tell.
  std::int64_t unseen_non_finite() const { return counts_.unseen_non_finite; }
  // Gradients that were not finite and nobody's but this worker's.
  std::int64_t own_non_finite() const { return counts_.own_non_finite; }

  // Those of the last step, and those of the whole training, an earlier part of it included.
  const std::vector<math::Finding>& raised() const { return raised_; }
  std::vector<math::Finding> findings() const;

  void save(base::Archive& archive) const;
  void restore(const base::Archive& archive);
  // Goes on after so many steps. What was watched before is forgotten: its steps come in order.
  void go_on_after(std::int64_t steps);
  void go_on_from(std::vector<math::Finding> earlier) { earlier_ = std::move(earlier); }

 private:
  struct Counts {
    std::int64_t steps = 0, unseen_non_finite = 0, own_non_finite = 0;
  };
  bool watches_;
  Counts counts_;
  // Of the last gradient: nobody has looked at everybody's; a guard has told that one was not finite.
  bool is_own_ = true, is_told_ = false;
  math::Event event_ = math::Event::none;
  math::Watch watch_;
  std::vector<math::Finding> raised_, earlier_;
};

}  // namespace flockstep::session
