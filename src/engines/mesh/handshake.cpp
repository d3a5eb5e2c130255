#include "engines/mesh/handshake.h"

#include <asio/read.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include "engines/mesh/wire.h"

namespace flockstep::engines::mesh {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using CardAndProof = std::array<std::byte, kCardBytes + sizeof(Proof)>;

std::vector<std::byte> bytes_of_card(const Card& card) {
  WireWriter writer;
  writer.put(static_cast<std::int32_t>(card.rank));
  writer.put(card.incarnation);
  writer.put(card.instance);
  writer.put(static_cast<std::int32_t>(card.target));
  writer.put(card.verdict);
  writer.put(card.known);
  writer.put(card.memory.process);
  writer.put(card.memory.place);
  writer.put(card.memory.cookie);
  writer.put_text(card.address);
  std::vector<std::byte> bytes = writer.bytes();
  bytes.resize(kCardBytes);
  return bytes;
}

Card card_in(ConstBytes bytes) {
  WireReader reader(bytes);
  Card card;
  card.rank = reader.get<std::int32_t>();
  card.incarnation = reader.get<Incarnation>();
  card.instance = reader.get<std::uint64_t>();
  card.target = reader.get<std::int32_t>();
  card.verdict = reader.get<Verdict>();
  card.known = reader.get<Incarnation>();
  card.memory.process = reader.get<std::int32_t>();
  card.memory.place = reader.get<std::uint64_t>();
  card.memory.cookie = reader.get<Cookie>();
  card.address = reader.get_text(kMostAddressBytes);
  const bool is_sound = reader.is_whole() && card.rank >= 0 && card.rank < kMostRanks && card.incarnation > 0 &&
                        card.verdict >= Verdict::admitted && card.verdict <= Verdict::elsewhere;
  if (!is_sound) throw Error(ErrorCode::unavailable, "a peer that knows the secret has sent an invalid card", "mesh");
  return card;
}

[[noreturn]] void throw_unproven() {
  throw Error(ErrorCode::unavailable, "somebody connects who does not know the run's secret", "mesh");
}

CardAndProof signed_card(ConstBytes card, const Proof& proof) {
  CardAndProof signed_one;
  std::ranges::copy(card, signed_one.begin());
  std::ranges::copy(proof, signed_one.begin() + kCardBytes);
  return signed_one;
}

}  // namespace

asio::awaitable<Nonces> exchange_nonces_as_dialler(tcp::socket& socket, const Magic& magic) {
  Nonces nonces;
  fill_at_random(nonces[0]);
  WireWriter hello;
  hello.put(magic);
  hello.put(nonces[0]);
  co_await asio::async_write(socket, asio::buffer(hello.bytes()), use_awaitable);
  co_await asio::async_read(socket, asio::buffer(nonces[1]), use_awaitable);
  co_return nonces;
}

asio::awaitable<Nonces> exchange_nonces_as_acceptor(tcp::socket& socket, const Magic& magic) {
  Nonces nonces;
  std::array<std::byte, kHelloBytes> hello;
  co_await asio::async_read(socket, asio::buffer(hello), use_awaitable);
  WireReader reader(hello);
  if (reader.get<Magic>() != magic) throw_unproven();
  nonces[0] = reader.get<Nonce>();
  fill_at_random(nonces[1]);
  co_await asio::async_write(socket, asio::buffer(nonces[1]), use_awaitable);
  co_return nonces;
}

asio::awaitable<Card> dial(tcp::socket& socket, const Secret& secret, const Card& own) {
  const Nonces nonces = co_await exchange_nonces_as_dialler(socket, kMeshMagic);
  const std::vector<std::byte> own_card = bytes_of_card(own);
  const CardAndProof claim = signed_card(own_card, secret.prove("dial", {nonces[0], nonces[1], own_card}));
  co_await asio::async_write(socket, asio::buffer(claim), use_awaitable);
  CardAndProof answer;
  co_await asio::async_read(socket, asio::buffer(answer), use_awaitable);
  const ConstBytes card = ConstBytes(answer).first(kCardBytes);
  if (!secret.is_proven(ConstBytes(answer).subspan(kCardBytes), "accept", {nonces[0], nonces[1], own_card, card}))
    throw_unproven();
  co_return card_in(card);
}

asio::awaitable<Card> accept(tcp::socket& socket, const Secret& secret, std::function<Card(const Card&)> judge) {
  const Nonces nonces = co_await exchange_nonces_as_acceptor(socket, kMeshMagic);
  CardAndProof claim;
  co_await asio::async_read(socket, asio::buffer(claim), use_awaitable);
  const ConstBytes card = ConstBytes(claim).first(kCardBytes);
  if (!secret.is_proven(ConstBytes(claim).subspan(kCardBytes), "dial", {nonces[0], nonces[1], card})) throw_unproven();
  const Card dialler = card_in(card);
  const Card own = judge(dialler);
  const std::vector<std::byte> own_card = bytes_of_card(own);
  const CardAndProof answer = signed_card(own_card, secret.prove("accept", {nonces[0], nonces[1], card, own_card}));
  co_await asio::async_write(socket, asio::buffer(answer), use_awaitable);
  if (own.verdict == Verdict::admitted) {
    std::byte heard{};
    co_await asio::async_read(socket, asio::buffer(&heard, 1), use_awaitable);
    if (heard != kHeard) throw_unproven();
  }
  co_return dialler;
}

}  // namespace flockstep::engines::mesh
