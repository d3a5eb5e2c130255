// Models that stay on a device, without a GPU: a thread stands for the device, and an algorithm that averages over all
// after every update, there, for those that merge on devices. The oracle is local_sgd in main memory.
#include "torch/device_merges.h"

#include <gtest/gtest.h>

#include "algorithms/averagers/average_over_all.h"
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

class AveragesThere final : public algorithms::Algorithm {
 public:
  explicit AveragesThere(const algorithms::AlgorithmInputs& inputs)
      : context_(inputs.context), layout_(inputs.models()), model_(*inputs.device_model) {
    base::check(model_.numbers.size() == layout_.size(), "the whole model");
  }
  void begin(std::int64_t, std::span<const float> model) override { EXPECT_TRUE(model.empty()); }
  void after_update(std::int64_t, std::span<float> model) override {
    EXPECT_TRUE(model.empty());
    average();
  }
  void consolidate(std::span<float> model) override {
    EXPECT_TRUE(model.empty());
    average();
  }

 private:
  void average() {
    const auto block = model_.beside->allocate_on_host(model_.numbers.size_bytes());
    const std::span<float> here{reinterpret_cast<float*>(block.get()), model_.numbers.size()};
    model_.beside->follow(model_.current());
    model_.beside->copy(here.data(), model_.numbers.data(), here.size_bytes());
    context_.poll_for(model_.beside->mark(), "the copy");
    algorithms::average_over_all(context_, layout_, here);
    model_.current().copy(model_.numbers.data(), here.data(), here.size_bytes());
  }

  runtime::Context& context_;
  const runtime::Layout layout_;
  const runtime::DeviceModel& model_;
};

std::unique_ptr<DevicePlace> host_place(runtime::Context&, const FlatModule&, const algorithms::Facts&) {
  return std::make_unique<HostPlace>();
}
std::unique_ptr<algorithms::Algorithm> averages_there(const algorithms::AlgorithmInputs& inputs) {
  return std::make_unique<AveragesThere>(inputs);
}

struct Trainee {
  Trainee(runtime::Context& context, bool is_there) : rank(context.rank()), net(true) {
    net.fill(static_cast<std::uint32_t>(rank));
    net.head->to(torch::kBFloat16);
    if (is_there)  // by a row that has to be given up where a training goes on from elsewhere
      exchange.emplace(context, tensors_of(net), ModelAveragerSettings{.algorithm = "flock"}, nullptr, host_place,
                       averages_there);
    else
      exchange.emplace(context, tensors_of(net),
                       ModelAveragerSettings{.algorithm = "local_sgd", .options = {{"period", "1"}}});
  }
  void step(int number) {
    exchange->begin();
    net.zero_grad();
    test::loss_of(net, test::batch_of(rank, number, 4)).backward();
    {
      const torch::NoGradGuard no_grad;
      for (torch::Tensor& parameter : net.parameters())
        if (parameter.grad().defined()) parameter.add_(parameter.grad(), -0.1);
    }
    exchange->after_update();
  }
  const int rank;
  Net net;
  std::optional<ModelAverager> exchange;
};

TEST(DeviceMerges, trainsAsInMainMemory) {
  torch::set_num_threads(1);
  for (const int workers : {2, 3})
    test::on_threads(workers, [&](runtime::Context& context) {
      std::vector<std::vector<float>> results;
      for (const bool is_there : {true, false}) {
        Trainee trainee(context, is_there);
        Net first(true);
        first.fill(0);
        first.head->to(torch::kBFloat16);
        EXPECT_EQ(numbers(trainee.net), numbers(first)) << "worker 0's";
        for (int step = 0; step < 4; ++step) trainee.step(step);
        trainee.exchange->consolidate();
        results.push_back(numbers(trainee.net));
      }
      test::expect_near(results[0], results[1], 1e-6);
    });
}

TEST(DeviceMerges, holdsNoMirror) {
  test::on_threads(2, [&](runtime::Context& context) {
    Trainee trainee(context, true);
    trainee.step(0);
    for (const auto& [purpose, bytes] : context.engine().memory().held()) EXPECT_EQ(bytes, 0) << purpose;
  });
}

// What the algorithm that is given up makes of the model must not be what the training goes on from.
TEST(DeviceMerges, goesOnFromWhatWasLoaded) {
  torch::set_num_threads(1);
  test::on_threads(2, [&](runtime::Context& context) {
    Trainee trainee(context, true);
    for (int step = 0; step < 2; ++step) trainee.step(step);
    const auto state = trainee.exchange->save();
    const auto before = numbers(trainee.net);
    std::vector<torch::Tensor> kept;
    for (const auto& tensors : {trainee.net.parameters(), trainee.net.buffers()})
      for (const torch::Tensor& tensor : tensors) kept.push_back(tensor.detach().clone());
    trainee.step(2);
    {
      const torch::NoGradGuard no_grad;
      std::size_t index = 0;
      for (const auto& tensors : {trainee.net.parameters(), trainee.net.buffers()})
        for (const torch::Tensor& tensor : tensors) tensor.copy_(kept[index++]);
    }
    trainee.exchange->restore(state);
    trainee.exchange->begin();
    EXPECT_EQ(numbers(trainee.net), before);
    EXPECT_EQ(trainee.exchange->steps(), 2);
  });
}

TEST(DeviceMerges, givesTheTensorsMemoryOfTheirOwnInTheEnd) {
  test::on_threads(2, [&](runtime::Context& context) {
    Trainee trainee(context, true);
    trainee.step(0);
    const auto before = numbers(trainee.net);
    trainee.exchange.reset();
    EXPECT_EQ(numbers(trainee.net), before);
    const torch::Tensor weight = trainee.net.convolution->weight;
    EXPECT_EQ(weight.storage().nbytes(), weight.nbytes());
  });
}

}  // namespace
}  // namespace flockstep::torch_front::device_merges_test
