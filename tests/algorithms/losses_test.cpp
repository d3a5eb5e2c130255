// Training through join() while workers are lost at any engine call and come back: whoever lives finishes, and all who
// took part to the end have one model. What is lost and when is drawn from a seed.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>

#include "api/synchronizer.h"
#include "base/random.h"
#include "engines/threads/backend.h"
#include "support/refusal.h"

namespace flockstep::losses_test {
namespace {

constexpr std::size_t kParameters = 40;
constexpr std::int64_t kSteps = 20;

struct Scene {
  std::string algorithm;
  bool is_deterministic;
  std::uint64_t seed;

  // In groups of every kind.
  std::map<std::string, std::string> options() const {
    std::map<std::string, std::string> options{{"period", "4"}};
    if (seed % 4 == 1) options["groups"] = "fixed";
    if (seed % 4 >= 2) options["groups"] = "nodes";
    if (seed % 4 == 3) options["workers_per_node"] = "2";
    return options;
  }
};

struct End {  // of one worker that has finished
  std::vector<float> model;
  std::int64_t updates = 0;
  bool is_late = false;  // it has joined when others had begun to consolidate, and takes no part in that
  bool operator==(const End&) const = default;
};

// Two to five workers, of which each is lost up to three times; all come back but, now and then, one.
engines::LaunchOptions draw(const Scene& scene) {
  base::Random random(scene.seed, base::Purpose::test);
  const auto below = [&](int bound) { return static_cast<int>(random.below(static_cast<std::uint32_t>(bound))); };
  engines::LaunchOptions options;
  options.workers = 2 + below(4);
  options.deterministic = scene.is_deterministic;
  options.seed = scene.seed;
  options.elastic.outlives_peers = true;
  const int losses = 1 + below(2 * options.workers);
  for (int i = 0; i < losses; ++i) {
    // Those that a run begins with wait 10 s for one who is lost before it has joined: in real time that takes too
    // long.
    const double first = scene.is_deterministic ? 1 : 100;
    const auto call = static_cast<std::int64_t>(first * std::exp(random.uniform() * std::log(1500 / first)));
    const base::Duration away(below(3) == 0 ? 0.002 * random.uniform() : 0);
    options.elastic.losses.push_back({below(options.workers), call, true, away});
  }
  if (below(3) == 0) options.elastic.losses.back().comes_back = false;
  return options;
}

class Training {
 public:
  Training(const Scene& scene, const engines::LaunchOptions& options)
      : scene_(scene),
        options_(options),
        ends_(workers()),
        lives_(workers()),
        consolidations_(workers()),
        came_too_late_(workers()) {}

  void run() {
    engines::threads::run(options_, [this](engines::Engine& engine) { live(engine); });
  }

  std::size_t workers() const { return static_cast<std::size_t>(options_.workers); }
  int lives() const {
    int all = 0;
    for (const int each : lives_) all += each;
    return all;
  }

  // Who was lost for good has not finished, nor who came back when the run was over; everybody else has.
  void check() const {
    const std::vector<float>* first = nullptr;
    for (std::size_t rank = 0; rank < workers(); ++rank) {
      if (!ends_[rank]) {
        EXPECT_TRUE(is_lost_for_good(static_cast<int>(rank)) || came_too_late_[rank]) << "worker " << rank;
        continue;
      }
      const End& end = *ends_[rank];
      EXPECT_GT(end.updates, kSteps) << "of worker " << rank;  // consolidating counts
      for (const float each : end.model) ASSERT_TRUE(std::isfinite(each));
      if (end.is_late || is_consolidation_torn()) continue;
      if (!first) first = &end.model;
      EXPECT_EQ(end.model, *first) << "of worker " << rank;
    }
  }
  // A worker was lost in it: some may have got the average with its model, and the others without.
  bool is_consolidation_torn() const {
    return std::ranges::any_of(consolidations_, [](int each) { return each > 0; });
  }
  const std::vector<std::optional<End>>& ends() const { return ends_; }

