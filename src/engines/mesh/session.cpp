#include "engines/mesh/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cstring>
#include <utility>

#include "engines/failure_message.h"

namespace flockstep::engines::mesh {
namespace {

constexpr std::size_t kMostOffers = 65536, kMostInlineSends = 1024, kMostInlineOffers = 2048;

}  // namespace

void Session::meet(std::shared_ptr<Connection> connection, Incarnation incarnation, const MemoryProof& memory,
                   const Book& book) {
  connection_ = std::move(connection);
  incarnation_ = incarnation;
  memory_ = memory;
  is_readable_ = home_.reads_memory() && is_valid(memory);
  connection_->start(shared_from_this());
  say(FrameCode::book, book_payload(book));
  for (const PartPtr& part : std::exchange(unsent_, {})) offer(part);
}

void Session::post(const PartPtr& part) {
  part->session = shared_from_this();
  part->state = Part::State::waiting;
  if (is_over_) return part->exchange->lose(peer_, told_);
  if (part->transfer.is_send) {
    if (is_met())
      offer(part);
    else
      unsent_.push_back(part);
    return;
  }
  const auto found = offers_.find(key_of(*part));
  if (found == offers_.end()) {
    receives_[key_of(*part)].push_back(part);
    return;
  }
  const Offer offer = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) offers_.erase(found);
  key_of_offer_.erase(offer.number);
  inline_offers_ -= offer.message && !offer.message->empty();
  FrameHeader header{.number = offer.number, .size = offer.size, .position = offer.place};
  header.length = offer.message ? static_cast<std::uint32_t>(offer.message->size()) : 0;
  take(part, header, offer.message ? ConstBytes(*offer.message) : ConstBytes());
}

void Session::offer(const PartPtr& part) {
  const ConstBytes message = part->transfer.send;
  part->number = ++last_offer_;
  part->state = Part::State::offered;
  sends_[part->number] = part;
  const bool is_inline = message.size() <= kInlineBytes && inline_sends_ < kMostInlineSends;
  part->is_inline = is_inline;
  inline_sends_ += is_inline;
  const Key key = key_of(*part);
  connection_->say({.code = FrameCode::offer,
                    .kind = key.kind,
                    .tag = key.tag,
                    .number = part->number,
                    .size = message.size(),
                    .position = reinterpret_cast<std::uint64_t>(message.data())},
                   is_inline ? message : ConstBytes());
}

void Session::withdraw(const PartPtr& part) {
  if (part->is_withdrawn || part->state == Part::State::over) return;
  part->is_withdrawn = true;
  if (part->state == Part::State::waiting) {
    if (part->transfer.is_send) {
      std::erase(unsent_, part);
    } else if (const auto found = receives_.find(key_of(*part)); found != receives_.end()) {
      std::erase(found->second, part);
      if (found->second.empty()) receives_.erase(found);
    }
    return part->exchange->end(*part);
  }
  if (part->copy) {
    part->copy->is_cancelled = true;
    return;
  }
  if (is_over_) return is_idle_ ? part->exchange->end(*part) : void();  // when the connection is idle
  if (part->state == Part::State::offered) return say_number(FrameCode::retract, part->number);
  if (part->transfer.is_send) return;  // the peer is at it
  Incoming& incoming = incoming_.at(part->number);
  if (incoming.is_in_place) return;  // until the slice has come
  incoming.part.reset();
  part->exchange->end(*part);
}

void Session::say(FrameCode code, ConstBytes payload) {
  if (is_met()) connection_->say({.code = code}, payload);
}

void Session::say_number(FrameCode code, std::uint64_t number) {
  if (is_met()) connection_->say({.code = code, .number = number});
}

