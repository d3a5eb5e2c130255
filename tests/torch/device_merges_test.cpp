// Models that stay on a device, without a GPU: a thread stands for the device. The oracle is the same in main memory.
#include "torch/device_merges.h"

#include <gtest/gtest.h>

#include "averager_steps.h"
#include "host_place.h"
#include "support/on_threads.h"
#include "torch/data_parallel.h"
#include "torch/model_averager.h"
#include "training.h"

namespace flockstep::torch_front::device_merges_test {
namespace {

using test::HostPlace;
using test::Net;
using test::numbers;

std::unique_ptr<DevicePlace> host_place(runtime::Context&, const FlatModule&, const algorithms::Facts&) {
  return std::make_unique<HostPlace>();
}
struct Trainee {
  Trainee(runtime::Context& context, const ModelAveragerSettings& settings, const PlaceOfMerges& place = host_place)
      : rank(context.rank()), net(true) {
    net.fill(static_cast<std::uint32_t>(rank));
    net.head->to(torch::kBFloat16);
    exchange.emplace(context, tensors_of(net), settings, nullptr, place, ModelAverager::MakeAlgorithm());
  }
  std::vector<torch::Tensor> copy() const {
    std::vector<torch::Tensor> copies;
    for (const auto& tensors : {net.parameters(), net.buffers()})
      for (const torch::Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
    return copies;
  }
  void load(const std::vector<torch::Tensor>& copies) {
    const torch::NoGradGuard no_grad;
    std::size_t index = 0;
    for (const auto& tensors : {net.parameters(), net.buffers()})
      for (const torch::Tensor& tensor : tensors) tensor.copy_(copies[index++]);
  }
  void step(int number) {
    exchange->begin();
    net.zero_grad();
    test::loss_of(net, test::batch_of(rank, number, 4)).backward();
    test::descend(net);
    exchange->after_update();
  }
  const int rank;
  Net net;
  std::optional<ModelAverager> exchange;
};

// Those that merge on devices, where nobody is late, so that a training repeats: what a guard has heard does not.
const std::vector<ModelAveragerSettings> kRepeating{
    {.algorithm = "flock", .options = {{"period", "1"}, {"sync", "barrier"}, {"guard", "off"}}},
    {.algorithm = "wagma", .options = {{"period", "1"}, {"merge", "additive"}, {"guard", "off"}}},
};
const std::vector<ModelAveragerSettings> kOverlapped{
    {.algorithm = "flock", .options = {{"overlap", "on"}}},
    {.algorithm = "local_sgd", .options = {{"overlap", "on"}, {"period", "2"}}},
};

TEST(DeviceMerges, averagersTrainAsInMainMemory) {
  torch::set_num_threads(1);
  for (const ModelAveragerSettings& settings : kRepeating)
    test::on_threads(3, [&](runtime::Context& context) {
      std::vector<std::vector<float>> results;
      for (const PlaceOfMerges& place : {PlaceOfMerges(host_place), PlaceOfMerges(place_of_merges)}) {
        Trainee trainee(context, settings, place);
        EXPECT_EQ(context.engine().memory().held().contains("model"), !results.empty()) << "no mirror on a device";
        Net first(true);
        first.fill(0);
        first.head->to(torch::kBFloat16);
        EXPECT_EQ(numbers(trainee.net), numbers(first)) << "worker 0's";
        for (int step = 0; step < 4; ++step) trainee.step(step);
        trainee.exchange->consolidate();
        trainee.step(4);
        trainee.exchange->consolidate();
        results.push_back(numbers(trainee.net));
      }
      SCOPED_TRACE(settings.algorithm);
      test::expect_near(results[0], results[1], 1e-6);
    });
}

void expect_equal_everywhere(runtime::Context& context, const Net& net) {
  const auto mine = numbers(net);
  const std::vector<double> all = runtime::gather_doubles(context, std::vector<double>(mine.begin(), mine.end()));
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], all[i % mine.size()]);
}

TEST(DeviceMerges, overlappedAveragersEndEqual) {
  torch::set_num_threads(1);
  for (const ModelAveragerSettings& settings : kOverlapped)
    test::on_threads(3, [&](runtime::Context& context) {
      Trainee trainee(context, settings);
      for (int step = 0; step < 11; ++step) trainee.step(step);
      trainee.exchange->consolidate();
      expect_equal_everywhere(context, trainee.net);
      trainee.step(11);
      trainee.exchange->consolidate();
      expect_equal_everywhere(context, trainee.net);
    });
}

TEST(DeviceMerges, aWorkerMayBeAway) {
  torch::set_num_threads(1);
  test::on_threads(3, [&](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "flock"});
    trainee.step(0);
    if (context.rank() == 0)
      trainee.exchange->leave();
    else
      for (int step = 1; step < 25; ++step) trainee.step(step);
    context.wait(context.engine().barrier(), "barrier");
    trainee.exchange->come_back();
    trainee.step(25);
    if (context.rank() == 1) trainee.exchange->leave();  // until the others are through
    trainee.exchange->consolidate();
    expect_equal_everywhere(context, trainee.net);
  });
}

