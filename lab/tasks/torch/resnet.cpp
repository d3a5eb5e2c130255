#include "tasks/torch/resnet.h"

#include <torch/types.h>

#include <cmath>
#include <numeric>

#include "base/check.h"
#include "tasks/torch/initial_values.h"

namespace flockstep::tasks {
namespace {

constexpr double kNewestShare = 0.1;  // of the latest batch in mean and variance
constexpr double kBatchNormEpsilon = 1e-5;
constexpr std::int64_t kGroup = 8;  // channels that are normalised together, where these divide into such groups
constexpr std::int64_t kBottleneckFactor = 4;

}  // namespace

ConvolutionNorm::ConvolutionNorm(const ResNetOptions& options, std::int64_t in, std::int64_t out, std::int64_t kernel,
                                 std::int64_t stride)
    : norm_(options.norm), stride_(stride) {
  filters = register_parameter("filters", torch::zeros({out, in, kernel, kernel}));
  if (options.learned_scale) {
    scale = register_parameter("scale", torch::ones({out}));
    shift = register_parameter("shift", torch::zeros({out}));
  }
  if (norm_ != Norm::batch) return;
  mean = register_buffer("mean", torch::zeros({out}));
  variance = register_buffer("variance", torch::ones({out}));
}

torch::Tensor ConvolutionNorm::forward(const torch::Tensor& input) {
  const torch::Tensor sums = at::conv2d(input, filters, {}, stride_, filters.size(2) / 2);
  if (norm_ == Norm::group)
    return at::group_norm(sums, sums.size(1) / std::gcd(sums.size(1), kGroup), scale, shift, kBatchNormEpsilon);
  return at::batch_norm(sums, scale, shift, mean, variance, is_training(), kNewestShare, kBatchNormEpsilon,
                        /*cudnn_enabled=*/true);
}

void ConvolutionNorm::reset(base::Random& random) {
  const auto fan_out = static_cast<double>(filters.numel() / filters.size(1));
  fill_normal(filters, std::sqrt(2 / fan_out), random);
  if (scale.defined()) {
    scale.fill_(1);
    shift.zero_();
  }
  if (!mean.defined()) return;
  mean.zero_();
  variance.fill_(1);
}

class ResidualBlock : public torch::nn::Module {
 public:
  ResidualBlock(Block block, const ResNetOptions& options, std::int64_t in, std::int64_t width, std::int64_t out,
                std::int64_t stride) {
    const auto add = [&](std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t step) {
      layers_.push_back(register_module("layer" + std::to_string(layers_.size() + 1),
                                        std::make_shared<ConvolutionNorm>(options, from, to, kernel, step)));
    };
    if (in != out || stride > 1)
      shortcut_ = register_module("shortcut", std::make_shared<ConvolutionNorm>(options, in, out, 1, stride));
    if (block == Block::basic) {
      add(in, width, 3, stride);
      add(width, out, 3, 1);
    } else {
      add(in, width, 1, 1);
      add(width, width, 3, stride);
      add(width, out, 1, 1);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor output = input;
    for (const auto& layer : layers_) {
      output = layer->forward(output);
      if (layer != layers_.back()) output = output.relu_();
    }
    return output.add_(shortcut_ ? shortcut_->forward(input) : input).relu_();
  }

 private:
  std::vector<std::shared_ptr<ConvolutionNorm>> layers_;
  std::shared_ptr<ConvolutionNorm> shortcut_;  // where the shape changes
};

class LastLayer : public torch::nn::Module {
 public:
  LastLayer(std::int64_t in, std::int64_t out) {
    weights = register_parameter("weights", torch::zeros({out, in}));
    bias = register_parameter("bias", torch::zeros({out}));
  }
  torch::Tensor weights, bias;
};

ResNet::ResNet(const ResNetOptions& options) : pools_(options.stem == Stem::imagenet) {
  const auto plan = resnet_plan(options.depth);
  base::check(plan.has_value(), "a depth that residual networks have");
  stem_ =
      register_module("stem", std::make_shared<ConvolutionNorm>(options, options.channels, options.width,
                                                                pools_ ? 7 : 3, options.stem == Stem::small ? 1 : 2));
  std::int64_t in = options.width, width = options.width;
  for (std::size_t stage = 0; stage < plan->blocks.size(); ++stage, width *= 2) {
    for (int number = 0; number < plan->blocks[stage]; ++number) {
      const std::int64_t out = plan->block == Block::basic ? width : kBottleneckFactor * width;
      blocks_.push_back(register_module(
          "block" + std::to_string(blocks_.size() + 1),
          std::make_shared<ResidualBlock>(plan->block, options, in, width, out, stage > 0 && number == 0 ? 2 : 1)));
      in = out;
    }
    ends_.push_back(blocks_.size());
    widths_.push_back(in);
  }
  if (options.classes > 0) last_ = register_module("last", std::make_shared<LastLayer>(in, options.classes));
}

std::vector<torch::Tensor> ResNet::stages(const torch::Tensor& images) {
  torch::Tensor output = stem_->forward(images).relu_();
  if (pools_) output = at::max_pool2d(output, 3, 2, 1);
  std::vector<torch::Tensor> outputs;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    output = blocks_[i]->forward(output);
    if (i + 1 == ends_[outputs.size()]) outputs.push_back(output);
  }
  return outputs;
}

torch::Tensor ResNet::forward(const torch::Tensor& images) {
  base::check(last_ != nullptr, "a network with classes");
  return at::linear(stages(images).back().mean({2, 3}), last_->weights, last_->bias);
}

void ResNet::reset(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  base::Random random(seed, base::Purpose::initial_model);
  for (const auto& module : modules(/*include_self=*/false)) {
    const auto layer = std::dynamic_pointer_cast<ConvolutionNorm>(module);
    if (layer) layer->reset(random);
  }
  if (!last_) return;
  fill_uniform(last_->weights, 1 / std::sqrt(static_cast<double>(last_->weights.size(1))), random);
  last_->bias.zero_();
}

}  // namespace flockstep::tasks
