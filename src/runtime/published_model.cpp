#include "runtime/published_model.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/merge.h"

namespace flockstep::runtime {

PublishedModel::PublishedModel(Context& context, std::size_t size)
    : context_(context), buffer_(context.engine().memory().allocate<float>(3 * size, "published models")) {
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = buffer_.span().subspan(i * size, size);
  published_ = &places_[0];
}

void PublishedModel::reset(std::span<const float> model) {
  base::check(!reading_, "a model that no round reads");
  std::ranges::copy(model, published_->begin());
  average_ = nullptr;
}

// The place that is neither published nor taken by the round under way.
PublishedModel::Place& PublishedModel::third() {
  for (Place& place : places_)
    if (&place != published_ && &place != reading_ && &place != landing_) return place;
  base::check(false, "a third place");
  return places_[0];
}

// Where a round reads what is published, the next goes elsewhere; an average there would be too old to be merged.
void PublishedModel::publish() {
  if (arriving_.empty()) return;
  if (published_ == reading_) {
    published_ = &third();
    if (average_ == published_) average_ = nullptr;
  }
  std::ranges::copy(arriving_, published_->begin());
  context_.engine().charge(2.0 * static_cast<double>(arriving_.size_bytes()));
  arriving_ = {};
}

void PublishedModel::freeze(std::size_t size, bool) {
  publish();
  reading_ = published_;
  landing_ = nullptr;
  for (Place& place : places_)  // not where the newest average lies
    if (&place != reading_ && (!landing_ || landing_ == average_)) landing_ = &place;
  landing_size_ = size;
}

void PublishedModel::complete(int members) {
  average_ = landing_;
  average_size_ = landing_size_;
  members_ = members;
  reading_ = landing_ = nullptr;
}

void PublishedModel::merge(std::span<float> model, protocol::Outcome outcome) {
  using protocol::Outcome;
  double sweeps = 0;
  if (outcome != Outcome::alone) base::check(average_ != nullptr, "an average to merge");
  if (outcome == Outcome::stale_behind && published_ == reading_ && average_ == &third()) {
    const auto average = average_->first(average_size_);
    kernels::join_and_swap(model.first(average_size_), average, members_);
    std::ranges::copy(model.subspan(average_size_), average_->begin() + static_cast<std::ptrdiff_t>(average_size_));
    published_ = average_;
    average_ = nullptr;
    arriving_ = {};
    sweeps = 4;
  } else {
    publish();
    const std::span<const float> average = average_ ? average_->first(average_size_) : std::span<float>();
    if (outcome == Outcome::stale_behind || outcome == Outcome::stale_in_flight) {
      kernels::join(model.first(average_size_), average, members_);
      sweeps = 3;
    } else if (outcome != Outcome::alone) {
      std::ranges::copy(average, model.begin());
      sweeps = 2;
    }
    if (outcome == Outcome::synchronised) {
      std::ranges::copy(average, published_->begin());
      sweeps = 4;
    }
  }
  context_.engine().charge(sweeps * static_cast<double>(model.size_bytes()));
}

}  // namespace flockstep::runtime
