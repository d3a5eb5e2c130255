#include "engines/mesh/memory_proof.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

#include "engines/mesh/secret.h"

namespace flockstep::engines::mesh {

ProvableMemory::ProvableMemory() {
  fill_at_random(told_);
  *placed_ = told_;
}

MemoryProof ProvableMemory::proof() const {
  return {static_cast<std::int32_t>(getpid()), reinterpret_cast<std::uint64_t>(placed_.get()), told_};
}

// Atomic stores, since a compiler may leave out others before the bytes are freed; another process reads them.
void ProvableMemory::revoke() noexcept {
  for (std::byte& each : *placed_) std::atomic_ref(each).store(std::byte{0}, std::memory_order_seq_cst);
}

bool read_memory(std::int32_t process, std::uint64_t place, Bytes to) {
  while (!to.empty()) {
    const iovec local{to.data(), to.size()}, remote{reinterpret_cast<void*>(place), to.size()};
    const ssize_t count = process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (count <= 0) return false;
    place += static_cast<std::uint64_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool is_valid(const MemoryProof& proof) {
  Cookie found{};
  return proof.process > 0 && read_memory(proof.process, proof.place, found) && found == proof.cookie;
}

void allow_reading() {
#ifdef PR_SET_PTRACER
  (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // without Yama: an error that changes nothing
#endif
}

}  // namespace flockstep::engines::mesh
