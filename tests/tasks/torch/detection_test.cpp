// The task detection: its loss from parts that other tests check, its gradient against differences in double, and what
// workers share.
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
constexpr std::int64_t kBatch = 7;  // 3, 2 and 2
constexpr std::int64_t kStep = 5;

const base::Settings kLittle{{"side", "24"}, {"width", "4"}, {"channels", "4"}, {"layers", "1"}, {"extra_levels", "1"}};

base::Settings little(const base::Settings& more) {
  base::Settings settings = more;
  settings.insert(kLittle.begin(), kLittle.end());
  return settings;
}

TaskCase case_of(const base::Settings& settings, int rank = 1) {
  return {make_detection, settings, {.seed = kSeed, .batch = kBatch, .rank = rank, .workers = kWorkers}};
}

// The loss once more, in double: one anchor and one class at a time.
double plain_loss(RetinaNet& network, const DetectionOptions& options, const std::vector<Sample>& samples) {
  const torch::NoGradGuard no_grad;
  const std::vector<Box> anchors = make_anchors(pyramid_levels(options), options.anchor_size);
  const auto side = static_cast<std::int64_t>(options.scenes.side);
  double loss = 0, told = 0;
  for (const Sample& sample : samples) {
    const torch::Tensor picture =
        (torch::tensor(std::vector<double>(sample.pixels.begin(), sample.pixels.end()), torch::kFloat64) - 128) / 64;
    const auto [scores, codes] = network.forward(picture.view({1, 3, side, side}));
    const std::vector<int> matches = match_anchors(anchors, sample.objects);
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      if (matches[a] == kLeftOut) continue;
      const Object* const object = matches[a] < 0 ? nullptr : &sample.objects[static_cast<std::size_t>(matches[a])];
      for (std::int64_t c = 0; c < options.classes; ++c) {
        const double score = scores.data_ptr<double>()[static_cast<std::int64_t>(a) * options.classes + c];
        const bool is_there = object && object->label == static_cast<std::size_t>(c);
        const double right = 1 / (1 + std::exp(is_there ? -score : score));
        loss -= (is_there ? 0.25 : 0.75) * (1 - right) * (1 - right) * std::log(right);
      }
      if (!object) continue;
      ++told;
      const BoxCode wanted = encode(object->box, anchors[a]);
      for (std::size_t i = 0; i < 4; ++i) {
        const double difference = std::abs(codes.data_ptr<double>()[4 * a + i] - wanted[i]);
        loss += difference < 1.0 / 9 ? 4.5 * difference * difference : difference - 1.0 / 18;
      }
    }
  }
  return loss / std::max(1.0, told);
}

TEST(Detection, theGradientIsTheDerivativeOfAPlainLoss) {
  TaskCase detection = case_of(little({{"noisy_workers", "2"}}));
  const double loss = detection.compute(kStep);

  DetectionOptions options = detection_options_of(detection.settings, kWorkers, 0);
  options.classes = 3;
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
  EXPECT_NEAR(loss, plain_loss(network, options, samples), 1e-5 * loss);

  // Some numbers of every tensor; the last registered is the first in the span.
  auto named = network.named_parameters().pairs();
  std::size_t begin = 0;
  for (auto item = named.rbegin(); item != named.rend(); ++item) {
    const torch::Tensor values = item->second.detach().view({-1});
    for (const std::int64_t i : {std::int64_t{0}, values.numel() / 2, values.numel() - 1}) {
      constexpr double kDifference = 1e-6;
      const double kept = values[i].item<double>();
      values[i] = kept + kDifference;
      const double above = plain_loss(network, options, samples);
      values[i] = kept - kDifference;
      const double below = plain_loss(network, options, samples);
      values[i] = kept;
      const double ours = detection.gradient[begin + static_cast<std::size_t>(i)];
      EXPECT_NEAR(ours, (above - below) / (2 * kDifference), 2e-4 * (1 + std::abs(ours))) << item->first << " " << i;
    }
    begin += static_cast<std::size_t>(values.numel());
  }
  EXPECT_EQ(begin, detection.gradient.size());
}

