// Averagers of the Python package around a module on a device that goes through main memory, against the same module
// in main memory; workers are threads.
#include "torch/model_averager.h"

#include "../torch/averager_steps.h"
#include "engines/registry.h"
#include "pretended_device.h"
#include "small_net.h"
#include "support/refusal.h"

namespace flockstep::torch_front::device_averager_test {
namespace {

using test::SmallNet;
using Floats = std::vector<float>;

struct Case {
  ModelAveragerSettings settings;
  bool has_half = false;
  double near = 1e-6;
};

ModelAveragerSettings of(const std::string& algorithm, const std::map<std::string, std::string>& options = {}) {
  return {.algorithm = algorithm, .options = options, .averages_gradients = algorithm == "post_local_sgd"};
}

// Nobody is late in them, so that a training repeats: what a guard has heard does not where agents tell it.
std::vector<Case> cases() {
  const std::map<std::string, std::string> together{{"sync", "barrier"}, {"period", "1"}, {"guard", "off"}};
  return {{of("flock", together)},
          {of("wagma", together)},
          {of("local_sgd", {{"period", "2"}})},
          {of("diloco", {{"period", "2"}})},
          {of("post_local_sgd", {{"switch_after", "2"}, {"period", "2"}})},
          {of("dpsgd")},
          {of("sgp")},
          {of("dpsgd"), true, 2e-2},
          {of("post_local_sgd", {{"switch_after", "3"}}), true, 2e-2}};
}

// Who meets whom is up to the clock.
const std::vector<std::string> kFree{"flock", "wagma", "adpsgd", "swarm"};

struct Trainee {
  Trainee(runtime::Context& context, torch::Device device, const ModelAveragerSettings& settings, bool has_half = false)
      : rank(context.rank()), device(device), net(device, has_half) {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : net.parameters()) parameter.add_(0.1 * rank);  // worker 0's count
    exchange.emplace(context, tensors_of(net), settings);
  }
  void step(int number) {
    exchange->begin();
    for (torch::Tensor& parameter : net.parameters()) parameter.mutable_grad().reset();
    test::backward(net, rank, number, device);
    test::finish_step(*exchange, net);
  }
  void shadow() { test::shadow_step(*exchange, net); }
  Floats numbers() const { return test::numbers_of(net); }

  const int rank;
  const torch::Device device;
  SmallNet net;
  std::optional<ModelAverager> exchange;
};

void on_workers(int count, const std::function<void(runtime::Context&)>& body) {
  torch::set_num_threads(1);
  engines::LaunchOptions options;
  options.workers = count;
  engines::find_backend("threads").run(options, [&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(60), 1000);
    body(context);
  });
}

void expect_equal_everywhere(runtime::Context& context, const Floats& mine) {
  const std::vector<double> all = runtime::gather_doubles(context, std::vector<double>(mine.begin(), mine.end()));
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], all[i % mine.size()]) << "worker " << i / mine.size();
}

Floats trained(runtime::Context& context, torch::Device device, const Case& test) {
  Trainee trainee(context, device, test.settings, test.has_half);
  for (int step = 0; step < 5; ++step) trainee.step(step);
  EXPECT_FALSE(trainee.net.unused->weight.grad().defined());
  trainee.exchange->consolidate();
  for (const torch::Tensor& parameter : trainee.net.parameters()) EXPECT_EQ(parameter.device(), device);
  trainee.step(5);  // nothing is at an end with it
  trainee.exchange->consolidate();
  expect_equal_everywhere(context, trainee.numbers());
  return trainee.numbers();
}

TEST(DeviceAverager, trainsAsInMainMemory) {
  const torch::Device there = test::device();
  for (const Case& test : cases())
    for (const int workers : {1, 2, 3})
      on_workers(workers, [&](runtime::Context& context) {
        SCOPED_TRACE(test.settings.algorithm);
        test::expect_near(trained(context, there, test), trained(context, torch::kCPU, test), test.near);
      });
}

TEST(DeviceAverager, averagesWithoutWaiting) {
  const torch::Device there = test::device();
  for (const std::string& algorithm : kFree)
    on_workers(3, [&](runtime::Context& context) {
      for (const float number : trained(context, there, {of(algorithm)})) ASSERT_LT(std::abs(number), 10.0f);
    });
}

