#include "runtime/pair_agent.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/kernels.h"

namespace flockstep::runtime {
namespace {

// The only messages beside control messages here. Those of one average come in order, and averages of one pair never
// overlap, so one tag will do.
constexpr engines::Tag kTag = 1;
constexpr std::size_t kMostWishes = 2;
constexpr std::size_t kBlock = 4096;  // floats: what one sweep has written is still in cache for the next

base::Buffer<float> copy_of(Context& context, std::span<const float> model, const std::string& purpose) {
  auto buffer = context.engine().memory().allocate<float>(model.size(), purpose);
  std::ranges::copy(model, buffer.data());
  return buffer;
}

}  // namespace

PairAgent::PairAgent(Context& context, const Layout& layout, WhenBusy when_busy, std::span<const float> model)
    : context_(context),
      when_busy_(when_busy),
      buckets_(layout.buckets()),
      shared_(copy_of(context, model, "shared model")),
      snapshot_(copy_of(context, model, "snapshot of the shared model")),
      frozen_(context.engine().memory().allocate<float>(model.size(), "average under way")),
      received_(context.engine().memory().allocate<float>(kWindow * buckets_[0].size, "received buckets")),
      host_(context, "pairs", *this) {}

void PairAgent::merge(std::span<float> model, const std::vector<int>& partners) {
  host_.ask(
      [&] {
        land(model);
        ++(std::exchange(averaged_since_merge_, false) ? counts_.met : counts_.alone);
        wish(partners);
        seen_ = counts_;
        host_.answer();
      },
      "merge");
}

// Once nobody has a wish left, nobody starts an average; but an end that has sent and received all may have come to
// rest before the other one, hence the second wait.
void PairAgent::come_to_rest(std::span<float> model) {
  wait_until([this] { return wishes_.empty(); }, [] {}, "the end of averages");
  context_.wait(context_.engine().barrier(), "barrier");
  wait_until([this] { return state_ == State::idle; },
             [&] {
               std::ranges::copy(shared_.span(), model.begin());
               seen_ = counts_;
             },
             "the end of averages");
}

void PairAgent::adopt(std::span<const float> model) {
  host_.ask(
      [&] {
        std::ranges::copy(model, shared_.data());
        std::ranges::copy(model, snapshot_.data());
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

// In double and rounded once, differences first: where x is still s, it becomes the model itself.
void PairAgent::land(std::span<float> model) {
  constexpr std::array<float, 3> kCoefficients{1, -1, 1};
  for (std::size_t begin = 0; begin < model.size(); begin += kBlock) {
    const std::size_t size = std::min(kBlock, model.size() - begin);
    const auto own = model.subspan(begin, size), x = shared_.span().subspan(begin, size),
               s = snapshot_.span().subspan(begin, size);
    const std::array<const float*, 3> rows{own.data(), s.data(), x.data()};
    kernels::weighted_sum(rows, kCoefficients, x);
    std::ranges::copy(x, s.begin());
    std::ranges::copy(x, own.begin());
  }
  context_.engine().charge(6.0 * static_cast<double>(model.size_bytes()));
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
  while (state_ == State::idle) {
    if (!queue_.empty()) {
      const int peer = queue_.front();
      queue_.pop_front();
      say(peer, Message::accept);
      start_average(peer);
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
  state_ = State::asking;
  since_ = host_.now();
  host_.wake_at(context_.deadline());
  say(peer_, Message::ask);
}

void PairAgent::on_time() {
  if (state_ != State::asking || host_.now() - since_ < context_.patience()) return;
  context_.engine().fail(Error(
      ErrorCode::deadline,
      fmt::format("worker {}: worker {} did not say within {:.3g} s whether it can average; it is stuck or gone, or "
                  "the deadline is too short",
                  context_.rank(), peer_, context_.patience().count()),
      std::string(context_.engine().name())));
}

void PairAgent::say(int peer, Message message) {
  const auto byte = static_cast<std::byte>(message);
  host_.send_control(peer, {&byte, 1});
}

// Who is asking itself lets a peer of higher rank wait for what comes of it, and refuses the others: each of those who
// wait for each other has a lower rank than the one before, so they are never a ring.
//
// If the peer's question arrives while this one's own to it is not answered, then neither has answered the other and
// neither will: both take the question for the answer.
void PairAgent::on_control(int peer, std::span<const std::byte> payload) {
  base::check(payload.size() == 1, "a message of this protocol");
  const bool is_answer_to_us = state_ == State::asking && peer == peer_;
  switch (static_cast<Message>(payload[0])) {
    case Message::ask:
      if (is_answer_to_us) {
        asked_here_ = true;
        start_average(peer);
      } else if (state_ == State::idle) {
        say(peer, Message::accept);
        start_average(peer);
      } else if (when_busy_ == WhenBusy::queue || (state_ == State::asking && peer > context_.rank())) {
        queue_.push_back(peer);
      } else {
        say(peer, Message::busy);
      }
      return;
    case Message::accept:
      base::check(is_answer_to_us, "an answer to a question");
      asked_here_ = true;
      return start_average(peer);
    case Message::busy:
      base::check(is_answer_to_us, "an answer to a question");
      state_ = State::idle;
      return go_on();
  }
}

void PairAgent::start_average(int peer) {
  state_ = State::averaging;
  peer_ = peer;
  since_ = host_.now();
  if (when_busy_ == WhenBusy::refuse)
    for (const int waiting : std::exchange(queue_, {})) say(waiting, Message::busy);
  std::ranges::copy(shared_.span(), frozen_.data());
  context_.engine().charge(2.0 * static_cast<double>(shared_.span().size_bytes()));
  started_ = ended_ = 0;
  for (std::size_t place = 0; place < std::min(kWindow, buckets_.size()); ++place) start_bucket(place);
}

void PairAgent::start_bucket(std::size_t place) {
  const std::size_t bucket = started_++;
  const std::span<float> own = buckets_[bucket].of(frozen_.span()), others = this->place(place, own.size());
  const auto done = [this, bucket, place] {
    if (--transfers_[place] == 0) end_bucket(bucket, place);
  };
  transfers_[place] = 2;
  host_.receive(peer_, kTag, engines::bytes_of(others), done);
  host_.send(peer_, kTag, engines::const_bytes_of(own), done);
}

// (b - a)/2, in double and rounded once: on both ends the same but for the sign.
void PairAgent::end_bucket(std::size_t bucket, std::size_t place) {
  const std::span<float> own = buckets_[bucket].of(frozen_.span());
  const std::array<const float*, 2> rows{this->place(place, own.size()).data(), own.data()};
  kernels::weighted_sum(rows, std::array{0.5f, -0.5f}, own);
  context_.engine().charge(3.0 * static_cast<double>(own.size_bytes()));
  ++ended_;
  if (started_ < buckets_.size())
    start_bucket(place);
  else if (ended_ == buckets_.size())
    end_average();
}

void PairAgent::end_average() {
  kernels::axpy(1, std::span<const float>(frozen_.span()), shared_.span());
  context_.engine().charge(3.0 * static_cast<double>(shared_.span().size_bytes()));
  if (std::exchange(asked_here_, false)) wishes_.pop_front();
  state_ = State::idle;
  averaged_since_merge_ = true;
  ++counts_.averages;
  counts_.under_way_s += (host_.now() - since_).count();
  go_on();
}

}  // namespace flockstep::runtime
