// The hand-written gradients of the tasks against torch's autograd, on tensors that are views of our spans.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/random.h"
#include "tasks/images/image_set.h"
#include "tasks/registry.h"

namespace flockstep::tasks::autograd_oracle_test {
namespace {

constexpr std::int64_t kDimension = 300, kSamples = 8, kMicroBatches = 3, kStep = 5;
constexpr std::uint64_t kSeed = 7;
constexpr int kRank = 2, kWorkers = 4;

// The samples of one micro-batch, drawn as the task draws them.
torch::Tensor samples_of(std::int64_t micro_batch) {
  torch::Tensor samples = torch::empty({kSamples, kDimension});
  base::Random random(kSeed, base::Purpose::data, kRank,
                      static_cast<std::uint32_t>(kStep * kMicroBatches + micro_batch));
  for (std::int64_t row = 0; row < kSamples; ++row)
    random.fill_uniform({samples[row].data_ptr<float>(), static_cast<std::size_t>(kDimension)}, 0, 1);
  return samples;
}

TEST(LinearGradient, isWhatAutogradComputesOnAViewOfTheModel) {
  const base::Settings settings{{"dimension", std::to_string(kDimension)},
                                {"micro_batches", std::to_string(kMicroBatches)}};
  const auto task = find_task("linear").make({settings, kSeed, kSamples * kWorkers, kRank, kWorkers});
  std::vector<float> model(task->parameters()), gradient(model.size());
  task->initialise(model);
  const double loss = task->gradient(kStep, model, gradient, [](std::size_t, std::size_t) {});

  torch::Tensor view = torch::from_blob(model.data(), {kDimension}).set_requires_grad(true);
  torch::Tensor expected_loss = torch::zeros({}, torch::kFloat64);
  for (std::int64_t part = 0; part < kMicroBatches; ++part)
    expected_loss =
        expected_loss +
        0.5 * samples_of(part).to(torch::kFloat64).mv(view.to(torch::kFloat64)).square().mean() / kMicroBatches;
  expected_loss.backward();

  EXPECT_NEAR(loss, expected_loss.item<double>(), 1e-6 * loss);
  const torch::Tensor ours = torch::from_blob(gradient.data(), {kDimension});
  EXPECT_TRUE(torch::allclose(ours, view.grad(), 1e-4, 1e-4)) << (ours - view.grad()).abs().max().item<float>();
  EXPECT_EQ(view.data_ptr<float>(), model.data());
}

TEST(ImagesGradient, isWhatAutogradComputesOnViewsOfTheTensors) {
  constexpr std::int64_t kHidden = 30, kImages = 70, kPixels = 28 * 28;
  const base::Settings settings{{"hidden", std::to_string(kHidden)}};
  const auto task = find_task("images").make({settings, kSeed, kImages * kWorkers, kRank, kWorkers});
  std::vector<float> model(task->parameters()), gradient(model.size());
  base::Random(kSeed, base::Purpose::test).fill_uniform(model, -0.1f, 0.1f);
  const double loss = task->gradient(kStep, model, gradient, [](std::size_t, std::size_t) {});

  // The samples, drawn as the task draws them.
  const auto set = load_image_set("");
  torch::Tensor inputs = torch::empty({kImages, kPixels}), labels = torch::empty({kImages}, torch::kInt64);
  base::Random random(kSeed, base::Purpose::data, kRank, kStep);
  for (std::int64_t i = 0; i < kImages; ++i) {
    const std::size_t image = random.below(static_cast<std::uint32_t>(set->train.count()));
    set->copy(set->train, image, {inputs[i].data_ptr<float>(), static_cast<std::size_t>(kPixels)});
    labels[i] = static_cast<std::int64_t>(set->train.labels[image]);
  }

  const auto tensors = task->tensors();
  const std::vector<std::vector<std::int64_t>> shapes{{kPixels, kHidden}, {kHidden}, {kHidden, 10}, {10}};
  std::vector<torch::Tensor> views;
  for (std::size_t i = 0, begin = 0; i < shapes.size(); begin += tensors[i++]) {
    views.push_back(torch::from_blob(&model[begin], shapes[i]).set_requires_grad(true));
    ASSERT_EQ(views.back().numel(), static_cast<std::int64_t>(tensors[i]));
  }
  const torch::Tensor scores = (inputs.matmul(views[0]) + views[1]).relu().matmul(views[2]) + views[3];
  const torch::Tensor expected_loss = at::cross_entropy_loss(scores, labels);
  expected_loss.backward();

  EXPECT_NEAR(loss, expected_loss.item<double>(), 1e-5 * loss);
  for (std::size_t i = 0, begin = 0; i < shapes.size(); begin += tensors[i++]) {
    const torch::Tensor ours = torch::from_blob(&gradient[begin], shapes[i]);
    EXPECT_TRUE(torch::allclose(ours, views[i].grad(), 1e-4, 1e-6))
        << i << ": " << (ours - views[i].grad()).abs().max().item<float>();
  }
}

}  // namespace
}  // namespace flockstep::tasks::autograd_oracle_test
