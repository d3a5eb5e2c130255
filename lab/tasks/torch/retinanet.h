// RetinaNet (Lin et al., 2017): a pyramid of features on a residual network, and two heads, shared by its levels, that
// say for every anchor which object it tells and how that object's box differs from it.
//
// The scales of the residual network's normalised layers are not learned: as in detectors that start from a network
// trained on pictures before, which keep them as they are. With 91 classes it has the 34,014,999 parameters that
// torchvision's has.
#pragma once

#include <torch/nn/module.h>

#include "tasks/detection/detection.h"
#include "tasks/torch/resnet.h"

namespace flockstep::tasks {

// A convolution with a bias; every level's size is the one below's divided by `stride`, rounded up.
class Convolution : public torch::nn::Module {
 public:
  Convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1);
  torch::Tensor forward(const torch::Tensor& input) const;

  torch::Tensor filters, bias;

 private:
  std::int64_t stride_;
};

class RetinaNet : public torch::nn::Module {
 public:
  // options.classes is not 0.
  explicit RetinaNet(const DetectionOptions& options);

  // For every picture and anchor, in the order of make_anchors().
  struct Output {
    torch::Tensor scores;  // pictures x anchors x classes: logits
    torch::Tensor codes;   // pictures x anchors x 4: see encode()
  };
  Output forward(const torch::Tensor& pictures);
  // Filters keep the variance of what passes; those of the last layers are small, and the scores' bias is that of one
  // anchor in a hundred that tells an object: the many that tell none must not drown the rest at the start.
  void reset(std::uint64_t seed);

 private:
  using Layers = std::vector<std::shared_ptr<Convolution>>;
  std::vector<torch::Tensor> pyramid(const torch::Tensor& pictures);
  Layers add_head(const std::string& name, std::int64_t channels, std::int64_t layers, std::int64_t out);

  std::shared_ptr<ResNet> backbone_;
  Layers sideways_, smooth_, extra_;
  Layers score_head_, box_head_;
};

}  // namespace flockstep::tasks
