// flockstep._native.StreamHook: a communication hook for gradients on CUDA devices, in the order of streams.
#include "torch/stream_hook.h"

#include <torch/csrc/jit/python/pybind_utils.h>
#include <unistd.h>

#include "native/gradient_news.h"
#include "native/gradient_offer.h"
#include "native/parts.h"
#include "native/recording.h"

namespace py = pybind11;

namespace flockstep::python {
namespace {

using torch::jit::PythonFutureWrapper;

// With the worker that it works on and what that one measures, which so end after it. In a forked child, where neither
// threads nor the device are, its end does nothing.
class StreamHook {
 public:
  StreamHook(std::shared_ptr<Worker> worker, const torch_front::GradientPassesSettings& settings, c10::Device device,
             std::shared_ptr<Recording> recording)
      : worker_(std::move(worker)),
        recording_(std::move(recording)),
        hook_(std::make_unique<torch_front::StreamHook>(worker_->context(), settings, torch_front::cuda_place(device),
                                                        recording_.get())) {}
  ~StreamHook() {
    close();
    if (getpid() != process_) static_cast<void>(hook_.release());
  }
  StreamHook(const StreamHook&) = delete;
  StreamHook& operator=(const StreamHook&) = delete;

  std::shared_ptr<PythonFutureWrapper> add(const c10d::GradBucket& bucket, double weight, bool divides_by_all) {
    return std::make_shared<PythonFutureWrapper>(add(offer_of(bucket, weight, divides_by_all)));
  }

  // A backward pass does.
  void begin() {
    if (handed_over_ == count_) handed_over_ = count_ = 0;
  }
  std::size_t handed_over() const { return handed_over_; }

  // The backward pass has raised an exception. `zeros` are all buckets as DDP has them, and stand for those that it has
  // not come to. The others take a step that this worker lacks, and hear of it with the record.
  void break_off(const std::vector<c10d::GradBucket>& zeros) {
    if (handed_over_ == zeros.size()) return hook_->broke_off_late();
    for (std::size_t bucket = handed_over_; bucket < zeros.size(); ++bucket) add(missing_offer_of(zeros[bucket]));
  }

  torch_front::StreamHook& hook() { return *hook_; }

  void close() {
    if (getpid() != process_) return;
    if (!PyGILState_Check()) return hook_->close();
    const py::gil_scoped_release released;
    hook_->close();
  }

 private:
  // What waits for others, in the first pass and around changes, lets other threads of Python's go on.
  torch_front::StreamHook::Future add(torch_front::GradientOffer offer) {
    const std::size_t count = offer.buckets;
    torch_front::StreamHook::Future future;
    {
      const py::gil_scoped_release released;
      future = hook_->add(std::move(offer));
    }
    handed_over_ = (handed_over_ == count_ ? 0 : handed_over_) + 1;
    count_ = count;
    return future;
  }

  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<Recording> recording_;
  std::unique_ptr<torch_front::StreamHook> hook_;
  std::size_t handed_over_ = 0, count_ = 0;  // buckets of the pass
  const pid_t process_ = getpid();
};

torch_front::GradientNews final_news(StreamHook& self) {
  const py::gil_scoped_release released;
  return self.hook().final_news();
}

}  // namespace

void bind_stream_hook(py::module_& module) {
  py::class_<StreamHook>(module, "StreamHook")
      .def(py::init([](std::shared_ptr<Worker> worker, const std::string& rule, const OptionWords& options,
                       std::int64_t start_step, std::int64_t step, const torch_front::RuleMemory& memory,
                       std::shared_ptr<Recording> recording, const c10::Device& device) {
             return std::make_unique<StreamHook>(
                 std::move(worker),
                 torch_front::GradientPassesSettings{rule_choice(rule, options), start_step, step, memory}, device,
                 std::move(recording));
           }),
           py::arg("worker"), py::arg("rule"), py::arg("options"), py::arg("start_step"), py::arg("step"),
           py::arg("memory"), py::arg("recording"), py::arg("device"))
      .def("add", py::overload_cast<const c10d::GradBucket&, double, bool>(&StreamHook::add), py::arg("bucket"),
           py::arg("weight"), py::arg("divides_by_all"))
      .def("begin", &StreamHook::begin)
      .def("handed_over", &StreamHook::handed_over)
      .def("break_off", &StreamHook::break_off, py::arg("zeros"))
      .def("abandon", [](StreamHook&) { return false; })  // no pass fails that could be left out
      .def(
          "set_rule",
          [](StreamHook& self, const std::string& rule, const OptionWords& options) {
            self.hook().set_rule(rule_choice(rule, options));
          },
          py::arg("rule"), py::arg("options"))
      .def(
          "remember",
          [](StreamHook& self, std::int64_t step, const torch_front::RuleMemory& memory) {
            const py::gil_scoped_release released;
            self.hook().remember(step, memory);
          },
          py::arg("step"), py::arg("memory"))
      .def("report", [](StreamHook& self) { return report_of(final_news(self)); })
      .def("findings", [](StreamHook& self) { return final_news(self).findings; })
      .def("raised", [](StreamHook& self) { return self.hook().news().raised; })
      .def("memory",
           [](StreamHook& self) {
             const torch_front::GradientNews news = final_news(self);
             return std::pair(news.remembering, news.memory);
           })
      .def("close", &StreamHook::close);
}

}  // namespace flockstep::python
