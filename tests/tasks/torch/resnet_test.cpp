#include "tasks/torch/resnet.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "task_case.h"

namespace flockstep::tasks::resnet_test {
namespace {

TEST(ResNet, hasTheParametersThatItIsKnownFor) {
  EXPECT_EQ(parameters_of(ResNet({.depth = 18})), 11'689'512);
  EXPECT_EQ(parameters_of(ResNet({.depth = 34})), 21'797'672);
  EXPECT_EQ(parameters_of(ResNet({.depth = 50})), 25'557'032);
  EXPECT_EQ(parameters_of(ResNet({.depth = 101})), 44'549'160);
  EXPECT_EQ(parameters_of(ResNet({.depth = 152})), 60'192'808);
}

TEST(ResNet, takesImagesOfAnySizeAndColour) {
  const torch::NoGradGuard no_grad;
  at::set_num_threads(1);
  const auto check = [](const ResNetOptions& options, std::int64_t side) {
    const auto network = std::make_shared<ResNet>(options);
    network->reset(1);
    const torch::Tensor scores = network->forward(torch::ones({2, options.channels, side, side + 1}));
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, 7}));
    EXPECT_TRUE(scores.isfinite().all().item<bool>());
  };
  for (const Stem stem : {Stem::small, Stem::half, Stem::imagenet})
    for (const Norm norm : {Norm::batch, Norm::group})
      for (const std::int64_t side : {5, 28})
        check({.depth = 8, .width = 12, .stem = stem, .norm = norm, .channels = 3, .classes = 7}, side);
  for (const std::int64_t depth : {18, 50}) check({.depth = depth, .width = 8, .channels = 1, .classes = 7}, 28);
}

TEST(ResNet, givesWhatItsStagesMakeOfImages) {
  const torch::NoGradGuard no_grad;
  at::set_num_threads(1);
  ResNet network({.depth = 50, .width = 8, .norm = Norm::group, .learned_scale = false, .classes = 0});
  network.reset(1);
  EXPECT_EQ(network.widths(), (std::vector<std::int64_t>{32, 64, 128, 256}));
  const auto stages = network.stages(torch::ones({2, 3, 64, 33}));
  ASSERT_EQ(stages.size(), 4u);
  std::int64_t height = 16, width = 9;
  for (std::size_t i = 0; i < 4; ++i, height = (height + 1) / 2, width = (width + 1) / 2)
    EXPECT_EQ(stages[i].sizes(), (std::vector<std::int64_t>{2, network.widths()[i], height, width}));
  for (const auto& item : network.named_parameters()) EXPECT_TRUE(item.key().ends_with("filters")) << item.key();
}

TEST(ResNet, startsFromTheSeedAloneAndLeavesTheSharedGeneratorAlone) {
  const torch::Tensor before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  ResNet first({.depth = 20, .width = 16}), second({.depth = 20, .width = 16}), other({.depth = 20, .width = 16});
  first.reset(1);
  second.reset(1);
  other.reset(2);
  EXPECT_TRUE(at::equal(before, at::globalContext().defaultGenerator(at::kCPU).get_state()));
  const auto parameters = first.named_parameters();
  for (const auto& item : second.named_parameters()) EXPECT_TRUE(at::equal(item.value(), parameters[item.key()]));
  const torch::Tensor filters = parameters["block5.layer2.filters"];  // 32 x 32 x 3 x 3
  EXPECT_FALSE(at::equal(filters, other.named_parameters()["block5.layer2.filters"]));
  EXPECT_NEAR(filters.mean().item<double>(), 0, 0.003);
  EXPECT_NEAR(filters.square().mean().item<double>(), 2.0 / (32 * 9), 0.0003);
  EXPECT_TRUE(parameters["block5.layer2.scale"].eq(1).all().item<bool>());
}

}  // namespace
}  // namespace flockstep::tasks::resnet_test
