// Averaging in pairs where workers come and go, on the mesh engine: losses at drawn moments, joins, and averages over
// all who live.
#include "elastic_workers.h"

#include <cmath>

#include "base/random.h"
#include "runtime/pairs/pair_agent.h"

namespace flockstep::algorithms {
namespace {

using base::Duration;
using engines::conformance::MeshRun;

constexpr std::size_t kSmall = 1003, kLarge = 300'000;

class ElasticPairs : public testing::TestWithParam<const char*> {
 protected:
  // With an average after every step.
  static base::Settings settings() {
    base::Settings settings{{"guard", "off"}};  // updates are made up
    if (std::string_view(GetParam()) == "swarm") settings["period"] = "1";
    return settings;
  }
  static std::unique_ptr<ElasticWorker> worker(const MeshRun& run, int rank, std::size_t size = kSmall,
                                               std::uint64_t fingerprint = 7) {
    return std::make_unique<ElasticWorker>(run.make(rank), GetParam(), size, static_cast<float>(rank), settings(),
                                           fingerprint);
  }
  // All of them, part of one run.
  static std::vector<std::unique_ptr<ElasticWorker>> joined(const MeshRun& run, int workers,
                                                            std::size_t size = kSmall) {
    std::vector<std::unique_ptr<ElasticWorker>> all(static_cast<std::size_t>(workers));
    Threads threads;
    for (int rank = 0; rank < workers; ++rank)
      threads.start([&, rank] {
        all[static_cast<std::size_t>(rank)] = worker(run, rank, size);
        all[static_cast<std::size_t>(rank)]->join();
      });
    threads.finish();
    return all;
  }
  static void on_all(const std::vector<std::unique_ptr<ElasticWorker>>& all,
                     const std::function<void(ElasticWorker&)>& body) {
    Threads threads;
    for (const auto& each : all)
      if (each) threads.start([&] { body(*each); });
    threads.finish();
  }
  static void expect_equal(const std::vector<std::unique_ptr<ElasticWorker>>& all) {
    const ElasticWorker* first = nullptr;
    for (const auto& each : all) {
      if (!each) continue;
      if (!first) first = each.get();
      EXPECT_EQ(each->model, first->model);
      EXPECT_EQ(each->steps, first->steps);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Algorithms, ElasticPairs, testing::Values("adpsgd", "swarm"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ElasticPairs, theFirstBeginTogetherFromTheModelOfTheLowestRank) {
  const MeshRun run(3);
  const auto began = std::chrono::steady_clock::now();
  const auto all = joined(run, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(9));  // nobody waits once all are there
  for (const auto& each : all) {
    EXPECT_EQ(each->model, std::vector<float>(kSmall, 0));
    EXPECT_EQ(each->steps, 0);
  }
}

TEST_P(ElasticPairs, whereNobodyIsLostSumsAreKeptAndModelsAreEqualToTheLastBit) {
  for (const int workers : {1, 2, 3, 5}) {
    const MeshRun run(workers);
    const auto all = joined(run, workers);
    for (int part = 0; part < 3; ++part) {
      on_all(all, [&](ElasticWorker& each) {
        base::Random random(3, base::Purpose::test, static_cast<std::uint32_t>(each.context.rank()));
        for (int step = 0; step < 40; ++step) each.step(random.uniform() - 0.25f);
        each.consolidate();
      });
      expect_equal(all);
      double sum = 0;
      for (const auto& each : all) sum += each->added;
      // Per step and worker a rounding by a merge, and two by averages, of numbers below 64.
      EXPECT_NEAR(all[0]->model[0], sum / workers, 3 * 120 * workers * 64.0 / (1 << 24));
      EXPECT_EQ(all[0]->steps, 40 * (part + 1));
    }
    for (const auto& each : all)
      EXPECT_EQ(each->algorithm->meetings()->stale + each->algorithm->meetings()->alone, 120);
  }
}

TEST_P(ElasticPairs, aLossWhileNothingIsUnderWayLeavesTheOthersToThemselves) {
  const MeshRun run(3);
  auto all = joined(run, 3);
  on_all(all, [](ElasticWorker& each) { each.step(1); });
  all[1].reset();
  on_all(all, [](ElasticWorker& each) {
    for (int step = 0; step < 20; ++step) each.step(1);
    each.consolidate();
  });
  expect_equal(all);
}

TEST_P(ElasticPairs, bothHalvesAreThereWhoeverIsLost) {  // by ranks, adpsgd would have nobody passive left
  const MeshRun run(4);
  auto all = joined(run, 4);
  all[1].reset();
  all[3].reset();
  std::atomic<bool> done = false;
  const std::int64_t before = all[0]->averages();
  on_all(all, [&](ElasticWorker& each) {
    const base::Time end = each.engine->now() + Duration(60);
    while (!done && each.engine->now() < end) {
      each.step(0.5f);
      if (each.context.rank() == 0 && each.averages() > before + 3) done = true;
    }
    each.consolidate();
  });
  EXPECT_TRUE(done);
  expect_equal(all);
}

TEST_P(ElasticPairs, whoComesLaterTakesModelAndStepsAndMayHaveAHigherRank) {
  const MeshRun run(2);
  auto all = joined(run, 2);
  on_all(all, [](ElasticWorker& each) {
    for (int step = 0; step < 10; ++step) each.step(1);
    each.consolidate();
  });
  for (const int rank : {2, 5}) {
    all.push_back(worker(run, rank));
    all.back()->join();
    EXPECT_EQ(all.back()->steps, 10);
    EXPECT_EQ(all.back()->model, all[0]->model);
  }
  std::atomic<bool> done = false;
  on_all(all, [&](ElasticWorker& each) {
    const base::Time end = each.engine->now() + Duration(60);
    while (!done && each.engine->now() < end) {
      each.step(0.25f);
      if (each.context.rank() == 5 && each.averages() > 3) done = true;
    }
    each.consolidate();
  });
  EXPECT_TRUE(done);  // it is averaged with
  expect_equal(all);
}

TEST_P(ElasticPairs, whoMeansAnotherTrainingIsRefused) {
  const MeshRun run(2);
  const auto all = joined(run, 2);
  const auto other = worker(run, 2, kSmall, 8);
  try {
    other->join();
    FAIL() << "it has joined";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_NE(std::string(error.what()).find("worker 2 cannot join the run of worker"), std::string::npos)
        << error.what();
  }
  on_all(all, [](ElasticWorker& each) {
    for (int step = 0; step < 5; ++step) each.step(1);
    each.consolidate();
  });
  expect_equal(all);
}

TEST_P(ElasticPairs, whoIsAwayIsNotWaitedFor) {
  const MeshRun run(3);
  auto all = joined(run, 3);
  all[2]->algorithm->departures()->leave();
  on_all(all, [](ElasticWorker& each) {
    if (each.context.rank() == 2) return;
    for (int step = 0; step < 10; ++step) each.step(1);
    each.consolidate();
  });
  EXPECT_EQ(all[0]->model, all[1]->model);
  all[2]->come_back();
  EXPECT_EQ(all[2]->steps, 10);
  on_all(all, [](ElasticWorker& each) { each.consolidate(); });
  expect_equal(all);
}

// ---- at drawn moments ----

// Four workers train, one of them is killed after a drawn time and started again, and all end with one model.
TEST_P(ElasticPairs, aKillAtAnyMomentLeavesTheOthersAtWorkAndIsTakenBack) {
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::Random random(seed, base::Purpose::test, 0);
    constexpr int kWorkers = 4, kSteps = 20;
    const MeshRun run(kWorkers);
    auto all = joined(run, kWorkers, kLarge);
    const std::size_t victim = random.below(kWorkers);
    const auto moment = std::chrono::microseconds(random.below(40'000));
    std::atomic<bool> is_back = false;
    const auto train = [&](ElasticWorker& each) {
      while (each.steps < kSteps || !is_back) each.step(1);
      each.consolidate();
      each.engine->close();  // nobody needs it any more
    };
    Threads threads;
    for (std::size_t rank = 0; rank < kWorkers; ++rank)
      threads.start([&, rank] {
        try {
          train(*all[rank]);
        } catch (const Error& error) {
          if (rank != victim) is_back = true;  // so that the others end all the same
          ASSERT_EQ(rank, victim) << error.what();
          all[rank]->wait_until_killed();
          all[rank].reset();
          all[rank] = worker(run, static_cast<int>(rank), kLarge);
          all[rank]->join();
          EXPECT_EQ(all[rank]->engine->incarnation(), 2u);
          is_back = true;
          train(*all[rank]);
        }
      });
    std::this_thread::sleep_for(moment);
    ElasticWorker& first_life = *all[victim];
    first_life.kill();
    threads.finish();
    expect_equal(all);
    EXPECT_GE(all[0]->steps, kSteps);
  }
}

// The lowest rank, which adds up, or another one is killed while all who live are averaged, again and again.
TEST_P(ElasticPairs, aKillWhileAllAreAveragedLeavesTheOthersWithOneModel) {
  for (std::uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::Random random(seed, base::Purpose::test, 1);
    constexpr int kWorkers = 4;
    const MeshRun run(kWorkers);
    auto all = joined(run, kWorkers, kLarge);
    on_all(all, [](ElasticWorker& each) { each.step(static_cast<float>(each.context.rank())); });
    const std::size_t victim = seed % 2 == 0 ? 0 : random.below(kWorkers);
    const auto moment = std::chrono::microseconds(random.below(6'000));
    Threads threads;
    for (std::size_t rank = 0; rank < kWorkers; ++rank)
      threads.start([&, rank] {
        try {
          all[rank]->consolidate();
        } catch (const Error& error) {
          ASSERT_EQ(rank, victim) << error.what();
        }
        if (rank != victim) all[rank]->engine->close();  // nobody needs it any more
      });
    std::this_thread::sleep_for(moment);
    all[victim]->kill();
    threads.finish();
    all[victim].reset();
    expect_equal(all);
  }
}

TEST_P(ElasticPairs, aDonorThatIsLostIsReplacedByAnother) {
  for (std::uint32_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::Random random(seed, base::Purpose::test, 2);
    const MeshRun run(3);
    auto all = joined(run, 3, kLarge);
    on_all(all, [](ElasticWorker& each) {
      each.step(1);
      each.consolidate();
    });
    const std::vector<float> model = all[0]->model;
    const auto moment = std::chrono::microseconds(random.below(3'000));
    const auto other = worker(run, 3, kLarge);  // which asks the lowest rank, since none is above it
    Threads threads;
    threads.start([&] { other->join(); });
    std::this_thread::sleep_for(moment);
    all[0].reset();
    threads.finish();
    EXPECT_EQ(other->steps, 1);
    EXPECT_EQ(other->model, model);
  }
}

// Connections that end at drawn moments, while both ends live: each is met again, and nobody notices more than that.
TEST_P(ElasticPairs, connectionsThatEndAreMadeAgain) {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr int kWorkers = 3, kSteps = 60;
    const MeshRun run(kWorkers);
    const auto all = joined(run, kWorkers, kLarge);
    std::atomic<int> training = kWorkers;
    std::atomic<bool> is_calm = false;
    Threads threads;
    for (const auto& each : all)
      threads.start([&] {
        while (each->steps < kSteps) each->step(1);
        --training;
        each->consolidate();  // where it was alone, those who meet it again would wait for it
        is_calm.wait(false);
        each->engine->close();
      });
    base::Random random(seed, base::Purpose::test, 3);
    while (training > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(10'000)));
      engines::Engine& engine = *all[random.below(kWorkers)]->engine;
      engine.begin_again(engine.incarnation() + 1);
    }
    is_calm = true;
    is_calm.notify_all();
    threads.finish();
    for (const auto& each : all) EXPECT_EQ(each->steps, kSteps);
  }
}

// ---- the agent alone ----

TEST(ElasticPairAgent, whoeverIsAloneBeginsAfterAWhile) {
  const MeshRun run(2);
  const auto engine = run.make(1);
  runtime::Context context(*engine, Duration(60));
  std::vector<float> model(10, 3);
  runtime::PairAgent agent(context, runtime::Layout(10, 4), runtime::PairAgent::WhenBusy::refuse, model,
                           runtime::ElasticPairs{.fingerprint = 1, .steps = 20, .patience = Duration(0.2)});
  const base::Time began = engine->now();
  agent.come_back(model);
  EXPECT_GE((engine->now() - began).count(), 0.2);
  EXPECT_EQ(agent.steps(), 20);
  model.assign(10, 4);
  agent.merge(model, {0, 7});  // nobody of these is there
  agent.consolidate(model);
  EXPECT_EQ(model, std::vector<float>(10, 4));
  EXPECT_EQ(agent.steps(), 21);
  EXPECT_EQ(agent.counts().averages, 0);
  EXPECT_EQ(agent.counts().skipped, 1);
}

}  // namespace
}  // namespace flockstep::algorithms
