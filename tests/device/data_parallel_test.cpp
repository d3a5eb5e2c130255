// DataParallel around a module on a device, against the same module in main memory. Engines as the command line says:
// device_test --engine threads --workers 2, or under mpirun with --engine mpi.
//
// On GPUs gradients travel over NCCL where every worker of mpi has one of its own. Two can share one for a trial, over
// sockets (NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME=lo), if NCCL_HOSTID gives each a name of its own.
#include <cstdio>
#include <cstdlib>

#include "pretended_device.h"
#include "runtime/gather.h"
#include "small_net.h"
#include "support/temporary_folder.h"
#include "torch/data_parallel.h"
#include "torch/flat_module.h"

namespace flockstep::test::data_parallel_test {
namespace {

struct Case {
  std::string algorithm;
  std::map<std::string, std::string> options = {};
  bool has_half = false;
  Buffers buffers = Buffers::average;
  std::string optimizer = "SGD";
};

std::vector<float> trained(Worker& worker, const Case& test, torch::Device device, int steps = 5) {
  SmallNet net(device, test.has_half);
  DataParallel parallel(
      worker, net, {.algorithm = test.algorithm, .options = test.options, .buffers = test.buffers, .bucket_kib = 1});
  const Optimizer optimizer = make_optimizer(test.optimizer, net);
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    if (step == 2) {  // two batches behind a step
      const auto no_sync = parallel.no_sync();
      backward(net, worker.rank(), 77, device);
    }
    backward(net, worker.rank(), step, device);
    parallel.step(*optimizer);
  }
  parallel.finish(*optimizer);
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(parameter.device(), device);
  EXPECT_FALSE(net.unused->weight.grad().defined());
  return numbers_of(net);
}

TEST(DeviceDataParallel, tellsWhichWayGradientsTravel) {
  const torch::Device there = device();
  engines::conformance::on_every_worker([&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(60));
    const auto stays = [&](const DataParallelSettings& settings) {
      int alive = 0;
      SmallNet net(there);
      DataParallel::Implementation parallel(context, alive, net, settings);
      return parallel.on_device() != nullptr;
    };
    const bool over_nccl = stays({.algorithm = "adacons"});
    if (engine.rank() == 0)
      std::printf("gradients on %s travel %s\n", there.str().c_str(),
                  over_nccl ? "over NCCL" : "through pinned host memory");
    const bool has_own = std::getenv("NCCL_HOSTID") && there.is_cuda() && engine.name() == "mpi" && engine.size() > 1;
    EXPECT_EQ(over_nccl, has_own) << "all workers take the first GPU here";
    EXPECT_FALSE(stays({.algorithm = "adacons", .options = {{"transfer", "sketch"}}}));
    EXPECT_FALSE(stays({.algorithm = "local_sgd"}));
  });
}

TEST(DeviceDataParallel, trainsAsInMainMemory) {
  const torch::Device there = device();
  for (const Case& test :
       {Case{"mean"}, Case{"weighted_mean"}, Case{"direction_consensus"}, Case{"adasum"}, Case{"adacons"},
        Case{"adacons", {{"granularity", "bucket"}}}, Case{"adacons", {{"granularity", "tensor"}}},
        Case{"adacons", {{"transfer", "sketch"}}}, Case{"mean", {{"guard", "0"}}}, Case{"mean", {}, true},
        Case{"mean", {}, false, Buffers::broadcast}, Case{"mean", {}, false, Buffers::leave},
        Case{"adacons", {}, false, Buffers::average, "Adam"}, Case{"local_sgd", {{"period", "2"}}}, Case{"dpsgd"},
        Case{"post_local_sgd", {{"switch_after", "2"}}}})
    on_every_worker([&](Worker& worker) {
      const auto result = trained(worker, test, there), expected = trained(worker, test, torch::kCPU);
      SCOPED_TRACE(test.algorithm);
      expect_near(result, expected, test.has_half ? 1e-2 : 1e-5);
      expect_same_bits_everywhere(worker, result);
    });
}

