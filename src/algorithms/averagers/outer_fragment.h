// One fragment of the model that `diloco` steps as a whole: the outer model x and its momentum, the same on all
// workers, and the rule that makes one update of theirs.
//
//   start    with this worker's update, x - W
//   decide   what becomes of the updates; each shard of the result sets out from its owner
//   finish   the updates have become one, and x has taken its outer step
#pragma once

#include "algorithms/averagers/diloco.h"
#include "algorithms/rules/gradient_rule.h"

namespace flockstep::algorithms {

class OuterFragment {
 public:
  OuterFragment(const AlgorithmInputs& inputs, const DilocoOptions& options, runtime::Range range);
  OuterFragment(const OuterFragment&) = delete;  // the rule knows the layout
  OuterFragment& operator=(const OuterFragment&) = delete;

  runtime::Range range() const { return range_; }
  std::span<const float> model() const { return model_.span(); }
  void set(std::span<const float> model);

  struct Attendance {
    std::vector<bool> present;  // whose updates count, the same on all workers
    bool is_here;               // whether this worker's does
  };
  // `update` is left alone until finish(). Where it travels `beside` local steps all of it sets out here.
  void start(std::span<float> update, const Attendance& attendance, bool beside);
  // Lets engines without a thread of their own move bytes.
  void go_on(std::span<float> update);
  // Waits for everybody's start. finish() decides where nobody has.
  void decide(std::span<float> update);
  // `update` becomes that of all. An update that is not finite changes nothing: then no worker had one that was.
  void finish(std::span<float> update);

  GuardCounts guards() const { return rule_.guards(); }
  void save(base::Archive& archive) const;
  std::string restore(const base::Archive& archive);

 private:
  void step(std::span<const float> update);

  runtime::Context& context_;
  runtime::Range range_;
  runtime::Layout layout_;
  math::OuterStep outer_;
  GradientRule rule_;
  bool is_decided_ = false;
  base::Buffer<float> model_, velocity_;
  base::Buffer<float> lost_, lost_results_;  // on the wire: of this worker's updates, and of the results that it owns
};

}  // namespace flockstep::algorithms