TEST(DeviceAverager, everyAveragerThereIsWasTried) {
  for (const algorithms::AlgorithmRow& row : algorithms::algorithms()) {
    if (row.family != algorithms::Family::model) continue;
    const auto all = cases();
    EXPECT_TRUE(std::ranges::any_of(all, [&](const Case& test) { return test.settings.algorithm == row.name; }) ||
                std::ranges::find(kFree, row.name) != kFree.end())
        << row.name;
  }
}

TEST(DeviceAverager, goesOnWithoutAWorkerThatIsAway) {
  const torch::Device there = test::device();
  for (const std::string& algorithm : kFree)
    on_workers(3, [&](runtime::Context& context) {
      Trainee trainee(context, there, of(algorithm));
      trainee.step(0);
      if (context.rank() == 0)
        trainee.exchange->leave();
      else
        for (int step = 1; step < 25; ++step) trainee.step(step);
      const Floats before = trainee.numbers();
      context.wait(context.engine().barrier(), "barrier");
      trainee.exchange->come_back();
      EXPECT_EQ(trainee.numbers() == before, context.rank() != 0) << "who was away takes another's model";
      context.wait(context.engine().barrier(), "barrier");  // consolidate() leaves, and so would those it came back to
      trainee.step(25);
      trainee.exchange->consolidate();
      expect_equal_everywhere(context, trainee.numbers());
    });
}

TEST(DeviceAverager, workersMayHaveDifferentNumbersOfBatches) {
  const torch::Device there = test::device();
  for (const Case& test : cases())
    on_workers(3, [&](runtime::Context& context) {
      std::vector<Floats> results;
      for (const torch::Device where : {there, torch::Device(torch::kCPU)}) {
        Trainee trainee(context, where, test.settings, test.has_half);
        if (!trainee.exchange->meets_in_lockstep()) return;
        trainee.exchange->set_joining(true);
        const int batches = 2 * (context.rank() + 1);
        for (int step = 0; step < batches; ++step) trainee.step(step);
        for (int step = batches; step < 6; ++step) trainee.shadow();
        trainee.exchange->set_joining(false);
        trainee.exchange->consolidate();
        results.push_back(trainee.numbers());
      }
      SCOPED_TRACE(test.settings.algorithm);
      test::expect_near(results[0], results[1], test.near);
    });
}

// From either to either; in lockstep as if nothing had been.
TEST(DeviceAverager, goesOnFromASavedStateOnAnyDevice) {
  const torch::Device there = test::device(), here = torch::kCPU;
  for (const Case& test : cases())
    for (const auto& [from, to] : {std::pair{there, there}, std::pair{there, here}, std::pair{here, there}})
      on_workers(2, [&, from = from, to = to](runtime::Context& context) {
        SCOPED_TRACE(test.settings.algorithm);
        Trainee first(context, from, test.settings, test.has_half);
        for (int step = 0; step < 3; ++step) first.step(step);
        first.exchange->consolidate();
        const auto state = first.exchange->save();
        ModelAveragerSettings settings = test.settings;
        settings.starts_anew = false;
        std::optional<Trainee> second;
        const auto load = [&](Trainee& trainee) {
          const torch::NoGradGuard no_grad;
          const auto values = first.net.parameters();
          for (std::size_t i = 0; i < values.size(); ++i) trainee.net.parameters()[i].copy_(values[i]);
          trainee.net.mean.copy_(first.net.mean);
          trainee.net.steps.copy_(first.net.steps);
          trainee.exchange->restore(state);
        };
        first.exchange->consolidate();
        first.exchange.reset();  // a worker has one agent at a time
        second.emplace(context, to, settings, test.has_half);
        load(*second);
        second->step(3);
        second->exchange->consolidate();
        const Floats result = second->numbers();
        load(*second);  // in the middle of a training
        second->step(3);
        second->exchange->consolidate();
        EXPECT_EQ(second->exchange->steps(), 4);
        EXPECT_EQ(second->numbers(), result);
        second->exchange.reset();
        first.exchange.emplace(context, tensors_of(first.net), settings);
        first.exchange->restore(state);
        first.step(3);
        first.exchange->consolidate();
        test::expect_near(result, first.numbers(), test.near);
      });
}

std::size_t copies_so_far(runtime::Context& context) {
  const auto& names = context.trace().names();
  return static_cast<std::size_t>(std::ranges::count_if(
      context.trace().spans(), [&](const base::Span& span) { return names[span.name].find("the copy ") == 0; }));
}

