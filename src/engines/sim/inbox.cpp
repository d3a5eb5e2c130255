#include "engines/sim/inbox.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engines/sim/world.h"

namespace flockstep::engines::sim {
namespace {

constexpr Tag kControlTag = kMaximalTag + 1;

}  // namespace

void Message::keep() {
  if (!kept.empty()) return;
  kept.assign(data.begin(), data.end());
  data = kept;
}

// It is in its channel until it is done or dropped.
class Inbox::Receiver final : public Operation {
 public:
  Receiver(Inbox& inbox, Key key, Bytes target) : inbox_(inbox), key_(key), target_(target) {}
  ~Receiver() override {
    if (!done_) inbox_.withdraw(key_, *this);
  }
  bool done() override { return done_; }
  std::vector<int> missing() override { return {static_cast<int>(key_ >> 32)}; }

  std::size_t size() const { return target_.size(); }
  void take(const Message& message) {
    if (!message.data.empty()) std::memcpy(target_.data(), message.data.data(), message.data.size());
    done_ = true;
  }

 private:
  Inbox& inbox_;
  const Key key_;
  const Bytes target_;
  bool done_ = false;
};

Inbox::Key Inbox::key_of(int peer, Tag tag) { return static_cast<Key>(peer) << 32 | static_cast<Key>(tag); }

void Inbox::announce(int peer, Tag tag, std::shared_ptr<Message> message) {
  channels_[key_of(peer, tag)].messages.push_back(std::move(message));
}

void Inbox::announce_control(int peer, std::shared_ptr<Message> message) {
  announce(peer, kControlTag, std::move(message));
}

void Inbox::arrive(int peer, Tag tag, Message& message) {
  message.has_arrived = true;
  match(peer, tag);
  if (!message.is_taken) message.keep();
}

void Inbox::arrive_control(int peer, Message& message) {
  message.has_arrived = true;
  const auto found = channels_.find(key_of(peer, kControlTag));
  auto& messages = found->second.messages;
  const auto missing = std::ranges::find(messages, false, [](const auto& each) { return each->has_arrived; });
  for (auto each = messages.begin(); each != missing; ++each) controls_.push_back({peer, std::move((*each)->kept)});
  messages.erase(messages.begin(), missing);
  if (messages.empty()) channels_.erase(found);
  world_.bell(rank_).ring();
}

std::optional<Control> Inbox::take_control() {
  if (controls_.empty()) return std::nullopt;
  std::optional<Control> taken(std::move(controls_.front()));
  controls_.pop_front();
  return taken;
}

Pending Inbox::receive(int peer, Tag tag, Bytes target) {
  const auto key = key_of(peer, tag);
  auto receiver = std::make_unique<Receiver>(*this, key, target);
  channels_[key].receivers.push_back(receiver.get());
  match(peer, tag);
  return receiver;
}

void Inbox::withdraw(Key key, const Receiver& receiver) {
  const auto found = channels_.find(key);
  std::erase(found->second.receivers, &receiver);
  if (found->second.messages.empty() && found->second.receivers.empty()) channels_.erase(found);
}

void Inbox::match(int peer, Tag tag) {
  const auto found = channels_.find(key_of(peer, tag));
  auto& [messages, receivers] = found->second;
  std::size_t matched = 0;
  for (; matched < std::min(messages.size(), receivers.size()) && messages[matched]->has_arrived; ++matched) {
    auto& message = *messages[matched];
    auto& receiver = *receivers[matched];
    if (message.data.size() != receiver.size())
      return world_.fail(
          Error(ErrorCode::mismatch,
                fmt::format("worker {} sent {} bytes with tag {} to worker {}, which expects {}; both sides have to "
                            "agree on the size",
                            peer, message.data.size(), tag, rank_, receiver.size()),
                "sim"),
          -1);
    receiver.take(message);
    message.is_taken = true;
  }
  if (matched == 0) return;
  const auto count = static_cast<std::ptrdiff_t>(matched);
  messages.erase(messages.begin(), messages.begin() + count);
  receivers.erase(receivers.begin(), receivers.begin() + count);
  if (messages.empty() && receivers.empty()) channels_.erase(found);
  world_.bell(rank_).ring();
}

}  // namespace flockstep::engines::sim
