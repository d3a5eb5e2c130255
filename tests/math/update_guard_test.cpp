// The guard of model averaging, by its definition.
#include "math/update_guard.h"

#include <random>

#include "fixture.h"

namespace flockstep::math {
namespace {

UpdateGuard::Update of_norm(double norm) { return {.squared_norm = norm * norm}; }

UpdateGuard with_norms(std::initializer_list<float> norms) {
  UpdateGuard guard;
  int peer = 0;
  for (const float norm : norms) guard.hear(peer++, {.norm = norm});
  return guard;
}

double reference_after(const std::vector<std::pair<int, double>>& heard) {
  UpdateGuard guard;
  for (const auto& [peer, norm] : heard) guard.hear(peer, {.norm = static_cast<float>(norm)});
  return guard.reference();
}

TEST(UpdateGuard, theReferenceIsTheLowerMedianOfTheLastEightNormsOfPeers) {
  EXPECT_EQ(reference_after({}), 0);
  EXPECT_EQ(reference_after({{1, 0}, {1, -1}, {1, kNaN}, {1, kInfinity}}), 0) << "none is a norm";
  EXPECT_EQ(reference_after({{0, 1}, {1, 4}, {2, 2}, {3, 100}}), 2);
  EXPECT_EQ(reference_after({{1, 50}, {1, 50}, {1, 50}, {2, 1}}), 1) << "the same is heard once";
  std::vector<std::pair<int, double>> many(5, {0, 100});
  for (int peer = 10; peer < 18; ++peer) many.emplace_back(peer, 1);
  EXPECT_EQ(reference_after(many), 1);
}

TEST(UpdateGuard, anUpdateIsCutToTwiceTheReference) {
  UpdateGuard guard = with_norms({2}), deaf;
  EXPECT_EQ(guard.judge(of_norm(4)), 1);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(5)), 4.0 / 5);
  EXPECT_DOUBLE_EQ(guard.factor_of(5 * 5), 4.0 / 5) << "asked for ahead, it counts nothing";
  EXPECT_EQ(guard.counts().updates, 2);
  EXPECT_EQ(guard.counts().clipped, 1);
  EXPECT_EQ(deaf.judge(of_norm(1e9)), 1) << "nothing was heard";
}

TEST(UpdateGuard, normsArePerStep) {
  UpdateGuard guard = with_norms({1});
  for (int step = 0; step < 8; ++step) guard.count_step();
  EXPECT_EQ(guard.judge(of_norm(16)), 1);
  EXPECT_EQ(guard.news().norm, 2);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(16)), 2.0 / 16) << "the next update has begun, and is of one step at least";
}

TEST(UpdateGuard, anUpdateOfFewerStepsMayBeLongerPerStepAsNoiseIs) {
  UpdateGuard guard;
  guard.hear(1, {.norm = 1, .steps = 9});
  EXPECT_EQ(guard.judge(of_norm(6)), 1);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(12)), 6.0 / 12);
  for (int step = 0; step < 36; ++step) guard.count_step();
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(36 * 4)), 2.0 / 4) << "of more steps, not shorter";
}

TEST(UpdateGuard, anUpdateThatIsNotFinite_isLeftOutAndNotTold) {
  UpdateGuard guard = with_norms({1});
  guard.judge(of_norm(1));
  EXPECT_EQ(guard.judge(of_norm(kInfinity)), 0);
  EXPECT_EQ(guard.news().norm, 0);
  EXPECT_EQ(guard.judge(of_norm(kNaN)), 0);
  EXPECT_EQ(guard.counts().non_finite, 2);
  EXPECT_EQ(guard.judge(of_norm(1)), 1) << "the next one counts again";
}

// Updates of this length along one axis, whose cosines are 1, -1 or 0.
UpdateGuard::Update along(std::size_t axis, double norm, float sign = 1) {
  UpdateGuard::Update update = of_norm(norm);
  update.sketch[axis] = sign;
  return update;
}

