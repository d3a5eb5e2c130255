// The networks of the tasks: their parameters, what they take and give, and what they start from.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "task_case.h"
#include "tasks/torch/detection_loss.h"
#include "tasks/torch/resnet.h"
#include "tasks/torch/retinanet.h"
#include "tasks/torch/transformer.h"

namespace flockstep::tasks::networks_test {
namespace {

TEST(ResNet, hasTheParametersThatItIsKnownFor) {
  for (const auto& [depth, parameters] :
       {std::pair{18, 11'689'512}, {34, 21'797'672}, {50, 25'557'032}, {101, 44'549'160}, {152, 60'192'808}})
    EXPECT_EQ(parameters_of(ResNet({.depth = depth})), parameters) << depth;
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

TEST(ResNet, startsWithFiltersOfTheScaleOfHe) {
  ResNet network({.depth = 20, .width = 16});
  network.reset(1);
  const torch::Tensor filters = network.named_parameters()["block5.layer2.filters"];  // 32 x 32 x 3 x 3
  EXPECT_NEAR(filters.mean().item<double>(), 0, 0.003);
  EXPECT_NEAR(filters.square().mean().item<double>(), 2.0 / (32 * 9), 0.0003);
  EXPECT_TRUE(network.named_parameters()["block5.layer2.scale"].eq(1).all().item<bool>());
}

TEST(RetinaNet, hasTheParametersOfTheOneWithResNet50AtPaperSize) {
  for (const auto& [size, parameters] : {std::pair{"paper", 34'014'999}, {"small", 170'602}, {"tiny", 135'055}}) {
    DetectionOptions options = detection_options_of({{"size", size}}, 4, 0);
    if (options.classes == 0) options.classes = static_cast<std::int64_t>(options.scenes.kinds);
    EXPECT_EQ(parameters_of(RetinaNet(options)), parameters) << size;
  }
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

TEST(FocalLoss, staysFiniteForScoresOfAnySize) {
  const torch::Tensor scores = torch::tensor({-200.0f, 200.0f, -200.0f, 200.0f}).set_requires_grad(true);
  const torch::Tensor loss = focal_loss(scores, torch::tensor({0.0f, 1.0f, 1.0f, 0.0f}), torch::ones({4}));
  loss.backward();
  EXPECT_NEAR(loss.item<double>(), 200 * (0.25 + 0.75), 1e-3);
  EXPECT_TRUE(scores.grad().isfinite().all().item<bool>());
}

constexpr TransformerOptions kSmall{.width = 16, .heads = 2, .inner = 24, .layers = 2, .vocabulary = 30};

std::shared_ptr<Transformer> network() {
  at::set_num_threads(1);
  auto made = std::make_shared<Transformer>(kSmall);
  made->reset(1);
  return made;
}

torch::Tensor tokens(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<torch::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(torch::tensor(row));
  return at::stack(tensors);
}

double farthest(const torch::Tensor& a, const torch::Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(Transformer, hasTheParametersOfThePaper) {
  EXPECT_EQ(parameters_of(Transformer(translation_options_of({{"size", "paper"}}, 1, 0).network)), 61'362'176);
  // An attention has four matrices, a hidden layer two with biases, a norm two vectors.
  EXPECT_EQ(parameters_of(Transformer(kSmall)),
            30 * 16 + 2 * (12 * 16 * 16 + 2 * (2 * 16 * 24 + 16 + 24) + 5 * 2 * 16) + 2 * 2 * 16);
}

// The sentences of a batch are alike in length, so that the task's gradient shows little of this.
TEST(Transformer, paddingNeverChangesAResult) {
  const torch::NoGradGuard no_grad;
  const auto model = network();
  const torch::Tensor alone = model->forward(tokens({{5, 6, 7}}), tokens({{1, 9, 10}}));
  const auto padded = [&] {
    return model
        ->forward(tokens({{5, 6, 7, 0, 0, 0, 0}, {8, 9, 10, 11, 12, 13, 14}}),
                  tokens({{1, 9, 10, 0, 0}, {1, 20, 21, 22, 23}}))[0]
        .narrow(0, 0, 3);
  };
  const torch::Tensor quiet = padded();
  EXPECT_LT(farthest(quiet, alone[0]), 1e-5);
  model->named_parameters()["embedding.rows"].detach()[kPadding].fill_(100);
  EXPECT_TRUE(at::equal(padded().narrow(1, 1, 29), quiet.narrow(1, 1, 29))) << "whatever the embedding of padding is";
}

TEST(Transformer, tokenByTokenItFindsWhatItFindsAtOnce) {
  const torch::NoGradGuard no_grad;
  const auto model = network();
  const torch::Tensor source = tokens({{5, 6, 7, 0}, {8, 9, 10, 11}});
  const torch::Tensor first = tokens({{1, 9, 10, 11}, {1, 12, 13, 14}}), second = tokens({{1, 20, 21, 22}});
  const torch::Tensor whole = model->forward(source, first).log_softmax(-1);
  Decoded decoded = model->begin(source, 1);
  for (std::int64_t at = 0; at < 4; ++at)
    EXPECT_LT(farthest(model->next(decoded, first.select(1, at)), whole.select(1, at)), 1e-5);

  // Two rows for each sentence; on the way the second sentence's rows both go on from its second one.
  Decoded rows = model->begin(source, 2);
  model->next(rows, tokens({{1, 1, 1, 1}})[0]);
  model->next(rows, tokens({{9, 9, 12, 20}})[0]);
  rows.select(tokens({{0, 1, 3, 3}})[0]);
  model->next(rows, tokens({{10, 10, 21, 21}})[0]);
  const torch::Tensor last = model->next(rows, tokens({{11, 11, 22, 22}})[0]);
  const torch::Tensor expected = model->forward(source.narrow(0, 1, 1), second).log_softmax(-1).select(1, 3)[0];
  EXPECT_LT(farthest(last[0], whole[0][3]), 1e-5);
  EXPECT_LT(farthest(last[2], expected), 1e-5);
  EXPECT_LT(farthest(last[3], expected), 1e-5);
}

TEST(Transformer, startsWithTheScaleOfThePaper) {
  const auto parameters = network()->named_parameters();
  EXPECT_NEAR(parameters["decoder2.source.queries"].square().mean().item<double>(), 1.0 / 16, 0.01);
  EXPECT_NEAR(parameters["embedding.rows"].square().mean().item<double>(), 1.0 / 16, 0.015);
  EXPECT_TRUE(parameters["encoded.scale"].eq(1).all().item<bool>());
}

TEST(Dropout, dropsAShareAndKeepsTheMean) {
  base::Random random(1, base::Purpose::test), same(1, base::Purpose::test);
  const torch::Tensor ones = torch::ones({100, 100});
  const torch::Tensor dropped = Dropout{0.2, &random}(ones);
  EXPECT_NEAR(dropped.eq(0).to(torch::kFloat64).mean().item<double>(), 0.2, 0.02);
  EXPECT_NEAR(dropped.max().item<double>(), 1.25, 1e-6);
  EXPECT_NEAR(dropped.mean().item<double>(), 1, 0.02);
  EXPECT_TRUE(at::equal(Dropout{0.2, &same}(ones), dropped));
  EXPECT_FALSE(at::equal(Dropout{0.2, &same}(ones), dropped));
  EXPECT_TRUE(at::equal(Dropout{}(ones), ones));
}

// `drawn` names tensors of all kinds that are drawn.
template <typename Network, typename Options>
void expect_start_from_the_seed_alone(const Options& options, const std::vector<std::string>& drawn) {
  const auto generator = [] { return at::globalContext().defaultGenerator(at::kCPU).get_state(); };
  const torch::Tensor before = generator();
  Network first(options), second(options), other(options);
  first.reset(1);
  second.reset(1);
  other.reset(2);
  EXPECT_TRUE(at::equal(before, generator())) << "all workers of a process share this generator";
  const auto parameters = first.named_parameters(), others = other.named_parameters();
  for (const auto& item : second.named_parameters())
    EXPECT_TRUE(at::equal(item.value(), parameters[item.key()])) << item.key();
  for (const std::string& name : drawn) EXPECT_FALSE(at::equal(parameters[name], others[name])) << name;
}

TEST(Networks, startFromTheSeedAloneAndLeaveTheSharedGeneratorAlone) {
  expect_start_from_the_seed_alone<ResNet>(ResNetOptions{.depth = 20, .width = 16}, {"block5.layer2.filters"});
  DetectionOptions detection = detection_options_of({}, 1, 0);
  detection.classes = 3;
  expect_start_from_the_seed_alone<RetinaNet>(detection,
                                              {"score1.filters", "smooth2.filters", "backbone.stem.filters"});
  expect_start_from_the_seed_alone<Transformer>(translation_options_of({}, 1, 0).network, {"decoder1.source.queries"});
}

}  // namespace
}  // namespace flockstep::tasks::networks_test
