// The gradient rules as one would write them with the gradients at hand: vectors in, the result out. Knows nothing of
// Gram matrices or coefficients, and shares no code with src/math.
#pragma once

#include <cstddef>
#include <vector>

namespace flockstep::math::oracle {

using Vector = std::vector<double>;
using Gradients = std::vector<Vector>;

double dot(const Vector& x, const Vector& y);
double norm(const Vector& x);
Vector sum(const Gradients& gradients);
Vector scaled(double factor, Vector x);
Vector added(Vector x, const Vector& y);

Vector mean(const Gradients& gradients);
Vector weighted_mean(const Gradients& gradients, const std::vector<double>& weights);
Vector normalized_mean(const Gradients& gradients, double eps);
Vector geometric_median(const Gradients& points, int steps);
Vector geometric_median_of_directions(const Gradients& gradients, int steps, double eps);
Vector adasum(const Gradients& gradients);

enum class Negatives { kept, clipped, shifted };

struct AdaCons {
  double beta, eps;
  Negatives negatives = Negatives::kept;
  bool permutes_as_published = false;
  std::vector<double> smoothed = {};  // ascending as the published code keeps it

  Vector step(const Gradients& gradients);
};

struct DirectionConsensus {
  double beta, eps;
  std::vector<double> agreement = {};  // by worker

  Vector step(const Gradients& gradients);
};

// The norms that Magnitude speaks of.
double mean_norm(const Gradients& gradients);
double median_norm(const Gradients& gradients);
double lower_median_norm(const Gradients& gradients);  // of two in the middle, the smaller

}  // namespace flockstep::math::oracle
