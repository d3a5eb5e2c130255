// Calls of DataParallel in any order: an Error is the worst that comes of it.
#include "algorithms/registry.h"
#include "on_threads.h"
#include "support/refusal.h"

namespace flockstep::test::data_parallel_order_test {
namespace {

TEST(Order, aWeightThatIsRefusedLeavesTheNextStepWhole) {
  for (const std::string algorithm : {"weighted_mean", "adacons"})
    on_workers(2, [&](Worker& worker) {
      Net net;  // with layers that no backward pass reaches
      DataParallel parallel(worker, net, {.algorithm = algorithm, .bucket_kib = 1});
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      const Floats before = numbers(net);
      loss_of(net, batch_of(worker.rank(), 0, 2)).backward();
      for (const double weight : {std::nan(""), -1.0, 8.0}) {
        if (weight == 8 && algorithm == "weighted_mean") continue;
        EXPECT_NE(test::refusal([&] { parallel.step(optimizer, weight); }), "") << weight;
        EXPECT_EQ(numbers(net), before);
        if (algorithm == "adacons") continue;  // the gradient is still there
        optimizer.zero_grad();
        loss_of(net, batch_of(worker.rank(), 0, 2)).backward();
      }
      parallel.step(optimizer);
      EXPECT_NE(numbers(net), before);
      expect_same_bits_everywhere(worker, numbers(net));
    });
}

class AnyOrder : public testing::TestWithParam<std::string_view> {};

TEST_P(AnyOrder, ofCallsIsAnErrorAtMost) {
  for (std::uint64_t seed = 0; seed < 6; ++seed)
    on_workers(1 + static_cast<int>(seed % 3), [&](Worker& worker) {
      Net net(true);
      DataParallel parallel(worker, net, {.algorithm = std::string(GetParam()), .bucket_kib = 1});
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      base::Random random(seed, base::Purpose::test);
      const auto call = [&] {
        switch (random.below(12)) {
          case 0:
          case 1: return loss_of(net, batch_of(worker.rank(), 0, 2)).backward();
          case 2: {
            const auto no_sync = parallel.no_sync();
            return loss_of(net, batch_of(worker.rank(), 0, 2)).backward();
          }
          case 3: return parallel.step(optimizer);
          case 4: return parallel.step(optimizer, random.below(2) ? NAN : 3);
          case 5: return parallel.finish_backward();
          case 6: return parallel.after_update();
          case 7: return (void)parallel.join(random.below(2) ? 2 : -1);
          case 8: return parallel.finish_epoch(optimizer);
          case 9: return parallel.consolidate();
          case 10: return random.below(2) ? parallel.broadcast() : parallel.finish(optimizer);
          default:
            parallel.report();
            parallel.meetings();
            parallel.findings();
        }
      };
      for (int i = 0; i < 40; ++i) try {
          call();
        } catch (const Error& error) {
          ASSERT_TRUE(error.code() == ErrorCode::bad_input || error.code() == ErrorCode::mismatch) << error.what();
        }
    });
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const auto& row : algorithms::algorithms()) names.push_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, AnyOrder, testing::ValuesIn(names()),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace flockstep::test::data_parallel_order_test
