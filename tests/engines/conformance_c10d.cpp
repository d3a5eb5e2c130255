// The conformance suite as a Python module, for the engine that only Python programs can start.
#include <torch/extension.h>

#include <csignal>

#include "conformance.h"
#include "engines/c10d/attachment.h"

namespace py = pybind11;

namespace flockstep::engines::conformance {
namespace {

using Group = c10::intrusive_ptr<::c10d::Backend>;

// Makes the groups of an engine, over all workers: a list for data, and one for control messages.
py::function& make_groups() {
  static py::function function;
  return function;
}

c10d::Groups groups() {
  const py::gil_scoped_acquire acquired;
  const auto [data, control] = make_groups()().cast<std::pair<std::vector<Group>, Group>>();
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

// A large all-to-all in which worker 1 is killed on the way: what the others are told, and how soon.
std::pair<std::string, double> lose_a_peer(const py::function& make) {
  make_groups() = make;
  std::pair<std::string, double> told{"none", 0};
  {
    const py::gil_scoped_release released;
    on_every_worker([&](Engine& engine) {
      constexpr std::size_t kSize = 16 << 20;
      const Words block(kSize);
      const std::vector<ConstBytes> send(static_cast<std::size_t>(engine.size()), bytes(block));
      Blocks blocks(engine, kSize);
      std::vector<Bytes> receive = blocks.places();
      receive[static_cast<std::size_t>(engine.rank())] = {};
      const base::Time begin = engine.now();
      try {  // whoever comes late hears of it at the start
        const Pending pending = engine.all_to_all(send, receive);
        if (engine.rank() == 1) {
          engine.sleep(base::Duration(0.01));
          ::raise(SIGKILL);
        }
        finish(engine, pending);
      } catch (const Error& error) {
        told.first = to_string(error.code());
      }
      told.second = (engine.now() - begin).count();
    });
  }
  make_groups() = {};
  return told;
}

}  // namespace

void on_every_worker(const WorkerMain& body) {
  c10d::Attachment attachment(groups());
  body(attachment.engine());
}

}  // namespace flockstep::engines::conformance

PYBIND11_MODULE(conformance_c10d, module) {
  module.def("run", &flockstep::engines::conformance::run);
  module.def("lose_a_peer", &flockstep::engines::conformance::lose_a_peer);
}
