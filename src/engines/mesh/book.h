// Who is in a run and where: of each rank the newest incarnation and the address that it listens at.
#pragma once

#include <string>
#include <vector>

#include "engines/engine.h"

namespace flockstep::engines::mesh {

inline constexpr int kMostRanks = 4096;
inline constexpr std::size_t kMostAddressBytes = 120;  // of host:port

struct BookEntry {
  int rank = 0;
  Incarnation incarnation = 0;
  std::string address;  // host:port
};
using Book = std::vector<BookEntry>;  // ranks rise, each is there once

}  // namespace flockstep::engines::mesh
