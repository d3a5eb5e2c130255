#include "native/worker.h"

#include <unistd.h>

#include "native/parts.h"
#include "runtime/gather.h"
#include "torch/lost_peer.h"

namespace py = pybind11;

namespace flockstep::python {

Worker::Worker(const engines::c10d::Groups& groups, double deadline_s)
    : attachment_(std::make_unique<engines::c10d::Attachment>(groups)),
      context_(attachment_->engine(), base::Duration(deadline_s)),
      process_(getpid()) {
  base::keep_lines(context_.log(), log_lines_);
}

Worker::Worker(const engines::mesh::MeshOptions& options, double deadline_s)
    : engine_(engines::mesh::make_engine(options)), context_(*engine_, base::Duration(deadline_s)), process_(getpid()) {
  base::keep_lines(context_.log(), log_lines_);
}

// In a forked child the engine's threads are not, so that nobody could end it.
Worker::~Worker() {
  if (getpid() != process_) static_cast<void>(engine_.release());
}

void Worker::close() noexcept {
  if (attachment_)
    attachment_->close();
  else if (getpid() == process_)
    engine_->close();
}

// Levels as Python's logging numbers them. Whoever logs needs no lock of Python's: Python comes and takes the lines.
std::vector<std::pair<int, std::string>> take_log_lines(Worker& worker) {
  std::vector<std::pair<int, std::string>> lines;
  for (base::KeptLines::Line& line : worker.take_log_lines())
    lines.emplace_back(line.level == base::LogLevel::warning ? 30 : 20, std::move(line.text));
  return lines;
}

void bind_worker(py::module_& module) {
  module.def("make_secret", &engines::mesh::make_secret);
  py::class_<engines::mesh::Store>(module, "Store")
      .def(py::init([](const std::string& host, const std::string& secret, int workers) {
             engines::mesh::StoreOptions options;
             options.host = host;
             options.secret = secret;
             options.workers = workers;
             return std::make_unique<engines::mesh::Store>(options);
           }),
           py::arg("host"), py::arg("secret"), py::arg("workers"))
      .def_property_readonly("address", &engines::mesh::Store::address);
  using Group = c10::intrusive_ptr<::c10d::Backend>;
  py::class_<Worker, std::shared_ptr<Worker>>(module, "Worker")
      .def(py::init([](const std::vector<Group>& data, const Group& control, double deadline_s) {
             const py::gil_scoped_release released;
             return std::make_shared<Worker>(engines::c10d::Groups{data, control}, deadline_s);
           }),
           py::arg("data"), py::arg("control"), py::arg("deadline_s"))
      .def_static(
          "from_environment",
          [](double deadline_s) {
            const py::gil_scoped_release released;
            return std::make_shared<Worker>(engines::mesh::MeshOptions::from_environment(), deadline_s);
          },
          py::arg("deadline_s"))
      .def_static(
          "of_store",
          [](const std::string& store, const std::string& secret, int rank, int size, double deadline_s) {
            const py::gil_scoped_release released;
            engines::mesh::MeshOptions options;
            options.rank = rank;
            options.workers = size;
            options.store = store;
            options.secret = secret;
            return std::make_shared<Worker>(options, deadline_s);
          },
          py::arg("store"), py::arg("secret"), py::arg("rank"), py::arg("size"), py::arg("deadline_s"))
      .def_property_readonly("incarnation", [](Worker& worker) { return worker.context().engine().incarnation(); })
      .def_property_readonly("rank", [](Worker& worker) { return worker.context().rank(); })
      .def_property_readonly("size", [](Worker& worker) { return worker.context().size(); })
      .def("take_log_lines", &take_log_lines)
      .def(
          "loss",
          [](Worker& worker, std::int64_t step, bool can_join) -> std::string {
            const auto heard = torch_front::heard_loss(worker.context().engine());
            if (!heard) return "";
            return torch_front::in_step(*heard, step, can_join ? torch_front::kJoinModel : torch_front::kEqualBatches)
                .what();
          },
          py::arg("step"), py::arg("can_join"), py::call_guard<py::gil_scoped_release>())
      .def(
          "gather_texts",
          [](Worker& worker, const std::string& mine) { return runtime::gather_texts(worker.context(), mine); },
          py::arg("mine"), py::call_guard<py::gil_scoped_release>())
      .def("barrier", &Worker::barrier, py::call_guard<py::gil_scoped_release>())
      .def("close", &Worker::close, py::call_guard<py::gil_scoped_release>());
}

}  // namespace flockstep::python
