// A network on a device: its parameters and buffers are views of one flat tensor there, in the order of a FlatModule,
// and their gradients are collected in another.
//
// Workers that are threads share a device, so each has a stream of its own; whoever uses these tensors does so on it
// (StreamGuard). Streams, events and copies are those of any device that torch knows: no CUDA is linked.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/nn/module.h>

#include <memory>

#include "torch/device_place.h"
#include "torch/flat_module.h"
#include "train/on_device.h"

namespace flockstep::tasks {

class DeviceSide final : public train::OnDevice {
 public:
  // Moves the network there. `flat` was made of it in main memory, and knows the order of its parameters.
  DeviceSide(torch::nn::Module& network, const torch_front::FlatModule& flat, c10::Device device);

  c10::Device device() const { return stream_.device(); }
  c10::Stream stream() const { return stream_; }
  torch::Tensor parameters() const { return model_.narrow(0, 0, gradient_.numel()); }
  const torch::Tensor& gradient() const { return gradient_; }

  // After backward, which has left a gradient with each parameter that was used: all of them into the flat one, and
  // from there into its mirror. Returns the loss; this is where the host waits for the device.
  double take_gradient(const torch::Tensor& loss);
  // The model as these numbers, until put_model().
  bool is_mirror(std::span<const float> model) const { return model.data() == mirror_.const_data_ptr(); }
  void look_at(std::span<const float> model);

  base::Buffer<float> pinned(base::Memory& memory, std::size_t size, const std::string& purpose) override;
  void attach(std::span<float> model, std::span<float> gradient) override;
  void fetch_model() override;
  void put_model() override;
  void put_gradient() override;
  bool gradient_is_finite() const override { return is_finite_; }
  const runtime::DeviceModel* device_model() override;

 private:
  void collect_gradient();
  void wait();

  const c10::Stream stream_;
  c10::Event done_;
  torch::Tensor model_, gradient_;          // on the device
  std::vector<torch::Tensor> parameters_;   // the network's own
  std::vector<torch::Tensor> of_gradient_;  // the part of gradient_ that is of each
  torch::Tensor mirror_, gradient_mirror_;  // over the loop's spans; the latter undefined where the gradient stays
  torch::Tensor figures_;                   // pinned: the loss, and the largest magnitude in the gradient
  bool is_finite_ = true;
  std::unique_ptr<torch_front::DevicePlace> place_;  // made when it is asked for
  runtime::DeviceModel device_model_;
};

}  // namespace flockstep::tasks
