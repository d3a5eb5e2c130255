// The conformance suite as a Python module, for the engine that only Python programs can start.
#include <torch/extension.h>

#include "conformance.h"
#include "engines/c10d/attachment.h"

namespace py = pybind11;

namespace flockstep::engines::conformance {
namespace {

using Group = c10::intrusive_ptr<::c10d::Backend>;

// Makes the two groups of an engine, over all workers.
py::function& make_groups() {
  static py::function function;
  return function;
}

c10d::Groups groups() {
  const py::gil_scoped_acquire acquired;
  const auto [data, control] = make_groups()().cast<std::pair<Group, Group>>();
  return {data, control};
}

int run(const py::function& make, int workers, const std::string& filter) {
  int argument_count = 2;
  std::string program = "conformance", brief = "--gtest_brief=1";
  char* arguments[] = {program.data(), brief.data(), nullptr};
  testing::InitGoogleTest(&argument_count, arguments);
  testing::GTEST_FLAG(filter) = filter;
  subject().engine = "c10d";
  subject().workers = workers;
  make_groups() = make;
  int result = 0;
  {
    const py::gil_scoped_release released;
    result = RUN_ALL_TESTS();
  }
  make_groups() = {};
  return result;
}

}  // namespace

void on_every_worker(const WorkerMain& body) {
  c10d::Attachment attachment(groups());
  body(attachment.engine());
}

}  // namespace flockstep::engines::conformance

PYBIND11_MODULE(conformance_c10d, module) { module.def("run", &flockstep::engines::conformance::run); }