bool Session::hear(const FrameHeader& header, ConstBytes payload) {
  if (is_over_) return true;  // this end has left
  switch (header.code) {
    case FrameCode::heartbeat: return true;
    case FrameCode::control: return home_.hear_control(peer_, incarnation_, payload);
    case FrameCode::question: return say(FrameCode::answer, home_.answer()), true;
    case FrameCode::answer: return home_.hear_answer(peer_, payload);
    case FrameCode::farewell: return hear_farewell(payload);
    case FrameCode::offer: return hear_offer(header, payload);
    case FrameCode::pull: return hear_pull(header.number);
    case FrameCode::taken: return hear_taken(header.number);
    case FrameCode::retract: return hear_retract(header.number), true;
    case FrameCode::retracted: return hear_retracted(header.number);
    case FrameCode::data: return false;
    case FrameCode::book:
      if (const auto book = book_in(payload)) return home_.hear_book(*book), true;
      return false;
  }
  return false;
}

bool Session::hear_farewell(ConstBytes payload) {
  told_ = failure_in(payload, "mesh");
  if (!payload.empty() && !told_) return false;
  connection_->close("has ended");
  return true;
}

bool Session::hear_offer(const FrameHeader& header, ConstBytes payload) {
  if (header.number != ++last_heard_offer_) return false;
  const Key key{header.kind, header.tag};
  if (const auto found = receives_.find(key); found != receives_.end()) {
    const PartPtr part = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) receives_.erase(found);
    take(part, header, payload);
    return true;
  }
  const bool is_inline = header.length == header.size;
  if (key_of_offer_.size() >= kMostOffers || inline_offers_ >= kMostInlineOffers) return false;
  Offer offer{header.number, header.size, header.position, {}};
  if (is_inline) offer.message.emplace(payload.begin(), payload.end());
  inline_offers_ += !payload.empty();
  offers_[key].push_back(std::move(offer));
  key_of_offer_[header.number] = key;
  return true;
}

// `message` is all of it, where the header says that it is as long as the message.
void Session::take(const PartPtr& part, const FrameHeader& offer, ConstBytes message) {
  const Bytes place = part->transfer.receive;
  part->number = offer.number;
  if (offer.size != place.size()) {
    incoming_[offer.number] = {nullptr, offer.size};
    part->exchange->end(*part);
    return home_.on_mismatch(peer_, place.size(), offer.size);
  }
  if (offer.length == offer.size) {
    std::ranges::copy(message, place.data());
    say_number(FrameCode::taken, offer.number);
    return part->exchange->come(*part);
  }
  part->state = Part::State::moving;
  incoming_[offer.number] = {part, place.size()};
  if (!is_readable_) return say_number(FrameCode::pull, offer.number);
  part->copy = std::make_shared<CopyJob>();
  part->copy->source = memory_;
  part->copy->place = offer.position;
  part->copy->to = place;
  part->copy->on_end = [self = shared_from_this(), number = offer.number](CopyJob::End end) {
    asio::post(self->home_.executor(), [self, number, end] { self->on_copied(number, end); });
  };
  home_.copy(part->copy);
}

void Session::on_copied(std::uint64_t number, CopyJob::End end) {
  const PartPtr part = incoming_.at(number).part;
  part->copy.reset();
  const bool is_wanted = !part->is_withdrawn && !is_over_;
  if (is_wanted && end == CopyJob::End::failed) {  // perhaps the peer is just ending; else this way may still work
    is_readable_ = false;
    return say_number(FrameCode::pull, number);
  }
  incoming_.erase(number);
  if (!is_over_) say_number(FrameCode::taken, number);
  if (is_wanted && end == CopyJob::End::copied)
    part->exchange->come(*part);
  else
    part->exchange->end(*part);
}

bool Session::hear_pull(std::uint64_t number) {
  const auto found = sends_.find(number);
  if (found == sends_.end() || found->second->state != Part::State::offered || found->second->is_inline) return false;
  found->second->state = Part::State::moving;
  connection_->stream(number, found->second->transfer.send);
  return true;
}

bool Session::hear_taken(std::uint64_t number) {
  if (!sends_.contains(number) || connection_->is_streaming(number)) return false;
  end_sends(number, true);
  return true;
}

bool Session::hear_retracted(std::uint64_t number) {
  const auto found = sends_.find(number);
  if (found == sends_.end() || !found->second->is_withdrawn || found->second->state != Part::State::offered)
    return false;
  end_sends(number, false);
  return true;
}