// Who meets whom is up to the clock there.
TEST(DeviceDataParallel, averagesWithoutWaiting) {
  const torch::Device there = device();
  for (const std::string algorithm : {"flock", "wagma", "eager_solo"})
    on_every_worker([&](Worker& worker) {
      const auto result = trained(worker, {algorithm}, there);
      for (const float number : result) ASSERT_LT(std::abs(number), 10.0f) << algorithm;
      expect_same_bits_everywhere(worker, result);
    });
}

TEST(DeviceDataParallel, aWorkerWithoutABatchIsLeftOut) {
  const torch::Device there = device();
  on_every_worker([&](Worker& worker) {
    std::vector<std::vector<float>> results;
    for (const torch::Device where : {there, torch::Device(torch::kCPU)}) {
      SmallNet net(where);
      DataParallel parallel(worker, net, {.algorithm = "adacons"});
      const Optimizer optimizer = make_optimizer("SGD", net);
      const int mine = 2 + worker.rank();
      parallel.join(mine);
      for (int step = 0; step < mine; ++step) {
        optimizer->zero_grad();
        backward(net, worker.rank(), step, where);
        parallel.step(*optimizer);
      }
      parallel.finish_epoch(*optimizer);
      parallel.consolidate();
      results.push_back(numbers_of(net));
    }
    expect_near(results[0], results[1], 1e-5);
  });
}

TEST(DeviceDataParallel, aGradientThatIsNotFiniteIsNoStep) {
  const torch::Device there = device();
  on_every_worker([&](Worker& worker) {
    SmallNet net(there);
    DataParallel parallel(worker, net);
    const Optimizer optimizer = make_optimizer("SGD", net);
    backward(net, worker.rank(), 0, there);
    if (worker.rank() == 0) net.last->bias.mutable_grad().fill_(NAN);
    const auto before = numbers(net.last->weight.cpu());
    parallel.step(*optimizer);
    EXPECT_EQ(numbers(net.last->weight.cpu()), before);
    EXPECT_EQ(parallel.report().guards.at("non_finite"), 1);
  });
}

// A checkpoint may come from either and go to either.
TEST(DeviceDataParallel, goesOnFromACheckpointOnAnyDevice) {
  const torch::Device there = device(), here = torch::kCPU;
  const TemporaryFolder own;
  std::string folder = own.string();  // rank 0's, also where the workers are processes
  engines::conformance::on_every_worker([&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(60));
    if (const std::string shared = runtime::broadcast_text(context, own.string()); shared != own.string())
      folder = shared;
  });
  for (const auto& [from, to] : {std::pair{there, there}, std::pair{there, here}, std::pair{here, there}})
    on_every_worker([&, from = from, to = to](Worker& worker) {
      const auto run = [&](SmallNet& net, DataParallel& parallel, torch::optim::Optimizer& optimizer, int step,
                           torch::Device where) {
        optimizer.zero_grad();
        backward(net, worker.rank(), step, where);
        parallel.step(optimizer);
      };
      SmallNet first(from);
      std::vector<float> expected;
      {
        DataParallel parallel(worker, first, {.algorithm = "adacons"});
        const Optimizer optimizer = make_optimizer("Adam", first);
        for (int step = 0; step < 3; ++step) run(first, parallel, *optimizer, step, from);
        parallel.save(folder, *optimizer);
        for (int step = 3; step < 5; ++step) run(first, parallel, *optimizer, step, from);
        expected = numbers_of(first);
      }
      SmallNet second(to);
      DataParallel parallel(worker, second, {.algorithm = "adacons"});
      const Optimizer optimizer = make_optimizer("Adam", second);
      EXPECT_EQ(parallel.restore(folder, *optimizer), "");
      for (int step = 3; step < 5; ++step) run(second, parallel, *optimizer, step, to);
      for (const Tensor& parameter : second.parameters()) EXPECT_EQ(parameter.device(), to);
      const auto result = numbers_of(second);
      expect_near(result, expected, from == to ? 0 : 1e-5);
    });
}

TEST(DeviceDataParallel, aModuleOnTwoDevicesIsRefusedInOneSentence) {
  const torch::Device there = device();
  SmallNet net(there, torch::kCPU, false);
  try {
    const torch_front::FlatModule flat(net);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "frozen.weight frozen Float [16, 16] in main memory, and first.weight on " + there.str() +
                                ": keep the module on one device");
  }
}

}  // namespace
}  // namespace flockstep::test::data_parallel_test
