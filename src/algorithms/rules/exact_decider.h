// What a gradient rule makes of this step's statistics, whoever has taken them: a coefficient per worker and section,
// and beside these the rule's memory, the guards, who is left out, and what was seen. gradient_rule.h feeds it from
// spans of the host, torch/stream_hook.h from the order of a device's queue.
#pragma once

#include <algorithm>
#include <optional>

#include "algorithms/report.h"
#include "algorithms/rules/rule_options.h"
#include "base/archive.h"
#include "math/guard.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

struct ExactOutcome {
  runtime::Coefficients coefficients;
  std::vector<runtime::Norm> norms;  // one per section, or none where results are as long as they should be
  std::optional<float> everywhere;   // every number of the result is this: NaN, or zero
};

class ExactDecider {
 public:
  // One section of these sizes for each memory of the rule.
  ExactDecider(const RuleAndOptions& choice, std::size_t workers, std::vector<std::size_t> sections);

  const math::Rule& rule() const { return rule_; }
  const GradientRuleOptions& options() const { return options_; }
  // What has to be swept in the step that comes next.
  math::Need need() const { return need_; }
  bool is_suspicious() const { return is_suspicious_; }
  // The optimizer has refused the last result, and nobody has looked at who is to blame: until all are finite, the next
  // steps are looked at.
  void suspect() { is_suspicious_ = true; }

  // Coefficients that do not depend on the gradients; nothing where they do.
  std::optional<std::vector<double>> blindly(const std::vector<double>& weights) const;
  // The same where nobody can look at the gradients, whatever was seen in earlier ones.
  std::optional<std::vector<double>> unseen(const std::vector<double>& weights) const;
  // A step with these, of whose gradients nothing is known.
  void take_blindly(const std::vector<double>& coefficients, const std::vector<double>& weights);

  // Two halves of a step. The first counts who is finite. Where some are not and there are row sums only, the sums have
  // to be taken again over the `living` before the second.
  struct Attendance {
    std::vector<bool> finite, living;
    std::optional<std::vector<double>> blind;  // coefficients that looking on must not change
    bool all_live() const { return std::ranges::find(living, false) == living.end(); }
  };
  Attendance attend(const std::vector<math::Statistics>& sections, const std::vector<double>& weights);
  // `scale` is of the result.
  ExactOutcome decide(std::vector<math::Statistics> sections, const std::vector<double>& weights,
                      const Attendance& attendance, double scale = 1);

  const GradientReport& report() const { return report_; }
  // Frees the matrix of the last report before the next step's travels: workers hold two at a time, not three.
  void drop_matrix() { report_.statistics.K = std::vector<double>(); }
  const GuardCounts& guards() const { return guards_; }

  // What the rule remembers, per section.
  const std::vector<std::vector<double>>& memory() const { return memory_; }
  void remember(std::vector<std::vector<double>> memory);
  // Goes on from the counts of another.
  void count_on(const ExactDecider& other);
  void save(base::Archive& archive) const;
  std::string restore(const base::Archive& archive);

 private:
  math::Decision nothing_to_decide(const std::vector<double>& memory) const;
  void guard(const math::Statistics& section, math::Decision& decision);
  void take_down(const std::vector<math::Statistics>& sections, const std::vector<math::Decision>& decisions);
  void begin_next();

  math::Rule rule_;
  GradientRuleOptions options_;
  std::size_t workers_;
  std::vector<std::size_t> sections_;
  std::int64_t steps_ = 0;
  math::Need need_;
  std::vector<std::vector<double>> memory_;
  bool is_suspicious_ = false;
  math::NonFiniteRuns runs_;
  GuardCounts guards_;
  GradientReport report_;
};

}  // namespace flockstep::algorithms
