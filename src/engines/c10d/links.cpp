#include "engines/c10d/links.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "engines/failure_message.h"
#include "engines/missing.h"

namespace flockstep::engines::c10d {
namespace {

using namespace std::chrono_literals;

constexpr Tag kControlTag = 0;
constexpr std::size_t kFrameHead = 3;  // the word, and the length of what follows, low byte first
constexpr std::size_t kFrameBytes = kFrameHead + kControlBytes;
constexpr std::byte kNoWord{0xFF};  // where nothing was received
constexpr base::Duration kPatienceForReasons = 1s, kPatienceForFarewells = 5s, kPatienceForFailures = 1s;

std::vector<std::byte> frame_of(std::uint8_t word, ConstBytes payload) {
  std::vector<std::byte> frame{static_cast<std::byte>(word), static_cast<std::byte>(payload.size() & 0xFF),
                               static_cast<std::byte>(payload.size() >> 8)};
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

// Gloo's own words, without the place in its source before them and the advice after them.
std::string_view core_of(std::string_view text) {
  if (const auto place = text.find("] "); text.starts_with('[') && place != text.npos) text.remove_prefix(place + 2);
  return text.substr(0, std::min(text.find(". "), text.find('\n')));
}

Error lost(const std::string& sentence) { return Error(ErrorCode::peer_lost, sentence, "c10d"); }

}  // namespace

Links::Links(std::unique_ptr<Lane> lane, Waiters& waiters, Bell& bell, RollCall& roll_call,
             const FirstError& first_error, std::function<void(const Error&)> record)
    : lane_(std::move(lane)),
      rank_(lane_->rank()),
      size_(lane_->size()),
      waiters_(waiters),
      bell_(bell),
      roll_call_(roll_call),
      first_error_(first_error),
      record_(std::move(record)) {
  for (int peer = 0; peer < size_; ++peer) links_.push_back(std::make_unique<Link>(waiters_));
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) waiters_.run([this, peer] { listen(peer); });
}

void Links::send_control(int peer, ConstBytes payload) {
  if (peer != rank_) return say(peer, Word::control, payload);
  {
    const std::lock_guard lock(control_mutex_);
    controls_.push_back({rank_, {payload.begin(), payload.end()}});
  }
  bell_.ring();
}

std::optional<Control> Links::take_control() {
  const std::lock_guard lock(control_mutex_);
  if (controls_.empty()) return std::nullopt;
  Control control = std::move(controls_.front());
  controls_.pop_front();
  return control;
}

std::optional<int> Links::ended() const {
  const int peer = ended_.load(std::memory_order_acquire);
  return peer != kNobody ? std::optional(peer) : std::nullopt;
}

bool Links::reserve(int peer) {
  const std::lock_guard lock(mutex_);
  if (link(peer).farewell) return false;
  ++link(peer).under_way;
  return true;
}

void Links::count_passed(int peer, bool is_send) {
  {
    const std::lock_guard lock(mutex_);
    Link& link = this->link(peer);
    --link.under_way;
    ++(is_send ? link.passed.sent : link.passed.received);
    if (!link.farewell) return;
  }
  answer_farewell(peer);
  fail_if_hopeless(peer);
}

// Nobody needs to know when a word has passed, but its bytes must stay until then. A peer that has closed takes no more
// words, and the loss of a connection is for the listener to notice.
void Links::say(int peer, Word word, ConstBytes payload) noexcept {
  struct Spoken {
    std::vector<std::byte> frame;
    std::shared_ptr<Transit> transit;
  };
  Link& link = this->link(peer);
  const auto spoken = std::make_shared<Spoken>(frame_of(static_cast<std::uint8_t>(word), payload));
  try {
    spoken->transit = lane_->send(peer, kControlTag, spoken->frame);
  } catch (const std::exception&) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    link.talking.push_back(spoken->transit);
  }
  link.line.run([this, &link, spoken] {
    try {
      spoken->transit->wait();
    } catch (const std::exception&) {  // the listener's business
    }
    {
      const std::lock_guard lock(mutex_);
      link.talking.remove(spoken->transit);
    }
    spoken->transit.reset();
    if (is_closing_) bell_.ring();
  });
}

void Links::tell_failure(const Error& error) noexcept {
  const std::vector<std::byte> payload = failure_message(error);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) say(peer, Word::failure, payload);
}

void Links::listen(int peer) noexcept {
  std::array<std::byte, kFrameBytes> frame;
  Link& link = this->link(peer);
  bool goes_on = true;
  while (goes_on) {
    frame.fill(kNoWord);
    try {
      const std::shared_ptr<Transit> transit = lane_->receive(peer, kControlTag, frame);
      {
        const std::lock_guard lock(mutex_);
        link.listening = transit;
      }
      goes_on = transit->wait();
    } catch (const std::exception& failure) {
      goes_on = false;
      lose_listener(peer, failure.what());
    }
    {
      const std::lock_guard lock(mutex_);
      link.listening.reset();
    }
    if (!goes_on || hear(peer, frame)) continue;
    goes_on = false;
    record_(
        lost(fmt::format("worker {} sent worker {} an unknown message; something else uses its connection, or it runs "
                         "another version of Flockstep",
                         peer, rank_)));
  }
  {
    const std::lock_guard lock(mutex_);
    link.is_silent = true;
  }
  bell_.ring();
}

