#include "session/session.h"

#include "flockstep/error.h"

namespace flockstep::session {
namespace {

algorithms::Departures& departures_of(algorithms::Algorithm& algorithm) {
  if (auto* const departures = algorithm.departures()) return *departures;
  throw Error(ErrorCode::bad_input,
              "the workers of this algorithm wait for each other, so that none can be away by itself: say who is there "
              "with attend, or use wagma, flock, adpsgd or swarm");
}

}  // namespace

void Session::begin(std::span<const float> model) {
  if (begun_) throw Error(ErrorCode::bad_input, "begin was called twice: make another Synchronizer to start again");
  algorithm_->begin(updates_, model);
  begun_ = true;
}

void Session::require_begun() const {
  if (!begun_ && facts_.needs_begin)
    throw Error(
        ErrorCode::bad_input,
        "this algorithm averages without waiting, so it has to know the model that all workers start from: call "
        "begin(model) before the first step");
}

void Session::after_update(std::span<float> model) {
  require_begun();
  if (is_away_)
    throw Error(ErrorCode::bad_input,
                "this worker has left: it takes no step before it has come back, by come_back or consolidate");
  algorithm_->after_update(updates_++, model);
}

void Session::leave() {
  require_begun();
  if (is_away_) throw Error(ErrorCode::bad_input, "this worker has left already: come back before leaving again");
  departures_of(*algorithm_).leave();
  is_away_ = true;
}

void Session::come_back(std::span<float> model) {
  if (!is_away_) throw Error(ErrorCode::bad_input, "this worker is not away: leave before coming back");
  departures_of(*algorithm_).come_back(model);
  go_on_together();
}

void Session::consolidate(std::span<float> model) {
  algorithm_->consolidate(model);
  go_on_together();
}

void Session::go_on_together() {
  is_away_ = false;
  if (const auto* const departures = algorithm_->departures()) updates_ = departures->next_step(updates_);
}

void Session::require_drained() {
  if (algorithm_->has_gradients_under_way())
    throw Error(ErrorCode::bad_input,
                "gradients are still under way that the model lacks: call drain and make one more update with what it "
                "gives, then consolidate (DataParallel::finish does all of it)");
}

algorithms::MeetingReport Session::meetings() const {
  algorithms::MeetingReport all = earlier_;
  if (const auto* const mine = algorithm_->meetings()) all += *mine;
  return all;
}

void Session::save(base::Archive& archive) const {
  archive.put_value("updates", updates_);
  meetings().save(archive);
  algorithm_->save(archive);
}

std::string Session::restore(const base::Archive& archive) {
  if (begun_ && facts_.needs_begin)
    throw Error(ErrorCode::bad_input,
                "restore was called after begin: make another Synchronizer, restore, then begin with the model that "
                "goes on");
  std::string remade = algorithm_->restore(archive);
  updates_ = archive.get_value<std::int64_t>("updates");
  earlier_ = algorithms::MeetingReport::restored(archive);
  begun_ = false;
  restored_ = true;
  return remade;
}

// Workers in lockstep hold what they are given, and some of the others have gone apart before they were saved.
bool Session::begins_alike() const { return !begun_ && facts_.needs_begin && !(restored_ && facts_.resumes_apart); }

}  // namespace flockstep::session
