// How two workers get to know each other: nothing that one says is acted on before it has proven that it knows the
// run's secret, over numbers that the other has just drawn. All that is said has a fixed size.
//
//   dialler -> acceptor   magic, nonce
//   acceptor -> dialler   nonce
//   dialler -> acceptor   card, proof("dial", both nonces, card)
//   acceptor -> dialler   card, proof("accept", both nonces, both cards)
//   dialler -> acceptor   kHeard, if it is admitted: it has not given up meanwhile
#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>

#include "engines/mesh/book.h"
#include "engines/mesh/memory_proof.h"
#include "engines/mesh/secret.h"

namespace flockstep::engines::mesh {

enum class Verdict : std::uint8_t {
  admitted = 1,
  busy,       // the acceptor is dialling the dialler: try again if that fails
  outdated,   // the dialler's incarnation: the acceptor knows `known`
  elsewhere,  // the acceptor is not whom the dialler looks for
};

struct Card {
  int rank = 0;
  Incarnation incarnation = 0;
  std::uint64_t instance = 0;  // random: tells processes apart that claim the same incarnation
  int target = -1;             // whom the dialler looks for; -1: whoever is there
  Verdict verdict = Verdict::admitted;
  Incarnation known = 0;
  MemoryProof memory;
  std::string address;  // where this worker listens
};

using Magic = std::array<char, 8>;
inline constexpr Magic kMeshMagic{'F', 'L', 'K', 'M', 'E', 'S', 'H', '1'};
inline constexpr std::byte kHeard{6};
inline constexpr std::size_t kHelloBytes = sizeof(Magic) + sizeof(Nonce);
inline constexpr std::size_t kCardBytes = 4 + 4 + 8 + 4 + 1 + 4 + 4 + 8 + 16 + 2 + kMostAddressBytes;

// Either throws std::system_error when the connection ends, Error{unavailable} when the other side proves nothing. The
// caller closes the socket when its patience ends.
// The dialler's own last byte is left to the caller, who has to be sure that the connection is wanted.
asio::awaitable<Card> dial(asio::ip::tcp::socket& socket, const Secret& secret, const Card& own);
// `judge` gives the own card for that of a dialler who knows the secret. If that one is admitted, it has heard so when
// this returns.
asio::awaitable<Card> accept(asio::ip::tcp::socket& socket, const Secret& secret,
                             std::function<Card(const Card&)> judge);

// Their first halves, which the store's clients have too: what both have drawn, the dialler's first.
using Nonces = std::array<Nonce, 2>;
asio::awaitable<Nonces> exchange_nonces_as_dialler(asio::ip::tcp::socket& socket, const Magic& magic);
asio::awaitable<Nonces> exchange_nonces_as_acceptor(asio::ip::tcp::socket& socket, const Magic& magic);

}  // namespace flockstep::engines::mesh
