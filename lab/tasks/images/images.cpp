// `images`: a network with one hidden layer, ReLU and a softmax over ten classes, on Fashion-MNIST. Workers can be
// given different classes, and wrong labels: what rules for combining gradients are for.
//
// The flat span holds W1 (pixels x hidden), b1, W2 (hidden x classes) and b2, matrices row by row.
#include "tasks/images/images.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/portable_math.h"
#include "base/random.h"
#include "flockstep/error.h"
#include "kernels/cpu/kernels.h"
#include "tasks/images/dense.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kMostAtOnce = 64;  // images that pass through the network together: they stay in cache

constexpr std::array<base::OptionSpec, 9> kOptions{{
    {"hidden", "64", "size of the hidden layer"},
    {"learning_rate", "0.2", kLearningRateHelp},
    {"momentum", "0.9", "momentum of the local update"},
    {"schedule", "linear", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", "0", kWarmupHelp},
    kShardOption,
    kNoisyOption,
    kDataOption,
}};

ImagesOptions options_of(const base::Settings& settings, int workers, std::int64_t steps) {
  const base::SettingsReader reader("images", kOptions, settings);
  return {.hidden = static_cast<std::size_t>(reader.integer("hidden", 1, 65536)),
          .descent = {.rate = rate_options_of("images", reader, steps), .momentum = reader.below_one("momentum")},
          .shard = shard_options_of(reader, workers),
          .data = reader.text("data")};
}

// Turns scores into probabilities; returns the cross entropy with `label`.
double softmax(std::span<float> scores, std::size_t label) {
  const double largest = *std::ranges::max_element(scores), of_label = scores[label];
  std::array<double, kClasses> powers;
  double sum = 0;
  for (std::size_t c = 0; c < kClasses; ++c) sum += powers[c] = base::portable_exp(scores[c] - largest);
  for (std::size_t c = 0; c < kClasses; ++c) scores[c] = static_cast<float>(powers[c] / sum);
  return base::portable_log(sum) - (of_label - largest);
}

class Images final : public train::Task {
 public:
  explicit Images(const TaskInputs& inputs);

  std::size_t parameters() const override { return end_; }
  std::vector<std::size_t> tensors() const override { return {b1_, w2_ - b1_, b2_ - w2_, end_ - b2_}; }
  std::int64_t samples_per_step() const override { return static_cast<std::int64_t>(worker_.samples); }
  train::Metric metric() const override { return {"accuracy", false}; }

  void initialise(std::span<float> model) override;
  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                  const RangeReady& ready) override;
  std::unique_ptr<train::Optimizer> make_optimizer() override { return make_descent(options_.descent, end_); }
  std::vector<double> evaluate(std::span<const float> model, train::Split split) override;
  bool has_validation() const override { return set_->validation.count() > 0; }
  double quality(std::span<const double> records) const override { return share_of_counts(records); }

 private:
  void draw_batch(base::Random random);
  void forward(std::span<const float> model, std::size_t count);
  void backward(std::span<const float> model, std::span<float> gradient, std::size_t count, const RangeReady& ready);

  ImagesOptions options_;
  WorkerData worker_;
  std::shared_ptr<const ImageSet> set_;
  std::size_t b1_, w2_, b2_, end_;  // where the tensors begin; W1 begins at 0
  ImageSampler sampler_;
  std::vector<ImageSampler::Sample> batch_;
  std::size_t chunk_;
  // Row by row: the images of a chunk, what the hidden layer makes of them, and the scores of the classes. Backward
  // turns `scores_` into their derivatives; `w2_transposed_` and `of_hidden_` are its own.
  std::vector<float> inputs_, hidden_, scores_, of_hidden_, w2_transposed_;
};

Images::Images(const TaskInputs& inputs)
    : options_(options_of(inputs.settings, inputs.workers, inputs.steps)),
      worker_(inputs),
      set_(load_image_set(options_.data)),
      b1_(set_->pixels() * options_.hidden),
      w2_(b1_ + options_.hidden),
      b2_(w2_ + options_.hidden * kClasses),
      end_(b2_ + kClasses),
      sampler_(set_->training(), options_.shard, worker_),
      chunk_(kMostAtOnce),
      inputs_(chunk_ * set_->pixels()),
      hidden_(chunk_ * options_.hidden),
      scores_(chunk_ * kClasses),
      of_hidden_(hidden_.size()),
      w2_transposed_(options_.hidden * kClasses) {}

// Uniform, with a width that keeps the variance from layer to layer; biases start at zero.
void Images::initialise(std::span<float> model) {
  std::ranges::fill(model, 0.0f);
  base::Random random(worker_.seed, base::Purpose::initial_model);
  const auto fill = [&](std::size_t begin, std::size_t size, double width) {
    random.fill_uniform(model.subspan(begin, size), static_cast<float>(-width), static_cast<float>(width));
  };
  fill(0, b1_, std::sqrt(6.0 / static_cast<double>(set_->pixels())));
  fill(w2_, b2_ - w2_, std::sqrt(6.0 / static_cast<double>(options_.hidden + kClasses)));
}

