#include "protocol/message.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "flockstep/error.h"

namespace flockstep::protocol {
namespace {

struct Head {
  Iteration number;
  std::int32_t root, ranks, numbers, roster;
  Message::Kind kind;
};
constexpr std::size_t kMostNumbers = 64;

// More than anybody will ever train, and far from where sums of numbers overflow.
constexpr Iteration kMostIterations = Iteration{1} << 48;

bool can_be_said(const Message& message, int workers) {
  using Kind = Message::Kind;
  const auto is_worker = [&](int rank) { return rank >= 0 && rank < workers; };
  const auto are_workers = [&](const Ranks& ranks) {
    return std::ranges::all_of(ranks, is_worker) &&
           std::ranges::adjacent_find(ranks, std::greater_equal()) == ranks.end();
  };
  const Kind kind = message.kind;
  const bool counts = kind == Kind::count_me || kind == Kind::counted;
  const bool has_number = (message.number >= -1 && message.number <= kMostIterations) ||
                          ((kind == Kind::finished || kind == Kind::count_me) && message.number == kAway);
  const bool has_ranks = counts                 ? message.ranks.size() == 1
                         : kind == Kind::absent ? are_workers(message.ranks)
                                                : message.ranks.empty();
  const bool has_numbers = message.numbers.empty() || kind == Kind::newest || kind == Kind::greeting ||
                           kind == Kind::grown || kind == Kind::back;
  const bool has_roster =
      message.roster.empty() || std::ranges::any_of(message.roster, [](Version version) { return version % 2 == 1; });
  return has_number && has_ranks && has_numbers && has_roster && is_worker(message.root) &&
         message.numbers.size() <= kMostNumbers && message.roster.size() <= static_cast<std::size_t>(workers);
}

template <typename T>
std::size_t bytes_of(const std::vector<T>& list) {
  return list.size() * sizeof(T);
}

template <typename T>
std::byte* put(std::byte* place, const std::vector<T>& list) {
  if (!list.empty()) std::memcpy(place, list.data(), bytes_of(list));
  return place + bytes_of(list);
}

template <typename T>
const std::byte* take(const std::byte* place, std::vector<T>& list) {
  if (!list.empty()) std::memcpy(list.data(), place, bytes_of(list));
  return place + bytes_of(list);
}

}  // namespace

std::vector<std::byte> to_bytes(const Message& message) {
  Head head;
  std::memset(&head, 0, sizeof head);  // padding travels too
  head.number = message.number;
  head.root = message.root;
  head.ranks = static_cast<std::int32_t>(message.ranks.size());
  head.numbers = static_cast<std::int32_t>(message.numbers.size());
  head.roster = static_cast<std::int32_t>(message.roster.size());
  head.kind = message.kind;
  std::vector<std::byte> bytes(sizeof head + bytes_of(message.ranks) + bytes_of(message.numbers) +
                               bytes_of(message.roster));
  std::memcpy(bytes.data(), &head, sizeof head);
  put(put(put(bytes.data() + sizeof head, message.ranks), message.numbers), message.roster);
  return bytes;
}

Message message_from_bytes(std::span<const std::byte> bytes, int workers) {
  Head head;
  const auto refuse = [] {
    throw Error(ErrorCode::mismatch,
                "a control message of another kind arrived: all workers must run the same algorithm");
  };
  if (bytes.size() < sizeof head) refuse();
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto is_length = [&](std::int32_t length) {
    return length >= 0 && static_cast<std::size_t>(length) <= bytes.size();
  };
  if (head.kind > Message::Kind::grown || !is_length(head.ranks) || !is_length(head.numbers) || !is_length(head.roster))
    refuse();
  Message message{head.kind,
                  head.number,
                  head.root,
                  Ranks(static_cast<std::size_t>(head.ranks)),
                  std::vector<Iteration>(static_cast<std::size_t>(head.numbers)),
                  Versions(static_cast<std::size_t>(head.roster))};
  if (bytes.size() != sizeof head + bytes_of(message.ranks) + bytes_of(message.numbers) + bytes_of(message.roster))
    refuse();
  take(take(take(bytes.data() + sizeof head, message.ranks), message.numbers), message.roster);
  if (!can_be_said(message, workers)) refuse();
  return message;
}

}  // namespace flockstep::protocol
