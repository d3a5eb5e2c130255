#include "protocol/message.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "flockstep/error.h"

namespace flockstep::protocol {
namespace {

struct Head {
  Iteration number;
  std::int32_t root, ranks, lost;
  Message::Kind kind;
};

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
  return has_number && has_ranks && is_worker(message.root) && are_workers(message.lost) &&
         message.lost.size() < static_cast<std::size_t>(workers);
}

}  // namespace

std::vector<std::byte> to_bytes(const Message& message) {
  Head head;
  std::memset(&head, 0, sizeof head);  // padding travels too
  head.number = message.number;
  head.root = message.root;
  head.ranks = static_cast<std::int32_t>(message.ranks.size());
  head.lost = static_cast<std::int32_t>(message.lost.size());
  head.kind = message.kind;
  std::vector<std::byte> bytes(sizeof head + (message.ranks.size() + message.lost.size()) * sizeof(int));
  std::memcpy(bytes.data(), &head, sizeof head);
  std::byte* place = bytes.data() + sizeof head;
  for (const Ranks* list : {&message.ranks, &message.lost}) {
    if (!list->empty()) std::memcpy(place, list->data(), list->size() * sizeof(int));
    place += list->size() * sizeof(int);
  }
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
  const std::size_t listed = (bytes.size() - sizeof head) / sizeof(int);
  if (head.kind > Message::Kind::counted || head.ranks < 0 || head.lost < 0 ||
      bytes.size() != sizeof head + listed * sizeof(int) ||
      listed != static_cast<std::size_t>(head.ranks) + static_cast<std::size_t>(head.lost))
    refuse();
  Message message{head.kind, head.number, head.root, Ranks(static_cast<std::size_t>(head.ranks)),
                  Ranks(static_cast<std::size_t>(head.lost))};
  const std::byte* place = bytes.data() + sizeof head;
  for (Ranks* list : {&message.ranks, &message.lost}) {
    if (!list->empty()) std::memcpy(list->data(), place, list->size() * sizeof(int));
    place += list->size() * sizeof(int);
  }
  if (!can_be_said(message, workers)) refuse();
  return message;
}

}  // namespace flockstep::protocol
