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
class NonFiniteRuns {
 public:
  // A patience of 0 never ends.
  NonFiniteRuns(std::size_t workers, std::int64_t patience) : patience_(patience), runs_(workers) {}

  bool leaves_out(std::size_t worker) const { return patience_ > 0 && runs_[worker] >= patience_; }
  // Workers of weight zero had nothing to send, and are not counted.
  void count(std::span<const double> weights, const std::vector<bool>& finite);

  const std::vector<std::int64_t>& runs() const { return runs_; }
  void set(std::vector<std::int64_t> runs) { runs_ = std::move(runs); }
  void set_patience(std::int64_t patience) { patience_ = patience; }

 private:
  std::int64_t patience_;
  std::vector<std::int64_t> runs_;
};

}  // namespace flockstep::math
