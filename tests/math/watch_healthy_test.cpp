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

// Data of their own make some workers' gradients many times those of the rest.
TEST(WatchHealthy, theLargestOfWorkersThatLieFarApartIsNotExploding) {
  Watch watch;
  for (std::uint32_t step = 0; step < 500; ++step) {
    Gradients gradients = drawn({8, 3, step, 50, 0.5});
    for (const auto& [worker, factor] : {std::pair(1, 3.5), std::pair(5, 6.0), std::pair(6, 9.0)})
      gradients[worker] = oracle::scaled(factor, std::move(gradients[worker]));
    watch.observe(step, statistics_of(gradients));
  }
  for (const Finding& finding : watch.findings()) ADD_FAILURE() << finding.sentence;
}

// One worker has data of its own, which the others have fitted while it has not; what they learn makes it worse.
TEST(WatchHealthy, aWorkerThatIsLeftBehindIsNotExploding) {
  for (const std::size_t workers : {2u, 3u, 8u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 1000; ++step) {
      Gradients gradients = drawn({workers, 3, step, 50, 0.5});
      for (std::size_t i = 1; i < workers; ++i)
        gradients[i] = oracle::scaled(std::exp(-0.02 * step), std::move(gradients[i]));
      gradients[0] = oracle::scaled(std::exp(0.003 * step), std::move(gradients[0]));
      watch.observe(step, statistics_of(gradients));
    }
    for (const Finding& finding : watch.findings()) ADD_FAILURE() << "P = " << workers << ": " << finding.sentence;
  }
}

// Where all data are fitted exactly some workers round to zero before others do.
TEST(WatchHealthy, zerosAmongRoundingErrorsBlameNobody) {
  Watch watch;
  for (std::uint32_t step = 0; step < 500; ++step) {
    Gradients gradients = drawn({4, 3, step, 50, 0.5});
    for (Vector& gradient : gradients) gradient = oracle::scaled(std::exp(-0.05 * step), std::move(gradient));
    if (step > 300) gradients[1].assign(50, 0.0);
    watch.observe(step, statistics_of(gradients));
  }
  for (const Finding& finding : watch.findings()) ADD_FAILURE() << finding.sentence;
}

// Training that comes apart throws each worker in turn.
TEST(WatchHealthy, spikesAreNotExploding) {
  for (const std::size_t workers : {2u, 3u, 8u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 1000; ++step) {
      Gradients gradients = drawn({workers, 3, step, 50, 0.5});
      Vector& thrown = gradients[step / 8 % workers];
      if (step / 8 % 2 == 0) thrown = oracle::scaled(std::pow(10, step % 8), std::move(thrown));
      watch.observe(step, statistics_of(gradients));
    }
    for (const Finding& finding : watch.findings()) ADD_FAILURE() << "P = " << workers << ": " << finding.sentence;
  }
}

// Each worker has classes of its own, and what is good for one is bad for the next.
TEST(WatchHealthy, aWorkerAgainstOthersThatDoNotAgreeIsNotBroken) {
  for (const std::size_t workers : {3u, 4u, 8u, 16u}) {
    Watch watch;
    for (std::uint32_t step = 0; step < 500; ++step) {
      Gradients gradients = drawn({workers, 3, step, 200, 0});
      const Vector others =
          oracle::added(oracle::scaled(-static_cast<double>(workers), oracle::mean(gradients)), gradients[1]);
      gradients[1] = others;
      watch.observe(step, statistics_of(gradients));
    }
    for (const Finding& finding : watch.findings()) ADD_FAILURE() << "P = " << workers << ": " << finding.sentence;
  }
}

TEST(WatchHealthy, twoWorkersWithClassesOfTheirOwnAreNotOpposed) {
  Watch watch;
  for (std::uint32_t step = 0; step < 1000; ++step) {
    Gradients gradients = drawn({2, 3, step, 200, 0});
    gradients[1] = oracle::added(std::move(gradients[1]), oracle::scaled(-0.37, gradients[0]));  // a cosine of -0.35
    watch.observe(step, statistics_of(gradients));
  }
  for (const Finding& finding : watch.findings()) ADD_FAILURE() << finding.sentence;
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
