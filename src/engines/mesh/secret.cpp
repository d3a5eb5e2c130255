#include "engines/mesh/secret.h"

#include <sodium.h>

#include "base/check.h"
#include "engines/mesh/store.h"

namespace flockstep::engines::mesh {
namespace {

const unsigned char* raw(ConstBytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

// Each part with its length, so that parts cannot be cut elsewhere.
void absorb(crypto_generichash_state& state, ConstBytes part) {
  const std::uint64_t size = part.size();
  crypto_generichash_update(&state, raw(std::as_bytes(std::span(&size, 1))), sizeof size);
  crypto_generichash_update(&state, raw(part), part.size());
}

ConstBytes bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

void require_sodium() { base::check(sodium_init() >= 0, "a libsodium that finds random numbers"); }

}  // namespace

Secret::Secret(const std::string& secret) {
  if (secret.size() < 16)
    throw Error(ErrorCode::bad_input, "the run's secret has less than 16 characters: let `flockstep launch` make one",
                "mesh");
  require_sodium();
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key_.size());
  for (const std::string_view part : {std::string_view("flockstep mesh"), std::string_view(secret)})
    absorb(state, bytes_of_text(part));
  crypto_generichash_final(&state, key_.data(), key_.size());
}

Proof Secret::prove(std::string_view role, std::initializer_list<ConstBytes> said) const {
  crypto_generichash_state state;
  Proof proof;
  crypto_generichash_init(&state, key_.data(), key_.size(), proof.size());
  absorb(state, bytes_of_text(role));
  for (const ConstBytes part : said) absorb(state, part);
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(proof.data()), proof.size());
  return proof;
}

bool Secret::is_proven(ConstBytes proof, std::string_view role, std::initializer_list<ConstBytes> said) const {
  const Proof expected = prove(role, said);
  return proof.size() == expected.size() && sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

void fill_at_random(Bytes bytes) {
  require_sodium();
  randombytes_buf(bytes.data(), bytes.size());
}

std::string make_secret() {
  std::array<std::byte, 32> bytes;
  fill_at_random(bytes);
  std::string text;
  for (const std::byte each : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(each) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(each) & 15];
  }
  return text;
}

}  // namespace flockstep::engines::mesh