 private:
  bool is_lost_for_good(int rank) const {
    return std::ranges::any_of(options_.elastic.losses,
                               [&](const engines::Loss& loss) { return loss.rank == rank && !loss.comes_back; });
  }

  void live(engines::Engine& engine) {
    const auto rank = static_cast<std::size_t>(engine.rank());
    if (lives_[rank]++ > 0 && is_over_) {
      came_too_late_[rank] = true;
      return;
    }
    runtime::Context context(engine, base::Duration(scene_.is_deterministic ? 3600 : 60));
    std::vector<float> model(kParameters, 0.0f);
    Synchronizer::Implementation synchronizer(context, scene_.algorithm, {kParameters}, scene_.options(), {});
    synchronizer.join(model);
    End end;
    end.is_late = is_over_ || synchronizer.session.updates() > kSteps;
    while (synchronizer.session.updates() < kSteps) {
      const std::int64_t before = synchronizer.session.updates();
      for (float& each : model) each -= 0.2f * (each - static_cast<float>(rank + 1));
      engine.sleep(base::Duration(1e-4));
      synchronizer.after_update(model);
      // In real time all that a worker was joining may be lost in this very update: then it begins again with a new
      // count.
      EXPECT_TRUE(synchronizer.session.updates() > before || !scene_.is_deterministic);
    }
    ++consolidations_[rank];
    synchronizer.consolidate(model);
    --consolidations_[rank];
    end.model = model;
    end.updates = synchronizer.session.updates();
    ends_[rank] = end;
    is_over_ = true;
  }

  const Scene scene_;
  const engines::LaunchOptions options_;
  std::vector<std::optional<End>> ends_;  // by rank
  std::vector<int> lives_;
  std::vector<int> consolidations_;  // by rank: that it has not come out of
  std::vector<char> came_too_late_;  // another had finished
  std::atomic<bool> is_over_ = false;
};

class Losses : public testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Losses, whoeverLivesFinishesWithTheModelOfAllWhoTookPart) {
  const auto& [algorithm, is_deterministic] = GetParam();
  int lives = 0, workers = 0, torn = 0;
  // A worker that was joining when the others ended waits 10 s for more of them: in real time that takes too long.
  const int seeds = is_deterministic ? 80 : 12;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(seeds); ++seed) {
    SCOPED_TRACE(testing::Message() << algorithm << ", seed " << seed);
    const Scene scene{algorithm, is_deterministic, seed};
    Training training(scene, draw(scene));
    ASSERT_NO_THROW(training.run());
    training.check();
    if (HasFatalFailure()) return;
    torn += training.is_consolidation_torn();
    lives += training.lives();
    workers += static_cast<int>(training.workers());
  }
  EXPECT_LT(torn, seeds / 2);
  EXPECT_GT(lives - workers, seeds) << "losses after which a worker has come back";
}

INSTANTIATE_TEST_SUITE_P(Elastic, Losses, testing::Combine(testing::Values("flock", "wagma"), testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) ? "_deterministic" : "");
                         });

TEST(LossesRefused, anAlgorithmThatNeedsAllWorkersIsNotJoined) {
  engines::LaunchOptions options;
  options.workers = 2;
  options.elastic.outlives_peers = true;
  for (const std::string algorithm : {"adpsgd", "swarm", "mean"})
    engines::threads::run(options, [&](engines::Engine& engine) {
      runtime::Context context(engine, base::Duration(60));
      std::vector<float> model(kParameters);
      Synchronizer::Implementation synchronizer(context, algorithm, {kParameters}, {}, {});
      const std::string sentence = test::refusal([&] { synchronizer.join(model); });
      EXPECT_NE(sentence.find(algorithm + " cannot continue without a lost worker"), std::string::npos) << sentence;
    });
}

TEST(LossesRepeated, inDeterministicModeARunRepeatsToTheLastBit) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Scene scene{"flock", true, seed};
    Training one(scene, draw(scene)), other(scene, draw(scene));
    one.run();
    other.run();
    EXPECT_EQ(one.lives(), other.lives()) << "seed " << seed;
    EXPECT_EQ(one.ends(), other.ends()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace flockstep::losses_test
