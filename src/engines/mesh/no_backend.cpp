// Stands in for the mesh engine and its store in a build without Asio or libsodium.
#include "engines/mesh/backend.h"
#include "engines/mesh/options.h"

namespace flockstep::engines::mesh {
namespace {

[[noreturn]] void throw_unavailable() {
  throw Error(ErrorCode::unavailable,
              "the mesh engine is not in this build: install libasio-dev and libsodium-dev and configure with "
              "FLOCKSTEP_MESH=ON",
              "mesh");
}

}  // namespace

Availability availability() {
  return {false, "", "build with libasio-dev and libsodium-dev installed (FLOCKSTEP_MESH=ON)"};
}

void run(const LaunchOptions&, const WorkerMain&) { throw_unavailable(); }
std::unique_ptr<Engine> make_engine(const MeshOptions&) { throw_unavailable(); }

struct Store::Server {};
Store::Store(const StoreOptions&) { throw_unavailable(); }
Store::~Store() = default;
std::string Store::address() const { throw_unavailable(); }
Book Store::book() const { throw_unavailable(); }
std::vector<int> Store::reserve_ranks(int) { throw_unavailable(); }
void Store::end_run() { throw_unavailable(); }

std::string make_secret() { throw_unavailable(); }
Registration register_worker(const StoreAddress&, int, const std::string&, Incarnation) { throw_unavailable(); }
std::vector<int> reserve_ranks(const StoreAddress&, int) { throw_unavailable(); }
Book read_book(const StoreAddress&) { throw_unavailable(); }
int read_workers(const StoreAddress&) { throw_unavailable(); }

}  // namespace flockstep::engines::mesh
