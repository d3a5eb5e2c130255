// Gradient rules behind DDP's hooks, without Python and without DDP: its buckets are made up here. On threads.
#include "torch/communication_hook.h"

#include <gtest/gtest.h>

#include <set>

#include "made_up_passes.h"
#include "support/on_threads.h"

namespace flockstep::torch_front::gradient_exchange_test {
namespace {

using namespace test_passes;

// With errors as they are.
struct Side : SideOf<CommunicationHook> {
  Side(runtime::Context& context, const GradientPassesSettings& settings)
      : SideOf(context, settings, [](std::exception_ptr error) { return error; }) {}
};

const RuleChoice kAdaCons{"adacons", {{"beta", "0.9"}}};

TEST(CommunicationHook, followsTheRuleWhileBucketsAreRebuiltAndItsMemoryGoesOn) {
  for (const int workers : {1, 2, 3, 5})
    test::on_threads(workers, [&](runtime::Context& context) {
      Side side(context, {.rule = kAdaCons});
      oracle::AdaCons expected{.beta = 0.9, .eps = 1e-8};
      for (int step = 0; step < 6; ++step)
        EXPECT_TRUE(are_near(side.step(step, {.buckets = step < 2 ? kAsMade : kRebuilt}),
                             expected.step(gradients_of(up_to(workers), step))))
            << "step " << step << " of " << workers;
      const GradientNews news = side.exchange.news();
      EXPECT_EQ(news.step, 6);
      EXPECT_EQ(news.rule, "adacons");
      EXPECT_EQ(news.report.coefficients.size(), static_cast<std::size_t>(workers));
      EXPECT_EQ(news.cosines.size(), static_cast<std::size_t>(workers * workers));
      EXPECT_NEAR(news.cosines[0], 1, 1e-6);
      for (std::size_t i = 0; i < expected.smoothed.size(); ++i)
        EXPECT_NEAR(news.memory.at(0).at(i), expected.smoothed[i], 1e-4 * std::abs(expected.smoothed[i]));
    });
}

TEST(CommunicationHook, convertsNumbersOfSixteenBitsThereAndBack) {
  test::on_threads(3, [&](runtime::Context& context) {
    for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
      Side side(context, {.rule = {"mean", {}}});
      for (int step = 0; step < 3; ++step)
        EXPECT_TRUE(are_near(side.step(step, {.type = type}), oracle::mean(gradients_of(up_to(3), step)), 0.03));
    }
  });
}

TEST(CommunicationHook, countsWhoHasAGradientAndDividesByAllOnlyWhereAsked) {
  test::on_threads(3, [&](runtime::Context& context) {
    Side mean(context, {.rule = {"mean", {{"watch", "always"}}}});
    Side weighted(context, {.rule = {"weighted_mean", {}}});
    Side adacons(context, {.rule = kAdaCons});
    oracle::AdaCons expected{.beta = 0.9, .eps = 1e-8};
    for (int step = 0; step < 6; ++step) {
      std::vector<int> present = step < 3 ? up_to(3) : std::vector<int>{0, 2};
      const oracle::Gradients gradients = gradients_of(present, step);
      const bool has_gradient = step < 3 || context.rank() != 1;
      const Side::Pass pass{.has_gradient = has_gradient, .weight = context.rank() + 1.0};
      EXPECT_TRUE(are_near(mean.step(step, pass), oracle::mean(gradients)));
      EXPECT_TRUE(are_near(
          weighted.step(step, pass),
          oracle::weighted_mean(gradients, step < 3 ? std::vector<double>{1, 2, 3} : std::vector<double>{1, 3})));
      if (step == 3) expected.smoothed = {expected.smoothed[0], expected.smoothed[2]};  // ends are kept
      EXPECT_TRUE(are_near(adacons.step(step, pass), expected.step(gradients)));
    }
    EXPECT_TRUE(are_near(mean.step(6, {.has_gradient = context.rank() != 1, .divides_by_all = true}),
                         oracle::scaled(2.0 / 3, oracle::mean(gradients_of({0, 2}, 6)))));
    EXPECT_TRUE(mean.exchange.news().findings.empty());
  });
}

TEST(CommunicationHook, switchesTheRuleOnceAllHaveAskedAndRefusesWhenTheyAskForDifferentOnes) {
  test::on_threads(3, [&](runtime::Context& context) {
    Side side(context, {.rule = {"mean", {}}});
    for (int step = 0; step < 6; ++step) {
      if (step == context.rank() + 1) side.exchange.set_rule({"adasum", {}});  // the last one before step 3
      const oracle::Gradients gradients = gradients_of(up_to(3), step);
      EXPECT_TRUE(are_near(side.step(step, {}), step < 3 ? oracle::mean(gradients) : oracle::adasum(gradients)));
    }
    EXPECT_NE(refusal([&] { side.exchange.set_rule({"adasun", {}}); }), "");
    EXPECT_NE(refusal([&] { side.exchange.set_rule({"local_sgd", {}}); }), "");
    side.exchange.set_rule({context.rank() == 1 ? "adacons" : "mean", {}});
    EXPECT_NE(refusal([&] { side.step(6, {}); }).find("worker 1 has the rule asked for adacons"), std::string::npos);
    EXPECT_TRUE(are_near(side.step(7, {}), oracle::adasum(gradients_of(up_to(3), 7))));
  });
}

TEST(CommunicationHook, switchesTheRuleAlsoBeforeTheFirstPassAndAveragesPlainlyBeforeItsFirstStep) {
  test::on_threads(2, [&](runtime::Context& context) {
    Side side(context, {.rule = kAdaCons}), late(context, {.rule = kAdaCons, .start_step = 3}),
        plain(context, {.rule = {"normalized_mean", {}}, .start_step = 3});
    side.exchange.set_rule({"adacons", {{"beta", "0.5"}}});
    late.exchange.set_rule({"normalized_mean", {}});
    oracle::AdaCons expected{.beta = 0.5, .eps = 1e-8};
    for (int step = 0; step < 5; ++step) {
      const oracle::Gradients gradients = gradients_of(up_to(2), step);
      EXPECT_TRUE(are_near(side.step(step, {}), expected.step(gradients))) << step;
      const oracle::Vector normalized = oracle::normalized_mean(gradients, 1e-8);
      EXPECT_TRUE(are_near(late.step(step, {}), normalized)) << step;
      EXPECT_TRUE(are_near(plain.step(step, {}), step < 3 ? oracle::mean(gradients) : normalized)) << step;
    }
  });
}

// Whatever the order of the first pass was.
std::multiset<std::vector<double>> memory_of(const Side& side) {
  const RuleMemory memory = side.exchange.news().memory;
  return {memory.begin(), memory.end()};
}

// Each switch takes a step, and DDP's buckets stay as they are or are cut anew in it.
TEST(CommunicationHook, anotherRuleAndAnotherGranularityRememberNothingOfTheOneBefore) {
  const auto with = [](const char* rule, const char* granularity) {
    return RuleChoice{rule, {{"beta", "0.9"}, {"granularity", granularity}}};
  };
  const std::vector<RuleChoice> chain = {with("adacons", "model"),  with("direction_consensus", "model"),
                                         with("adacons", "tensor"), with("adacons", "bucket"),
                                         with("adacons", "tensor"), with("direction_consensus", "tensor"),
                                         with("adacons", "model")};
  for (const Buckets& second : {kRebuilt, kAsMade})
    test::on_threads(3, [&](runtime::Context& context) {
      Side side(context, {.rule = chain[0]});
      int step = 0;
      for (const RuleChoice& choice : chain) {
        if (step > 0) side.exchange.set_rule(choice);
        Side fresh(context, {.rule = choice});
        for (int time = 0; time < 3; ++time, ++step) {
          const Side::Pass pass{.buckets = step % 2 == 0 ? kRebuilt : second};
          EXPECT_EQ(side.step(step, pass), fresh.step(step, pass)) << choice.name << " in step " << step;
          EXPECT_EQ(memory_of(side), memory_of(fresh)) << choice.name << " in step " << step;
        }
        EXPECT_EQ(side.exchange.news().remembering, choice.name);
      }
    });
}

TEST(CommunicationHook, whatAGuardHasCutIsCountedOnAfterBucketsAreCutAnew) {
  test::on_threads(3, [](runtime::Context& context) {
    Side side(context, {.rule = {"mean", {{"guard", "3"}}}});
    int step = 0;
    for (const Buckets& buckets : {kAsMade, kRebuilt, kRebuilt})
      side.step(step++, {.buckets = buckets, .factor = context.rank() == 1 ? 100.0f : 1.0f});
    EXPECT_EQ(side.exchange.news().report.guards.at("clipped"), 3);
  });
}

TEST(CommunicationHook, whatIsLoadedForARuleThatWasAskedForIsItsMemory) {
  const RuleChoice other{"direction_consensus", {{"beta", "0.9"}}};
  test::on_threads(3, [&](runtime::Context& context) {
    Side whole(context, {.rule = other});
    for (int step = 0; step < 3; ++step) whole.step(step, {});
    for (const int before : {0, 2}) {
      Side side(context, {.rule = kAdaCons});
      for (int step = 0; step < before; ++step) side.step(step, {});
      side.exchange.set_rule(other);
      side.exchange.remember(3, whole.exchange.news().memory);
      EXPECT_EQ(side.exchange.news().remembering, other.name);
      Side expected(context, {.rule = other, .step = 3, .memory = whole.exchange.news().memory});
      EXPECT_EQ(side.step(3, {}), expected.step(3, {}));
    }
  });
}

TEST(CommunicationHook, aPassInWhichNobodyHasSamplesGivesZeros) {
  test::on_threads(3, [&](runtime::Context& context) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
      for (const char* const watch : {"auto", "always"}) {
        Side side(context, {.rule = {"weighted_mean", {{"watch", watch}}}});
        for (int step = 0; step < 4; ++step) {
          const bool counts = step % 2 == 1;
          const oracle::Vector mean = oracle::mean(gradients_of(up_to(3), step));
          EXPECT_TRUE(are_near(side.step(step, {.weight = counts ? 2.0 : 0.0, .type = type}),
                               counts ? mean : oracle::Vector(mean.size()), 0.03));
          EXPECT_EQ(side.exchange.news().report.event, counts ? "none" : "all_zero");
          EXPECT_EQ(side.exchange.news().step, step + 1);
        }
      }
  });
}

