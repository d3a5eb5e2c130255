#include "supervisor/run_store.h"

#include <numeric>

#include "engines/mesh/store.h"

namespace flockstep::supervisor {

RunStore::RunStore(const Options& options, const std::string& secret) : workers_(options.workers) {
  if (options.join.empty()) {
    store_ = std::make_unique<engines::mesh::Store>(
        engines::mesh::StoreOptions{.host = store_host(options),
                                    .port = static_cast<std::uint16_t>(options.port),
                                    .secret = secret,
                                    .workers = options.workers});
    address_ = store_->address();
    ranks_.resize(static_cast<std::size_t>(options.workers));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  } else {
    address_ = options.join;
    const engines::mesh::StoreAddress store{.address = address_, .secret = secret};
    workers_ = engines::mesh::read_workers(store);
    ranks_ = engines::mesh::reserve_ranks(store, options.workers);
  }
}

RunStore::~RunStore() = default;

void RunStore::end_run() {
  if (store_) store_->end_run();
}

bool RunStore::is_over() const { return store_ && store_->is_over(); }

bool RunStore::has_trained() const { return store_ && store_->has_trained(); }

}  // namespace flockstep::supervisor
