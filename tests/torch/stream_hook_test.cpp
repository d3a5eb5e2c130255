// Exact rules in the order of a stream, without a GPU: a thread that lags stands for the device, and an engine's
// messages for NCCL. The oracle is the hook that waits on the host.
#include "torch/stream_hook.h"

#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "host_place.h"
#include "made_up_passes.h"
#include "support/on_threads.h"
#include "torch/communication_hook.h"

namespace flockstep::torch_front::stream_hook_test {
namespace {

using namespace test_passes;
using test::HostPlace;
const float kNaN = std::numeric_limits<float>::quiet_NaN();

// Buckets are made in torch's current stream, which lags, too: NaN until then.
class LateHook : public StreamHook {
 public:
  LateHook(runtime::Context& context, const GradientPassesSettings& settings, std::unique_ptr<HostPlace> place)
      : LateHook(context, settings, *place, std::move(place)) {}

  Future add(GradientOffer offer) {
    const at::Tensor bucket = offer.bucket.numbers, made = bucket.clone();
    if (offer.weight > 0) {  // else zeros follow
      bucket.fill_(kNaN);
      place_.current().call([bucket, made] { bucket.copy_(made); });
    }
    return StreamHook::add(std::move(offer));
  }

 private:
  LateHook(runtime::Context& context, const GradientPassesSettings& settings, HostPlace& place,
           std::unique_ptr<HostPlace>&& given)
      : StreamHook(context, settings, std::move(given)), place_(place) {}
  HostPlace& place_;
};

struct Streamed : SideOf<LateHook> {
  Streamed(runtime::Context& context, const GradientPassesSettings& settings)
      : Streamed(context, settings, std::make_unique<HostPlace>(test::Pace::late)) {}
  Streamed(runtime::Context& context, const GradientPassesSettings& settings, std::unique_ptr<HostPlace> made)
      : SideOf(context, settings, (place = made.get(), std::move(made))) {}
  GradientNews news() { return exchange.final_news(); }
  HostPlace* place;
};

struct Waiting : SideOf<CommunicationHook> {
  Waiting(runtime::Context& context, const GradientPassesSettings& settings)
      : SideOf(context, settings, [](std::exception_ptr error) { return error; }) {}
  GradientNews news() { return exchange.news(); }
};

// NaN where both are.
testing::AssertionResult are_alike(const oracle::Vector& x, const oracle::Vector& y) {
  if (std::isnan(y.at(0)))
    return std::ranges::all_of(x, [](double each) { return std::isnan(each); })
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << "a number where there should be none";
  return are_near(x, y, 1e-6);
}

using Change = std::function<float(int rank, int step)>;  // what a gradient is multiplied by

void expect_alike(int workers, const RuleChoice& rule, const Change& change = {}, int steps = 6) {
  SCOPED_TRACE(rule.name + " of " + std::to_string(workers));
  test::on_threads(workers, [&](runtime::Context& context) {
    Streamed streamed(context, {.rule = rule});
    Waiting waiting(context, {.rule = rule});
    for (int step = 0; step < steps; ++step) {
      const Streamed::Pass pass{.buckets = step < 2 ? kAsMade : kRebuilt,
                                .weight = context.rank() + 1.0,
                                .factor = change ? change(context.rank(), step) : 1};
      const Waiting::Pass same{.buckets = pass.buckets, .weight = pass.weight, .factor = pass.factor};
      EXPECT_TRUE(are_alike(streamed.step(step, pass), waiting.step(step, same))) << "step " << step;
      const GradientNews one = streamed.news(), other = waiting.news();
      EXPECT_EQ(one.step, other.step);
      EXPECT_EQ(one.report.event, other.report.event) << "step " << step;
      EXPECT_EQ(one.report.guards, other.report.guards) << "step " << step;
      EXPECT_EQ(one.cosines.size(), other.cosines.size()) << "step " << step;
      EXPECT_TRUE(are_alike(one.report.coefficients, other.report.coefficients)) << "step " << step;
      ASSERT_EQ(one.memory.size(), other.memory.size());
      for (std::size_t section = 0; section < one.memory.size(); ++section)
        EXPECT_TRUE(are_near(one.memory[section], other.memory[section], 1e-6));
    }
    EXPECT_EQ(streamed.news().findings, waiting.news().findings);
  });
}

TEST(StreamHook, doesWhatTheHookOnTheHostDoesUnderEveryRule) {
  for (const char* const rule :
       {"mean", "weighted_mean", "normalized_mean", "adacons", "direction_consensus", "geometric_median", "adasum"})
    for (const int workers : {1, 2, 3, 5}) expect_alike(workers, {rule, {}});
}

TEST(StreamHook, takesEveryOption) {
  for (const char* const magnitude : {"own", "mean_norm", "median_norm", "matched"})
    for (const char* const granularity : {"model", "bucket", "tensor"})
      expect_alike(3, {"adacons", {{"magnitude", magnitude}, {"granularity", granularity}}});
  expect_alike(3, {"direction_consensus", {{"wire", "bfloat16"}}});
  expect_alike(3, {"mean", {{"watch", "always"}, {"guard", "3"}}});
  expect_alike(3, {"mean", {{"watch", "2"}}});
  expect_alike(3, {"mean", {{"watch", "2"}}}, [](int rank, int step) { return rank == 1 && step == 2 ? kNaN : 1.0f; });
  expect_alike(3, {"adasum", {{"magnitude", "mean_norm"}}});
}

TEST(StreamHook, meetsNumbersThatAreNotFiniteAsTheOtherDoes) {
  const Change once = [](int rank, int step) { return rank == 1 && step == 3 ? kNaN : 1.0f; };
  const Change ever = [](int rank, int step) { return rank == 1 && step >= 2 ? kNaN : 1.0f; };
  for (const char* const rule : {"adacons", "direction_consensus", "adasum"})
    for (const char* const non_finite : {"propagate", "exclude"})
      for (const Change& change : {once, ever})
        expect_alike(3, {rule, {{"non_finite", non_finite}, {"non_finite_patience", "3"}}}, change, 8);
  expect_alike(3, {"adacons", {}}, [](int, int step) { return step == 3 ? 0.0f : 1.0f; });
  expect_alike(3, {"mean", {{"watch", "always"}, {"guard", "3"}}},
               [](int rank, int step) { return rank == 1 && step == 3 ? 1000.0f : 1.0f; });
}

TEST(StreamHook, countsWhoHasAGradientAndDividesByAllOnlyWhereAsked) {
  test::on_threads(3, [&](runtime::Context& context) {
    Streamed mean(context, {.rule = {"mean", {}}}), adacons(context, {.rule = {"adacons", {{"beta", "0"}}}});
    const bool has_gradient = context.rank() != 1;
    const oracle::Gradients gradients = gradients_of({0, 2}, 4);
    const auto pass = [&](bool divides) {
      return Streamed::Pass{.has_gradient = has_gradient, .divides_by_all = divides};
    };
    EXPECT_TRUE(are_near(mean.step(4, pass(false)), oracle::mean(gradients)));
    EXPECT_TRUE(are_near(mean.step(4, pass(true)), oracle::scaled(2.0 / 3, oracle::mean(gradients))));
    oracle::AdaCons expected{.beta = 0, .eps = 1e-8};
    EXPECT_TRUE(are_near(adacons.step(4, pass(false)), expected.step(gradients)));
  });
}

TEST(StreamHook, aPassInWhichNobodyHasSamplesGivesZeros) {
  test::on_threads(2, [&](runtime::Context& context) {
    Streamed side(context, {.rule = {"weighted_mean", {}}});
    const oracle::Vector result = side.step(0, {.weight = 0, .factor = kNaN});
    EXPECT_TRUE(std::ranges::all_of(result, [](double each) { return each == 0; }));
    EXPECT_EQ(side.news().report.event, "all_zero");
  });
}

TEST(StreamHook, switchesTheRuleOneStepAfterAllHaveAsked) {
  test::on_threads(3, [&](runtime::Context& context) {
    Streamed side(context, {.rule = {"mean", {}}});
    for (int step = 0; step < 7; ++step) {
      if (step == context.rank() + 1) side.exchange.set_rule({"adasum", {{"granularity", "tensor"}}});
      const oracle::Gradients gradients = gradients_of(up_to(3), step);
      const oracle::Vector result = side.step(step, {});
      EXPECT_EQ(static_cast<bool>(are_near(result, oracle::mean(gradients))), step <= 3) << step;
      EXPECT_EQ(side.news().rule, step <= 3 ? "mean" : "adasum") << step;
    }
    EXPECT_NE(refusal([&] { side.exchange.set_rule({"local_sgd", {}}); }), "");
    side.exchange.set_rule({context.rank() == 1 ? "adacons" : "mean", {}});
    side.step(7, {});
    EXPECT_NE(refusal([&] { side.step(8, {}); }).find("worker 1 has asked for another rule"), std::string::npos);
  });
}

TEST(StreamHook, beginsTheRuleAtItsFirstStep) {
  test::on_threads(2, [&](runtime::Context& context) {
    Streamed side(context, {.rule = {"adasum", {}}, .start_step = 3});
    for (int step = 0; step < 6; ++step) {
      const oracle::Gradients gradients = gradients_of(up_to(2), step);
      EXPECT_TRUE(are_near(side.step(step, {}), step < 3 ? oracle::mean(gradients) : oracle::adasum(gradients)));
    }
  });
}

TEST(StreamHook, goesOnFromWhatWasRemembered) {
  for (const char* const granularity : {"model", "bucket", "tensor"}) {
    const RuleChoice rule{"adacons", {{"beta", "0.9"}, {"granularity", granularity}}};
    test::on_threads(3, [&](runtime::Context& context) {
      Streamed whole(context, {.rule = rule});
      for (int step = 0; step < 3; ++step) whole.step(step, {});
      const RuleMemory memory = whole.news().memory;
      Streamed made(context, {.rule = rule, .step = 3, .memory = memory}), told(context, {.rule = rule});
      told.step(0, {});
      told.exchange.remember(3, memory);
      for (int step = 3; step < 5; ++step) {
        const oracle::Vector expected = whole.step(step, {});
        EXPECT_TRUE(are_near(made.step(step, {}), expected, 1e-9));
        EXPECT_TRUE(are_near(told.step(step, {}), expected, 1e-9));
      }
      EXPECT_EQ(told.news().step, 5);
    });
  }
}

TEST(StreamHook, aPassThatBreaksOffFailsOnAllWorkersInTheNextOne) {
  test::on_threads(3, [&](runtime::Context& context) {
    Streamed side(context, {.rule = {"adacons", {}}});
    side.step(0, {});
    side.step(1, {.sent = context.rank() == 1 ? std::size_t{1} : 100, .hands_over_zeros = true});
    EXPECT_NE(refusal([&] { side.step(2, {}); }).find("worker 1's backward pass raised an exception"),
              std::string::npos);
  });
}

TEST(StreamHook, aDeviceWithoutMemoryIsAnErrorOnAllWorkersAtOnce) {
  test::on_threads(3, [&](runtime::Context& context) {
    Streamed side(context, {.rule = {"adacons", {}}});
    side.place->is_full = context.rank() == 1;
    for (int time = 0; time < 2; ++time)  // there is no way on
      EXPECT_EQ(refusal([&] { side.step(0, {}); }),
                "worker 1 cannot exchange gradients between GPUs: there is no memory left");
  });
}

// Nobody waits for a future before the last pass: all that waits is the hook itself, where buckets are rebuilt and
// around changes of the rule.
TEST(StreamHook, resultsAreThoseOfTheOtherHoweverFarHostsAreAhead) {
  for (const char* const granularity : {"model", "tensor"})
    test::on_threads(3, [&](runtime::Context& context) {
      const RuleChoice rule{"weighted_mean", {{"granularity", granularity}, {"watch", "always"}}},
          next{"adacons", {{"granularity", granularity}, {"beta", "0.9"}}},
          last{"adacons", {{"granularity", granularity}, {"beta", "0.5"}, {"magnitude", "mean_norm"}}};
      Streamed streamed(context, {.rule = rule});
      Waiting waiting(context, {.rule = rule});
      streamed.place->runs_ahead = true;
      std::vector<GradientPasses::Future> passes, expected;
      for (int step = 0; step < 12; ++step) {
        const Buckets& buckets = step % 6 == 0 ? kAsMade : kRebuilt;
        const double weight = context.rank() * step + 1.0;
        // The other answers in the step that asks.
        if (step == 3 || step == 8) streamed.exchange.set_rule(step == 3 ? next : last);
        if (step == 4 || step == 9) waiting.exchange.set_rule(step == 4 ? next : last);
        std::ranges::copy(streamed.send(step, {.buckets = buckets, .weight = weight}), std::back_inserter(passes));
        for (const auto& future : waiting.send(step, {.buckets = buckets, .weight = weight})) {
          future->waitAndThrow();
          expected.push_back(future);
        }
      }
      streamed.place->queue().catch_up();
      for (std::size_t i = 0; i < passes.size(); ++i) {
        passes[i]->waitAndThrow();
        EXPECT_TRUE(torch::allclose(passes[i]->value().toTensor(), expected[i]->value().toTensor(), 1e-5, 1e-6)) << i;
      }
      EXPECT_EQ(streamed.news().step, 12);
    });
}

TEST(StreamHook, theHostGoesOnWhileTheDeviceIsBusy) {
  test::on_threads(2, [&](runtime::Context& context) {
    Streamed side(context, {.rule = {"adacons", {{"magnitude", "mean_norm"}}}});
    Waiting waiting(context, {.rule = {"adacons", {{"magnitude", "mean_norm"}}}});
    side.step(0, {});
    waiting.step(0, {});
    std::promise<void> free;
    side.place->queue().call([busy = free.get_future().share()] { busy.wait(); });
    std::vector<std::vector<GradientPasses::Future>> passes;
    for (int step = 1; step < 4; ++step) passes.push_back(side.send(step, {}));
    EXPECT_FALSE(passes[0][0]->completed());
    EXPECT_EQ(side.exchange.news().step, 1);
    free.set_value();
    for (auto& futures : passes)
      for (auto& future : futures) future->wait();
    for (int step = 1; step < 4; ++step) waiting.step(step, {});
    EXPECT_EQ(side.news().step, 4);
    EXPECT_TRUE(are_near(side.news().report.coefficients, waiting.news().report.coefficients, 1e-6));
  });
}

}  // namespace
}  // namespace flockstep::torch_front::stream_hook_test
