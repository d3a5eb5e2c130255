#include "tasks/torch/detection_loss.h"

namespace flockstep::tasks {
namespace {

constexpr double kShareOfObjects = 0.25;
constexpr double kBend = 1.0 / 9;

}  // namespace

torch::Tensor focal_loss(const torch::Tensor& scores, const torch::Tensor& there, const torch::Tensor& weights) {
  // With s = -score where the object is there and score where not, p_t = sigmoid(-s) and -log p_t = softplus(s), both
  // of which stay finite.
  const torch::Tensor sign = 1 - 2 * there, against = scores * sign;
  const torch::Tensor share = kShareOfObjects + (1 - 2 * kShareOfObjects) * (1 - there);
  return (share * weights * against.sigmoid().square() * at::softplus(against)).sum();
}

torch::Tensor smooth_l1(const torch::Tensor& codes, const torch::Tensor& wanted, const torch::Tensor& weights) {
  return (at::smooth_l1_loss(codes, wanted, at::Reduction::None, kBend) * weights).sum();
}

}  // namespace flockstep::tasks
