#include "runtime/pairs/pair_message.h"

#include <array>
#include <cstring>

namespace flockstep::runtime {
namespace {

constexpr std::size_t kCodes = 8, kNumbers = 5;  // bytes of codes, of which three are used, then numbers of 8 bytes
constexpr std::size_t kBytes = kCodes + kNumbers * sizeof(std::uint64_t);

}  // namespace

std::vector<std::byte> PairMessage::to_bytes() const {
  std::vector<std::byte> bytes(kBytes);
  bytes[0] = static_cast<std::byte>(kind);
  bytes[1] = static_cast<std::byte>(standing);
  bytes[2] = static_cast<std::byte>(rest);
  const std::array<std::uint64_t, kNumbers> numbers{from, to, number, static_cast<std::uint64_t>(steps), fingerprint};
  std::memcpy(bytes.data() + kCodes, numbers.data(), sizeof numbers);
  return bytes;
}

std::optional<PairMessage> PairMessage::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() != kBytes || bytes[0] > static_cast<std::byte>(Kind::cancel) ||
      bytes[1] > static_cast<std::byte>(Standing::away) || bytes[2] > static_cast<std::byte>(Rest::has))
    return std::nullopt;
  std::array<std::uint64_t, kNumbers> numbers;
  std::memcpy(numbers.data(), bytes.data() + kCodes, sizeof numbers);
  const auto steps = static_cast<std::int64_t>(numbers[3]);
  if (steps < 0) return std::nullopt;
  return PairMessage{static_cast<Kind>(bytes[0]),
                     static_cast<Standing>(bytes[1]),
                     static_cast<Rest>(bytes[2]),
                     numbers[0],
                     numbers[1],
                     numbers[2],
                     steps,
                     numbers[4]};
}

}  // namespace flockstep::runtime
