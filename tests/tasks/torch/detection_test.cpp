// The task detection: its loss and gradient against the paper's formulas in double, and what an evaluation finds.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <numeric>

#include "task_case.h"
#include "tasks/detection/coco_metric.h"
#include "tasks/detection/detection.h"
#include "tasks/torch/detection.h"
#include "tasks/torch/retinanet.h"

namespace flockstep::tasks::detection_test {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr int kWorkers = 3;
constexpr std::int64_t kStep = 5;

const base::Settings kLittle{{"side", "24"},  {"width", "4"},        {"channels", "4"},
                             {"layers", "1"}, {"extra_levels", "1"}, {"noisy_workers", "2"}};

TaskCase case_of_worker_one() {
  return {make_detection, kLittle, {.seed = kSeed, .batch = 7, .rank = 1, .workers = kWorkers}};
}

DetectionOptions options_with_classes() {
  DetectionOptions options = detection_options_of(kLittle, kWorkers, 0);
  options.classes = 3;
  return options;
}

torch::Tensor picture_of(const Sample& sample) {
  const std::vector<double> pixels(sample.pixels.begin(), sample.pixels.end());
  return ((torch::tensor(pixels, torch::kFloat64) - 128) / 64).view({1, 3, 24, 24});
}

// The focal loss and the smooth L1 of the paper once more, one anchor and one class at a time.
torch::Tensor plain_loss(RetinaNet& network, const DetectionOptions& options, const std::vector<Sample>& samples) {
  const std::vector<Box> anchors = make_anchors(pyramid_levels(options), options.anchor_size);
  torch::Tensor loss = torch::zeros({}, torch::kFloat64);
  double told = 0;
  for (const Sample& sample : samples) {
    const auto [scores, codes] = network.forward(picture_of(sample));
    const std::vector<int> matches = match_anchors(anchors, sample.objects);
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      if (matches[a] == kLeftOut) continue;
      const auto anchor = static_cast<std::int64_t>(a);
      const Object* const object = matches[a] < 0 ? nullptr : &sample.objects[static_cast<std::size_t>(matches[a])];
      for (std::int64_t c = 0; c < options.classes; ++c) {
        const bool is_there = object && object->label == static_cast<std::size_t>(c);
        const torch::Tensor score = scores[0][anchor][c], right = (is_there ? score : -score).sigmoid();
        loss = loss - (is_there ? 0.25 : 0.75) * (1 - right).square() * right.log();
      }
      if (!object) continue;
      ++told;
      const BoxCode wanted = encode(object->box, anchors[a]);
      for (std::size_t i = 0; i < 4; ++i) {
        const torch::Tensor difference = (codes[0][anchor][static_cast<std::int64_t>(i)] - wanted[i]).abs();
        loss = loss + (difference.item<double>() < 1.0 / 9 ? 4.5 * difference.square() : difference - 1.0 / 18);
      }
    }
  }
  return loss / std::max(1.0, told);
}

TEST(Detection, theGradientIsThatOfAPlainLoss) {
  TaskCase detection = case_of_worker_one();
  const double loss = detection.compute(kStep);

  const DetectionOptions options = options_with_classes();
  RetinaNet network(options);
  network.reset(kSeed);
  network.to(torch::kFloat64);
  // The batch, drawn as the task draws it; this worker is noisy.
  std::vector<Sample> samples;
  base::Random random(kSeed, base::Purpose::data, 1, kStep);
  for (int i = 0; i < 2; ++i) {
    samples.push_back(draw_scene(options.scenes, std::vector<std::size_t>{0, 1, 2}, random));
    draw_objects_at_random(samples.back(), options.scenes.side, 3, random);
  }
  Tensors tensors;
  for (const auto& item : network.named_parameters()) tensors[item.key()] = item.value();
  expect_loss_and_gradient(loss, detection.gradient, network, plain_loss(network, options, samples), tensors);
}

TEST(Detection, anEvaluationFindsWhatTheModelSaysWhateverPassesTogether) {
  TaskCase detection = case_of_worker_one();
  base::Random(3, base::Purpose::test).fill_uniform(detection.model, -0.3, 0.3);
  const auto records = detection.task->evaluate(detection.model, train::Split::test);
  const auto results = from_records(records);
  EXPECT_EQ(detection.task->figures(records).at(0).name, "mAP@0.5");
  EXPECT_EQ(detection.task->figures(records).at(1).name, "mAP@0.75");

  const torch::NoGradGuard no_grad;
  const DetectionOptions options = options_with_classes();
  RetinaNet network(options);
  network.to(torch::kFloat64);
  network.eval();
  auto parameters = network.named_parameters();
  for (const auto& [name, values] : cut(detection.model, network)) parameters[name].copy_(values);
  const auto scenes = make_scenes(options.scenes);
  const std::vector<Box> anchors = make_anchors(pyramid_levels(options), options.anchor_size);
  const std::size_t first = (scenes->count(train::Split::test) + 2) / 3;  // where the share of worker 1 begins
  std::size_t found = 0;
  for (const std::size_t i : {std::size_t{0}, std::size_t{17}, results.size() - 1}) {
    const Sample sample = scenes->at(train::Split::test, first + i);
    ASSERT_EQ(results[i].objects.size(), sample.objects.size());
    EXPECT_EQ(results[i].objects[0].box, sample.objects[0].box);
    const auto output = network.forward(picture_of(sample));
    const auto numbers_of = [](const torch::Tensor& tensor) {
      const torch::Tensor numbers = tensor.to(torch::kFloat32).contiguous();
      return std::vector<float>(numbers.data_ptr<float>(), numbers.data_ptr<float>() + numbers.numel());
    };
    const auto expected = find_objects(numbers_of(output.scores), numbers_of(output.codes), anchors, 24);
    ASSERT_EQ(results[i].detections.size(), expected.size());
    found += expected.size();
    for (std::size_t d = 0; d < expected.size(); ++d)
      EXPECT_NEAR(results[i].detections[d].score, expected[d].score, 1e-4);
  }
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace flockstep::tasks::detection_test
