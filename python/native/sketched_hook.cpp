// flockstep._native.SketchedHook: what _sketched_hook.py asks and tells.
#include "torch/sketched_hook.h"

#include "kernels/cpu/kernels.h"
#include "native/bucket_count.h"
#include "native/cuda_stream.h"
#include "native/gradient_news.h"
#include "native/parts.h"
#include "native/recording.h"

namespace py = pybind11;

namespace flockstep::python {
namespace {

// With the worker that it works on and what that one measures, which so end after it.
class SketchedHook : public std::enable_shared_from_this<SketchedHook> {
 public:
  SketchedHook(std::shared_ptr<Worker> worker, const torch_front::SketchedHookSettings& settings,
               std::shared_ptr<Recording> recording)
      : worker_(std::move(worker)),
        recording_(std::move(recording)),
        hook_(worker_->context(), settings, recording_.get()) {}

  torch_front::SketchedHook& hook() { return hook_; }

  static std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
    return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
  }

  // In the order of a CUDA stream: `records` are in pinned memory by then, and what comes after finds `factors` there.
  // Both stay until the stream has come by.
  void decide_in_stream(std::uintptr_t stream, const at::Tensor& records, const at::Tensor& factors) {
    auto launched = std::unique_ptr<Launched>(
        new Launched{shared_from_this(),
                     bytes_of(records),
                     {factors.mutable_data_ptr<double>(), static_cast<std::size_t>(factors.numel())}});
    call_in_stream(
        stream,
        [](void* argument) {
          const std::unique_ptr<Launched> launched(static_cast<Launched*>(argument));
          torch_front::SketchedHook& hook = launched->hook->hook_;
          hook.decide(launched->records);
          const std::vector<double> factors = hook.factors();
          std::copy_n(factors.begin(), std::min(factors.size(), launched->factors.size()), launched->factors.begin());
        },
        launched.get());
    static_cast<void>(launched.release());
  }

 private:
  // No tensors: the last one to let go of pinned memory calls CUDA, which no host function may. Who launches keeps
  // them.
  struct Launched {
    std::shared_ptr<SketchedHook> hook;
    std::span<const std::byte> records;
    std::span<double> factors;
  };

  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<Recording> recording_;
  torch_front::SketchedHook hook_;
};

constexpr std::size_t kBlock = 64 * kernels::kSketchChunk;  // stays in the second cache until it is multiplied

// Adds the sketch of a bucket of floats, before it is multiplied by the factor, and returns its norm.
double sketch_and_scale(const at::Tensor& bucket, const kernels::SketchKey& key, std::uint32_t first_chunk,
                        const at::Tensor& sketch, double factor) {
  const py::gil_scoped_release released;
  const std::span numbers(bucket.mutable_data_ptr<float>(), static_cast<std::size_t>(bucket.numel()));
  const std::span bins(sketch.mutable_data_ptr<float>(), static_cast<std::size_t>(sketch.numel()));
  double square = 0;
  for (std::size_t begin = 0; begin < numbers.size(); begin += kBlock) {
    const std::span block = numbers.subspan(begin, std::min(kBlock, numbers.size() - begin));
    square += kernels::cpu::sketch(block, key, first_chunk, bins);
    first_chunk += kernels::sketch_chunks(block.size());
    if (factor != 1) kernels::cpu::scale(static_cast<float>(factor), block);
  }
  return std::sqrt(square);
}

}  // namespace

