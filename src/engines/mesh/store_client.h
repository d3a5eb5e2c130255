// A request to the store of a run, for whoever has an io_context; store.h has the same for everybody else.
#pragma once

#include <asio/awaitable.hpp>

#include "engines/mesh/handshake.h"
#include "engines/mesh/store.h"

namespace flockstep::engines::mesh {

inline constexpr Magic kStoreMagic{'F', 'L', 'K', 'S', 'T', 'O', 'R', '1'};

struct StoreRequest {
  enum class What : std::uint8_t { read = 1, enter, reserve, begin, progress, finish };
  What what = What::read;
  int number = 0;  // the rank, or how many
  Incarnation at_least = 1;
  std::string address = {};
  std::int64_t steps = 0;  // begin: of the model that the worker would begin with
};
constexpr int kRunIsOver = -1, kRunHasTrained = -2;  // in place of an incarnation
constexpr std::uint32_t kOtherSecret = ~0U;          // in place of the size of an answer, and without a proof
struct StoreAnswer {
  int number = 0;  // the incarnation, the first rank, or how many workers the run began with
  Book book;
};
inline constexpr std::size_t kRequestBytes = 1 + 4 + 4 + 8 + 2 + kMostAddressBytes;
inline constexpr std::size_t kMostBookBytes = kMostRanks * (10 + kMostAddressBytes);

std::vector<std::byte> bytes_of_request(const StoreRequest& request);  // kRequestBytes
std::optional<StoreRequest> request_in(ConstBytes bytes);

// Once. Throws std::system_error, Error{unavailable} for an answer without a proof, or Error{bad_input} where the store
// says that it has another secret: anybody could say so for it, and could as well close the connection.
asio::awaitable<StoreAnswer> ask_store(StoreAddress store, StoreRequest request);

}  // namespace flockstep::engines::mesh