UpdateGuard among_others_along(std::size_t axis) {
  UpdateGuard guard;
  UpdateNews news{.norm = 1};
  news.sketch[axis] = 1;
  for (int peer = 0; peer < 8; ++peer) guard.hear(peer, news);
  return guard;
}

TEST(UpdateGuard, longUpdatesAgainstThoseOfOthersAreLeftOut) {
  UpdateGuard guard = among_others_along(0);
  EXPECT_EQ(guard.judge(along(0, 5, -1)), 0);
  EXPECT_EQ(guard.judge(along(0, 5, -1)), 0);
  EXPECT_TRUE(guard.is_against());
  EXPECT_EQ(guard.judge(along(0, 2, -1)), 1) << "as long as the others' it does no harm";
  EXPECT_EQ(guard.counts().clipped, 2);
}

TEST(UpdateGuard, longUpdatesThatAreNotAgainstACommonDirectionAreCutAndNoMore) {
  UpdateGuard along_and_across = among_others_along(0), against_none;  // the latter's peers have nothing in common
  for (std::size_t peer = 0; peer < 4; ++peer) {
    UpdateNews news{.norm = 1};
    news.sketch[peer] = 1;
    against_none.hear(static_cast<int>(peer), news);
  }
  for (std::size_t update = 0; update < 100; ++update) {
    EXPECT_DOUBLE_EQ(along_and_across.judge(along(update % 2, 5)), 2.0 / 5);
    EXPECT_DOUBLE_EQ(against_none.judge(along(update % 4, 5, -1)), 2.0 / 5);
  }
}

TEST(UpdateGuard, whoPointsWithTheOthersAgainIsHeardAgain) {
  UpdateGuard guard = among_others_along(0);
  for (int update = 0; update < 20; ++update) guard.judge(along(0, 5, -1));
  for (int update = 0; update < 10; ++update) guard.judge(along(0, 1));
  EXPECT_DOUBLE_EQ(guard.judge(along(0, 5)), 2.0 / 5);
}

TEST(UpdateGuard, aRestoredGuardJudgesAsTheOneThatWasSaved) {
  UpdateGuard guard = among_others_along(0), other;
  for (int update = 0; update < 3; ++update) guard.judge(along(0, 1, -1));
  guard.count_step();
  guard.count_step();
  ASSERT_TRUE(other.set_state(guard.state()));
  EXPECT_EQ(other.state(), guard.state());
  EXPECT_EQ(other.judge(along(1, 9)), guard.judge(along(1, 9)));
  EXPECT_EQ(other.judge(along(0, 1)), 1);
  EXPECT_FALSE(other.set_state(std::vector<double>{1, 2, 3, 4, 5}));
}

// Workers who hear of everybody's update after each step, and make the same ones in every step.
struct Workers {
  std::vector<UpdateGuard> guards;
  std::vector<UpdateGuard::Update> updates;

  explicit Workers(UpdateWeights weights, std::size_t count, std::size_t wrong = 0) {
    std::mt19937 random(7);
    std::normal_distribution<float> noise;
    for (std::size_t i = 0; i < count; ++i) {
      guards.emplace_back(count, weights);
      updates.push_back(of_norm(1));
      for (float& number : updates.back().sketch) number = (i < wrong ? -1.0f : 1.0f) + noise(random);
    }
  }
  std::vector<double> judge() {
    std::vector<double> factors;
    for (std::size_t i = 0; i < guards.size(); ++i) factors.push_back(guards[i].judge(updates[i]));
    for (std::size_t i = 0; i < guards.size(); ++i)
      for (std::size_t j = 0; j < guards.size(); ++j) {
        UpdateNews news = guards[j].news();
        news.norm += 1e-6f * static_cast<float>(++told);  // else it is taken for what was heard before
        if (i != j) guards[i].hear(static_cast<int>(j), news);
      }
    return factors;
  }
  // What the rule says of them, as shares of directions.
  std::vector<double> shares(const Rule& rule) const {
    Gradients directions;
    for (const UpdateGuard::Update& update : updates) {
      const Vector sketch(update.sketch.begin(), update.sketch.end());
      directions.push_back(oracle::scaled(1 / oracle::norm(sketch), sketch));
    }
    return rule.apply(statistics_of(directions), {})->c;
  }
  int told = 0;
};