void bind_sketched_hook(py::module_& module) {
  using torch_front::PassEnd;
  using torch_front::SketchedPlan;
  py::class_<kernels::SketchKey>(module, "SketchKey")
      .def_readonly("k0", &kernels::SketchKey::k0)
      .def_readonly("k1", &kernels::SketchKey::k1);
  module.def("sketch_key", &kernels::sketch_key, py::arg("seed"), py::arg("step"));
  module.def("sketch_and_scale", &sketch_and_scale, py::arg("bucket"), py::arg("key"), py::arg("first_chunk"),
             py::arg("sketch"), py::arg("factor"));
  module.def("buckets_beside", &buckets_beside, py::arg("bucket"));

  py::class_<SketchedPlan>(module, "SketchedPlan")
      .def_readonly("key", &SketchedPlan::key)
      .def_readonly("is_blind", &SketchedPlan::is_blind)
      .def_readonly("uses_weights", &SketchedPlan::uses_weights)
      .def_readonly("knows", &SketchedPlan::knows)
      .def_readonly("by_bucket", &SketchedPlan::by_bucket)
      .def_readonly("sketches", &SketchedPlan::sketches)
      .def_readonly("excludes", &SketchedPlan::excludes)
      .def_readonly("sizes", &SketchedPlan::sizes);
  py::class_<SketchedHook, std::shared_ptr<SketchedHook>>(module, "SketchedHook")
      .def(py::init([](std::shared_ptr<Worker> worker, const std::string& rule, const OptionWords& options,
                       std::int64_t start_step, std::int64_t step, const torch_front::RuleMemory& memory,
                       std::shared_ptr<Recording> recording, std::uint64_t seed, std::size_t numbers) {
             return std::make_shared<SketchedHook>(
                 std::move(worker),
                 torch_front::SketchedHookSettings{rule_choice(rule, options), start_step, step, memory, seed, numbers},
                 std::move(recording));
           }),
           py::arg("worker"), py::arg("rule"), py::arg("options"), py::arg("start_step"), py::arg("step"),
           py::arg("memory"), py::arg("recording"), py::arg("seed"), py::arg("numbers"))
      .def_property_readonly("length", [](SketchedHook& self) { return self.hook().length(); })
      .def(
          "agree", [](SketchedHook& self) { self.hook().agree(); }, py::call_guard<py::gil_scoped_release>())
      .def("is_uncertain", [](SketchedHook& self) { return self.hook().is_uncertain(); })
      .def("plan", [](SketchedHook& self) { return self.hook().plan(); })
      .def("factors", [](SketchedHook& self) { return self.hook().factors(); })
      .def(
          "head",
          [](SketchedHook& self, double weight, int end) {
            return self.hook().head(weight, static_cast<PassEnd>(end));
          },
          py::arg("weight"), py::arg("end"))
      .def(
          "end_pass",
          [](SketchedHook& self, std::vector<std::size_t> sizes, std::size_t known) {
            self.hook().end_pass(std::move(sizes), known);
          },
          py::arg("sizes"), py::arg("known"))
      .def(
          "decide",
          [](SketchedHook& self, const at::Tensor& records) { self.hook().decide(SketchedHook::bytes_of(records)); },
          py::arg("records"), py::call_guard<py::gil_scoped_release>())
      .def("decide_in_stream", &SketchedHook::decide_in_stream, py::arg("stream"), py::arg("records"),
           py::arg("factors"))
      .def("check", [](SketchedHook& self) { self.hook().check(); })
      .def(
          "settle", [](SketchedHook& self) { self.hook().settle(); }, py::call_guard<py::gil_scoped_release>())
      .def(
          "set_rule",
          [](SketchedHook& self, const std::string& rule, const OptionWords& options) {
            self.hook().set_rule(rule_choice(rule, options));
          },
          py::arg("rule"), py::arg("options"))
      .def(
          "remember",
          [](SketchedHook& self, std::int64_t step, const torch_front::RuleMemory& memory) {
            self.hook().remember(step, memory);
          },
          py::arg("step"), py::arg("memory"))
      .def("passes", [](SketchedHook& self) { return self.hook().passes(); })
      .def("report", [](SketchedHook& self) { return report_of(self.hook().news()); })
      .def("findings", [](SketchedHook& self) { return self.hook().news().findings; })
      .def("raised", [](SketchedHook& self) { return self.hook().news().raised; })
      .def("memory", [](SketchedHook& self) {
        const torch_front::GradientNews news = self.hook().news();
        return std::pair(news.remembering, news.memory);
      });
}

}  // namespace flockstep::python
