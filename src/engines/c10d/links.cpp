// What workers say to each other beside data: control messages, failures, farewells.
//
// A farewell says how many transfers have passed between the two, so that the one who hears it knows whether what it
// still waits for is on its way or will never come. It is answered once all has come, and only then are connections
// closed: closing one that has unread bytes would throw away what is on its way in the other direction.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "engines/c10d/engine.h"
#include "engines/failure_message.h"

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

}  // namespace

void C10dEngine::send_control(int peer, ConstBytes payload) {
  base::check(peer >= 0 && peer < size_ && payload.size() <= kControlBytes, "a peer and a control message in bounds");
  require_usable();
  if (peer != rank_) return say(peer, Word::control, payload);
  {
    const std::lock_guard lock(control_mutex_);
    controls_.push_back({rank_, {payload.begin(), payload.end()}});
  }
  bell_.ring();
}

std::optional<Control> C10dEngine::take_control() {
  require_usable();
  const std::lock_guard lock(control_mutex_);
  if (controls_.empty()) return std::nullopt;
  Control control = std::move(controls_.front());
  controls_.pop_front();
  return control;
}

// Nobody needs to know when a word has passed, but its bytes must stay until then. A peer that has closed takes no more
// words, and the loss of a connection is for the listener to notice.
void C10dEngine::say(int peer, Word word, ConstBytes payload) noexcept {
  struct Spoken {
    std::vector<std::byte> frame;
    std::shared_ptr<Transit> transit;
  };
  Link& link = this->link(peer);
  const auto spoken = std::make_shared<Spoken>(frame_of(static_cast<std::uint8_t>(word), payload));
  try {
    spoken->transit = control_->send(peer, kControlTag, spoken->frame);
  } catch (const std::exception&) {
    return;
  }
  {
    const std::lock_guard lock(links_mutex_);
    link.talking.push_back(spoken->transit);
  }
  link.line.run([this, &link, spoken] {
    try {
      spoken->transit->wait();
    } catch (const std::exception&) {  // the listener's business
    }
    {
      const std::lock_guard lock(links_mutex_);
      link.talking.remove(spoken->transit);
    }
    spoken->transit.reset();
    if (is_closing_) bell_.ring();
  });
}

void C10dEngine::listen(int peer) noexcept {
  std::array<std::byte, kFrameBytes> frame;
  Link& link = this->link(peer);
  bool goes_on = true;
  while (goes_on) {
    frame.fill(kNoWord);
    try {
      const std::shared_ptr<Transit> transit = control_->receive(peer, kControlTag, frame);
      {
        const std::lock_guard lock(links_mutex_);
        link.listening = transit;
      }
      goes_on = transit->wait();
    } catch (const std::exception& failure) {
      goes_on = false;
      lose(peer, failure.what(), true);
    }
    {
      const std::lock_guard lock(links_mutex_);
      link.listening.reset();
    }
    if (!goes_on || hear(peer, frame)) continue;
    goes_on = false;
    record(error(ErrorCode::peer_lost, fmt::format("worker {} sent worker {} what no worker sends; something else uses "
                                                   "its connection, or it runs another version of Flockstep",
                                                   peer, rank_)));
  }
  {
    const std::lock_guard lock(links_mutex_);
    link.is_silent = true;
  }
  bell_.ring();
}

bool C10dEngine::hear(int peer, ConstBytes frame) {
  const auto length = static_cast<std::size_t>(frame[1]) | static_cast<std::size_t>(frame[2]) << 8;
  if (length > kControlBytes) return false;
  const ConstBytes payload = frame.subspan(kFrameHead, length);
  switch (static_cast<Word>(frame[0])) {
    case Word::control: {
      const std::lock_guard lock(control_mutex_);
      controls_.push_back({peer, {payload.begin(), payload.end()}});
      break;
    }
    // Said on to everybody, who may otherwise notice first that this worker ends. One that closes needs nobody any
    // more.
    case Word::failure: {
      const std::optional<Error> failure = failure_in(payload, name());
      if (!failure) return false;
      if (!is_closing_) {
        record(*failure);
        break;
      }
      const std::lock_guard lock(links_mutex_);
      link(peer).is_heard = true;
      break;
    }
    case Word::farewell: {
      Farewell farewell;
      if (length != sizeof farewell) return false;
      std::memcpy(&farewell, payload.data(), sizeof farewell);
      {
        const std::lock_guard lock(links_mutex_);
        link(peer).farewell = farewell;
      }
      answer_farewell(peer);
      fail_if_hopeless(peer);
      ended_.store(peer, std::memory_order_release);
      break;
    }
    case Word::heard: {
      if (length != 0) return false;
      const std::lock_guard lock(links_mutex_);
      link(peer).is_heard = true;
      break;
    }
    default: return false;
  }
  bell_.ring();
  return true;
}