void Session::end_sends(std::uint64_t number, bool has_come) {
  const auto node = sends_.extract(number);
  const PartPtr part = node.mapped();
  inline_sends_ -= part->is_inline;
  if (has_come)
    part->exchange->come(*part);
  else
    part->exchange->end(*part);
}

// One that was taken meanwhile is not there any more: `taken` is on its way, or will be.
void Session::hear_retract(std::uint64_t number) {
  const auto key = key_of_offer_.find(number);
  if (key == key_of_offer_.end()) return;
  const auto queue = offers_.find(key->second);
  const auto offer = std::ranges::find(queue->second, number, &Offer::number);
  inline_offers_ -= offer->message && !offer->message->empty();
  queue->second.erase(offer);
  if (queue->second.empty()) offers_.erase(queue);
  key_of_offer_.erase(key);
  say_number(FrameCode::retracted, number);
}

std::optional<Bytes> Session::place_for(const FrameHeader& header) {
  const auto found = incoming_.find(header.number);
  if (found == incoming_.end() && !is_over_) return {};
  if (found != incoming_.end()) {
    Incoming& incoming = found->second;
    if (incoming.part && incoming.part->copy) return {};
    if (header.position != incoming.received || header.length > incoming.size - incoming.received) return {};
    if (incoming.part && !incoming.part->is_withdrawn) {
      incoming.is_in_place = true;
      return incoming.part->transfer.receive.subspan(incoming.received, header.length);
    }
  }
  scratch_.resize(kSliceBytes);
  return Bytes(scratch_).first(header.length);
}

void Session::placed(const FrameHeader& header) {
  const auto found = incoming_.find(header.number);
  if (found == incoming_.end()) return;
  Incoming& incoming = found->second;
  incoming.is_in_place = false;
  incoming.received += header.length;
  const bool is_last = incoming.received == incoming.size;
  const PartPtr part = incoming.part;
  if (part && part->is_withdrawn) incoming.part.reset();
  if (is_last) {
    incoming_.erase(found);
    say_number(FrameCode::taken, header.number);
  }
  if (!part) return;
  if (part->is_withdrawn)
    part->exchange->end(*part);
  else if (is_last)
    part->exchange->come(*part);
}

void Session::leave(ConstBytes farewell) {
  if (is_over_) return;
  const auto self = shared_from_this();
  is_over_ = is_left_ = true;
  if (connection_)
    connection_->leave(farewell);
  else
    is_idle_ = true;
  lose_parts();
}

void Session::close(std::string_view why) {
  if (connection_) connection_->close(why);
}

void Session::tend(Clock::time_point now, bool forgive) {
  if (!is_met()) return;
  if (forgive) connection_->forgive_silence(now);
  connection_->tend(now);
}

void Session::on_closed(std::string_view why) {
  const auto self = shared_from_this();
  if (is_left_) return;
  is_over_ = true;
  home_.on_lost(*this, told_ ? told_->what() : fmt::format("worker {} {}", peer_, why));
  lose_parts();
}

// What nobody touches ends at once; the rest when the connection is idle, or the copier has stopped.
void Session::lose_parts() {
  std::vector<PartPtr> parts(unsent_.begin(), unsent_.end());
  for (const auto& [number, part] : sends_) parts.push_back(part);
  for (const auto& [key, queue] : receives_) parts.insert(parts.end(), queue.begin(), queue.end());
  for (const auto& [number, incoming] : incoming_)
    if (incoming.part) parts.push_back(incoming.part);
  for (const PartPtr& part : parts) part->exchange->lose(peer_, told_);
}

void Session::on_idle() {
  is_idle_ = true;
  for (const auto& [number, part] : std::exchange(sends_, {})) part->exchange->end(*part);
  std::erase_if(incoming_, [](const auto& each) {
    const PartPtr part = each.second.part;
    if (part && part->copy) return false;
    if (part) part->exchange->end(*part);
    return true;
  });
  offers_.clear();
  key_of_offer_.clear();
  connection_.reset();
  home_.on_settled();
}

}  // namespace flockstep::engines::mesh
