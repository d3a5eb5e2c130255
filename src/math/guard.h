// The guard against single wild steps: no worker's part of a sum is longer than a few times the median worker's. And
// how long numbers that are not finite are taken for an accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flockstep::math {

// Of two in the middle, the smaller; of at least one value.
double lower_median(std::vector<double> values);

// Those that are not zero, and finite.
std::vector<double> positive(std::span<const double> values);

// What parts of a sum, of these norms, are measured by: the lower median of those that are not zero; of two the larger,
// since nobody can say which of them is wild. 0 where there are no two: a worker is not measured by itself.
double reference_of(std::span<const double> norms);

// f = min(1, guard * reference / norm); 1 where there is no guard (0), no reference or no norm.
double guard_factor(double guard, double reference, double norm);

// How many steps in a row each worker has sent numbers that are not finite. Beyond the patience it is left out, until
// it is finite again.
//
// A worker is left out only for being different from the others. If half of the workers or more are not finite in a
// step, as when all overflow under a gradient scaler, that is no worker's fault: none is left out of it, and it uses up
// no patience. So fewer than half of the workers are ever left out.
class NonFiniteRuns {
 public:
  struct Verdict {
    std::vector<bool> left_out;  // of this step
    // Not finite for the patience on end, while others were finite, and yet not left out: too many are like it.
    std::vector<bool> stuck;
    bool all_broken = false;  // no worker that has something to send is finite
  };

  // A patience of 0 never ends.
  NonFiniteRuns(std::size_t workers, std::int64_t patience)
      : patience_(patience), workers_(workers), runs_(workers), alone_(workers) {}

  // Whether the next step leaves the worker out if it is not finite then; known before its gradients are.
  bool leaves_out(std::size_t worker) const;
  // A step is over. Workers of weight zero had nothing to send, and are not counted.
  Verdict count(std::span<const double> weights, const std::vector<bool>& finite);

  const std::vector<std::int64_t>& runs() const { return runs_; }
  void set(std::vector<std::int64_t> runs);
  void set_patience(std::int64_t patience) { patience_ = patience; }

 private:
  bool is_over(std::int64_t run) const { return patience_ > 0 && run >= patience_; }

  std::int64_t patience_;
  std::size_t workers_;              // with something to send in the last step
  std::vector<std::int64_t> runs_;   // patience used up
  std::vector<std::int64_t> alone_;  // steps on end, not finite, in which another worker was and none was left out
};

}  // namespace flockstep::math