// Whatever the point where backward breaks off, and also before any pass was whole.
TEST(CommunicationHook, aBackwardPassThatBreaksOffFailsOnAllWorkersAndTheNextOneWorks) {
  for (const int failing : {0, 3})
    for (const std::size_t sent : {1, 2})
      for (const bool says_so : {false, true})
        test::on_threads(3, [&](runtime::Context& context) {
          Side side(context, {.rule = {"mean", {}}});
          for (int step = 0; step < 6; ++step) {
            if (step != failing) {
              EXPECT_TRUE(are_near(side.step(step, {}), oracle::mean(gradients_of(up_to(3), step))));
            } else if (context.rank() == 1) {
              const auto futures = side.send(step, {.sent = sent});
              if (says_so) side.exchange.abandon();
              side.send(step, {.sent = 1});  // and so does another try
              side.exchange.abandon();
              EXPECT_EQ(refusal([&] { futures[0]->waitAndThrow(); }).find("worker 1's backward pass ended"), 0u);
            } else {
              for (int time = 0; time < 2; ++time)
                EXPECT_EQ(refusal([&] { side.step(step, {}); }).find("worker 1's backward pass ended"), 0u);
            }
          }
          EXPECT_EQ(side.exchange.news().step, 5);
        });
}

// As DDP's front does it, which knows the buckets: also before the first, and where they are cut anew in this pass.
TEST(CommunicationHook, zerosForTheBucketsThatAreMissingFailThePassOnAllWorkers) {
  for (const int failing : {0, 1, 3})
    for (const Buckets& buckets : {kAsMade, kRebuilt})
      for (std::size_t sent = 0; sent < buckets.size(); ++sent)
        test::on_threads(3, [&](runtime::Context& context) {
          Side side(context, {.rule = {"mean", {}}});
          for (int step = 0; step < 5; ++step) {
            const Side::Pass whole{.buckets = step == 0 ? kAsMade : buckets};
            if (step == failing) {
              Side::Pass pass = whole;
              if (context.rank() == 1) pass.sent = std::min(sent, whole.buckets.size() - 1);
              pass.hands_over_zeros = true;
              EXPECT_EQ(refusal([&] { side.step(step, pass); }).find("worker 1's backward pass ended"), 0u);
            }
            EXPECT_TRUE(are_near(side.step(step, whole), oracle::mean(gradients_of(up_to(3), step))));
          }
          EXPECT_EQ(side.exchange.news().step, 5);
        });
}

