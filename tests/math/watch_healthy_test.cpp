#include "fixture.h"
#include "math/watch.h"

namespace flockstep::math {
namespace {

struct Healthy {
  const char* name;
  double signal, spread;
  std::size_t dimension;
};

constexpr Healthy kHealthy[] = {{"a shared signal", 0.5, 1, 50},
                                {"little noise", 0.95, 1, 50},
                                {"pure noise", 0, 1, 50},
                                {"pure noise, unequal norms", 0, 5, 50},
                                {"a shared signal, unequal norms", 0.5, 5, 50},
                                {"a model of five numbers", 0, 1, 5}};

TEST(WatchHealthy, noiseNeverRaisesAFinding) {
  for (const Healthy& healthy : kHealthy) {
    for (const std::size_t workers : {1u, 2u, 3u, 4u, 6u, 9u, 16u}) {
      Watch watch;
      for (std::uint32_t step = 0; step < 3000; ++step) {
        const Draw draw{workers, 17, step, healthy.dimension, healthy.signal, healthy.spread};
        watch.observe(step, statistics_of(drawn(draw)));
      }
      for (const Finding& finding : watch.findings())
        ADD_FAILURE() << healthy.name << ", P = " << workers << ": " << finding.sentence;
    }
  }
}

// Many short runs: the first steps have the least to go by.
TEST(WatchHealthy, theFirstStepsOfManyRunsRaiseNothing) {
  for (const Healthy& healthy : kHealthy) {
    for (const std::size_t workers : {2u, 3u, 5u}) {
      for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Watch watch;
        for (std::uint32_t step = 0; step < 45; ++step) {
          const Draw draw{workers, seed, step, healthy.dimension, healthy.signal, healthy.spread};
          watch.observe(step, statistics_of(drawn(draw)));
        }
        for (const Finding& finding : watch.findings())
          ADD_FAILURE() << healthy.name << ", P = " << workers << ", seed " << seed << ": " << finding.sentence;
      }
    }
  }
}

// One worker is always five times as large as the rest.
TEST(WatchHealthy, aWorkerWithALargerGradientThroughoutIsNotExploding) {
  for (const std::size_t workers : {2u, 3u, 8u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 2000; ++step) {
      Gradients gradients = drawn({workers, 3, step, 50, 0.5});
      gradients[0] = oracle::scaled(5, std::move(gradients[0]));
      watch.observe(step, statistics_of(gradients));
    }
    EXPECT_TRUE(watch.findings().empty());
  }
}

// At an optimum of unequal data the gradients cancel: all cosines are negative and nobody is broken.
TEST(WatchHealthy, gradientsThatCancelBlameNobody) {
  for (const std::size_t workers : {3u, 4u, 8u, 16u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 1000; ++step) {
      Gradients gradients = drawn({workers, 3, step, 50, 0});
      const Vector center = oracle::scaled(-1, oracle::mean(gradients));
      for (Vector& gradient : gradients) gradient = oracle::added(std::move(gradient), center);
      watch.observe(step, statistics_of(gradients));
    }
    for (const Finding& finding : watch.findings()) ADD_FAILURE() << "P = " << workers << ": " << finding.sentence;
  }
}

}  // namespace
}  // namespace flockstep::math
