// What proves that somebody belongs to a run: keyed hashes (BLAKE2b of libsodium) under a key that the run's secret
// gives.
#pragma once

#include <array>
#include <initializer_list>

#include "engines/engine.h"

namespace flockstep::engines::mesh {

using Nonce = std::array<std::byte, 32>;  // drawn anew for each connection by either side
using Proof = std::array<std::byte, 32>;

class Secret {
 public:
  // Throws Error{bad_input} for a secret of less than 16 characters.
  explicit Secret(const std::string& secret);

  // `role` keeps the proof of one side from being taken for that of another.
  Proof prove(std::string_view role, std::initializer_list<ConstBytes> said) const;
  bool is_proven(ConstBytes proof, std::string_view role, std::initializer_list<ConstBytes> said) const;

 private:
  std::array<unsigned char, 32> key_;
};

void fill_at_random(Bytes bytes);

}  // namespace flockstep::engines::mesh
