#include "runtime/rounds/published_model.h"

#include <algorithm>

#include "base/check.h"

namespace flockstep::runtime {

PublishedModel::PublishedModel(Context& context, std::size_t size, const Guarded& guarded)
    : context_(context),
      guarded_(guarded),
      buffer_(context.engine().memory().allocate<float>(3 * size, "published models")) {
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = buffer_.span().subspan(i * size, size);
  published_ = &places_[0];
}

void PublishedModel::reset(std::span<const float> model) {
  base::check(!reading_, "a model that no round reads");
  context_.uncharged().copy(published_->data(), model.data(), model.size_bytes());
  average_ = snapshot_ = nullptr;
  arriving_ = {};
}

void PublishedModel::arrive(std::span<float> model) {
  if (guarded_.guard) guarded_.judge_and_cut(context_, model, *(snapshot_ ? snapshot_ : published_));
  snapshot_ = nullptr;
  arriving_ = model;
}

// Where the model is not what is published. Rounds may have run since it was merged, and left an average to be merged
// next.
void PublishedModel::proceed(std::span<float> model) {
  if (!guarded_.guard || !has_merged_) return;
  for (Place& place : places_)
    if (&place != published_ && &place != reading_ && &place != writing_ && &place != average_) snapshot_ = &place;
  if (snapshot_) context_.queue().copy(snapshot_->data(), model.data(), model.size_bytes());
}

// The place that is neither published nor taken by the round under way.
PublishedModel::Place& PublishedModel::third() {
  for (Place& place : places_)
    if (&place != published_ && &place != reading_ && &place != writing_) return place;
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
  context_.queue().copy(published_->data(), arriving_.data(), arriving_.size_bytes());
  arriving_ = {};
}

void PublishedModel::freeze(std::size_t size, bool is_fresh) {
  landing_size_ = size;
  is_fresh_ = is_fresh;
  copied_ = 0;
  if (is_fresh) {
    reading_ = published_;
    landing_ = arriving_;
  } else {
    publish();
    reading_ = published_;
    choose_landing();
  }
}

// Not where the newest average lies: a worker may yet merge it. Nor where the snapshot lies, if that can be avoided.
void PublishedModel::choose_landing() {
  for (Place& place : places_)
    if (&place != reading_ && &place != average_ && (&place != snapshot_ || !writing_)) writing_ = &place;
  if (writing_ == snapshot_) snapshot_ = nullptr;
  landing_ = *writing_;
}

void PublishedModel::ready(Range range) {
  if (!is_fresh_) return;
  const std::span<const float> from = range.of(arriving_);
  context_.queue().copy(range.of(*published_).data(), from.data(), from.size_bytes());
  copied_ = range.end();
}

// Averages of a fresh round land in the worker's own model, of which a copy is what is published.
void PublishedModel::abandon() {
  if (is_fresh_) context_.queue().copy(arriving_.data(), published_->data(), copied_ * sizeof(float));
  reading_ = writing_ = nullptr;
}

// A round that does not end a period leaves out the running statistics: with them what is published is all of one
// iteration, whoever is given it before the worker merges.
void PublishedModel::complete(int members) {
  if (is_fresh_) {
    const std::span<const float> rest = arriving_.subspan(landing_size_);
    context_.uncharged().copy(published_->subspan(landing_size_).data(), rest.data(), rest.size_bytes());
  }
  average_ = is_fresh_ ? nullptr : writing_;
  average_size_ = landing_size_;
  members_ = members;
  reading_ = writing_ = nullptr;
}

void PublishedModel::give(std::span<float> values) {
  context_.queue().copy(values.data(), published_->data(), published_->size_bytes());
}

// A place that nothing lies in: no round is under way, and the average is too old for who comes back.
std::span<float> PublishedModel::place_for_model(std::span<float>) {
  average_ = snapshot_ = nullptr;
  adopted_ = third();
  return adopted_;
}

// A worker that was expelled after a step joins in place of arriving: then nobody has judged its update yet.
void PublishedModel::rejoin(std::span<float> values, bool is_adopted) {
  if (is_adopted)
    context_.queue().copy(values.data(), adopted_.data(), adopted_.size_bytes());
  else if (guarded_.guard && guarded_.guard->has_steps())
    guarded_.judge_and_cut(context_, values, *(snapshot_ ? snapshot_ : published_));
  reset(values);
}

void PublishedModel::merge(std::span<float> model, protocol::Outcome outcome) {
  using protocol::Outcome;
  has_merged_ = outcome != Outcome::synchronised && outcome != Outcome::alone;
  switch (outcome) {
    case Outcome::fresh: break;  // the average is in place already
    case Outcome::synchronised: context_.queue().copy(published_->data(), model.data(), model.size_bytes()); break;
    case Outcome::stale_behind:
      base::check(average_ != nullptr, "an average to merge");
      if (published_ == reading_) {
        join_and_publish(model);
        break;
      }
      [[fallthrough]];
    case Outcome::stale_in_flight:
      publish();
      context_.queue().join(model.first(average_size_), average_->first(average_size_), members_);
      break;
    case Outcome::alone: publish(); break;
  }
  average_ = nullptr;
  arriving_ = {};
}

// While a round reads what is published the average's place is the one that is left: it takes the model that was.
void PublishedModel::join_and_publish(std::span<float> model) {
  context_.queue().join_and_swap(model.first(average_size_), average_->first(average_size_), members_);
  const std::span<const float> rest = model.subspan(average_size_);
  context_.queue().copy(average_->subspan(average_size_).data(), rest.data(), rest.size_bytes());
  published_ = average_;
  average_ = nullptr;
}

}  // namespace flockstep::runtime
