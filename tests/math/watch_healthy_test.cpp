#include <functional>

#include "fixture.h"
#include "math/watch.h"

namespace flockstep::math {
namespace {

// The gradients of one step.
using Course = std::function<Gradients(std::size_t workers, std::uint32_t step)>;

void expect_no_finding(const std::string& name, std::size_t workers, std::uint32_t steps, const Course& course) {
  Watch watch;
  for (std::uint32_t step = 0; step < steps; ++step) watch.observe(step, statistics_of(course(workers, step)));
  for (const Finding& finding : watch.findings())
    ADD_FAILURE() << name << ", P = " << workers << ": " << finding.sentence;
}

struct Noise {
  const char* name;
  double signal, spread;
  std::size_t dimension;

  Course course(std::uint64_t seed) const {
    return [*this, seed](std::size_t workers, std::uint32_t step) {
      return drawn({workers, seed, step, dimension, signal, spread});
    };
  }
};

TEST(WatchHealthy, noiseNeverRaisesAFinding) {
  for (const Noise& noise :
       {Noise{"a shared signal", 0.5, 1, 50}, Noise{"little noise", 0.95, 1, 50}, Noise{"pure noise", 0, 1, 50},
        Noise{"pure noise, unequal norms", 0, 5, 50}, Noise{"a shared signal, unequal norms", 0.5, 5, 50},
        Noise{"a model of five numbers", 0, 1, 5}}) {
    for (const std::size_t workers : {1u, 2u, 3u, 4u, 6u, 9u, 16u})
      expect_no_finding(noise.name, workers, 1200, noise.course(17));
    // Many short runs: the first steps have the least to go by.
    for (const std::size_t workers : {2u, 3u, 5u})
      for (std::uint64_t seed = 0; seed < 100; ++seed) expect_no_finding(noise.name, workers, 45, noise.course(seed));
  }
}

// Gradients with this much in common, changed in each step.
void expect_healthy(const std::string& name, const std::vector<std::size_t>& fleets, std::uint32_t steps,
                    std::size_t dimension, double signal,
                    const std::function<void(Gradients& g, std::uint32_t step)>& change) {
  for (const std::size_t workers : fleets)
    expect_no_finding(name, workers, steps, [&](std::size_t count, std::uint32_t step) {
      Gradients gradients = drawn({count, 3, step, dimension, signal});
      change(gradients, step);
      return gradients;
    });
}

TEST(WatchHealthy, normsThatLieFarApartRaiseNoFinding) {
  expect_healthy("one worker is five times as large as the others throughout", {2, 3, 8}, 2000, 50, 0.5,
                 [](Gradients& g, std::uint32_t) { g = times(5, 0, g); });
  expect_healthy("data of their own make some gradients many times the others", {8}, 500, 50, 0.5,
                 [](Gradients& g, std::uint32_t) { g = times(3.5, 1, times(6, 5, times(9, 6, g))); });
  expect_healthy("the others have fitted their data; what they learn makes one worker's worse", {2, 3, 8}, 1000, 50,
                 0.5, [](Gradients& g, std::uint32_t step) {
                   g = times(std::exp(0.003 * step), 0, g);
                   for (std::size_t i = 1; i < g.size(); ++i) g = times(std::exp(-0.02 * step), i, g);
                 });
  expect_healthy("all data are fitted, and one worker rounds to zero before the others", {4}, 500, 50, 0.5,
                 [](Gradients& g, std::uint32_t step) {
                   for (std::size_t i = 0; i < g.size(); ++i)
                     g = times(i == 1 && step > 300 ? 0 : std::exp(-0.05 * step), i, g);
                 });
  expect_healthy("training that comes apart throws each worker in turn", {2, 3, 8}, 1000, 50, 0.5,
                 [](Gradients& g, std::uint32_t step) {
                   if (step / 8 % 2 == 0) g = times(std::pow(10, step % 8), step / 8 % g.size(), g);
                 });
}

TEST(WatchHealthy, directionsThatDoNotAgreeRaiseNoFinding) {
  expect_healthy("each worker has classes of its own: what is good for one is bad for the next", {3, 4, 8, 16}, 500,
                 200, 0, [](Gradients& g, std::uint32_t) {
                   g[1] = oracle::added(oracle::scaled(-static_cast<double>(g.size()), oracle::mean(g)), g[1]);
                 });
  expect_healthy("two workers have classes of their own: a cosine of -0.35", {2}, 1000, 200, 0,
                 [](Gradients& g, std::uint32_t) { g[1] = oracle::added(g[1], oracle::scaled(-0.37, g[0])); });
  expect_healthy("at an optimum of unequal data gradients cancel: all cosines are negative", {3, 4, 8, 16}, 1000, 50, 0,
                 [](Gradients& g, std::uint32_t) {
                   const Vector center = oracle::scaled(-1, oracle::mean(g));
                   for (Vector& gradient : g) gradient = oracle::added(gradient, center);
                 });
}

}  // namespace
}  // namespace flockstep::math
