#include "tasks/torch/retinanet.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tasks/torch/initial_values.h"

namespace flockstep::tasks {
namespace {

constexpr double kPrior = 0.01;    // share of anchors that tell an object, at the start
constexpr double kLastGain = 0.1;  // of the last layers at the start

constexpr auto kAnchors = static_cast<std::int64_t>(kAnchorsPerPlace);

// What a head says about all levels: pictures x anchors x `numbers`.
torch::Tensor read(const std::vector<std::shared_ptr<Convolution>>& head, const std::vector<torch::Tensor>& levels,
                   std::int64_t numbers) {
  std::vector<torch::Tensor> all;
  for (torch::Tensor output : levels) {
    for (const auto& layer : head) {
      output = layer->forward(output);
      if (layer != head.back()) output = output.relu_();
    }
    all.push_back(output.permute({0, 2, 3, 1}).reshape({output.size(0), -1, numbers}));
  }
  return at::cat(all, 1);
}

}  // namespace

Convolution::Convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride)
    : stride_(stride) {
  filters = register_parameter("filters", torch::zeros({out, in, kernel, kernel}));
  bias = register_parameter("bias", torch::zeros({out}));
}

torch::Tensor Convolution::forward(const torch::Tensor& input) const {
  return at::conv2d(input, filters, bias, stride_, filters.size(2) / 2);
}

RetinaNet::RetinaNet(const DetectionOptions& options) {
  base::check(options.classes > 0, "a network with classes");
  backbone_ = register_module("backbone", std::make_shared<ResNet>(ResNetOptions{.depth = options.depth,
                                                                                 .width = options.width,
                                                                                 .stem = options.stem,
                                                                                 .norm = options.norm,
                                                                                 .learned_scale = false,
                                                                                 .channels = kColours,
                                                                                 .classes = 0}));
  const auto add = [&](Layers& layers, const std::string& name, const auto&... shape) {
    layers.push_back(
        register_module(name + std::to_string(layers.size() + 1), std::make_shared<Convolution>(shape...)));
  };
  const std::vector<std::int64_t>& widths = backbone_->widths();
  for (std::size_t stage = widths.size() - static_cast<std::size_t>(options.stages); stage < widths.size(); ++stage) {
    add(sideways_, "sideways", widths[stage], options.channels, 1);
    add(smooth_, "smooth", options.channels, options.channels, 3);
  }
  for (std::int64_t i = 0; i < options.extra_levels; ++i)
    add(extra_, "extra", options.channels, options.channels, 3, 2);
  score_head_ = add_head("score", options.channels, options.layers, kAnchors * options.classes);
  box_head_ = add_head("box", options.channels, options.layers, kAnchors * 4);
}

RetinaNet::Layers RetinaNet::add_head(const std::string& name, std::int64_t channels, std::int64_t layers,
                                      std::int64_t out) {
  Layers head;
  for (std::int64_t i = 0; i <= layers; ++i)
    head.push_back(register_module(name + std::to_string(i + 1),
                                   std::make_shared<Convolution>(channels, i < layers ? channels : out, 3)));
  return head;
}

std::vector<torch::Tensor> RetinaNet::pyramid(const torch::Tensor& pictures) {
  const std::vector<torch::Tensor> stages = backbone_->stages(pictures);
  std::vector<torch::Tensor> levels(sideways_.size());
  torch::Tensor above;
  for (std::size_t i = levels.size(); i-- > 0;) {
    const torch::Tensor here = sideways_[i]->forward(stages[stages.size() - levels.size() + i]);
    above = above.defined() ? here + at::upsample_nearest2d(above, here.sizes().slice(2)) : here;
    levels[i] = smooth_[i]->forward(above);
  }
  for (const auto& layer : extra_)
    levels.push_back(layer->forward(layer == extra_.front() ? levels.back() : levels.back().relu()));
  return levels;
}

RetinaNet::Output RetinaNet::forward(const torch::Tensor& pictures) {
  const std::vector<torch::Tensor> levels = pyramid(pictures);
  return {read(score_head_, levels, score_head_.back()->bias.numel() / kAnchors), read(box_head_, levels, 4)};
}

void RetinaNet::reset(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  backbone_->reset(seed);
  base::Random random(seed, base::Purpose::initial_model, 0, 1);
  for (const auto& module : children()) {
    const auto layer = std::dynamic_pointer_cast<Convolution>(module);
    if (!layer) continue;
    const auto is_in = [&](const Layers& layers) { return std::ranges::find(layers, layer) != layers.end(); };
    const bool is_last = layer == score_head_.back() || layer == box_head_.back();
    const bool loses_half = is_in(score_head_) || is_in(box_head_);  // to the rectifier behind it
    const auto fan_in = static_cast<double>(layer->filters.numel() / layer->filters.size(0));
    fill_normal(layer->filters, is_last ? kLastGain / std::sqrt(fan_in) : std::sqrt((loses_half ? 2 : 1) / fan_in),
                random);
    layer->bias.zero_();
  }
  score_head_.back()->bias.fill_(-std::log((1 - kPrior) / kPrior));
}

}  // namespace flockstep::tasks
