#include "runtime/pairs/pair_agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "flockstep/error.h"

namespace flockstep::runtime {
namespace {

// The only messages beside control messages here. Those of one average come in order, and averages of one pair never
// overlap, so one tag will do.
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
                     const Guarded& guarded)
    : context_(context),
      when_busy_(when_busy),
      buckets_(layout.buckets()),
      shared_(begun(context, model, guarded)),
      received_(context.engine().memory().allocate<float>(kWindow * buckets_[0].size, "received buckets")),
      present_(static_cast<std::size_t>(context.size()), true),
      models_(context, host_, model.size()),
      seen_present_(present_),
      host_(context, "pairs", *this) {}

void PairAgent::merge(std::span<float> model, const std::vector<int>& partners) {
  host_.ask(
      [&] {
        host_.require_all();  // no worker waits here, so a loss would go unnoticed
        shared_.hand_over(model);
        host_.tell_update();
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
        present_[static_cast<std::size_t>(context_.rank())] = false;
        const bool asks = state_ == State::asking || (state_ == State::averaging && asked_here_);
        wishes_.resize(asks ? 1 : 0);
        for (const int waiting : std::exchange(queue_, {})) say(waiting, Message::busy);
        tell_all(Message::away);
        host_.answer();
      },
      "leaving");
}

void PairAgent::come_back(std::span<float> model) {
  wait_until([this] { return state_ == State::idle; }, [] {}, "the end of averages");
  host_.ask(
      [&] {
        const auto donor = std::ranges::find(present_, true);
        if (donor == present_.end()) return end_absence(model, false);
        const int peer = static_cast<int>(donor - present_.begin());
        say(peer, Message::wanted);
        models_.receive(peer, model, [this, model] { end_absence(model, true); });
      },
      "the return");
  is_away_ = false;
}

void PairAgent::end_absence(std::span<float> model, bool is_adopted) {
  shared_.rejoin(model, is_adopted);
  present_[static_cast<std::size_t>(context_.rank())] = true;
  tell_all(Message::back);
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

void PairAgent::with_data(const std::function<void()>& action) {
  host_.ask(
      [&] {
        action();
        host_.answer();
      },
      "findings");
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
  if (!present_[static_cast<std::size_t>(context_.rank())]) wishes_.clear();
  while (state_ == State::idle) {
    if (!queue_.empty()) {
      const int peer = queue_.front();
      queue_.pop_front();
      on_question(peer);
    } else if (!wishes_.empty()) {
      ask_next();
    } else {
      break;
    }
  }
  answer_if_due();
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
  if (!present_[static_cast<std::size_t>(peer_)]) return;
  state_ = State::asking;
  ask_deadline_ = context_.deadline();
  host_.wake_at(ask_deadline_);
  say(peer_, Message::ask);
}

void PairAgent::on_time() {
  if (state_ != State::asking || host_.now() < ask_deadline_) return;
  context_.engine().fail(Error(
      ErrorCode::deadline,
      fmt::format("worker {} has not told worker {} within {:.3g} s whether it can average; it is stuck or gone, or "
                  "the deadline is too short",
                  peer_, context_.rank(), context_.patience().count()),
      std::string(context_.engine().name())));
}

void PairAgent::tell_all(Message message) {
  for (int peer = 0; peer < context_.size(); ++peer)
    if (peer != context_.rank()) say(peer, message);
}

void PairAgent::say(int peer, Message message) {
  const auto byte = static_cast<std::byte>(message);
  host_.send_control(peer, {&byte, 1});
}

void PairAgent::on_control(int peer, std::span<const std::byte> payload) {
  const auto refuse = [] {
    throw Error(ErrorCode::mismatch,
                "a control message of another kind arrived: all workers must run the same algorithm");
  };
  if (payload.size() != 1) refuse();
  const bool is_answer_to_us = state_ == State::asking && peer == peer_;
  switch (const auto message = static_cast<Message>(payload[0])) {
    case Message::ask: return on_question(peer);
    case Message::accept:
    case Message::busy:
      if (!is_answer_to_us)
        throw Error(ErrorCode::mismatch, "an answer arrived to no question: all workers must run the same algorithm");
      if (message == Message::accept) {
        asked_here_ = true;
        return start_average(peer);
      }
      state_ = State::idle;
      return go_on();
    case Message::away:
    case Message::back: present_[static_cast<std::size_t>(peer)] = message == Message::back; return;
    case Message::wanted:  // x is whole whenever the agent reacts to something
      return models_.send(
          peer, [this](std::span<float> x) { shared_.give(x); }, [this] { answer_if_due(); });
  }
  refuse();
}

// A worker that is asking itself lets a peer of higher rank wait for the outcome, and refuses the others. Each of those
// that wait for each other has a lower rank than the one before, so they are never a ring. An average that is under way
// ends by itself, so a worker that is asked then may let others wait.
//
// If the peer's question arrives while this one's own to it is not answered, then neither has answered the other and
// neither will: both take the question for the answer.
void PairAgent::on_question(int peer) {
  if (state_ == State::asking && peer == peer_) {
    asked_here_ = true;
    start_average(peer);
  } else if (!present_[static_cast<std::size_t>(context_.rank())]) {
    say(peer, Message::busy);
  } else if (state_ == State::idle) {
    say(peer, Message::accept);
    start_average(peer);
  } else if (state_ == State::asking ? peer > context_.rank() : when_busy_ == WhenBusy::queue) {
    queue_.push_back(peer);
  } else {
    say(peer, Message::busy);
  }
}

void PairAgent::start_average(int peer) {
  state_ = State::averaging;
  peer_ = peer;
  record_ = {.number = counts_.averages,
             .activator = asked_here_ ? context_.rank() : peer,
             .is_newest = due_ != nullptr,
             .begin = host_.now()};
  if (when_busy_ == WhenBusy::refuse)
    for (const int waiting : std::exchange(queue_, {})) say(waiting, Message::busy);
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
  transfers_[place] = 2;
  host_.receive(peer_, kPairTag, engines::bytes_of(others), done);
  host_.send(peer_, kPairTag, engines::const_bytes_of(own), done);
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

}  // namespace flockstep::runtime