bool Links::hear(int peer, ConstBytes frame) {
  const auto length = static_cast<std::size_t>(frame[1]) | static_cast<std::size_t>(frame[2]) << 8;
  if (length > kControlBytes) return false;
  const ConstBytes payload = frame.subspan(kFrameHead, length);
  switch (static_cast<Word>(frame[0])) {
    case Word::control: {
      const std::lock_guard lock(control_mutex_);
      controls_.push_back({peer, {payload.begin(), payload.end()}});
      break;
    }
    case Word::failure:
      if (!hear_failure(peer, payload)) return false;
      break;
    case Word::farewell:
      if (!hear_farewell(peer, payload)) return false;
      break;
    case Word::heard: {
      if (length != 0) return false;
      const std::lock_guard lock(mutex_);
      link(peer).is_heard = true;
      break;
    }
    case Word::question:
      if (length != 0) return false;
      say(peer, Word::answer, roll_call_.answer());
      break;
    case Word::answer:
      if (!roll_call_.take_answer(peer, payload)) return false;
      if (const auto sentence = roll_call_.difference(rank_, peer))
        record_(Error(ErrorCode::mismatch, *sentence, "c10d"));
      break;
    default: return false;
  }
  bell_.ring();
  return true;
}

// Said on to everybody, who may otherwise notice first that this worker ends. One that closes needs nobody any more.
bool Links::hear_failure(int peer, ConstBytes payload) {
  const std::optional<Error> failure = failure_in(payload, "c10d");
  if (!failure) return false;
  if (!is_closing_) {
    record_(*failure);
    return true;
  }
  const std::lock_guard lock(mutex_);
  link(peer).is_heard = true;
  return true;
}

bool Links::hear_farewell(int peer, ConstBytes payload) {
  Farewell farewell;
  if (payload.size() != sizeof farewell) return false;
  std::memcpy(&farewell, payload.data(), sizeof farewell);
  {
    const std::lock_guard lock(mutex_);
    link(peer).farewell = farewell;
  }
  answer_farewell(peer);
  fail_if_hopeless(peer);
  int none = kNobody;
  ended_.compare_exchange_strong(none, peer, std::memory_order_release, std::memory_order_relaxed);
  return true;
}

void Links::answer_farewell(int peer) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Link& link = this->link(peer);
    if (link.has_answered || link.passed.received < link.farewell->sent) return;
    link.has_answered = true;
  }
  say(peer, Word::heard, {});
}

// Breaks the engine if something is under way with a peer that has closed, and will never come.
void Links::fail_if_hopeless(int peer) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const Link& link = this->link(peer);
    if (link.under_way == 0 || link.passed.received < link.farewell->sent || link.passed.sent < link.farewell->received)
      return;
  }
  record_(lost(gone_sentence(rank_, peer)));
}

bool Links::has_closed(int peer) {
  const std::lock_guard lock(mutex_);
  return link(peer).farewell.has_value();
}

// The reason for it may yet come on this lane: a failure or a farewell.
void Links::lose(int peer, std::string_view why) noexcept {
  const auto is_silent = [&] {
    const std::lock_guard lock(mutex_);
    return link(peer).is_silent;
  };
  bell_.wait_for([&] { return is_broken() || has_closed(peer) || is_silent(); }, kPatienceForReasons);
  if (is_broken()) return;
  if (has_closed(peer)) return record_(lost(gone_sentence(rank_, peer)));
  record_loss(peer, why);
}

void Links::lose_listener(int peer, std::string_view why) noexcept {
  if (!is_broken() && !is_closing_ && !has_closed(peer)) record_loss(peer, why);
}

void Links::record_loss(int peer, std::string_view why) noexcept {
  record_(lost(fmt::format("worker {} lost its connection to worker {}, which crashed or cannot be reached ({})", rank_,
                           peer, core_of(why))));
}

bool Links::say_farewells() noexcept {
  if (is_closing_.exchange(true)) return false;
  if (is_broken()) return true;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Farewell farewell;
    {
      const std::lock_guard lock(mutex_);
      farewell = link(peer).passed;
    }
    say(peer, Word::farewell, std::as_bytes(std::span(&farewell, 1)));
  }
  const auto all_have_heard = [&] {
    if (is_broken()) return true;
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_ && !link(peer).is_heard && !link(peer).is_silent) return false;
    return true;
  };
  bell_.wait_for(all_have_heard, kPatienceForFarewells);
  return true;
}

// The last words pass, a failure's among them; what cannot pass is not waited for.
void Links::cut(const std::function<bool()>& is_settled) noexcept {
  const auto all_is_said = [&] {
    if (!is_settled()) return false;
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(links_, [](const auto& link) { return link->talking.empty() || link->is_silent; });
  };
  bell_.wait_for(all_is_said, kPatienceForFailures);
  lane_->cut();
  const std::lock_guard lock(mutex_);
  for (const auto& link : links_) {
    if (link->listening) link->listening->abort();
    for (const auto& transit : link->talking) transit->abort();
  }
}

}  // namespace flockstep::engines::c10d