TEST(DeviceMerges, flockGoesOnFromWhatWasLoaded) {
  torch::set_num_threads(1);
  test::on_threads(2, [&](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "flock"});
    for (int step = 0; step < 2; ++step) trainee.step(step);
    trainee.exchange->consolidate();
    const auto state = trainee.exchange->save();
    const auto before = numbers(trainee.net);
    const auto kept = trainee.copy();
    trainee.step(2);
    trainee.load(kept);
    trainee.exchange->restore(state);
    trainee.exchange->begin();
    EXPECT_EQ(numbers(trainee.net), before);
    trainee.step(2);
    trainee.exchange->consolidate();
    EXPECT_EQ(trainee.exchange->steps(), 3);
  });
}

TEST(DeviceMerges, dataParallelTrainsAsInMainMemory) {
  torch::set_num_threads(1);
  test::on_threads(2, [&](runtime::Context& context) {
    std::vector<std::vector<float>> results;
    for (const PlaceOfMerges& place : {PlaceOfMerges(host_place), PlaceOfMerges(place_of_merges)}) {
      Net net(true);
      int alive = 0;
      DataParallel::Implementation parallel(
          context, alive, net, {.algorithm = "flock", .options = {{"period", "1"}, {"sync", "barrier"}}},
          [](const auto&) { return nullptr; }, place);
      const test::Optimizer optimizer = test::make_optimizer("SGD", net);
      for (int step = 0; step < 5; ++step) {
        optimizer->zero_grad();
        test::loss_of(net, test::batch_of(context.rank(), step, 4)).backward();
        if (step == 3 && context.rank() == 0) net.head->bias.mutable_grad().fill_(NAN);
        parallel.finish_backward(1);
        parallel.update(*optimizer);
        parallel.after_update();
        EXPECT_EQ(parallel.report().guards["non_finite"], step >= 3 && context.rank() == 0 ? 1 : 0);
        if (step == 2) parallel.broadcast();
      }
      EXPECT_FALSE(net.unused->weight.grad().defined());
      parallel.consolidate();
      expect_equal_everywhere(context, net);
      results.push_back(numbers(net));
    }
    test::expect_near(results[0], results[1], 1e-6);
  });
}

TEST(DeviceMerges, givesTheTensorsMemoryOfTheirOwnInTheEnd) {
  test::on_threads(2, [&](runtime::Context& context) {
    Trainee trainee(context, {.algorithm = "flock"});
    trainee.step(0);
    trainee.exchange->consolidate();
    const auto before = numbers(trainee.net);
    trainee.exchange.reset();
    EXPECT_EQ(numbers(trainee.net), before);
    const torch::Tensor weight = trainee.net.convolution->weight;
    EXPECT_EQ(weight.storage().nbytes(), weight.nbytes());
  });
}

}  // namespace
}  // namespace flockstep::torch_front::device_merges_test