void C10dEngine::answer_farewell(int peer) noexcept {
  {
    const std::lock_guard lock(links_mutex_);
    Link& link = this->link(peer);
    if (link.has_answered || link.passed.received < link.farewell->sent) return;
    link.has_answered = true;
  }
  say(peer, Word::heard, {});
}

// Breaks the engine if something is under way with a peer that has closed, and will never come.
void C10dEngine::fail_if_hopeless(int peer) noexcept {
  {
    const std::lock_guard lock(links_mutex_);
    const Link& link = this->link(peer);
    if (link.under_way == 0 || link.passed.received < link.farewell->sent || link.passed.sent < link.farewell->received)
      return;
  }
  record(error(ErrorCode::peer_lost, gone(peer)));
}

std::string C10dEngine::gone(int peer) const {
  return fmt::format("worker {} waits for worker {}, which has ended", rank_, peer);
}

// A connection for data may be lost before the reason for it has come on the other: a failure or a farewell.
void C10dEngine::lose(int peer, std::string_view why, bool is_control) noexcept {
  const auto has_farewell = [&] {
    const std::lock_guard lock(links_mutex_);
    return link(peer).farewell.has_value();
  };
  const auto is_silent = [&] {
    const std::lock_guard lock(links_mutex_);
    return link(peer).is_silent;
  };
  if (!is_control) wait_quietly([&] { return is_broken() || has_farewell() || is_silent(); }, kPatienceForReasons);
  if (is_broken() || (is_control && (is_closing_ || has_farewell()))) return;
  if (has_farewell()) return record(error(ErrorCode::peer_lost, gone(peer)));
  record(error(ErrorCode::peer_lost, fmt::format("worker {} lost its connection to worker {}, which crashed or cannot "
                                                 "be reached ({})",
                                                 rank_, peer, core_of(why))));
}

void C10dEngine::close() noexcept {
  if (is_closing_.exchange(true)) return;
  if (!is_broken()) say_farewells();
  if (note(error(ErrorCode::unavailable, fmt::format("worker {} has been closed", rank_)))) end_transfers();
  // The last words pass, a failure's among them; what cannot pass is not waited for.
  wait_quietly(
      [&] {
        if (is_failing_) return false;
        const std::lock_guard lock(links_mutex_);
        return std::ranges::all_of(links_, [](const auto& link) { return link->talking.empty() || link->is_silent; });
      },
      kPatienceForFailures);
  control_->cut();
  {
    const std::lock_guard lock(links_mutex_);
    for (const auto& link : links_) {
      if (link->listening) link->listening->abort();
      for (const auto& transit : link->talking) transit->abort();
    }
  }
  waiters_.join();
}

void C10dEngine::say_farewells() noexcept {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Farewell farewell;
    {
      const std::lock_guard lock(links_mutex_);
      farewell = link(peer).passed;
    }
    say(peer, Word::farewell, std::as_bytes(std::span(&farewell, 1)));
  }
  wait_quietly(
      [&] {
        if (is_broken()) return true;
        const std::lock_guard lock(links_mutex_);
        for (int peer = 0; peer < size_; ++peer)
          if (peer != rank_ && !link(peer).is_heard && !link(peer).is_silent) return false;
        return true;
      },
      kPatienceForFarewells);
}

}  // namespace flockstep::engines::c10d
