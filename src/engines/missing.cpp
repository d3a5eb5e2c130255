#include "engines/missing.h"

#include <fmt/core.h>

namespace flockstep::engines {
namespace {

constexpr std::string_view kGone = ", which has ended";

}  // namespace

std::string gone_sentence(int waiter, int peer) {
  return fmt::format("worker {} waits for worker {}{}", waiter, peer, kGone);
}

bool is_gone_sentence(std::string_view sentence) { return sentence.ends_with(kGone); }

std::string owners_sentence(int rank, std::uint32_t owner, int peer, std::uint32_t peers_owner) {
  if (peer < rank) return owners_sentence(peer, peers_owner, rank, owner);
  const auto named = [](std::uint32_t number) {
    return number == 0 ? std::string("no Synchronizer") : fmt::format("its Synchronizer {}", number);
  };
  return fmt::format(
      "worker {} exchanges data for {} where worker {} does for {}, counted in the order in which they "
      "were made: make and call them in the same order on all workers",
      rank, named(owner), peer, named(peers_owner));
}

std::string not_arrived(std::span<const int> ranks, std::string_view place) {
  constexpr std::size_t kMostNamed = 8;
  const std::size_t named = std::min(ranks.size(), kMostNamed);
  std::string list;
  for (std::size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == ranks.size();
    list += fmt::format("{}{}", i == 0 ? "" : is_last ? " and " : ", ", ranks[i]);
  }
  if (ranks.size() > named) list += fmt::format(" and {} more", ranks.size() - named);
  return fmt::format("worker{} {} ha{} not arrived at {}", ranks.size() == 1 ? "" : "s", list,
                     ranks.size() == 1 ? "s" : "ve", place);
}

std::string late_sentence(std::span<const int> missing, std::string_view place, int waiter, base::Duration waited) {
  if (missing.empty())
    return fmt::format(
        "worker {}: {} did not finish within {:.3g} s; a worker is stuck or gone, or the deadline is too short", waiter,
        place, waited.count());
  const std::string_view them = missing.size() == 1 ? "it" : "them", are = missing.size() == 1 ? "it is" : "they are";
  return fmt::format("{}, where worker {} has waited {:.3g} s for {}: {} stuck or gone, or the deadline is too short",
                     not_arrived(missing, place), waiter, waited.count(), them, are);
}

}  // namespace flockstep::engines
