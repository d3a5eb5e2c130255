// A model's tensors in the hands of an averager: flockstep._native.ModelAverager.
#include "torch/model_averager.h"

#include <unistd.h>

#include <algorithm>

#include "native/parts.h"
#include "native/recording.h"

namespace py = pybind11;

namespace flockstep::python {
namespace {

using Listed = std::vector<std::pair<std::string, at::Tensor>>;
using Released = py::call_guard<py::gil_scoped_release>;

std::vector<torch_front::NamedTensor> named(const Listed& listed) {
  std::vector<torch_front::NamedTensor> tensors;
  for (const auto& [name, tensor] : listed) tensors.push_back({name, tensor});
  return tensors;
}

// With the worker that it works on and what that one measures, which so end after it. In a forked child, where the
// agent's thread is not, its end does nothing.
class ModelAverager {
 public:
  ModelAverager(std::shared_ptr<Worker> worker, std::shared_ptr<Recording> recording, const Listed& parameters,
                const Listed& buffers, const torch_front::ModelAveragerSettings& settings)
      : worker_(std::move(worker)),
        recording_(std::move(recording)),
        averager_(std::make_unique<torch_front::ModelAverager>(
            worker_->context(), torch_front::NamedTensors{named(parameters), named(buffers)}, settings,
            recording_.get())) {}
  ~ModelAverager() {
    const py::gil_scoped_release released;
    close();
  }
  ModelAverager(const ModelAverager&) = delete;
  ModelAverager& operator=(const ModelAverager&) = delete;

  torch_front::ModelAverager& averager() {
    if (!averager_) throw Error(ErrorCode::bad_input, "this averager is closed: make another one to continue");
    return *averager_;
  }
  // The tensors have memory of their own again. Without the interpreter's lock, which the agent may want before it
  // ends.
  void close() {
    if (getpid() != process_)
      static_cast<void>(averager_.release());
    else
      averager_.reset();
  }

 private:
  const std::shared_ptr<Worker> worker_;
  const std::shared_ptr<Recording> recording_;
  std::unique_ptr<torch_front::ModelAverager> averager_;
  const pid_t process_ = getpid();
};

template <typename Result, typename... Arguments>
auto call(Result (torch_front::ModelAverager::*method)(Arguments...)) {
  return [method](ModelAverager& self, Arguments... arguments) { return (self.averager().*method)(arguments...); };
}
template <typename Result>
auto ask(Result (torch_front::ModelAverager::*method)() const) {
  return [method](ModelAverager& self) { return (self.averager().*method)(); };
}

// The function that it returns may be called, copied and destroyed without the interpreter's lock.
std::function<std::int64_t()> called_from_any_thread(const py::function& function) {
  const std::shared_ptr<py::function> kept(new py::function(function), [](py::function* last) {
    const py::gil_scoped_acquire acquired;
    delete last;
  });
  return [kept] {
    const py::gil_scoped_acquire acquired;
    try {
      return (*kept)().cast<std::int64_t>();
    } catch (const py::error_already_set& error) {
      throw Error(ErrorCode::bad_file, py::str(error.value()).cast<std::string>());
    }
  };
}

// Whether something may wait for a gradient, as DDP's reducers do: they hang themselves on the node that accumulates
// it.
bool have_hooks(const std::vector<at::Tensor>& parameters) {
  return std::ranges::any_of(parameters, [](const at::Tensor& parameter) {
    const auto node = torch::autograd::impl::try_get_grad_accumulator(parameter);
    return node && !node->post_hooks().empty();
  });
}

}  // namespace

void bind_model_averager(py::module_& module) {
  module.def("have_hooks", &have_hooks, py::arg("parameters"));
  using Averager = torch_front::ModelAverager;
  py::class_<ModelAverager>(module, "ModelAverager")
      .def(py::init([](std::shared_ptr<Worker> worker, std::shared_ptr<Recording> recording,
                       const std::string& algorithm, const std::map<std::string, std::string>& options,
                       const Listed& parameters, const Listed& buffers, const std::string& holder,
                       bool averages_gradients, bool starts_anew, bool elastic, std::int64_t first_step,
                       const std::optional<py::function>& load) {
             const std::function<std::int64_t()> loads = load ? called_from_any_thread(*load) : nullptr;
             const py::gil_scoped_release released;
             return std::make_unique<ModelAverager>(std::move(worker), std::move(recording), parameters, buffers,
                                                    torch_front::ModelAveragerSettings{
                                                        .algorithm = algorithm,
                                                        .options = options,
                                                        .holder = holder,
                                                        .averages_gradients = averages_gradients,
                                                        .starts_anew = starts_anew,
                                                        .elastic = elastic,
                                                        .steps = first_step,
                                                        .load = loads,
                                                    });
           }),
           py::arg("worker"), py::arg("recording"), py::arg("algorithm"), py::arg("options"), py::arg("parameters"),
           py::arg("buffers"), py::kw_only(), py::arg("holder"), py::arg("averages_gradients"), py::arg("starts_anew"),
           py::arg("elastic"), py::arg("first_step"), py::arg("load"))
      .def("close", &ModelAverager::close, Released())
      .def_property_readonly("meets_in_lockstep", ask(&Averager::meets_in_lockstep))
      .def_property_readonly("steps", ask(&Averager::steps))
      .def_property_readonly("gradients_are_due", ask(&Averager::gradients_are_due))
      .def_property_readonly("is_away", ask(&Averager::is_away))
      .def("findings", call(&Averager::findings), Released())
      .def("begin", call(&Averager::begin), Released())
      .def("average_gradients", call(&Averager::average_gradients), py::arg("has_batch"), Released())
      .def("after_update", call(&Averager::after_update), Released())
      .def("consolidate", call(&Averager::consolidate), Released())
      .def("set_joining", call(&Averager::set_joining), py::arg("joining"))
      .def("shadow", call(&Averager::shadow), Released())
      .def("leave", call(&Averager::leave), Released())
      .def("come_back", call(&Averager::come_back), Released())
      .def("save",
           [](ModelAverager& self) {
             const std::vector<std::byte> state = self.averager().save();
             return py::bytes(reinterpret_cast<const char*>(state.data()), state.size());
           })
      .def(
          "restore",
          [](ModelAverager& self, std::string_view state) {
            return self.averager().restore(std::as_bytes(std::span(state)));
          },
          py::arg("state"));
}

}  // namespace flockstep::python