TEST(CommunicationHook, memoryOfTensorsFollowsThemIntoOtherBucketsAndIntoAnotherExchange) {
  const RuleChoice rule{"adacons", {{"beta", "0.9"}, {"granularity", "tensor"}}};
  test::on_threads(3, [&](runtime::Context& context) {
    std::vector<oracle::AdaCons> expected(kSizes.size(), {.beta = 0.9, .eps = 1e-8});
    const auto of_all = [&](int step) {
      oracle::Vector all;
      for (std::size_t parameter = 0; parameter < kSizes.size(); ++parameter) {
        oracle::Gradients gradients;
        for (int rank = 0; rank < 3; ++rank) {
          const std::vector<float> numbers = gradient_of(parameter, rank, step);
          gradients.emplace_back(numbers.begin(), numbers.end());
        }
        const oracle::Vector result = expected[parameter].step(gradients);
        all.insert(all.end(), result.begin(), result.end());
      }
      return all;
    };
    GradientPassesSettings settings{.rule = rule};
    for (int life = 0; life < 2; ++life) {
      Side side(context, settings);
      for (int step = 5 * life; step < 5 * life + 5; ++step)
        EXPECT_TRUE(are_near(side.step(step, {.buckets = step % 5 == 0 ? kAsMade : kRebuilt}), of_all(step), 1e-4));
      settings.memory = side.exchange.news().memory;
      settings.step = side.exchange.news().step;
      EXPECT_EQ(settings.step, 5 * life + 5);
    }
  });
}

