#include "protocol/admission.h"

#include <algorithm>
#include <bit>

namespace flockstep::protocol {
namespace {

constexpr std::size_t kGreetingNumbers = 4;  // before those of attendance

}  // namespace

std::optional<Greeting> Greeting::from(const Message& message) {
  const auto& numbers = message.numbers;
  if (message.number < 0 || message.number > static_cast<Iteration>(Standing::present) ||
      numbers.size() < kGreetingNumbers || message.roster.empty())
    return std::nullopt;
  if (numbers[2] < 1 || numbers[2] > kMostRanks || numbers[3] < 1 || numbers[3] > kMostRanks) return std::nullopt;
  return Greeting{static_cast<Standing>(message.number),
                  std::bit_cast<std::uint64_t>(numbers[0]),
                  numbers[1],
                  static_cast<int>(numbers[2]),
                  static_cast<int>(numbers[3]),
                  Roster(message.roster),
                  {numbers.begin() + kGreetingNumbers, numbers.end()}};
}

Message Greeting::message() const {
  Message message{.kind = Message::Kind::greeting, .number = static_cast<Iteration>(standing)};
  message.numbers = {std::bit_cast<Iteration>(fingerprint), flock, ranks, group_size};
  message.numbers.insert(message.numbers.end(), attendance.begin(), attendance.end());
  return message;
}

Admission::Admission(const Options& options, int rank, Incarnation incarnation)
    : options_(options),
      rank_(rank),
      incarnation_(incarnation),
      ranks_(options.workers),
      group_size_(options.group_size) {}

void Admission::on_met(int peer, Incarnation incarnation) { peers_[peer] = {incarnation, std::nullopt}; }

void Admission::on_model(int peer, bool has_model) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || !found->second.greeting) return;
  found->second.greeting->standing = has_model ? Standing::present : Standing::in;
}

Ranks Admission::met() const {
  Ranks ranks;
  for (const auto& [rank, peer] : peers_) ranks.push_back(rank);
  return ranks;
}

bool Admission::has_model(int peer) const {
  const auto found = peers_.find(peer);
  return found != peers_.end() && found->second.greeting && found->second.greeting->standing == Standing::present;
}

bool Admission::is_in_a_flock(int peer) const {
  const auto& greeting = peers_.at(peer).greeting;
  return greeting && greeting->standing >= Standing::in;
}

bool Admission::is_of_this_flock(int peer) const {
  const auto& greeting = peers_.at(peer).greeting;
  return greeting && greeting->standing >= Standing::in && greeting->flock == flock_ &&
         !greeting->roster.has_lost(rank_, incarnation_);
}

// One of them may have left a trace of another flock that it belonged to; then it will join this one soon.
std::optional<int> Admission::first_unmet(const Greeting& greeting) const {
  for (int rank = 0; rank < greeting.roster.ranks(); ++rank) {
    if (rank == rank_ || !greeting.roster.lives(rank)) continue;
    const auto found = peers_.find(rank);
    if (found == peers_.end() || !greeting.roster.lives(rank, found->second.incarnation)) return rank;
    const auto& its = found->second.greeting;
    if (!its || its->standing < Standing::in || its->flock != greeting.flock) return rank;
  }
  return std::nullopt;
}

std::optional<int> Admission::best_contact() const {
  std::optional<int> best;
  for (const auto& [rank, peer] : peers_)
    if (has_model(rank) && (!best || is_stronger(peer.greeting->roster, greeting_of(*best).roster))) best = rank;
  return best;
}

std::optional<int> Admission::contact() const {
  const auto best = best_contact();
  return best && !first_unmet(greeting_of(*best)) ? best : std::nullopt;
}

std::optional<Admission::Unmet> Admission::unmet() const {
  const auto best = best_contact();
  const auto peer = best ? first_unmet(greeting_of(*best)) : std::nullopt;
  return peer ? std::optional(Unmet{*peer, *best}) : std::nullopt;
}

// At once only if all are here that the run begins with: a worker that was added later has not met the others yet.
bool Admission::may_found(base::Time now) const {
  int ready = rank_ < options_.workers;
  for (const auto& [rank, peer] : peers_) {
    if (!peer.greeting || peer.greeting->standing == Standing::idle) continue;
    if (peer.greeting->standing >= Standing::in || rank < rank_) return false;
    ready += rank < options_.workers;
  }
  return ready >= options_.workers || now >= found_at_;
}

void Admission::join(int contact) {
  const Greeting& greeting = greeting_of(contact);
  flock_ = greeting.flock;
  ranks_ = greeting.ranks;
  group_size_ = greeting.group_size;
}

void Admission::found() { flock_ = Iteration{incarnation_} << 16 | (rank_ + 1); }

bool is_stronger(const Roster& one, const Roster& other) {
  if (one.count() != other.count()) return one.count() > other.count();
  for (int rank = 0; rank < std::max(one.ranks(), other.ranks()); ++rank)
    if (one.lives(rank) != other.lives(rank)) return one.lives(rank);
  return false;
}

}  // namespace flockstep::protocol