TEST(UpdateWeights, workersWhoHaveHeardOfAllCountAsTheRuleSays) {
  for (const std::size_t count : {2u, 3u, 8u}) {
    Workers consensus(UpdateWeights::direction_consensus, count), median(UpdateWeights::geometric_median, count);
    EXPECT_EQ(consensus.judge(), std::vector<double>(count, 1)) << "nothing was heard";
    EXPECT_EQ(median.judge(), std::vector<double>(count, 1));
    consensus.judge();  // agreement is known from here on, and told
    const auto by_consensus = consensus.judge(), by_median = median.judge();
    const auto shares = consensus.shares(direction_consensus()), medians = median.shares(geometric_median());
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(by_consensus[i], static_cast<double>(count) * shares[i], 1e-5);
      EXPECT_NEAR(by_median[i], static_cast<double>(count) * medians[i], 1e-5);
      sum += by_consensus[i];
    }
    EXPECT_NEAR(sum, static_cast<double>(count), 1e-5);
  }
}

TEST(UpdateWeights, whoPointsAwayCountsNothing_andTheOthersForIt) {
  Workers workers(UpdateWeights::direction_consensus, 8, 1);
  for (int step = 0; step < 3; ++step) workers.judge();
  const auto factors = workers.judge();
  EXPECT_EQ(factors[0], 0) << "as long as the others': no guard would cut it";
  double sum = 0;
  for (const double factor : factors) sum += factor;
  EXPECT_NEAR(sum, 8, 1e-5);
}

TEST(UpdateWeights, ofAWorkerTheNewestUpdateCounts) {
  Workers workers(UpdateWeights::geometric_median, 3);
  for (int step = 0; step < 3; ++step) workers.judge();
  for (float& number : workers.updates[2].sketch) number = -number;
  workers.judge();  // the others hear of it here
  const std::vector<double> factors = workers.judge(), shares = workers.shares(geometric_median());
  for (std::size_t i = 0; i < factors.size(); ++i) EXPECT_NEAR(factors[i], 3 * shares[i], 1e-5);
}

TEST(UpdateWeights, noWeightMakesAnUpdateLongerThanTheGuardAllows) {
  Workers workers(UpdateWeights::direction_consensus, 8, 3);
  for (int step = 0; step < 10; ++step) workers.judge();
  const double weight = workers.judge()[5];
  ASSERT_GT(weight, 1.3);
  workers.updates[5].squared_norm = 1.9 * 1.9;  // short enough alone
  EXPECT_NEAR(workers.judge()[5] * 1.9, 2, 1e-2);
}

TEST(UpdateWeights, whatAPeerHasToldIsForgottenWithIt) {
  Workers workers(UpdateWeights::direction_consensus, 3);
  for (int step = 0; step < 3; ++step) workers.judge();
  UpdateGuard& guard = workers.guards[0];
  EXPECT_NE(guard.judge(workers.updates[0]), 1);
  guard.forget(1);
  guard.forget(2);
  EXPECT_EQ(guard.judge(workers.updates[0]), 1);
  EXPECT_EQ(guard.reference(), 0);
}

TEST(UpdateWeights, aRestoredGuardWeighsAsTheOneThatWasSaved) {
  Workers workers(UpdateWeights::direction_consensus, 5);
  for (int step = 0; step < 3; ++step) workers.judge();
  UpdateGuard other(5, UpdateWeights::direction_consensus);
  ASSERT_TRUE(other.set_state(workers.guards[0].state()));
  EXPECT_EQ(other.judge(workers.updates[1]), workers.guards[0].judge(workers.updates[1]));
}

