// The part of PairAgent that is about workers who come and go: whom it meets, how it joins them, and models for those
// who join.
#include <fmt/core.h>
#include <spdlog/logger.h>

#include <algorithm>

#include "base/hash.h"
#include "flockstep/error.h"
#include "runtime/pairs/pair_agent.h"

namespace flockstep::runtime {
namespace {

constexpr int kMostGifts = 2;  // models that a worker gives at a time: each is a copy

}  // namespace

// ---- who is there ----

void PairAgent::on_met(int peer, engines::Incarnation) {
  if (!elastic_) return;
  peers_.on_met(peer);
  greet(peer);
}

void PairAgent::on_lost(int peer, engines::Incarnation) {
  context_.log().info("worker {} is lost", peer);
  peers_.on_lost(peer);
  forget(peer);
}

void PairAgent::greet(int peer) {
  using Rest = PairMessage::Rest;
  const bool holds = rest_.stage == Stage::holds;
  const Rest rest = holds ? Rest::has : rest_.stage >= Stage::waits ? Rest::waits : Rest::none;
  const PairMessage greeting{.kind = Kind::greeting,
                             .standing = standing_,
                             .rest = rest,
                             .number = holds ? rest_.number : 0,
                             .steps = steps_told()};
  host_.send_control(peer, peers_.addressed(peer, greeting).to_bytes());
}

void PairAgent::greet_all() {
  for (const auto& [rank, peer] : peers_.all()) greet(rank);
}

void PairAgent::set_standing(Standing standing) {
  standing_ = standing;
  greet_all();
}

void PairAgent::on_greeting(int rank, PairPeers::Worth worth) {
  if (worth == PairPeers::Worth::answered) greet(rank);
  set_present(rank, peers_.find(rank)->is_present());
  join_if_due();
  look_at_rest();
}

void PairAgent::leave_out(int peer, std::string_view why) {
  context_.log().warn("worker {} is left out: {}", peer, why);
  peers_.on_garbage(peer);
  forget(peer);
}

// What is under way with the peer is over.
void PairAgent::forget(int peer) {
  const auto is_its = [peer](const Question& question) { return question.peer == peer; };
  set_present(peer, false);
  std::erase_if(queue_, is_its);
  std::erase_if(wanted_by_, is_its);
  host_.withdraw(AgentHost::Load::gift, peer);
  if (state_ == State::averaging && peer_ == peer) abandon_average();
  if (state_ == State::asking && peer_ == peer) {
    state_ = State::idle;
    go_on();
  }
  if (rest_.stage == Stage::leads && std::ranges::binary_search(rest_.members, peer)) stop_leading();
  if (wanted_ && wanted_->peer == peer) {
    wanted_.reset();
    is_forgoing_ = true;
    host_.withdraw(AgentHost::Load::model, [this] {
      is_forgoing_ = false;
      if (rest_.stage == Stage::fetches) rest_.stage = Stage::waits;
      join_if_due();
      look_at_rest();
    });
  }
  join_if_due();
  look_at_rest();
}

// Whatever belongs to one acquaintance and one purpose meets nothing else.
engines::Tag PairAgent::tag_of(int peer, Kind kind, int asker, std::uint64_t number) const {
  if (!elastic_) return 0;
  const PairPeers::Peer& known = peers_.all().at(peer);
  const bool is_first = context_.rank() < peer;
  const std::array<std::uint64_t, 5> names{is_first ? known.mine : known.theirs, is_first ? known.theirs : known.mine,
                                           static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(asker), number};
  static_assert(AgentHost::kLongTags >= engines::Tag{1} << 59);
  return static_cast<engines::Tag>(base::hash_of(std::span<const std::uint64_t>(names)) >> 5);
}

// ---- joining ----

void PairAgent::join_if_due() {
  if (!join_ || wanted_ || is_forgoing_) return;
  refuse_strangers();
  const auto end = [this](bool is_adopted) {
    const std::span<float> model = join_->model;
    join_.reset();
    end_absence(model, is_adopted);
  };
  if (const auto peer = donor())
    want(*peer, join_->model, [this, end](std::int64_t steps) {
      steps_ = steps;
      end(true);
    });
  else if (may_begin_alone())
    end(false);
  else
    host_.wake_at(join_->begin_at);
}

// One who is part of a run already goes on without those who mean another.
void PairAgent::refuse_strangers() {
  if (standing_ != Standing::ready) return;
  for (const auto& [rank, peer] : peers_.all())
    if (peer.is_stranger)
      context_.engine().fail(
          Error(ErrorCode::mismatch,
                fmt::format("worker {} cannot join the run of worker {}, which has another algorithm, other options, "
                            "another seed or another model: start it with the same",
                            context_.rank(), rank),
                std::string(context_.engine().name())));
}

// The next rank above, and around, so that not all ask the same one. Only who has no part in the run yet takes the
// model of one who is away.
std::optional<int> PairAgent::donor() const {
  std::optional<int> best;
  std::pair<bool, bool> order_of_best;
  for (const auto& [rank, peer] : peers_.all()) {
    const bool is_away = peer.standing == Standing::away;
    if (!peer.is_present() && !(peer.is_known() && is_away && standing_ == Standing::ready)) continue;
    const std::pair order{!is_away, rank > context_.rank()};
    if (best && order <= order_of_best) continue;
    best = rank;
    order_of_best = order;
  }
  return best;
}

bool PairAgent::may_begin_alone() const {
  if (standing_ == Standing::away) return true;
  int ready = 1;
  for (const auto& [rank, peer] : peers_.all()) {
    if (!peer.is_known() || peer.standing != Standing::ready) continue;
    if (rank < context_.rank()) return false;
    ++ready;
  }
  return ready >= context_.size() || host_.now() >= join_->begin_at;
}

// ---- models ----

void PairAgent::want(int peer, std::span<float> place, std::function<void(std::int64_t steps)> done) {
  wanted_ = {peer, ++requests_, place, std::move(done)};
  say(peer, Kind::wanted, wanted_->number);
}

void PairAgent::on_given(int peer, const PairMessage& message) {
  if (!wanted_ || wanted_->peer != peer || wanted_->number != message.number)
    return leave_out(peer, "it gives what nobody has asked for");
  wanted_->steps = message.steps;
  models_.receive(
      peer, wanted_->place,
      [this] {
        const Wanted wanted = *std::exchange(wanted_, std::nullopt);
        wanted.done(wanted.steps);
      },
      tag_of(peer, Kind::wanted, context_.rank(), message.number));
}

void PairAgent::give_next() {
  while (gifts_ < kMostGifts && !wanted_by_.empty()) {
    const auto [peer, number] = wanted_by_.front();
    wanted_by_.pop_front();
    ++gifts_;
    const auto fill = [this](std::span<float> model) {
      if (rest_.stage == Stage::holds)
        std::ranges::copy(shared_.landing({0, size()}, {}), model.begin());
      else
        shared_.give(model);
    };
    const auto done = [this] {
      --gifts_;
      give_next();
      answer_if_due();
      look_at_rest();
    };
    say(peer, Kind::given, number);
    models_.send(peer, fill, done, tag_of(peer, Kind::wanted, peer, number));
  }
}

}  // namespace flockstep::runtime
