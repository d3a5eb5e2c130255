#include "native/recording.h"

#include "native/parts.h"

namespace py = pybind11;

namespace flockstep::python {

void bind_recording(py::module_& module) {
  py::class_<Recording, std::shared_ptr<Recording>>(module, "Recording")
      .def(py::init([](std::shared_ptr<Worker> worker, const std::string& folder, const std::string& algorithm,
                       const std::map<std::string, std::string>& options) {
             return std::make_shared<Recording>(std::move(worker),
                                                torch_front::RecordingSettings{folder, algorithm, options});
           }),
           py::arg("worker"), py::arg("folder"), py::arg("algorithm"), py::arg("options"))
      .def("set_loss", &Recording::set_loss, py::arg("loss"), py::call_guard<py::gil_scoped_release>())
      .def("add_evaluation", &Recording::add_evaluation, py::arg("metric"), py::arg("quality"),
           py::arg("lower_is_better"), py::call_guard<py::gil_scoped_release>())
      .def("figures", &Recording::figures, py::call_guard<py::gil_scoped_release>())
      .def("close", &Recording::close, py::call_guard<py::gil_scoped_release>());
}

}  // namespace flockstep::python
