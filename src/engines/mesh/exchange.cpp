#include "engines/mesh/exchange.h"

#include <algorithm>
#include <limits>

#include "engines/mesh/session.h"

namespace flockstep::engines::mesh {

Exchange::Exchange(Bell& bell, Kind kind, Tag number, std::span<const Transfer> transfers)
    : bell_(bell), kind_(kind), number_(number), open_(transfers.size()) {
  for (const Transfer& transfer : transfers) {
    auto part = std::make_unique<Part>();
    part->exchange = this;
    part->transfer = transfer;
    parts_.push_back(std::move(part));
  }
  if (parts_.empty()) is_complete_ = has_ended_ = true;
}

std::optional<int> Exchange::lost() const {
  if (!has_ended()) return {};
  const int peer = lost_.load(std::memory_order_acquire);
  return peer < 0 ? std::nullopt : std::optional(peer);
}

std::vector<int> Exchange::missing() const {
  std::vector<int> peers;
  for (const auto& part : parts_)
    if (!part->has_come) peers.push_back(part->transfer.peer);
  std::ranges::sort(peers);
  const auto repeated = std::ranges::unique(peers);
  peers.erase(repeated.begin(), repeated.end());
  return peers;
}

void Exchange::start(PartPoster& poster) {
  const auto self = shared_from_this();
  poster_ = &poster;
  for (const auto& part : parts_)
    if (!part->transfer.is_send && part->state == Part::State::held_back) poster_->post(pointer_to(*part));
  post_sends();
}

void Exchange::post_sends() {
  int wave = std::numeric_limits<int>::max();
  for (const auto& part : parts_)
    if (!part->transfer.is_send && !part->has_come) wave = std::min(wave, part->transfer.wave);
  for (const auto& part : parts_)
    if (!is_cancelled_ && part->transfer.is_send && part->state == Part::State::held_back &&
        part->transfer.wave <= wave)
      poster_->post(pointer_to(*part));
}

void Exchange::come(Part& part) {
  if (part.state == Part::State::over) return;
  part.has_come = true;
  close_part(part);
  if (!is_cancelled_ && !part.transfer.is_send && open_ > 0) post_sends();
}

void Exchange::end(Part& part) {
  if (part.state == Part::State::over) return;
  all_have_come_ = false;
  close_part(part);
}

// The caller may destroy the bytes as soon as has_ended_ is true, and this as soon as nobody here holds it.
void Exchange::close_part(Part& part) {
  const auto self = shared_from_this();
  part.state = Part::State::over;
  part.copy.reset();
  part.session.reset();
  if (--open_ > 0) return;
  is_complete_.store(all_have_come_, std::memory_order_release);
  has_ended_.store(true, std::memory_order_release);
  bell_.ring();
}

void Exchange::withdraw() { cancel_all(); }

void Exchange::lose(int peer, const std::optional<Error>& told) {
  if (lost_ < 0 && open_ > 0) {
    if (told) told_.emplace(told->code(), told->what(), told->engine());
    lost_.store(peer, std::memory_order_release);
  }
  cancel_all();
}

void Exchange::cancel_all() {
  if (is_cancelled_) return;
  is_cancelled_ = true;
  const auto self = shared_from_this();
  for (const auto& part : parts_) {
    if (part->state == Part::State::over) continue;
    if (const auto session = part->session)
      session->withdraw(pointer_to(*part));
    else
      end(*part);
  }
}

}  // namespace flockstep::engines::mesh
