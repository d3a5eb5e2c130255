#include "native/gradient_offer.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/extension.h>

#include "native/bucket_count.h"

namespace py = pybind11;

namespace flockstep::python {
namespace {

// What DDP takes as the result of a hook: an object of Python's.
class HeldTensor final : public c10::ivalue::PyObjectHolder {
 public:
  explicit HeldTensor(const at::Tensor& tensor) : tensor_(tensor), object_(py::cast(tensor)) {}
  ~HeldTensor() override {
    const py::gil_scoped_acquire acquired;
    object_ = py::object();
  }

  PyObject* getPyObject() override { return object_.ptr(); }
  c10::InferredType tryToInferType() override { return c10::InferredType(c10::TensorType::get()); }
  c10::IValue toIValue(const c10::TypePtr&, std::optional<std::int32_t>) override { return tensor_; }
  std::string toStr() override { return "a bucket of gradients"; }
  std::vector<at::Tensor> extractTensors() override { return {tensor_}; }

 private:
  at::Tensor tensor_;
  py::object object_;
};

torch_front::GradientOffer plain_offer_of(const c10d::GradBucket& bucket) {
  torch_front::GradientOffer offer;
  offer.bucket.numbers = bucket.getBuffer();
  // Made here, so that who completes the future needs no interpreter.
  offer.result = c10::IValue(
      c10::intrusive_ptr<c10::ivalue::PyObjectHolder>(c10::make_intrusive<HeldTensor>(offer.bucket.numbers)));
  for (const at::Tensor& parameter : bucket.getParameters()) {
    offer.bucket.parameters.push_back(parameter.unsafeGetTensorImpl());
    offer.bucket.sizes.push_back(static_cast<std::size_t>(parameter.numel()));
  }
  offer.buckets = buckets_beside(bucket);
  return offer;
}

}  // namespace

torch_front::GradientOffer offer_of(const c10d::GradBucket& bucket, double weight, bool divides_by_all) {
  torch_front::GradientOffer offer = plain_offer_of(bucket);
  offer.has_gradient = torch::autograd::get_current_graph_task_id() != -1;
  offer.weight = weight;
  offer.divides_by_all = divides_by_all;
  return offer;
}

torch_front::GradientOffer missing_offer_of(const c10d::GradBucket& zeros) {
  torch_front::GradientOffer offer = plain_offer_of(zeros);
  offer.is_missing = true;
  return offer;
}

}  // namespace flockstep::python
