// `detection`: RetinaNet on generated scenes or on pictures of COCO.
#include "tasks/torch/detection.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "tasks/detection/coco_metric.h"
#include "tasks/detection/detection.h"
#include "tasks/torch/detection_loss.h"
#include "tasks/torch/initial_values.h"
#include "tasks/torch/retinanet.h"
#include "tasks/torch/torch_task.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kPicturesAtATime = 16;  // pictures that pass through the network together

std::int64_t signed_of(std::size_t size) { return static_cast<std::int64_t>(size); }

// What the anchors of a batch have to say.
struct Targets {
  Targets(std::size_t pictures, std::size_t anchors, std::int64_t classes, const at::TensorOptions& options)
      : there(torch::zeros({signed_of(pictures), signed_of(anchors), classes}, options)),
        counts(torch::ones({signed_of(pictures), signed_of(anchors), 1}, options)),
        codes(torch::zeros({signed_of(pictures), signed_of(anchors), 4}, options)),
        tells(torch::zeros({signed_of(pictures), signed_of(anchors), 1}, options)) {}

  void set(std::size_t picture, std::span<const Box> anchors, std::span<const Object> objects) {
    const std::vector<int> matches = match_anchors(anchors, objects);
    const std::size_t classes = values_of(there).size() / values_of(counts).size();
    for (std::size_t a = 0; a < anchors.size(); ++a) {
      const std::size_t place = picture * anchors.size() + a;
      if (matches[a] == kLeftOut) values_of(counts)[place] = 0;
      if (matches[a] < 0) continue;
      const Object& object = objects[static_cast<std::size_t>(matches[a])];
      values_of(there)[place * classes + object.label] = 1;
      values_of(tells)[place] = 1;
      const BoxCode code = encode(object.box, anchors[a]);
      std::ranges::copy(code, values_of(codes).subspan(4 * place, 4).begin());
      ++told;
    }
  }

  torch::Tensor there, counts;  // for the scores; counts: 0 where an anchor is left out
  torch::Tensor codes, tells;   // for the boxes
  std::int64_t told = 0;        // anchors that tell an object
};

class DetectionTask final : public TorchTask {
 public:
  DetectionTask(const DetectionOptions& options, const TaskInputs& inputs, std::unique_ptr<DetectionData> data)
      : DetectionTask(options, inputs, std::move(data), std::make_shared<RetinaNet>(options)) {}

  std::int64_t samples_per_step() const override { return signed_of(worker_.samples); }
  train::Metric metric() const override { return {"mAP", false}; }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return adam(options_.adam, weights()); }
  bool has_validation() const override { return data_->count(train::Split::validation) > 0; }
  double quality(std::span<const double> records) const override { return mean_precision(from_records(records)).all; }
  std::vector<telemetry::Figure> figures(std::span<const double> records) const override {
    const MeanPrecision precision = mean_precision(from_records(records));
    return {{"mAP@0.5", precision.at50}, {"mAP@0.75", precision.at75}};
  }

 private:
  DetectionTask(const DetectionOptions& options, const TaskInputs& inputs, std::unique_ptr<DetectionData> data,
                std::shared_ptr<RetinaNet> network)
      : TorchTask(network, inputs.device),
        options_(options),
        worker_(inputs),
        data_(std::move(data)),
        network_(std::move(network)),
        anchors_(make_anchors(pyramid_levels(options), options.anchor_size)),
        labels_(data_->labels()) {
    if (options.shard.shard == Shard::skewed)
      labels_ = worker_.own_kinds(labels_.size());
    else
      std::iota(labels_.begin(), labels_.end(), 0);
  }

  void reset() override { network_->reset(worker_.seed); }
  torch::Tensor loss(std::int64_t step) override;
  std::vector<double> score(train::Split split) override;

  torch::Tensor pictures(std::size_t count) const {
    const std::int64_t side = signed_of(options_.scenes.side);
    return torch::empty({signed_of(count), signed_of(kColours), side, side}, batch_options());
  }
  static void copy(const Sample& sample, const torch::Tensor& pictures, std::size_t index) {
    const auto to = values_of(pictures).subspan(index * sample.pixels.size(), sample.pixels.size());
    std::ranges::transform(sample.pixels, to.begin(), [](int pixel) { return static_cast<float>(pixel - 128) / 64; });
  }

  DetectionOptions options_;
  WorkerData worker_;
  std::unique_ptr<DetectionData> data_;
  std::shared_ptr<RetinaNet> network_;
  std::vector<Box> anchors_;
  std::vector<std::size_t> labels_;  // that this worker sees
};

torch::Tensor DetectionTask::loss(std::int64_t step) {
  base::Random random = worker_.random(step);
  const torch::Tensor inputs = pictures(worker_.samples);
  Targets targets(worker_.samples, anchors_.size(), options_.classes, batch_options());
  for (std::size_t i = 0; i < worker_.samples; ++i) {
    Sample sample = data_->draw(random, labels_);
    if (worker_.is_noisy(options_.shard)) draw_objects_at_random(sample, options_.scenes.side, data_->labels(), random);
    copy(sample, inputs, i);
    targets.set(i, anchors_, sample.objects);
  }
  const auto [scores, codes] = network_->forward(to_device(inputs));
  return (focal_loss(scores, to_device(targets.there), to_device(targets.counts)) +
          smooth_l1(codes, to_device(targets.codes), to_device(targets.tells))) /
         static_cast<double>(std::max<std::int64_t>(1, targets.told));
}

std::vector<double> DetectionTask::score(train::Split split) {
  const auto [first, total] = worker_.share_of(data_->count(split));
  std::vector<ImageResult> results;
  for (std::size_t begin = 0; begin < total; begin += kPicturesAtATime) {
    const std::size_t count = std::min(kPicturesAtATime, total - begin);
    const torch::Tensor inputs = pictures(count);
    for (std::size_t i = 0; i < count; ++i) {
      Sample sample = data_->at(split, first + begin + i);
      copy(sample, inputs, i);
      results.push_back({std::move(sample.objects), {}});
    }
    const auto found = network_->forward(to_device(inputs));
    const torch::Tensor scores = found.scores.cpu(), codes = found.codes.cpu();
    for (std::size_t i = 0; i < count; ++i)
      results[begin + i].detections = find_objects(values_of(scores[signed_of(i)]), values_of(codes[signed_of(i)]),
                                                   anchors_, static_cast<double>(options_.scenes.side));
  }
  return to_records(results);
}

}  // namespace

std::unique_ptr<train::Task> make_detection(const TaskInputs& inputs) {
  DetectionOptions options = detection_options_of(inputs.settings, inputs.workers, inputs.steps);
  auto data = load_detection_data(options);
  if (options.classes == 0) options.classes = signed_of(data->labels());
  return with_short_errors([&] { return std::make_unique<DetectionTask>(options, inputs, std::move(data)); });
}

}  // namespace flockstep::tasks
