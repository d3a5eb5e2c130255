// Tensors, as a rule those of a module, that are views of one flat span, and their gradients views of another: what
// algorithms see as spans, the module and its optimizer see as tensors.
//
//   model     [ parameters, last registered first | buffers ]      where gradients are left: those of odd sizes last
//   gradient  [ the same parameters ]
//
// Backward makes the gradients of the last layers first, so the first buckets are complete first. Tensors keep their
// identity, which optimizers know them by, and their strides. A shared parameter is laid out once. float tensors are
// views; bfloat16 ones cannot be, and are converted when models and gradients are collected and spread.
//
// On a device the tensors are views of flat memory there, and the spans its mirrors: fetched before they are read,
// after collecting, and put back once they were written, before spreading. In main memory, and where whoever reads and
// writes the numbers does so on the device, both do nothing.
//
// Users move tensors without a word: zero_grad() undefines gradients, torch::load and Module::to() re-point parameters.
// So nothing here trusts that a tensor is still where it was put: collecting looks, and brings it back.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/layout.h"
#include "torch/host_mirror.h"

namespace flockstep::torch_front {

// A module as far as it is known here: what it has registered, shared tensors as often as they are.
struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};
struct NamedTensors {
  std::vector<NamedTensor> parameters, buffers;
};
NamedTensors tensors_of(const torch::nn::Module& module);

enum class Gradients {
  watched,  // backward tells of each: see on_gradient()
  left,     // to whoever makes and uses them
};

class FlatModule {
 public:
  // Throws Error{bad_input} naming a tensor that is neither float nor bfloat16, not dense, on another device than the
  // first one, that shares memory with another one or, where gradients are watched, that another FlatModule already
  // watches. Frozen parameters, which need no gradient, and buffers of other types, such as counters, stay where they
  // are. `list` is asked again and again whether the tensors are still the same; `holder` is what sentences say to make
  // anew when they are not.
  FlatModule(std::function<NamedTensors()> list, Gradients gradients, std::string holder);
  // For a DataParallel. The module must outlive this.
  explicit FlatModule(torch::nn::Module& module);
  // Takes the hooks away and gives the tensors memory of their own again.
  ~FlatModule();
  FlatModule(const FlatModule&) = delete;
  FlatModule& operator=(const FlatModule&) = delete;

  std::size_t parameters() const { return parameters_; }  // numbers that have a gradient
  std::size_t buffers() const { return buffers_; }        // numbers behind them in a model
  std::vector<std::size_t> tensors() const;               // sizes of the parameters in order
  std::size_t count() const { return count_; }            // of the parameters
  const std::string& name(std::size_t index) const;
  runtime::Range range(std::size_t index) const;  // in the gradient, and in the model
  // Every tensor's name, type, shape, whether it is frozen and, where it is not contiguous, strides, as registered:
  // what workers have to agree on.
  const std::vector<std::string>& descriptions() const { return descriptions_; }
  // Frozen parameters and buffers of other types, which are not in the model's span.
  std::vector<torch::Tensor> fixed() const;
  // Of these, the buffers.
  std::vector<torch::Tensor> counters() const;

  c10::Device device() const { return device_; }
  bool is_on_device() const { return !device_.is_cpu(); }
  // Memory to attach to: on a device, pinned memory that it can copy from and to.
  base::Buffer<float> span_for(base::Memory& memory, std::size_t size, const std::string& purpose) const;

