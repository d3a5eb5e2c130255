#include "runtime/pairs/pair_agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "flockstep/error.h"

namespace flockstep::runtime {
namespace {

// In a fixed fleet, the only messages beside control messages here. Those of one average come in order, and averages of
// one pair never overlap, so one tag will do.
constexpr engines::Tag kPairTag = 1;
constexpr std::size_t kMostWishes = 2;

// A model, so that everything is in place before the agent starts.
SharedModel begun(Context& context, std::span<const float> model, const Guarded& guarded) {
  SharedModel shared(context, model.size(), guarded);
  shared.reset(model);
  return shared;
}

}  // namespace

PairAgent::PairAgent(Context& context, const Layout& layout, WhenBusy when_busy, std::span<const float> model,
                     std::optional<ElasticPairs> elastic, const Guarded& guarded)
    : context_(context),
      elastic_(elastic),
      when_busy_(when_busy),
      buckets_(layout.buckets()),
      shared_(begun(context, model, guarded)),
      received_(context.engine().memory().allocate<float>(kWindow * buckets_[0].size, "received buckets")),
      present_(static_cast<std::size_t>(std::max(context.size(), context.rank() + 1)), !elastic),
      models_(context, host_, model.size()),
      seen_present_(present_),
      seen_steps_(elastic ? elastic->steps : 0),
      peers_(context.engine().incarnation(), elastic ? elastic->fingerprint : 0),
      steps_(seen_steps_),
      host_(context, "pairs", *this) {}

void PairAgent::merge(std::span<float> model, const std::vector<int>& partners) {
  host_.ask(
      [&] {
        if (!elastic_) host_.require_all();  // nobody waits here, so that it would not be noticed
        shared_.hand_over(model);
        host_.tell_update();
        ++steps_;
        ++(std::exchange(averaged_since_merge_, false) ? counts_.met : counts_.alone);
        wish(partners);
        hand_over();
        host_.answer();
      },
      "merge");
}

// An average that was asked for may yet begin, and then ends. Those who wait for their turn hear that it does not come.
void PairAgent::leave() {
  is_away_ = true;
  host_.ask(
      [&] {
        set_present(context_.rank(), false);
        const bool asks = state_ == State::asking || (state_ == State::averaging && asked_here_);
        wishes_.resize(asks ? 1 : 0);
        for (const Question& waiting : std::exchange(queue_, {})) say(waiting.peer, Kind::busy, waiting.number);
        if (elastic_)
          set_standing(Standing::away);
        else
          tell_all(Kind::away);
        host_.answer();
      },
      "leaving");
}

void PairAgent::come_back(std::span<float> model) {
  wait_until([this] { return state_ == State::idle; }, [] {}, "the end of averages");
  host_.ask(
      [&] {
        if (elastic_) {
          join_ = {model, host_.now() + elastic_->patience};
          if (standing_ == Standing::idle) set_standing(Standing::ready);
          return join_if_due();
        }
        const auto donor = std::ranges::find(present_, true);
        if (donor == present_.end()) return end_absence(model, false);
        const int peer = static_cast<int>(donor - present_.begin());
        say(peer, Kind::wanted);
        models_.receive(peer, model, [this, model] { end_absence(model, true); });
      },
      "the return");
  is_away_ = false;
}

void PairAgent::end_absence(std::span<float> model, bool is_adopted) {
  shared_.rejoin(model, is_adopted);
  set_present(context_.rank(), true);
  if (elastic_)
    set_standing(Standing::present);
  else
    tell_all(Kind::back);
  hand_over();
  host_.answer();
}

// Once nobody has a wish left, nobody starts an average; but an end that has sent and received all may have come to
// rest before the other one, hence the second wait. A model that was given may still be under way then, too: an agent
// must not end before its transfers.
void PairAgent::come_to_rest(std::span<float> model) {
  wait_until([this] { return wishes_.empty(); }, [] {}, "the end of averages");
  context_.wait(context_.engine().barrier(), "barrier");
  wait_until([this] { return state_ == State::idle && host_.transfers() == 0; },
             [&] {
               shared_.proceed(model);
               hand_over();
             },
             "the end of averages");
}

void PairAgent::adopt(std::span<const float> model) {
  host_.ask(
      [&] {
        shared_.reset(model);
        host_.answer();
      },
      "adoption");
}

void PairAgent::wait_until(const std::function<bool()>& due, const std::function<void()>& last, std::string_view what) {
  host_.ask(
      [&] {
        due_ = &due;
        last_ = &last;
        answer_if_due();
      },
      what);
}

void PairAgent::answer_if_due() {
  if (!due_ || !(*due_)()) return;
  due_ = nullptr;
  (*last_)();
  host_.answer();
}

void PairAgent::hand_over() {
  seen_ = counts_;
  seen_present_ = present_;
  seen_steps_ = steps_;
  handed_over_.insert(handed_over_.end(), records_.begin(), records_.end());
  records_.clear();
}

void PairAgent::wish(const std::vector<int>& partners) {
  if (partners.empty()) return;
  if (wishes_.size() == kMostWishes) {
    ++counts_.skipped;
    return;
  }
  wishes_.push_back(partners);
  if (state_ == State::idle) go_on();
}

void PairAgent::go_on() {
  if (!is_present(context_.rank())) wishes_.clear();
  while (state_ == State::idle) {
    if (!queue_.empty()) {
      const Question question = queue_.front();
      queue_.pop_front();
      on_question(question);
    } else if (!wishes_.empty()) {
      ask_next();
    } else {
      break;
    }
  }
  answer_if_due();
  look_at_rest();
}

void PairAgent::ask_next() {
  std::vector<int>& partners = wishes_.front();
  if (partners.empty()) {
    wishes_.pop_front();
    ++counts_.skipped;
    return;
  }
  peer_ = partners.front();
  partners.erase(partners.begin());
  if (!is_present(peer_)) return;
  state_ = State::asking;
  ask_deadline_ = context_.deadline();
  host_.wake_at(ask_deadline_);
  say(peer_, Kind::ask, ++asked_);
}

void PairAgent::on_time() {
  if (join_) return join_if_due();
  if (state_ != State::asking || host_.now() < ask_deadline_) return;
  context_.engine().fail(Error(
      ErrorCode::deadline,
      fmt::format("worker {} has not told worker {} within {:.3g} s whether it can average; it is stuck or gone, or "
                  "the deadline is too short",
                  peer_, context_.rank(), context_.patience().count()),
      std::string(context_.engine().name())));
}

void PairAgent::set_present(int rank, bool is_present) {
  const auto place = static_cast<std::size_t>(rank);
  if (place >= present_.size()) present_.resize(place + 1);
  present_[place] = is_present;
}

void PairAgent::tell_all(Kind kind) {
  for (int peer = 0; peer < context_.size(); ++peer)
    if (peer != context_.rank()) say(peer, kind);
}

void PairAgent::say(int peer, Kind kind, std::uint64_t number) {
  if (elastic_) {
    if (peers_.find(peer))
      host_.send_control(peer,
                         peers_.addressed(peer, {.kind = kind, .number = number, .steps = steps_told()}).to_bytes());
    return;
  }
  const auto byte = static_cast<std::byte>(kind);
  host_.send_control(peer, {&byte, 1});
}

void PairAgent::on_control(int peer, std::span<const std::byte> payload) {
  if (!elastic_) {
    if (payload.size() != 1 || payload[0] > static_cast<std::byte>(Kind::wanted))
      throw Error(ErrorCode::mismatch,
                  "a control message of another kind arrived: all workers must run the same algorithm");
    return hear(peer, {.kind = static_cast<Kind>(payload[0])});
  }
  const auto message = PairMessage::from_bytes(payload);
  if (!message) return leave_out(peer, "it sends messages that no agent of this algorithm sends");
  if (peers_.is_met_anew(peer, *message)) forget(peer);
  const auto worth = peers_.on_message(peer, *message);
  if (worth == PairPeers::Worth::nothing) return;
  if (message->kind == Kind::greeting)
    on_greeting(peer, worth);
  else
    hear(peer, *message);
}

void PairAgent::hear(int peer, const PairMessage& message) {
  const bool is_answer_to_us = state_ == State::asking && peer == peer_;
  switch (message.kind) {
    case Kind::ask: return on_question({peer, message.number});
    case Kind::accept:
    case Kind::busy:
      if (!is_answer_to_us) {
        if (elastic_) return leave_out(peer, "it answers what nobody has asked");
        throw Error(ErrorCode::mismatch, "an answer arrived to no question: all workers must run the same algorithm");
      }
      if (message.kind == Kind::accept) {
        asked_here_ = true;
        return start_average(peer, tag_of(peer, Kind::ask, context_.rank(), asked_));
      }
      state_ = State::idle;
      return go_on();
    case Kind::away:
    case Kind::back:
      if (!elastic_) set_present(peer, message.kind == Kind::back);
      return;
    case Kind::wanted:  // x is whole whenever the agent reacts to something
      if (!elastic_)
        return models_.send(
            peer, [this](std::span<float> x) { shared_.give(x); }, [this] { answer_if_due(); });
      wanted_by_.push_back({peer, message.number});
      return give_next();
    case Kind::given: return on_given(peer, message);
    case Kind::gather: peers_.find(peer)->gather = message.number; return look_at_rest();
    case Kind::cancel:
      if (rest_.stage == Stage::leads && message.number == rest_.number) stop_leading();
      if (peers_.find(peer)->gather == message.number) peers_.find(peer)->gather = 0;
      return look_at_rest();
    case Kind::greeting: return;
  }
}

// Who is asking itself lets a peer of higher rank wait for what comes of it, and refuses the others: each of those who
// wait for each other has a lower rank than the one before, so they are never a ring. An average that is under way ends
// by itself, so whoever is asked then may let others wait.
//
// If the peer's question arrives while this one's own to it is not answered, then neither has answered the other and
// neither will: both take the question for the answer. The average is then known by that of the lower rank.
void PairAgent::on_question(const Question& question) {
  const auto& [peer, number] = question;
  if (state_ == State::asking && peer == peer_) {
    asked_here_ = true;
    const bool is_ours = context_.rank() < peer;
    start_average(peer, tag_of(peer, Kind::ask, is_ours ? context_.rank() : peer, is_ours ? asked_ : number));
  } else if (!is_present(context_.rank()) || is_at_rest_with_others()) {
    say(peer, Kind::busy, number);
  } else if (state_ == State::idle) {
    say(peer, Kind::accept, number);
    start_average(peer, tag_of(peer, Kind::ask, peer, number));
  } else if (state_ == State::asking ? peer > context_.rank() : when_busy_ == WhenBusy::queue) {
    queue_.push_back(question);
  } else {
    say(peer, Kind::busy, number);
  }
}

void PairAgent::start_average(int peer, engines::Tag tag) {
  state_ = State::averaging;
  peer_ = peer;
  tag_ = elastic_ ? tag : kPairTag;
  record_ = {.number = counts_.averages,
             .activator = asked_here_ ? context_.rank() : peer,
             .is_newest = due_ != nullptr,
             .begin = host_.now()};
  if (when_busy_ == WhenBusy::refuse)
    for (const Question& waiting : std::exchange(queue_, {})) say(waiting.peer, Kind::busy, waiting.number);
  shared_.freeze(size(), false);
  started_ = ended_ = 0;
  for (std::size_t place = 0; place < std::min(kWindow, buckets_.size()); ++place) start_bucket(place);
}

void PairAgent::start_bucket(std::size_t place) {
  const std::size_t bucket = started_++;
  const std::span<const float> own = shared_.contribution(buckets_[bucket]);
  const std::span<float> others = this->place(place, own.size());
  const auto done = [this, bucket, place] {
    if (--transfers_[place] == 0) end_bucket(bucket, place);
  };
  const auto over = [this] { abandon_average(); };
  transfers_[place] = 2;
  host_.receive(peer_, tag_, engines::bytes_of(others), done, AgentHost::Load::part, over);
  host_.send(peer_, tag_, engines::const_bytes_of(own), done, AgentHost::Load::part, over);
}

void PairAgent::end_bucket(std::size_t bucket, std::size_t place) {
  shared_.settle_pair(buckets_[bucket], this->place(place, buckets_[bucket].size));
  ++ended_;
  if (started_ < buckets_.size())
    start_bucket(place);
  else if (ended_ == buckets_.size())
    end_average();
}

void PairAgent::end_average() {
  shared_.complete(2);
  if (std::exchange(asked_here_, false)) wishes_.pop_front();
  state_ = State::idle;
  averaged_since_merge_ = true;
  ++counts_.averages;
  record_.end = host_.now();
  records_.push_back(record_);
  go_on();
}

// x has not moved yet. A wish goes on with the partners that are left.
void PairAgent::abandon_average() {
  if (state_ != State::averaging) return;
  state_ = State::abandoning;
  asked_here_ = false;
  host_.withdraw(AgentHost::Load::part, [this] {
    state_ = State::idle;
    go_on();
  });
}

}  // namespace flockstep::runtime
