// What agents that average in pairs say to each other.
//
// In a fleet that is fixed a message is its kind alone. Where workers come and go it is whole, and names the
// acquaintance that it belongs to: see pair_peers.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace flockstep::runtime {

struct PairMessage {
  enum class Kind : std::uint8_t {
    ask,     // for an average
    accept,  // it begins
    busy,    // it does not
    away,    // in a fixed fleet: the sender has left
    back,    // ... is there again
    wanted,  // the receiver's x
    // Where workers come and go.
    greeting,  // what the sender is: at first, and whenever that changes
    given,     // x follows, which counts so many steps
    gather,    // the sender averages over all who live: it waits for the receiver's x
    cancel,    // it does not any more; or, from one who was asked, its x does not come
  };
  // How far a worker is in the run.
  enum class Standing : std::uint8_t {
    idle,     // no part of it, and its worker is busy
    ready,    // the same, and its worker waits to become one
    present,  // it can be asked for an average
    away,     // it has left for a while
  };
  // How far it is in an average over all who live.
  enum class Rest : std::uint8_t {
    none,
    waits,  // it has no wishes any more
    has,    // the result that `number` names, which counts so many steps
  };

  Kind kind{};
  Standing standing{};
  Rest rest{};
  std::uint64_t from = 0, to = 0;  // the acquaintance, as the sender and as the receiver have named it
  std::uint64_t number = 0;        // of the question, of the request for a model, or of the average over all
  std::int64_t steps = 0;
  std::uint64_t fingerprint = 0;  // of greetings: of what has to be equal

  std::vector<std::byte> to_bytes() const;
  static std::optional<PairMessage> from_bytes(std::span<const std::byte> bytes);  // nothing for what is none
};

}  // namespace flockstep::runtime
