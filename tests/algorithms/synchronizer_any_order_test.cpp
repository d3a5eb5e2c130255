// Calls of the public interface in an order that was drawn, and after a failure: an Error is the worst that comes of
// any.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "algorithms/registry.h"
#include "base/random.h"
#include "called_wrongly.h"

namespace flockstep::synchronizer_any_order_test {
namespace {

using test::Floats;

// Every worker makes the same calls in an order that was drawn: an Error is the worst that comes of any.
class AnyOrder : public testing::TestWithParam<std::string_view> {
 public:
  static constexpr std::size_t kBuffers = 2;
  static constexpr std::uint32_t kPieces = 3;  // in which gradients are announced

  struct Case {
    Case(Worker& worker, std::string_view algorithm, std::size_t size)
        : gradient(size),
          other(size),
          model(size + kBuffers),
          synchronizer(worker, algorithm, size, {}, {.buffers = kBuffers}),
          states{synchronizer.save()} {}
    Floats gradient, other, model;
    Synchronizer synchronizer;
    std::vector<std::vector<std::byte>> states;
  };

  static void announce(Case& mine, std::uint32_t piece) {
    const std::size_t size = mine.gradient.size(), begin = size * piece / kPieces;
    mine.synchronizer.ready(mine.gradient, begin, size * (piece + 1) / kPieces - begin);
  }
  static void announce_the_rest(Case& mine) {
    for (std::uint32_t piece = 0; piece < kPieces; ++piece) try {
        announce(mine, piece);
      } catch (const Error&) {
      }
  }

  static void call(Case& mine, base::Random& random) {
    Synchronizer& synchronizer = mine.synchronizer;
    switch (random.below(16)) {
      case 0: return synchronizer.begin(mine.model);
      case 1: return synchronizer.begin(mine.gradient);
      case 2: return announce(mine, random.below(kPieces));
      case 3:
      case 4: return announce_the_rest(mine);
      case 5: return synchronizer.ready(random.below(2) ? mine.other : mine.model, 0, 1);
      case 6: return synchronizer.after_backward(mine.gradient, random.below(2) ? NAN : 1);
      case 7: return synchronizer.after_backward(random.below(3) == 0 ? mine.other : mine.gradient);
      case 8: return (void)synchronizer.reduce_scatter(mine.gradient);
      case 9: return synchronizer.after_update(mine.model);
      case 10: return synchronizer.after_update(random.below(3) == 0 ? mine.gradient : mine.model);
      case 11: return (void)synchronizer.drain(mine.gradient);
      case 12: return synchronizer.consolidate(mine.model);
      case 13: return mine.states.push_back(synchronizer.save());
      case 14:
        return (void)synchronizer.restore(mine.states[random.below(static_cast<std::uint32_t>(mine.states.size()))]);
      default:
        synchronizer.report();
        synchronizer.meetings();
        synchronizer.findings();
        std::ranges::fill(mine.gradient, random.below(3) == 0 ? NAN : 1.0f);
    }
  }
};

TEST_P(AnyOrder, ofCallsIsAnErrorAtMost) {
  int done = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed)
    launch({.engine = "threads", .workers = 1 + static_cast<int>(seed % 3), .deterministic = true, .seed = seed},
           [&](Worker& worker) {
             Case mine(worker, GetParam(), seed % 4 == 0 ? (1 << 20) + 3 : 50);  // two buckets, or one
             base::Random random(seed, base::Purpose::test);
             for (int i = 0; i < 60; ++i) try {
                 call(mine, random);
                 done += worker.rank() == 0;
               } catch (const Error& error) {
                 ASSERT_TRUE(error.code() == ErrorCode::bad_input || error.code() == ErrorCode::mismatch)
                     << error.what();
               }
           });
  EXPECT_GT(done, 24 * 60 / 4) << "many of them make sense";
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const auto& row : algorithms::algorithms()) names.push_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, AnyOrder, testing::ValuesIn(names()),
                         [](const auto& test) { return std::string(test.param); });

// The same with a worker that is gone. Where workers wait for each other every call gives the same error.
TEST(AfterAFailure, ofAPeerEveryCallIsAnErrorAtMost) {
  for (const auto& row : algorithms::algorithms())
    launch({.engine = "threads", .workers = 2, .deadline_s = 5, .deterministic = true}, [&](Worker& worker) {
      Floats gradient((1 << 20) + 3), model(gradient.size());  // two buckets
      Synchronizer synchronizer(worker, row.name, gradient.size());
      synchronizer.begin(model);
      const auto state = synchronizer.save();
      if (worker.rank() == 0) return;  // never joins again
      const std::vector<std::function<void()>> calls{
          [&] { synchronizer.ready(gradient, 0, gradient.size() / 2); },
          [&] { synchronizer.ready(gradient, gradient.size() / 2, gradient.size() - gradient.size() / 2); },
          [&] { synchronizer.after_backward(gradient); },
          [&] { synchronizer.after_update(model); },
          [&] { synchronizer.drain(gradient); },
          [&] { synchronizer.consolidate(model); },
          [&] { synchronizer.reduce_scatter(gradient); },
          [&] { synchronizer.restore(state); },
          [&] { synchronizer.report(); },
      };
      std::set<std::string> lost;
      for (int lap = 0; lap < 3; ++lap)
        for (const auto& call : calls) try {
            call();
          } catch (const Error& error) {
            if (error.code() == ErrorCode::peer_lost) lost.insert(error.what());
          }
      if (!algorithms::facts_of(row, {}, 2).needs_begin) {
        EXPECT_EQ(lost, std::set<std::string>{"worker 1 waits for worker 0, which has ended"}) << row.name;
      }
    });
}

}  // namespace
}  // namespace flockstep::synchronizer_any_order_test
