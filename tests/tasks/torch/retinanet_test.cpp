// The detector's network and losses. Losses are compared with formulas in plain numbers, and their gradients with
// differences.
#include "tasks/torch/retinanet.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "task_case.h"
#include "tasks/torch/detection_loss.h"
#include "tasks/torch/initial_values.h"

namespace flockstep::tasks::retinanet_test {
namespace {

TEST(RetinaNet, hasTheParametersOfTheOneWithResNet50AtPaperSize) {
  const auto parameters_at = [](const std::string& size) {
    DetectionOptions options = detection_options_of({{"size", size}}, 4, 0);
    if (options.classes == 0) options.classes = static_cast<std::int64_t>(options.scenes.kinds);
    return parameters_of(RetinaNet(options));
  };
  EXPECT_EQ(parameters_at("paper"), 34'014'999);
  EXPECT_EQ(parameters_at("small"), 170'602);
  EXPECT_EQ(parameters_at("tiny"), 135'055);
}

TEST(RetinaNet, speaksOfEveryAnchorOnce) {
  const torch::NoGradGuard no_grad;
  at::set_num_threads(1);
  for (const base::Settings& settings :
       {base::Settings{},
        {{"side", "37"}, {"extra_levels", "2"}, {"stages", "3"}},
        {{"stem", "small"}, {"side", "13"}},
        {{"depth", "18"}, {"width", "8"}, {"stem", "imagenet"}, {"stages", "4"}, {"norm", "batch"}},
        {{"stages", "1"}, {"layers", "0"}},
        {{"depth", "50"}, {"stem", "imagenet"}, {"layers", "4"}, {"extra_levels", "2"}}}) {
    DetectionOptions options = detection_options_of(settings, 1, 0);
    options.classes = 5;
    RetinaNet network(options);
    network.reset(1);
    network.eval();
    const auto side = static_cast<std::int64_t>(options.scenes.side);
    const auto [scores, codes] = network.forward(torch::ones({2, 3, side, side}));
    const auto anchors = static_cast<std::int64_t>(make_anchors(pyramid_levels(options), options.anchor_size).size());
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, anchors, 5}));
    EXPECT_EQ(codes.sizes(), (std::vector<std::int64_t>{2, anchors, 4}));
    EXPECT_NEAR(scores.sigmoid().mean().item<double>(), 0.01, 0.005);  // the prior
  }
}

// A score follows what stands near its anchor's place: pictures are not transposed or mirrored on the way.
TEST(RetinaNet, anAnchorsNumbersComeFromItsPlace) {
  at::set_num_threads(1);
  DetectionOptions options =
      detection_options_of({{"side", "64"}, {"stages", "1"}, {"layers", "0"}, {"norm", "batch"}}, 1, 0);
  options.classes = 2;
  RetinaNet network(options);
  network.reset(3);
  network.eval();  // normalised by running statistics, so that places do not mix
  const std::vector<Box> anchors = make_anchors(pyramid_levels(options), options.anchor_size);
  for (const auto& [row, column] : {std::pair{1, 6}, {6, 1}, {3, 3}}) {
    const torch::Tensor picture = torch::empty({1, 3, 64, 64});
    base::Random random(1, base::Purpose::test);
    fill_uniform(picture, 1, random);
    picture.set_requires_grad(true);
    const auto place = static_cast<std::int64_t>(9 * (row * 8 + column) + 4);
    network.forward(picture).scores[0][place][1].backward();
    const torch::Tensor heat = picture.grad().abs().sum(at::IntArrayRef({0, 1}));
    const auto centre_of = [&](std::int64_t dimension) {
      const torch::Tensor sums = heat.sum(dimension);
      return ((sums * (torch::arange(64) + 0.5)).sum() / sums.sum()).item<double>();
    };
    const Box& anchor = anchors[static_cast<std::size_t>(place)];
    EXPECT_NEAR(centre_of(0), (anchor.left + anchor.right) / 2, 14);  // the frame cuts what it sees
    EXPECT_NEAR(centre_of(1), (anchor.top + anchor.bottom) / 2, 14);
  }
}

TEST(RetinaNet, startsFromTheSeedAloneAndLeavesTheSharedGeneratorAlone) {
  const torch::Tensor before = at::globalContext().defaultGenerator(at::kCPU).get_state();
  DetectionOptions options = detection_options_of({}, 1, 0);
  options.classes = 3;
  RetinaNet first(options), second(options), other(options);
  first.reset(1);
  second.reset(1);
  other.reset(2);
  EXPECT_TRUE(at::equal(before, at::globalContext().defaultGenerator(at::kCPU).get_state()));
  const auto parameters = first.named_parameters(), others = other.named_parameters();
  for (const auto& item : second.named_parameters()) EXPECT_TRUE(at::equal(item.value(), parameters[item.key()]));
  for (const char* name : {"score1.filters", "smooth2.filters", "backbone.stem.filters"})
    EXPECT_FALSE(at::equal(parameters[name], others[name])) << name;
  EXPECT_FALSE(parameters.contains("backbone.stem.scale"));
}

// The values that differences at `input` give for the gradient of `loss`, all in double.
template <typename Loss>
void expect_gradient(const torch::Tensor& input, const Loss& loss) {
  const torch::Tensor watched = input.clone().set_requires_grad(true);
  loss(watched).backward();
  constexpr double kStep = 1e-6;
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    const torch::Tensor above = input.clone(), below = input.clone();
    above.view({-1})[i] += kStep;
    below.view({-1})[i] -= kStep;
    const double expected = (loss(above).template item<double>() - loss(below).template item<double>()) / (2 * kStep);
    EXPECT_NEAR(watched.grad().view({-1})[i].template item<double>(), expected, 1e-7) << i;
  }
}