TEST(CommunicationHook, anotherModelOnAWorkerIsNamedAndNothingIsLeftPending) {
  test::on_threads(2, [&](runtime::Context& context) {
    Side side(context, {.rule = {"mean", {}}});
    const Buckets other = {{0, 1, 2, 4, 3}};
    EXPECT_NE(refusal([&] {
                side.step(0, {.buckets = context.rank() == 1 ? other : kAsMade});
              }).find("worker 1 has as bucket 0 of gradients Float [7, 300, 1, 1200, 64]"),
              std::string::npos);
    EXPECT_TRUE(are_near(side.step(1, {}), oracle::mean(gradients_of(up_to(2), 1))));
  });
}

TEST(CommunicationHook, whatIsPendingWhenItIsClosedGetsAnError) {
  test::on_threads(1, [&](runtime::Context& context) {
    Side side(context, {.rule = {"mean", {}}});
    const auto futures = side.send(0, {.sent = 1});
    side.exchange.close();
    EXPECT_NE(refusal([&] { futures[0]->waitAndThrow(); }), "");
    EXPECT_NE(refusal([&] { side.send(0, {}); }), "");
  });
}

// Worker 0 ends while its conductor makes up for a pass that worker 1 never comes to.
TEST(CommunicationHook, endsAlsoWhileItWaitsForOthersWhoThenHearOfIt) {
  std::string heard;
  try {
    test::on_threads(2, [&](runtime::Context& context) {
      Side side(context, {.rule = {"mean", {}}});
      side.step(0, {});
      if (context.rank() == 0) {
        side.send(1, {.sent = 1});
        side.exchange.abandon();
        context.engine().sleep(base::Duration(0.3));  // now it waits
        side.exchange.close();
      } else {
        context.engine().sleep(base::Duration(3));
        side.step(1, {});
      }
    });
  } catch (const Error& error) {
    heard = error.what();
  }
  EXPECT_EQ(heard, "worker 0's exchange of gradients has failed");
}

TEST(CommunicationHook, refusesWhatCannotTravel) {
  const auto refused = [](const at::Tensor& numbers) {
    return refusal([&] { check_can_travel({.numbers = numbers, .parameters = {}, .sizes = {3}}); });
  };
  EXPECT_EQ(refused(torch::zeros({3})), "");
  EXPECT_NE(refused(torch::zeros({3}).to_sparse()).find("sparse=False"), std::string::npos);
  EXPECT_NE(refused(torch::zeros({3}, at::kMeta)).find("no numbers"), std::string::npos);
  EXPECT_NE(refused(torch::zeros({3}, at::kDouble)).find("type Double"), std::string::npos);
  EXPECT_NE(refused(torch::view_as_real(torch::zeros({3}, at::kComplexFloat))).find("complex"), std::string::npos);
}

}  // namespace
}  // namespace flockstep::torch_front::gradient_exchange_test
