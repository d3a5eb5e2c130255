// What a StreamHook, and the DevicePass that it drives, ask a device for: every call of worker 0 of two, in order.
#include <gtest/gtest.h>

#include "host_place.h"
#include "made_up_passes.h"
#include "support/on_threads.h"
#include "torch/stream_hook.h"

namespace flockstep::torch_front::stream_hook_calls_test {
namespace {

using namespace test_passes;
using test::HostPlace;

// Buckets of 301 and of 1200 numbers, of which worker 0 owns 192 and 640; and the other way round.
const Buckets kTwo = {{1, 2}, {4}}, kOthers = {{4}, {1, 2}};

// Each bucket is taken over once it is made, travels, and is swept.
const std::string
    kTake = R"(hold bucket of 301
queue: follow current
)",
    kTakeNext = R"(hold bucket of 1200
queue: follow current
)",
    kTravels = R"(queue: fill memory of 240
exchange: 1 gets 436 bucket of 301 for 768 memory of 3328,
queue: add_gram 192 bucket of 301 memory of 3328 memory of 240
)",
    kNextTravels = R"(exchange: 1 gets 2240 bucket of 1200 for 2560 memory of 3328,
queue: add_gram 640 bucket of 1200 memory of 3328 memory of 240
)",
    // Heads, records, the decision, and what comes of it.
    kDecides = R"(queue: call
queue: copy 32 pinned memory of 240
exchange: 0 gets 56 memory of 240 for 56 memory of 240, 1 gets 56 memory of 240 for 56 memory of 240,
queue: copy 112 memory of 240 pinned
queue: call
queue: copy 16 pinned memory of 240
)",
    kSums = R"(queue: weighted_sum 192 bucket of 301 memory of 3328 bucket of 301
queue: weighted_sum 640 bucket of 1200 memory of 3328 bucket of 1200
)",
    kNorms = R"(queue: fill memory of 240
queue: add_square bucket of 301 memory of 240
queue: add_square bucket of 1200 memory of 240
exchange: 0 gets 8 memory of 240 for 8 memory of 240, 1 gets 8 memory of 240 for 8 memory of 240,
queue: copy 16 memory of 240 pinned
queue: call
queue: copy 8 pinned memory of 240
queue: scale memory of 240 bucket of 301
queue: scale memory of 240 bucket of 1200
)",
    kResults =
        R"(exchange: 1 gets 768 bucket of 301 for 436 bucket of 301, 1 gets 2560 bucket of 1200 for 2240 bucket of 1200,
)",
    // NaN if links have failed.
    kEnds = R"(queue: call
queue: copy 8 pinned memory of 240
queue: scale memory of 240 bucket of 301
queue: scale memory of 240 bucket of 1200
complete
complete
)",
    // A pass whose memory is new waits for what the old one has in the queue.
    kWaits = "queue: mark\n", kMade = R"(allocate 3328
allocate 0
allocate 240
queue: allocate 200 pinned
)";
const std::string kPass = kTake + kTravels + kTakeNext + kNextTravels + kDecides + kSums + kResults + kEnds;
const std::string kAtOnce = kTravels + kNextTravels + kDecides + kSums + kResults + kEnds;

// Of all that is sent as bfloat16.
const std::string kNarrowed = kTake + R"(queue: fill memory of 240
queue: convert bucket of 301 memory of 3328
exchange: 1 gets 218 memory of 3328 for 384 memory of 1792,
queue: add_gram 192 memory of 3328 memory of 1792 memory of 240
)" + kTakeNext + R"(queue: convert bucket of 1200 memory of 3328
exchange: 1 gets 1120 memory of 3328 for 1280 memory of 1792,
queue: add_gram 640 memory of 3328 memory of 1792 memory of 240
)" + kDecides + R"(queue: weighted_sum 192 memory of 3328 memory of 1792 bucket of 301
queue: weighted_sum 640 memory of 3328 memory of 1792 bucket of 1200
queue: convert bucket of 301 memory of 3328
queue: convert bucket of 1200 memory of 3328
exchange: 1 gets 384 memory of 3328 for 218 memory of 3328, 1 gets 1280 memory of 3328 for 1120 memory of 3328,
queue: convert memory of 3328 bucket of 301
queue: convert memory of 3328 bucket of 1200
)" + kEnds;

struct Recorded : SideOf<StreamHook> {
  Recorded(runtime::Context& context, const RuleChoice& rule)
      : Recorded(context, rule, std::make_unique<HostPlace>()) {}
  Recorded(runtime::Context& context, const RuleChoice& rule, std::unique_ptr<HostPlace> made)
      : SideOf(context, GradientPassesSettings{.rule = rule}, (place = made.get(), std::move(made))),
        shows(context.rank() == 0) {}

