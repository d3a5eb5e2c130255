// The vision task against a plain computation with torch, in double, on tensors of its own.
#include <gtest/gtest.h>

#include "task_case.h"
#include "tasks/torch/resnet.h"
#include "tasks/torch/vision.h"
#include "tasks/vision/vision.h"

namespace flockstep::tasks::vision_test {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr int kRank = 2;
constexpr std::int64_t kStep = 5;

struct Case : TaskCase {
  explicit Case(base::Settings given) : TaskCase(make_vision, std::move(given), {.seed = kSeed, .rank = kRank}) {}
};

torch::Tensor normalised(const torch::Tensor& input, const Tensors& tensors, const std::string& name,
                         std::int64_t stride) {
  const torch::Tensor& filters = tensors.at(name + ".filters");
  const torch::Tensor sums = at::conv2d(input, filters, {}, stride, filters.size(2) / 2);
  const torch::Tensor mean = sums.mean({0, 2, 3}, true), variance = (sums - mean).square().mean({0, 2, 3}, true);
  return (sums - mean) / (variance + 1e-5).sqrt() * tensors.at(name + ".scale").view({1, -1, 1, 1}) +
         tensors.at(name + ".shift").view({1, -1, 1, 1});
}

// A network of depth 8: three blocks, of which the last two halve the image.
torch::Tensor plain_scores(torch::Tensor output, const Tensors& tensors) {
  output = normalised(output, tensors, "stem", 2).relu();
  for (int number = 1; number <= 3; ++number) {
    const std::string name = "block" + std::to_string(number);
    const std::int64_t stride = number == 1 ? 1 : 2;
    const torch::Tensor inside = normalised(output, tensors, name + ".layer1", stride).relu();
    const torch::Tensor shortcut = number == 1 ? output : normalised(output, tensors, name + ".shortcut", stride);
    output = (normalised(inside, tensors, name + ".layer2", 1) + shortcut).relu();
  }
  return output.mean({2, 3}).matmul(tensors.at("last.weights").t()) + tensors.at("last.bias");
}

TEST(Vision, theGradientIsThatOfAPlainComputation) {
  Case vision({{"augment", "yes"}, {"label_smoothing", "0.2"}, {"noisy_workers", "1"}, {"width", "4"}});
  base::Random(3, base::Purpose::test).fill_uniform(vision.parameters(), -0.5, 0.5);
  const auto before = vision.model;
  const double loss = vision.compute(kStep);

  // The batch, drawn as the task draws it; this worker is noisy.
  const auto set = load_image_set("");
  const torch::Tensor inputs = torch::empty({6, 1, 28, 28}), labels = torch::zeros({6, 10}, torch::kFloat64);
  base::Random random(kSeed, base::Purpose::data, kRank, kStep);
  for (std::int64_t i = 0; i < 6; ++i) {
    const std::size_t image = random.below(static_cast<std::uint32_t>(set->train.count())), label = random.below(10);
    set->copy(set->train, image, {inputs[i].data_ptr<float>(), 28 * 28}, draw_move(random, 3));
    labels[i][static_cast<std::int64_t>(label)] = 1;
  }

  const ResNet shapes({.depth = 8, .width = 4, .stem = Stem::half, .channels = 1, .classes = 10});
  const Tensors tensors = cut_to_learn(vision.parameters(), shapes);
  const torch::Tensor scores = plain_scores(inputs.to(torch::kFloat64), tensors);
  const torch::Tensor expected = -((0.8 * labels + 0.02) * scores.log_softmax(1)).sum(1).mean();
  expect_loss_and_gradient(loss, vision.gradient, shapes, expected, tensors);

  // Of the model only the running statistics have changed: a tenth of the way to those of the batch.
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(vision.gradient.size()),
                         vision.model.begin()));
  const torch::Tensor sums = at::conv2d(inputs.to(torch::kFloat64), tensors.at("stem.filters"), {}, 2, 1);
  const torch::Tensor mean = 0.1 * sums.mean({0, 2, 3}), variance = 0.9 + 0.1 * sums.var({0, 2, 3}, true);
  for (std::int64_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(vision.buffers()[static_cast<std::size_t>(c)], mean[c].item<double>(), 1e-5);
    EXPECT_NEAR(vision.buffers()[static_cast<std::size_t>(4 + c)], variance[c].item<double>(), 1e-4);
  }
}

TEST(Vision, anEvaluationOfAnotherModelLeavesTheWorkersOwnAlone) {
  Case vision({}), alone({});
  EXPECT_EQ(vision.model, alone.model);
  std::vector<float> other(vision.model.size(), 0.25f);
  const auto zeros = vision.task->evaluate(other, train::Split::test);  // before the first gradient
  for (std::int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(vision.compute(step), alone.compute(step));
    EXPECT_EQ(vision.gradient, alone.gradient);
    EXPECT_EQ(vision.task->evaluate(other, train::Split::test), zeros);
    EXPECT_EQ(other, std::vector<float>(other.size(), 0.25f));
    EXPECT_EQ(vision.model, alone.model);
  }
}

TEST(Vision, filtersDecayAndBiasesAndScalesDoNot) {
  Case vision({{"learning_rate", "1"}, {"momentum", "0"}, {"weight_decay", "0.5"}, {"warmup", "0"}});
  const std::size_t size = vision.gradient.size();
  std::vector<float> model(size, 2.0f);
  vision.task->make_optimizer()->update(model, std::vector<float>(size, 0.0f));
  const ResNet shapes({.depth = 8, .width = 8, .stem = Stem::half, .channels = 1, .classes = 10});
  for (const auto& [name, tensor] : cut(model, shapes)) {
    const bool decays = name == "last.weights" || name.ends_with("filters");
    EXPECT_TRUE(tensor.eq(decays ? 1.0 : 2.0).all().item<bool>()) << name;
  }
}

}  // namespace
}  // namespace flockstep::tasks::vision_test
