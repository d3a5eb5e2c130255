// flockstep._native.CommunicationHook: what a communication hook of DistributedDataParallel calls.
#include "torch/communication_hook.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <unistd.h>

#include "base/text.h"
#include "native/errors.h"
#include "native/gradient_news.h"
#include "native/gradient_offer.h"
#include "native/parts.h"
#include "native/recording.h"

namespace py = pybind11;

namespace flockstep::python {

namespace {

using torch::jit::PythonFutureWrapper;
using torch_front::GradientNews;

// With the worker that it works on and what that one measures, which so end after it. In a forked child, where the
// conductor's thread is not, its end does nothing.
class CommunicationHook {
 public:
  CommunicationHook(std::shared_ptr<Worker> worker, const torch_front::GradientPassesSettings& settings,
                    std::shared_ptr<Recording> recording)
      : worker_(std::move(worker)),
        recording_(std::move(recording)),
        hook_(std::make_unique<torch_front::CommunicationHook>(worker_->context(), settings, for_python,
                                                               recording_.get())) {}
  ~CommunicationHook() {
    close();
    if (getpid() != process_) static_cast<void>(hook_.release());
  }
  CommunicationHook(const CommunicationHook&) = delete;
  CommunicationHook& operator=(const CommunicationHook&) = delete;

  std::shared_ptr<PythonFutureWrapper> add(c10d::GradBucket& bucket, double weight, bool divides_by_all) {
    torch_front::GradientOffer offer = offer_of(bucket, weight, divides_by_all);
    if (pass_.size() == offer.buckets) begin();
    auto future = hook_->add(std::move(offer));
    pass_.push_back(future);
    return std::make_shared<PythonFutureWrapper>(future);
  }

  // A backward pass does.
  void begin() { pass_.clear(); }
  std::size_t handed_over() const { return pass_.size(); }

  // The backward pass has raised an exception. `zeros` are all buckets as DDP has them: they stand for those that it
  // has not come to, and the pass fails on all workers. Where it has come to all, the others have a result that this
  // worker lacks, which nothing mends: throws, here and there.
  void break_off(const std::vector<c10d::GradBucket>& zeros) {
    const std::vector<torch_front::CommunicationHook::Future> pass = std::exchange(pass_, {});
    for (std::size_t bucket = pass.size(); bucket < zeros.size(); ++bucket) {
      hook_->add(missing_offer_of(zeros[bucket]));
    }
    if (pass.size() < zeros.size()) return;
    const py::gil_scoped_release released;
    for (const auto& future : pass) future->wait();
    if (std::ranges::any_of(pass, [](const auto& future) { return future->hasError(); })) return;
    engines::Engine& engine = worker_->context().engine();
    engine.fail(Error(
        ErrorCode::mismatch,
        base::concatenated("worker ", engine.rank(), "'s backward pass raised an exception after its last bucket, so ",
                           "others may have taken a step that worker ", engine.rank(),
                           " has not: start all workers again from a checkpoint"),
        std::string(engine.name())));
  }

  // The pass, if any, will get no more buckets. Whether it has failed, which it then has on all workers.
  bool abandon() {
    const std::vector<torch_front::CommunicationHook::Future> pass = std::exchange(pass_, {});
    hook_->abandon();
    return std::ranges::any_of(pass, [](const auto& future) { return future->hasError(); });
  }

  torch_front::CommunicationHook& hook() { return *hook_; }

  // The conductor may be letting go of a tensor, which can ask for the interpreter's lock.
  void close() {
    if (getpid() != process_) return;
    if (!PyGILState_Check()) return hook_->close();
    const py::gil_scoped_release released;
    hook_->close();
  }

 private:
  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<Recording> recording_;
  std::unique_ptr<torch_front::CommunicationHook> hook_;
  std::vector<torch_front::CommunicationHook::Future>
      pass_;  // what backward has handed over; until the next one begins
  const pid_t process_ = getpid();
};

}  // namespace

void bind_communication_hook(py::module_& module) {
  py::class_<CommunicationHook>(module, "CommunicationHook")
      .def(py::init([](std::shared_ptr<Worker> worker, const std::string& rule, const OptionWords& options,
                       std::int64_t start_step, std::int64_t step, const torch_front::RuleMemory& memory,
                       std::shared_ptr<Recording> recording) {
             return std::make_unique<CommunicationHook>(
                 std::move(worker),
                 torch_front::GradientPassesSettings{rule_choice(rule, options), start_step, step, memory},
                 std::move(recording));
           }),
           py::arg("worker"), py::arg("rule"), py::arg("options"), py::arg("start_step"), py::arg("step"),
           py::arg("memory"), py::arg("recording"))
      .def("add", &CommunicationHook::add, py::arg("bucket"), py::arg("weight"), py::arg("divides_by_all"))
      .def("begin", &CommunicationHook::begin)
      .def("handed_over", &CommunicationHook::handed_over)
      .def("break_off", &CommunicationHook::break_off, py::arg("zeros"))
      .def("abandon", &CommunicationHook::abandon)
      .def(
          "set_rule",
          [](CommunicationHook& self, const std::string& rule, const OptionWords& options) {
            self.hook().set_rule(rule_choice(rule, options));
          },
          py::arg("rule"), py::arg("options"))
      .def(
          "remember",
          [](CommunicationHook& self, std::int64_t step, const torch_front::RuleMemory& memory) {
            self.hook().remember(step, memory);
          },
          py::arg("step"), py::arg("memory"))
      .def("report", [](CommunicationHook& self) { return report_of(self.hook().news()); })
      .def("findings", [](CommunicationHook& self) { return self.hook().news().findings; })
      .def("raised", [](CommunicationHook& self) { return self.hook().news().raised; })
      .def("memory",
           [](CommunicationHook& self) {
             const GradientNews news = self.hook().news();
             return std::pair(news.remembering, news.memory);
           })
      .def("close", &CommunicationHook::close);
  module.def(
      "check_rule",
      [](const std::string& rule, const OptionWords& options, int workers) {
        torch_front::check_rule(rule_choice(rule, options), workers);
      },
      py::arg("rule"), py::arg("options"), py::arg("workers"));
}

}  // namespace flockstep::python
