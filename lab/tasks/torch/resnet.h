// Residual networks (He et al., 2015) with basic and bottleneck blocks, for small images and for those of ImageNet.
#pragma once

#include <torch/nn/module.h>

#include "base/random.h"
#include "tasks/vision/resnet_plan.h"

namespace flockstep::tasks {

struct ResNetOptions {
  std::int64_t depth = 50;
  std::int64_t width = 64;  // channels of the first stage
  Stem stem = Stem::imagenet;
  Norm norm = Norm::batch;
  bool learned_scale = true;                  // whether normalised layers have a scale and a shift that are learned
  std::int64_t channels = 3, classes = 1000;  // no classes: no last layer, and only stages() can be asked for
};

// A convolution without bias, and normalisation behind it.
class ConvolutionNorm : public torch::nn::Module {
 public:
  ConvolutionNorm(const ResNetOptions& options, std::int64_t in, std::int64_t out, std::int64_t kernel,
                  std::int64_t stride);
  torch::Tensor forward(const torch::Tensor& input);
  // Filters are normal with the variance that keeps that of gradients from layer to layer (He et al.).
  void reset(base::Random& random);

  torch::Tensor filters, scale, shift;  // parameters; the last two only where they are learned
  torch::Tensor mean, variance;         // over the batches so far, for Norm::batch: buffers

 private:
  Norm norm_;
  std::int64_t stride_;
};

class ResidualBlock;
class LastLayer;  // a module of its own: a module's own tensors count as registered before those of its parts

class ResNet : public torch::nn::Module {
 public:
  explicit ResNet(const ResNetOptions& options);

  // Images (batch x channels x height x width) to scores of the classes.
  torch::Tensor forward(const torch::Tensor& images);
  // What each stage makes of them, from fine to coarse.
  std::vector<torch::Tensor> stages(const torch::Tensor& images);
  // Channels of each.
  const std::vector<std::int64_t>& widths() const { return widths_; }
  // Drawn so that the values are the same on every machine.
  void reset(std::uint64_t seed);

 private:
  bool pools_;
  std::shared_ptr<ConvolutionNorm> stem_;
  std::vector<std::shared_ptr<ResidualBlock>> blocks_;
  std::vector<std::size_t> ends_;  // of the stages, among the blocks
  std::vector<std::int64_t> widths_;
  std::shared_ptr<LastLayer> last_;
};

}  // namespace flockstep::tasks