TEST(DeviceAverager, copiesNothingBetweenMeetings) {
  const torch::Device there = test::device();
  on_workers(2, [&](runtime::Context& context) {
    Trainee trainee(context, there, of("local_sgd", {{"period", "3"}}));
    trainee.exchange->begin();
    for (int step = 0; step < 6; ++step) {
      const std::size_t before = copies_so_far(context);
      trainee.step(step);
      EXPECT_EQ(copies_so_far(context) - before, step % 3 == 2 ? 2 : 0) << step;
    }
  });
  on_workers(1, [&](runtime::Context& context) {
    Trainee trainee(context, there, of("flock"));
    trainee.step(0);
    const std::size_t before = copies_so_far(context);
    trainee.step(1);
    EXPECT_EQ(copies_so_far(context), before) << "alone";
  });
}

TEST(DeviceAverager, itsMirrorsAreCounted) {
  const torch::Device there = test::device();
  on_workers(2, [&](runtime::Context& context) {
    const Trainee trainee(context, there, of("post_local_sgd"));
    const auto held = context.engine().memory().held();
    std::size_t trained = 0;
    for (const torch::Tensor& parameter : trainee.net.parameters())
      trained += parameter.requires_grad() ? parameter.nbytes() : 0;
    EXPECT_EQ(held.at("gradient"), trained);
    EXPECT_EQ(held.at("model"), trained + trainee.net.mean.nbytes());
  });
}

TEST(DeviceAverager, saysWhereAveragedGradientsAreNotFinite) {
  const torch::Device there = test::device();
  on_workers(2, [&](runtime::Context& context) {
    Trainee trainee(context, there, of("post_local_sgd"));
    trainee.exchange->begin();
    test::backward(trainee.net, context.rank(), 0, there);
    if (context.rank() == 1) trainee.net.last->bias.mutable_grad().fill_(INFINITY);
    EXPECT_FALSE(trainee.exchange->average_gradients());
  });
}

// Large tensors begin where the kernels of devices are fastest, whatever the sizes of others.
TEST(DeviceAverager, largeTensorsAreAligned) {
  const torch::Device there = test::device();
  on_workers(1, [&](runtime::Context& context) {
    const Trainee trainee(context, there, of("flock"));
    const SmallNet& net = trainee.net;
    const auto first = reinterpret_cast<std::uintptr_t>(net.last->weight.const_data_ptr());  // 3 x 16
    for (const torch::Tensor& tensor : {net.first->weight, net.first->bias})
      EXPECT_EQ((reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) - first) % 64, 0);
  });
}

std::string refusal(ErrorCode code, const std::function<void(runtime::Context&)>& body) {
  return test::refusal(code, [&] { on_workers(1, body); });
}

TEST(DeviceAverager, saysInOneSentenceWhatWillNotDo) {
  const torch::Device there = test::device(), other = there.is_cuda() ? torch::Device(torch::kCPU) : test::device(1);
  EXPECT_EQ(refusal(ErrorCode::bad_input,
                    [&](runtime::Context& context) {
                      SmallNet net(there, torch::kCPU, false);
                      ModelAverager(context, tensors_of(net), of("flock"));
                    }),
            "frozen.weight frozen Float [16, 16] in main memory, and first.weight on " + there.str() +
                ": keep the module on one device");
  EXPECT_EQ(refusal(ErrorCode::bad_input,
                    [&](runtime::Context& context) {
                      Trainee trainee(context, there, of("flock"));
                      trainee.step(0);
                      trainee.net.last->bias.set_data(torch::zeros({3}).to(other));
                      trainee.exchange->after_update();
                    }),
            "last.bias Float [3] " + (there.is_cuda() ? "in main memory" : "on " + other.str()) + " was Float [3] on " +
                there.str() + " when training began: make another averager to go on with it");
  if (there.is_cuda()) return;
  EXPECT_EQ(refusal(ErrorCode::unavailable,
                    [&](runtime::Context& context) {
                      SmallNet net(there);
                      const test::FullDevice full(500);
                      ModelAverager(context, tensors_of(net), of("flock"));
                    }),
            "there is no memory for 776 bytes left on " + there.str() +
                ", where a module's tensors are laid out in one piece: have fewer workers share it, or train a smaller "
                "module");
}

}  // namespace
}  // namespace flockstep::torch_front::device_averager_test
