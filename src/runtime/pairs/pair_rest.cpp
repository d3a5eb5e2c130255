// The part of PairAgent that averages over all who live, where workers come and go, without collectives.
//
// Whoever consolidates says so once its own wishes are done, and still averages with those who ask. When all who are
// there have said so, the lowest rank of them gathers everybody's x, bucket by bucket, and adds them up in the order of
// ranks. It then says that it has the result, the others fetch it, and say the same. A worker goes on when all who rest
// have it. So whoever rests and lacks a result fetches it from one who has it, also where the one that has added it up
// is lost; only where nobody has it the average begins again, among those who are left. It also begins again when one
// of those who count is lost before all of its x was there, and when a worker has become present.
//
// A worker that has joined too late to be counted takes the result, too.
#include <algorithm>
#include <iterator>

#include "runtime/pairs/pair_agent.h"

namespace flockstep::runtime {

void PairAgent::consolidate(std::span<float> model) {
  host_.ask(
      [&] {
        rest_.stage = Stage::ends_wishes;
        rest_.model = model;
        peers_.forget_results();
        look_at_rest();
      },
      "the average over all who live");
}

void PairAgent::look_at_rest() {
  if (rest_.stage == Stage::ends_wishes && wishes_.empty()) {
    rest_.stage = Stage::waits;
    greet_all();
  }
  const auto holder = one_with_result();
  switch (rest_.stage) {
    case Stage::none:
    case Stage::ends_wishes:
    case Stage::fetches:
    case Stage::stops: return;
    case Stage::waits: {
      if (state_ != State::idle || is_forgoing_) return;
      if (holder) return fetch_result(*holder);
      if (!all_others_rest()) return;
      const std::vector<int> others = others_present();
      if (others.empty() || context_.rank() < others.front()) return lead();
      if (peers_.find(others.front())->gather != 0) give_to(others.front());
      return;
    }
    case Stage::leads:
      if (holder || others_present() != rest_.members) stop_leading();
      return;
    case Stage::gives: {
      const PairPeers::Peer* const leader = peers_.find(rest_.leader);
      if (holder || !leader || leader->gather != rest_.number) stop_giving();
      return;
    }
    case Stage::holds:
      if (host_.transfers() > 0) return;
      for (const auto& [rank, peer] : peers_.all())
        if (peer.is_present() && peer.rest == PairMessage::Rest::waits && peer.result != rest_.number) return;
      return end_rest();
  }
}

std::vector<int> PairAgent::others_present() const {
  std::vector<int> ranks;
  for (const auto& [rank, peer] : peers_.all())
    if (peer.is_present()) ranks.push_back(rank);
  return ranks;
}

bool PairAgent::all_others_rest() const {
  return std::ranges::all_of(peers_.all(), [](const auto& entry) {
    return !entry.second.is_present() || entry.second.rest == PairMessage::Rest::waits;
  });
}

// The next rank above, and around, so that not all ask the same one.
std::optional<int> PairAgent::one_with_result() const {
  std::optional<int> best;
  for (const auto& [rank, peer] : peers_.all())
    if (peer.is_known() && peer.result != 0 && peer.result != last_result_ &&
        (!best || (*best < context_.rank() && rank > context_.rank())))
      best = rank;
  return best;
}

// ---- the one who adds up ----

std::span<float> PairAgent::rest_row(std::size_t place, std::size_t member, std::size_t size) const {
  return rest_.rows.span().subspan((place * rest_.members.size() + member) * buckets_[0].size, size);
}

void PairAgent::lead() {
  rest_.stage = Stage::leads;
  rest_.members = others_present();
  // Of this rank, this life of it and this attempt alone.
  rest_.number = (static_cast<std::uint64_t>(context_.rank()) + 1) << 48 |
                 (std::uint64_t{context_.engine().incarnation()} & 0xFFFFFF) << 24 | (++led_ & 0xFFFFFF);
  rest_.steps = steps_;
  for (const int member : rest_.members) rest_.steps = std::max(rest_.steps, peers_.find(member)->steps);
  rest_.rows = context_.engine().memory().allocate<float>(kWindow * rest_.members.size() * buckets_[0].size,
                                                          "buckets of all who live");
  rest_.started = rest_.ended = 0;
  shared_.freeze(size(), true);
  for (const int member : rest_.members) say(member, Kind::gather, rest_.number);
  for (std::size_t place = 0; place < kWindow; ++place) collect(place);
}

void PairAgent::collect(std::size_t place) {
  while (rest_.stage == Stage::leads && rest_.started < buckets_.size()) {
    const std::size_t bucket = rest_.started++;
    rest_.missing[place] = rest_.members.size();
    for (std::size_t member = 0; member < rest_.members.size(); ++member) {
      const int peer = rest_.members[member];
      host_.receive(peer, tag_of(peer, Kind::gather, context_.rank(), rest_.number),
                    engines::bytes_of(rest_row(place, member, buckets_[bucket].size)), [this, bucket, place] {
                      if (--rest_.missing[place] > 0) return;
                      add_up(bucket, place);
                      collect(place);
                    });
    }
    if (!rest_.members.empty()) return;
    add_up(bucket, place);
  }
  if (rest_.stage == Stage::leads && rest_.ended == buckets_.size()) hold(rest_.number, rest_.steps);
}

void PairAgent::add_up(std::size_t bucket, std::size_t place) {
  const Range part = buckets_[bucket];
  std::vector<const void*> rows;
  for (std::size_t member = 0; member < rest_.members.size(); ++member)
    rows.push_back(rest_row(place, member, part.size).data());
  const auto own = std::ranges::lower_bound(rest_.members, context_.rank()) - rest_.members.begin();
  rows.insert(rows.begin() + own, shared_.contribution(part).data());
  const std::vector<double> coefficients(rows.size(), 1.0 / static_cast<double>(rows.size()));
  context_.queue().weighted_sum({rows, part.size}, coefficients.data(), shared_.landing(part, {}));
  ++rest_.ended;
}

void PairAgent::stop_leading() {
  for (const int member : rest_.members) say(member, Kind::cancel, rest_.number);
  withdraw_parts();
}

// ---- the others ----

void PairAgent::give_to(int leader) {
  rest_.stage = Stage::gives;
  rest_.leader = leader;
  rest_.number = peers_.find(leader)->gather;
  rest_.started = 0;
  shared_.freeze(size(), true);
  for (std::size_t place = 0; place < kWindow; ++place) give_bucket();
}

void PairAgent::give_bucket() {
  if (rest_.started == buckets_.size()) return;
  const Range part = buckets_[rest_.started++];
  host_.send(rest_.leader, tag_of(rest_.leader, Kind::gather, rest_.leader, rest_.number),
             engines::const_bytes_of(shared_.contribution(part)), [this] { give_bucket(); });
}

// The leader must not take what this worker may give it later for the rest.
void PairAgent::stop_giving() {
  if (PairPeers::Peer* const leader = peers_.find(rest_.leader); leader && leader->gather == rest_.number) {
    say(rest_.leader, Kind::cancel, rest_.number);
    leader->gather = 0;
  }
  withdraw_parts();
}

void PairAgent::withdraw_parts() {
  rest_.stage = Stage::stops;
  host_.withdraw(AgentHost::Load::part, [this] {
    rest_.stage = Stage::waits;
    look_at_rest();
  });
}

// ---- the result ----

void PairAgent::fetch_result(int peer) {
  rest_.stage = Stage::fetches;
  shared_.freeze(size(), true);
  const PairPeers::Peer& known = *peers_.find(peer);
  want(peer, shared_.landing({0, size()}, {}),
       [this, result = known.result, steps = known.result_steps](std::int64_t) { hold(result, steps); });
}

void PairAgent::hold(std::uint64_t result, std::int64_t steps) {
  rest_.stage = Stage::holds;
  rest_.number = result;
  rest_.steps = steps;
  rest_.rows = {};
  greet_all();
  look_at_rest();
}

void PairAgent::end_rest() {
  shared_.complete(static_cast<int>(rest_.members.size()) + 1);
  shared_.proceed(rest_.model);
  steps_ = std::max(steps_, rest_.steps);
  last_result_ = rest_.number;
  rest_ = {};
  peers_.forget_results();
  greet_all();
  hand_over();
  host_.answer();
}

}  // namespace flockstep::runtime
