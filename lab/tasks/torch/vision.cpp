// `vision`: a residual network on images, with what is usual in its training: images moved and mirrored, smoothed
// labels, a warm-up and a falling learning rate.
#include "tasks/torch/vision.h"

#include <torch/types.h>

#include "tasks/torch/resnet.h"
#include "tasks/torch/torch_task.h"
#include "tasks/vision/vision_data.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kImagesAtATime = 64;  // images that pass through the network together

class Vision final : public TorchTask {
 public:
  Vision(const VisionOptions& options, const TaskInputs& inputs, std::shared_ptr<const VisionData> data)
      : Vision(options, inputs,
               std::make_shared<ResNet>(
                   ResNetOptions{.depth = options.depth,
                                 .width = options.width,
                                 .stem = options.stem,
                                 .norm = options.norm,
                                 .channels = static_cast<std::int64_t>(data->shape().channels),
                                 .classes = static_cast<std::int64_t>(data->training().of_class.size())}),
               data) {}

  std::int64_t samples_per_step() const override { return static_cast<std::int64_t>(worker_.samples); }
  train::Metric metric() const override { return {"accuracy", false}; }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return descent(options_.descent, weights()); }
  bool has_validation() const override { return !data_->labels(train::Split::validation).empty(); }
  double quality(std::span<const double> records) const override { return share_of_counts(records); }

 private:
  Vision(const VisionOptions& options, const TaskInputs& inputs, std::shared_ptr<ResNet> network,
         std::shared_ptr<const VisionData> data)
      : TorchTask(network, inputs.device),
        options_(options),
        worker_(inputs),
        data_(std::move(data)),
        shape_(data_->shape()),
        network_(std::move(network)),
        sampler_(data_->training(), options.shard, worker_) {}

  void reset() override { network_->reset(worker_.seed); }
  torch::Tensor loss(std::int64_t step) override;
  std::vector<double> score(train::Split split) override;
  torch::Tensor images(std::size_t count) const;
  std::span<float> values_of(const torch::Tensor& images, std::size_t index) const;

  VisionOptions options_;
  WorkerData worker_;
  std::shared_ptr<const VisionData> data_;
  const ImageShape shape_;
  std::shared_ptr<ResNet> network_;
  ImageSampler sampler_;
};

torch::Tensor Vision::images(std::size_t count) const {
  return torch::empty({static_cast<std::int64_t>(count), static_cast<std::int64_t>(shape_.channels),
                       static_cast<std::int64_t>(shape_.height), static_cast<std::int64_t>(shape_.width)},
                      batch_options());
}

std::span<float> Vision::values_of(const torch::Tensor& images, std::size_t index) const {
  return {images.data_ptr<float>() + index * shape_.pixels(), shape_.pixels()};
}

torch::Tensor Vision::loss(std::int64_t step) {
  base::Random random = worker_.random(step);
  const torch::Tensor inputs = images(worker_.samples);
  const torch::Tensor labels = torch::empty({static_cast<std::int64_t>(worker_.samples)}, batch_options(torch::kInt64));
  for (std::size_t i = 0; i < worker_.samples; ++i) {
    const ImageSampler::Sample sample = sampler_.draw(random);
    data_->copy_varied(sample.image, random, values_of(inputs, i));
    labels.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(sample.label);
  }
  return at::cross_entropy_loss(network_->forward(to_device(inputs)), to_device(labels), {}, at::Reduction::Mean, -100,
                                options_.label_smoothing);
}

std::vector<double> Vision::score(train::Split split) {
  const std::span<const std::uint32_t> expected = data_->labels(split);
  const auto [first, total] = worker_.share_of(expected.size());
  double correct = 0;
  for (std::size_t begin = 0; begin < total; begin += kImagesAtATime) {
    const std::size_t count = std::min(kImagesAtATime, total - begin);
    const torch::Tensor inputs = images(count);
    for (std::size_t i = 0; i < count; ++i) data_->copy(split, first + begin + i, values_of(inputs, i));
    const torch::Tensor chosen = network_->forward(to_device(inputs)).argmax(1).cpu();
    for (std::size_t i = 0; i < count; ++i)
      correct += chosen.data_ptr<std::int64_t>()[i] == expected[first + begin + i] ? 1 : 0;
  }
  return {correct, static_cast<double>(total)};
}

}  // namespace

std::unique_ptr<train::Task> make_vision(const TaskInputs& inputs) {
  const VisionOptions options = vision_options_of(inputs.settings, inputs.workers, inputs.steps);
  return with_short_errors([&] { return std::make_unique<Vision>(options, inputs, load_vision_data(options)); });
}

}  // namespace flockstep::tasks
