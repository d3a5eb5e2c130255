// A request to the store of a run, for whoever has an io_context; store.h has the same for everybody else.
#pragma once

#include <asio/awaitable.hpp>

#include "engines/mesh/handshake.h"
#include "engines/mesh/store.h"

namespace flockstep::engines::mesh {

inline constexpr Magic kStoreMagic{'F', 'L', 'K', 'S', 'T', 'O', 'R', '1'};

struct StoreRequest {
  enum class What : std::uint8_t { read = 1, enter, reserve };
  What what = What::read;
  int number = 0;  // the rank, or how many
  Incarnation at_least = 1;
  std::string address;
};
constexpr int kRunIsOver = -1;  // in place of an incarnation
struct StoreAnswer {
  int number = 0;  // the incarnation, the first rank, or how many workers the run began with
  Book book;
};
inline constexpr std::size_t kRequestBytes = 1 + 4 + 4 + 2 + kMostAddressBytes;
inline constexpr std::size_t kMostBookBytes = kMostRanks * (10 + kMostAddressBytes);

std::vector<std::byte> bytes_of_request(const StoreRequest& request);  // kRequestBytes
std::optional<StoreRequest> request_in(ConstBytes bytes);

// Once. Throws std::system_error, or Error{unavailable} for an answer without a proof.
asio::awaitable<StoreAnswer> ask_store(StoreAddress store, StoreRequest request);

}  // namespace flockstep::engines::mesh