  void expect(int number, const Pass& pass, const std::string& calls) {
    place->calls.take();
    step(number, pass);
    expect_calls(calls);
  }
  void expect_calls(const std::string& calls) {
    const std::string made = place->calls.take();
    if (shows) {
      EXPECT_EQ(made, calls);
    }
  }
  HostPlace* place;
  const bool shows;
};

void on_two(const RuleChoice& rule, const std::function<void(Recorded& side)>& body) {
  test::on_threads(2, [&](runtime::Context& context) {
    Recorded side(context, rule);
    body(side);
  });
}

// Of a pass with the buckets of the one before.
void expect_under(const std::vector<RuleChoice>& rules, const std::string& calls) {
  for (const RuleChoice& rule : rules) {
    SCOPED_TRACE(rule.name);
    on_two(rule, [&](Recorded& side) {
      for (int step = 0; step < 2; ++step) side.step(step, {.buckets = kTwo});
      side.expect(2, {.buckets = kTwo}, calls);
    });
  }
}

std::string replaced(std::string text, const std::string& old, const std::string& other) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += other.size())
    text.replace(at, old.size(), other);
  return text;
}

std::string without(const std::string& call, std::string text) {
  for (std::size_t at = 0; (at = text.find(call)) != std::string::npos;) text.erase(at, text.find('\n', at) + 1 - at);
  return text;
}

TEST(StreamHookCalls, areTheSameUnderAllRulesThatSweep) {
  expect_under({{"normalized_mean", {}},
                {"adacons", {}},
                {"adacons", {{"magnitude", "matched"}}},
                {"direction_consensus", {}},
                {"geometric_median", {}},
                {"adasum", {}},
                {"mean", {{"guard", "3"}}},
                {"weighted_mean", {{"watch", "always"}}}},
               kPass);
}

TEST(StreamHookCalls, haveNoSweepWhereCoefficientsAreKnown) {
  const std::string sums = replaced(replaced(kPass, " 56 memory", " 32 memory"), "copy 112", "copy 64");
  expect_under({{"mean", {}}, {"weighted_mean", {}}}, without("queue: add_gram", sums));
}

TEST(StreamHookCalls, bringResultsToNormsWhereStatisticsDoNotTellThem) {
  expect_under({{"adacons", {{"magnitude", "mean_norm"}}},
                {"adacons", {{"magnitude", "median_norm"}}},
                {"adasum", {{"magnitude", "mean_norm"}}}},
               kTake + kTravels + kTakeNext + kNextTravels + kDecides + kSums + kNorms + kResults + kEnds);
}

TEST(StreamHookCalls, convertWhatIsSentNarrowed) { expect_under({{"adacons", {{"wire", "bfloat16"}}}}, kNarrowed); }

TEST(StreamHookCalls, waitForThePassBeforeWhereMemoryIsNew) {
  on_two({"adacons", {}}, [](Recorded& side) {
    side.expect(0, {.buckets = kTwo}, kTake + kTakeNext + "connect\n" + kMade + kAtOnce);
    side.expect(1, {.buckets = kTwo}, kPass);
    side.step(2, {.buckets = kOthers});
    side.expect(3, {.buckets = kTwo}, kTake + kTakeNext + kWaits + kMade + kAtOnce);
    side.exchange.set_rule({"adasum", {}});
    side.expect(4, {.buckets = kTwo}, kPass);
    side.expect(5, {.buckets = kTwo}, kWaits + kMade + kPass);
  });
}

TEST(StreamHookCalls, ofAPassThatBreaksOffAreForgotten) {
  on_two({"adacons", {}}, [](Recorded& side) {
    for (int step = 0; step < 2; ++step) side.step(step, {.buckets = kTwo});
    side.place->calls.take();
    side.send(2, {.buckets = kTwo, .sent = 1});
    side.expect_calls(kTake + kTravels);
    side.expect(3, {.buckets = kTwo}, kPass);
    side.expect(4, {.buckets = kTwo, .sent = 1, .hands_over_zeros = true}, kPass);
    EXPECT_NE(refusal([&] { side.step(5, {.buckets = kTwo}); }), "");
    side.expect_calls("");
    side.exchange.close();
    side.expect_calls(kWaits + kWaits);  // the hook's, and its DevicePass's
  });
}

}  // namespace
}  // namespace flockstep::torch_front::stream_hook_calls_test