TEST(FocalLoss, isThatOfThePaperAndItsGradientTheDerivative) {
  const torch::Tensor scores = torch::tensor({-3.0, -0.5, 0.0, 2.0, 4.0, -6.0}, torch::kFloat64).view({3, 2});
  const torch::Tensor there = torch::tensor({0.0, 1.0, 0.0, 1.0, 0.0, 1.0}, torch::kFloat64).view({3, 2});
  const torch::Tensor weights = torch::tensor({1.0, 0.0, 1.0}, torch::kFloat64).view({3, 1});
  const auto loss = [&](const torch::Tensor& input) { return focal_loss(input, there, weights); };
  double expected = 0;
  for (const int i : {0, 1, 4, 5}) {  // the second row is left out
    const double probability = 1 / (1 + std::exp(-scores.data_ptr<double>()[i]));
    const bool is_there = there.data_ptr<double>()[i] == 1;
    const double right = is_there ? probability : 1 - probability;
    expected += (is_there ? 0.25 : 0.75) * std::pow(1 - right, 2) * -std::log(right);
  }
  EXPECT_NEAR(loss(scores).item<double>(), expected, 1e-12);
  expect_gradient(scores, loss);
}

TEST(FocalLoss, staysFiniteForScoresOfAnySize) {
  const torch::Tensor scores = torch::tensor({-200.0f, 200.0f, -200.0f, 200.0f}).set_requires_grad(true);
  const torch::Tensor loss = focal_loss(scores, torch::tensor({0.0f, 1.0f, 1.0f, 0.0f}), torch::ones({4}));
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), 200 * (0.25 + 0.75), 1e-3);
  EXPECT_TRUE(scores.grad().isfinite().all().item<bool>());
}

TEST(SmoothL1, bendsAtANinthAndItsGradientIsTheDerivative) {
  const torch::Tensor codes = torch::tensor({0.05, -0.05, 0.5, -2.0, 0.1111, 0.0}, torch::kFloat64).view({3, 2});
  const torch::Tensor wanted = torch::tensor({0.0, 0.01, 0.2, 1.0, 0.0, 5.0}, torch::kFloat64).view({3, 2});
  const torch::Tensor weights = torch::tensor({1.0, 1.0, 0.0}, torch::kFloat64).view({3, 1});
  const auto loss = [&](const torch::Tensor& input) { return smooth_l1(input, wanted, weights); };
  const double bend = 1.0 / 9;
  EXPECT_NEAR(loss(codes).item<double>(), (0.05 * 0.05 + 0.06 * 0.06) / (2 * bend) + (0.3 - bend / 2) + (3 - bend / 2),
              1e-12);
  expect_gradient(codes, loss);
}

}  // namespace
}  // namespace flockstep::tasks::retinanet_test
