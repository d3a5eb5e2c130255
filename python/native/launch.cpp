#include "native/parts.h"
#include "supervisor/supervisor.h"

namespace py = pybind11;

namespace flockstep::python {

void bind_launch(py::module_& module) {
  py::class_<supervisor::Options>(module, "LaunchOptions")
      .def(py::init<>())
      .def_readwrite("workers", &supervisor::Options::workers)
      .def_readwrite("command", &supervisor::Options::command)
      .def_readwrite("hosts", &supervisor::Options::hosts)
      .def_readwrite("restarts", &supervisor::Options::restarts)
      .def_readwrite("heartbeat", &supervisor::Options::heartbeat)
      .def_readwrite("join", &supervisor::Options::join)
      .def_readwrite("secret_file", &supervisor::Options::secret_file)
      .def_readwrite("address", &supervisor::Options::address)
      .def_readwrite("port", &supervisor::Options::port)
      .def_readwrite("ssh", &supervisor::Options::ssh)
      .def_readwrite("prefix", &supervisor::Options::prefix);
  module.def("supervise", &supervisor::supervise, py::arg("options"), py::arg("stop"),
             py::call_guard<py::gil_scoped_release>());
}

}  // namespace flockstep::python
