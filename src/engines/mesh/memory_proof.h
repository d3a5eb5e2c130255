// Reading from the memory of a peer on the same host (process_vm_readv). Each connection has random bytes at a place
// that its peer is told: who can read them there is on the same host, may read, and reads the right process. They are
// overwritten before the connection's messages are given back to their owners, so whoever still finds them after it has
// read a message knows that the message was whole all the time.
#pragma once

#include <array>
#include <memory>

#include "engines/engine.h"

namespace flockstep::engines::mesh {

using Cookie = std::array<std::byte, 16>;

struct MemoryProof {  // told to the peer
  std::int32_t process = 0;
  std::uint64_t place = 0;
  Cookie cookie{};
};

// The own side.
class ProvableMemory {
 public:
  ProvableMemory();
  ~ProvableMemory() { revoke(); }
  ProvableMemory(const ProvableMemory&) = delete;
  ProvableMemory& operator=(const ProvableMemory&) = delete;

  MemoryProof proof() const;
  void revoke() noexcept;

 private:
  Cookie told_;
  std::unique_ptr<Cookie> placed_ = std::make_unique<Cookie>();
};

// False where the bytes cannot be read.
bool read_memory(std::int32_t process, std::uint64_t place, Bytes to);
bool is_valid(const MemoryProof& proof);
// Where the kernel asks for it (Yama), says that the peers may read.
void allow_reading();

}  // namespace flockstep::engines::mesh