  // Makes the tensors views of these spans, writing their present values there. Without a span for them gradients stay
  // where they are. The spans must outlive this, or another attach(); whoever holds another view of them longer than
  // that needs an `owner` of the memory, which is kept as long as there is one. On a device the spans are pinned
  // memory, their values are not written before they are fetched, and the context is what waits. Throws
  // Error{unavailable} where the device has no memory left.
  void attach(std::span<float> model, std::span<float> gradient, std::shared_ptr<const void> owner = nullptr,
              runtime::Context* context = nullptr);
  // The same for the gradients alone, after one for the model.
  void attach_gradient(std::span<float> gradient, std::shared_ptr<const void> owner = nullptr,
                       runtime::Context* context = nullptr);
  // Makes the tensors, or their gradients, views of flat memory on the module's device that is not mirrored, and that
  // of these tensors.
  void attach_model();
  void attach_gradient();
  const torch::Tensor& flat_model() const { return flat_model_; }
  const torch::Tensor& flat_gradient() const { return flat_gradient_; }
  // Makes the tensors views of another model, whose values they take; the gradients stay. For an evaluation, which must
  // not write to them. Looking at the attached model again ends it.
  void look_at(std::span<const float> model);

  // Before the model's span is read: brings back what left it, converts what cannot be a view. Throws Error{bad_input}
  // naming a tensor whose shape, type or device has changed, which was replaced, or which was frozen at the start and
  // is not any more.
  void collect_model();
  // After the span was written.
  void spread_model();

  // On a device: between collecting and reading, and between writing and spreading.
  void fetch_model() { fetch_model({0, parameters_ + buffers_}); }
  void fetch_model(runtime::Range range) {
    if (model_mirror_) model_mirror_->fetch(range);
  }
  void put_model() { put_model({0, parameters_ + buffers_}); }
  void put_model(runtime::Range range) {
    if (model_mirror_) model_mirror_->put(range);
  }
  void fetch_gradient(runtime::Range range) {
    if (gradient_mirror_) gradient_mirror_->fetch(range);
  }
  void put_gradient() {
    if (gradient_mirror_) gradient_mirror_->put({0, parameters_});
  }

  // Before range(index) of the gradient's span is read: makes it hold the parameter's gradient, and the gradient a view
  // of it. Where the gradient is undefined it is left so, the range is filled with zeros, and the answer is false.
  bool collect_gradient(std::size_t index);
  // After the span was written: the parameter's gradient is what stands in range(index) ...
  void spread_gradient(std::size_t index);
  // ... or undefined.
  void drop_gradient(std::size_t index);

  // Called by backward, each time the gradient of a parameter is complete, with its index. May throw: backward does
  // then.
  void on_gradient(std::function<void(std::size_t index)> ready) { ready_ = std::move(ready); }

 private:
  struct Entry {
    std::string name;
    torch::Tensor tensor;  // the user's own
    bool is_view;          // float; else bfloat16
    std::vector<std::int64_t> sizes, strides;
    runtime::Range range;
    torch::Tensor gradient;  // the view, for parameters that can have one
  };
  struct Fixed {
    std::string name;
    torch::Tensor tensor;
    bool is_parameter;
  };
  bool is_at_home(const torch::Tensor& tensor) const;
  void check_apart() const;
  void install_hooks();
  void check_registered() const;
  void check_unchanged(const Entry& entry) const;
  torch::Tensor view_of(const c10::Storage& storage, const Entry& entry) const;
  bool is_at(const c10::Storage& storage, const Entry& entry) const;
  bool has_view_as_gradient(const Entry& entry) const;
  void make_gradients_views();

  const std::function<NamedTensors()> list_;
  const Gradients gradients_;
  const std::string holder_;
  c10::Device device_{at::kCPU};
  std::vector<Entry> entries_;  // parameters, then buffers
  std::size_t count_ = 0, parameters_ = 0, buffers_ = 0;
  std::vector<Fixed> fixed_;
  std::vector<torch::Tensor> registered_;  // parameters and buffers, shared ones as often as they are
  std::vector<std::string> descriptions_;  // of each of these
  std::function<void(std::size_t)> ready_;

  std::optional<HostMirror> model_mirror_, gradient_mirror_;  // on a device
  c10::Storage model_, gradient_;                             // over the attached spans, or what they mirror
  torch::Tensor flat_model_, flat_gradient_;                  // over these, where nothing mirrors them
  c10::Storage looked_at_;                                    // model_, or over what look_at() was given
};

}  // namespace flockstep::torch_front