void Images::draw_batch(base::Random random) {
  batch_.resize(worker_.samples);
  for (auto& sample : batch_) sample = sampler_.draw(random);
}

void Images::forward(std::span<const float> model, std::size_t count) {
  const std::size_t hidden = options_.hidden;
  for (std::size_t i = 0; i < count; ++i) {
    std::ranges::copy(model.subspan(b1_, hidden), hidden_.begin() + static_cast<std::ptrdiff_t>(i * hidden));
    std::ranges::copy(model.subspan(b2_, kClasses), scores_.begin() + static_cast<std::ptrdiff_t>(i * kClasses));
  }
  add_product({inputs_.data(), set_->pixels(), 1}, model.data(), hidden_.data(), count, set_->pixels(), hidden);
  for (float& number : std::span(hidden_).first(count * hidden)) number = number > 0 ? number : 0;
  add_product({hidden_.data(), hidden, 1}, &model[w2_], scores_.data(), count, hidden, kClasses);
}

// Adds the derivatives for a chunk, given those of its scores, the last layer first.
void Images::backward(std::span<const float> model, std::span<float> gradient, std::size_t count,
                      const RangeReady& ready) {
  const std::size_t hidden = options_.hidden, pixels = set_->pixels();
  for (std::size_t i = 0; i < count * kClasses; ++i) gradient[b2_ + i % kClasses] += scores_[i];
  ready(b2_, end_ - b2_);
  add_product({hidden_.data(), 1, hidden}, scores_.data(), &gradient[w2_], hidden, count, kClasses);
  ready(w2_, b2_ - w2_);

  for (std::size_t i = 0; i < b2_ - w2_; ++i) w2_transposed_[i % kClasses * hidden + i / kClasses] = model[w2_ + i];
  std::ranges::fill(of_hidden_, 0.0f);
  add_product({scores_.data(), kClasses, 1}, w2_transposed_.data(), of_hidden_.data(), count, kClasses, hidden);
  for (std::size_t i = 0; i < count * hidden; ++i) of_hidden_[i] = hidden_[i] > 0 ? of_hidden_[i] : 0;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < hidden; ++j) gradient[b1_ + j] += of_hidden_[i * hidden + j];
  ready(b1_, w2_ - b1_);
  add_product({inputs_.data(), 1, pixels}, of_hidden_.data(), gradient.data(), pixels, count, hidden);
  ready(0, b1_);
}

double Images::gradient(std::int64_t step, std::span<float> model, std::span<float> gradient, const RangeReady& ready) {
  draw_batch(worker_.random(step));
  std::ranges::fill(gradient, 0.0f);
  const float share = 1.0f / static_cast<float>(worker_.samples);
  double loss = 0;
  for (std::size_t begin = 0; begin < worker_.samples; begin += chunk_) {
    const std::size_t count = std::min(chunk_, worker_.samples - begin);
    for (std::size_t i = 0; i < count; ++i)
      set_->copy(set_->train, batch_[begin + i].image, std::span(inputs_).subspan(i * set_->pixels(), set_->pixels()));
    forward(model, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto scores = std::span(scores_).subspan(i * kClasses, kClasses);
      loss += softmax(scores, batch_[begin + i].label);
      scores[batch_[begin + i].label] -= 1;
      for (float& score : scores) score *= share;
    }
    // A range is final once the last chunk has been added to it.
    const bool last = begin + count == worker_.samples;
    backward(
        model, gradient, count, last ? ready : [](std::size_t, std::size_t) {});
  }
  return loss / static_cast<double>(worker_.samples);
}

std::vector<double> Images::evaluate(std::span<const float> model, train::Split split) {
  const LabelledImages& images = split == train::Split::test ? set_->test : set_->validation;
  const auto [first, total] = worker_.share_of(images.count());
  double correct = 0;
  for (std::size_t begin = 0; begin < total; begin += chunk_) {
    const std::size_t count = std::min(chunk_, total - begin);
    for (std::size_t i = 0; i < count; ++i)
      set_->copy(images, first + begin + i, std::span(inputs_).subspan(i * set_->pixels(), set_->pixels()));
    forward(model, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto scores = std::span(scores_).subspan(i * kClasses, kClasses);
      const auto chosen = std::ranges::max_element(scores) - scores.begin();
      correct += chosen == images.labels[first + begin + i] ? 1 : 0;
    }
  }
  return {correct, static_cast<double>(total)};
}

}  // namespace

TaskRow images_row() {
  return {
      .name = "images",
      .description =
          "a network with one hidden layer on Fashion-MNIST; workers may see their own classes or wrong labels",
      .metric = "accuracy on the test images, higher is better",
      .options = kOptions,
      .defaults = [](const base::Settings&) { return TaskDefaults{.steps = 300, .batch_per_worker = 16}; },
      .make = [](const TaskInputs& inputs) -> std::unique_ptr<train::Task> { return std::make_unique<Images>(inputs); },
      .check = [](const base::Settings& settings, int workers) { options_of(settings, workers, 0); },
      .takes_uneven_batches = true,
      .files = image_files,
  };
}

}  // namespace flockstep::tasks