TEST(Detection, rangesAreReportedOnceWhenFinalAndInTheSameOrderEverywhere) {
  TaskCase first = case_of(little({}), 0), second = case_of(little({}), 1);
  expect_ranges_in_order(first, second);
}

TEST(Detection, workersStartAlikeReadDifferentDataAndShareTheTestPictures) {
  TaskCase first = case_of(little({}), 0), second = case_of(little({}), 1);
  EXPECT_EQ(first.model, second.model);
  EXPECT_NE(first.compute(0), second.compute(0));
  EXPECT_EQ(first.task->samples_per_step(), 3);
  EXPECT_EQ(second.task->samples_per_step(), 2);
  EXPECT_TRUE(first.task->has_validation());
  for (const train::Split split : {train::Split::test, train::Split::validation}) {
    std::size_t pictures = 0;
    std::vector<double> records;
    for (int rank = 0; rank < kWorkers; ++rank) {
      const auto share = case_of(little({}), rank).task->evaluate(first.model, split);
      pictures += from_records(share).size();
      records.insert(records.end(), share.begin(), share.end());
    }
    EXPECT_EQ(pictures, SceneOptions{}.tests);
    EXPECT_EQ(first.task->quality(records), 0);  // it knows nothing yet
    const auto figures = first.task->figures(records);
    ASSERT_EQ(figures.size(), 2u);
    EXPECT_EQ(figures[0].name, "mAP@0.5");
    EXPECT_EQ(figures[1].name, "mAP@0.75");
  }
}

TEST(Detection, anEvaluationFindsWhatTheModelSaysWhateverPassesTogether) {
  TaskCase detection = case_of(little({}));
  base::Random(3, base::Purpose::test).fill_uniform(detection.model, -0.3, 0.3);
  const auto results = from_records(detection.task->evaluate(detection.model, train::Split::test));
  DetectionOptions options = detection_options_of(detection.settings, kWorkers, 0);
  options.classes = 3;
  RetinaNet network(options);
  network.eval();
  const torch::NoGradGuard no_grad;
  auto named = network.named_parameters().pairs();
  const float* next = detection.model.data();
  for (auto item = named.rbegin(); item != named.rend(); next += item->second.numel(), ++item)
    std::copy_n(next, item->second.numel(), item->second.data_ptr<float>());
  const auto scenes = make_scenes(options.scenes);
  const std::vector<Box> anchors = make_anchors(pyramid_levels(options), options.anchor_size);
  const std::size_t first = (scenes->count(train::Split::test) + 2) / 3;  // where the share of worker 1 begins
  std::size_t found = 0;
  for (const std::size_t i : {std::size_t{0}, std::size_t{17}, results.size() - 1}) {
    const Sample sample = scenes->at(train::Split::test, first + i);
    ASSERT_EQ(results[i].objects.size(), sample.objects.size());
    EXPECT_EQ(results[i].objects[0].box, sample.objects[0].box);
    const torch::Tensor picture =
        (torch::tensor(std::vector<float>(sample.pixels.begin(), sample.pixels.end())) - 128) / 64;
    const auto [scores, codes] = network.forward(picture.view({1, 3, 24, 24}));
    const auto span_of = [](const torch::Tensor& tensor) {
      return std::span<const float>(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
    };
    const auto expected = find_objects(span_of(scores), span_of(codes), anchors, 24);
    ASSERT_EQ(results[i].detections.size(), expected.size());
    found += expected.size();
    for (std::size_t d = 0; d < expected.size(); ++d)
      EXPECT_NEAR(results[i].detections[d].score, expected[d].score, 1e-4);
  }
  EXPECT_GT(found, 0u);
}

}  // namespace
}  // namespace flockstep::tasks::detection_test