// Workers of a fleet. Their updates, sketches of 64 numbers, have this mean cosine; their noise is like that of the
// step before, as with momentum. Each hears of one other after each step, in turn. Where `wrong` is given, worker 0's
// common part is multiplied by it.
std::vector<UpdateGuard> fleet(std::size_t workers, double cosine, int steps, unsigned seed, float wrong = 1) {
  constexpr float kKept = 0.9f;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<UpdateGuard> guards(workers);
  std::array<float, UpdateNews::kSketch> common{};
  std::vector<std::array<float, UpdateNews::kSketch>> noise(workers);
  const auto drift = [&](std::array<float, UpdateNews::kSketch>& numbers) {
    for (float& number : numbers) number = kKept * number + std::sqrt(1 - kKept * kKept) * normal(random);
  };
  for (int step = 0; step < steps; ++step) {
    drift(common);
    for (std::size_t i = 0; i < workers; ++i) {
      drift(noise[i]);
      UpdateGuard::Update update = of_norm(1 + 0.01 * static_cast<double>(normal(random)));
      for (std::size_t k = 0; k < UpdateNews::kSketch; ++k)
        update.sketch[k] = static_cast<float>(std::sqrt(cosine)) * common[k] * (i == 0 ? wrong : 1) +
                           static_cast<float>(std::sqrt(1 - cosine)) * noise[i][k];
      guards[i].judge(update);
    }
    for (std::size_t i = 0; i < workers; ++i) {
      const std::size_t to = (i + 1 + static_cast<std::size_t>(step) % (workers - 1)) % workers;
      guards[to].hear(static_cast<int>(i), guards[i].news());
    }
  }
  return guards;
}

TEST(UpdateCounts, healthyWorkersAreNeverAstrayHoweverLittleTheyHaveInCommon) {
  for (const std::size_t workers : {3u, 8u})
    for (const double cosine : {0.0, 0.1, 0.3})
      for (unsigned seed = 0; seed < 3; ++seed)
        for (const UpdateGuard& guard : fleet(workers, cosine, 500, seed))
          EXPECT_LT(guard.counts().astray, 64) << workers << " workers, cosine " << cosine << ", seed " << seed;
}

TEST(UpdateCounts, aWorkerThatPointsElsewhereIsAstray_andAllOthersHearOfIt) {
  for (const std::size_t workers : {4u, 8u})
    for (const float wrong : {-1.0f, 0.0f}) {
      const std::vector<UpdateGuard> guards = fleet(workers, 0.5, 120, 1, wrong);
      EXPECT_GE(guards[0].counts().astray, 64) << workers << " " << wrong;
      EXPECT_EQ(guards[0].counts().clipped, 0) << "it is as long as the others";
      for (std::size_t i = 1; i < workers; ++i) {
        EXPECT_LT(guards[i].counts().astray, 64);
        EXPECT_GE(guards[i].counts_of_others().at(0).astray, 64);
      }
    }
}

TEST(UpdateCounts, aWorkerIsIdleOnlyWhileAnotherMoves) {
  UpdateGuard guard;
  for (int step = 1; step <= 12; ++step) {
    guard.hear(1, {.norm = 1 + 0.01f * static_cast<float>(step)});
    guard.judge(of_norm(step % 2 == 0 ? 0 : 1e-3));
  }
  EXPECT_EQ(guard.counts().idle, 12);
  for (int step = 0; step < 12; ++step) {
    guard.hear(1, {.norm = 0});
    guard.judge(of_norm(0));
  }
  EXPECT_EQ(guard.counts().idle, 12) << "then a schedule may have ended";
}

}  // namespace
}  // namespace flockstep::math
