#include "session/session.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "algorithms/rules/rule_options.h"
#include "base/check.h"
#include "base/hash.h"
#include "engines/run_record.h"
#include "flockstep/error.h"

namespace flockstep::session {
namespace {

// Options are checked first: facts are read from them.
algorithms::Facts checked_facts(const SessionSettings& settings, runtime::Context& context) {
  settings.row.check(settings.options, context.size());
  const bool others_may_come = settings.elastic && context.engine().outlives_peers();
  return algorithms::facts_of(settings.row, settings.options,
                              others_may_come ? std::max(2, context.size()) : context.size());
}

std::uint64_t hash_of(const runtime::Agreed& agreed) {
  base::Hash hash;
  for (const auto& [name, value] : agreed)
    for (const std::string& text : {name, value}) {
      const std::uint64_t size = text.size();
      hash.add(std::as_bytes(std::span(&size, 1))).add(std::as_bytes(std::span(text)));
    }
  return hash.value();
}

algorithms::Departures& departures_of(algorithms::Algorithm& algorithm) {
  if (auto* const departures = algorithm.departures()) return *departures;
  throw Error(ErrorCode::bad_input,
              "the workers of this algorithm wait for each other, so none can leave alone: call attend with the "
              "workers that are present, or use wagma, flock, adpsgd or swarm");
}

}  // namespace

Session::Session(runtime::Context& context, const runtime::Layout& layout, SessionSettings settings,
                 const runtime::Agreed& more)
    : context_(context),
      layout_(layout),
      settings_(std::move(settings)),
      facts_(checked_facts(settings_, context)),
      is_elastic_(settings_.elastic && context.engine().outlives_peers() && facts_.survives_losses),
      steps_(settings_.watches) {
  runtime::Agreed agreed{{"algorithm", std::string(row().name)}};
  runtime::add_settings(agreed, row().name, settings_.options);
  agreed.emplace_back("seed", std::to_string(settings_.seed));
  agreed.insert(agreed.end(), more.begin(), more.end());
  if (is_elastic_)
    fingerprint_ = hash_of(agreed);
  else
    runtime::check_agreement(context_, agreed);
  algorithm_ = make();
}

Session::~Session() {
  auto* const record = has_result_ ? dynamic_cast<engines::RunRecord*>(&context_.engine()) : nullptr;
  if (record) record->tell_end();
}

std::unique_ptr<algorithms::Algorithm> Session::make() const {
  const algorithms::AlgorithmInputs inputs{context_,
                                           layout_,
                                           settings_.options,
                                           settings_.seed,
                                           settings_.buffers,
                                           settings_.device_model,
                                           is_elastic_ ? std::optional(fingerprint_) : std::nullopt};
  return settings_.make ? settings_.make(inputs) : row().make(inputs);
}

void Session::begin(std::span<const float> model) {
  if (begun_) throw Error(ErrorCode::bad_input, "begin was called twice: make another Synchronizer to start again");
  if (is_elastic_)
    throw Error(
        ErrorCode::bad_input,
        "on an engine that outlives its workers a worker joins the others: call join(model) instead of begin(model)");
  if (given_up_) {
    give_up(*given_up_, model);
    end_given_up();
  }
  algorithm_->begin(updates_, model);
  begun_ = true;
}

void Session::join(std::span<float> model, std::int64_t updates) {
  base::check(context_.engine().outlives_peers(), "an engine that outlives its peers");
  if (!is_elastic_)
    throw Error(ErrorCode::bad_input,
                fmt::format("{} cannot continue without a lost worker, so no worker can join it alone: use flock or "
                            "wagma, or begin with all workers together",
                            row().name));
  if (begun_) throw Error(ErrorCode::bad_input, "join was called twice: make another Synchronizer to join again");
  if (!restored_) updates_ = updates;
  algorithm_->begin(updates_, model);
  begun_ = true;
  departures_of(*algorithm_).come_back(model);
  go_on_together();
}

// What it makes of the model is given up, too.
void Session::give_up(algorithms::Algorithm& algorithm, std::span<const float> model) {
  if (!settings_.device_model) {
    const auto copy = context_.engine().memory().allocate<float>(model.size(), "model to give up");
    std::ranges::copy(model, copy.data());
    return algorithm.consolidate(copy.span());
  }
  const runtime::DeviceModel& there = *settings_.device_model;
  const kernels::Block kept = there.beside->allocate_on_host(there.numbers.size_bytes());  // the device may be full
  there.current().copy(kept.get(), there.numbers.data(), there.numbers.size_bytes());
  algorithm.consolidate({});
  there.current().copy(there.numbers.data(), kept.get(), there.numbers.size_bytes());
  context_.poll_for(there.current().mark(), "the copy of a model");
}

// Its agents must be gone everywhere before others take their place.
void Session::end_given_up() {
  given_up_.reset();
  context_.wait(context_.engine().barrier(), "barrier");
}

void Session::require_begun() const {
  if (!begun_ && facts_.needs_begin)
    throw Error(ErrorCode::bad_input,
                "this algorithm has to know the model that all workers start from: call "
                "begin(model) before the first step");
}

void Session::require_same_model(std::span<const float> model, std::string_view verb, std::string_view advice) {
  const bool is_compared_whole = row().family != algorithms::Family::gradient;
  const std::uint64_t hash = base::hash_of(is_compared_whole ? model : model.first(layout_.size()));
  const std::array<double, 2> mine{static_cast<double>(hash >> 32), static_cast<double>(hash & 0xFFFFFFFFu)};
  const std::vector<double> all = runtime::gather_doubles(context_, mine);
  std::vector<std::size_t> differing;
  for (std::size_t i = 0; i < all.size(); i += mine.size())
    if (all[i] != all[0] || all[i + 1] != all[1]) differing.push_back(i / mine.size());
  if (differing.empty()) return;
  const bool several = differing.size() > 1;
  throw Error(ErrorCode::mismatch,
              fmt::format("worker{} {} {}{} with another model than worker 0: {}", several ? "s" : "",
                          fmt::join(differing, ", "), verb, several ? "" : "s", advice));
}

void Session::require_same_first_model(std::span<const float> model) {
  if (begun_ || begins_apart() || is_elastic_) return;
  require_same_model(model, "begin", "pass the same one to begin on all workers");
}

void Session::require_same_last_model(std::span<const float> model) {
  if (is_elastic_) return;
  require_same_model(model, "end", "begin with the same model on all workers, and make the same updates of it");
}

void Session::require_effect_of(double weight) const {
  if (weight == 1 || (row().rule && row().rule(settings_.options).rule.uses_weights)) return;
  throw Error(ErrorCode::bad_input,
              fmt::format("{} counts all workers the same, so that a weight of {} has no effect: leave it out, or take "
                          "weighted_mean",
                          row().name, weight));
}

void Session::attend(const std::vector<bool>& present) {
  const bool all_are_there = std::ranges::find(present, false) == present.end();
  const std::vector<bool> next = all_are_there ? std::vector<bool>() : present;
  if (next == present_) return;
  algorithm_->attend(next);
  present_ = next;
}

void Session::finish_gradient(std::span<float> gradient, double weight) {
  require_begun();
  algorithm_->finish_gradient(gradient, weight);
  steps_.add(algorithm_->report());
}

std::span<float> Session::reduce_scatter(std::span<float> gradient, double weight) {
  const std::span<float> own = algorithm_->reduce_scatter(gradient, weight);
  steps_.add(algorithm_->report());
  return own;
}

bool Session::accepts(std::span<const float> gradient) {
  if (steps_.accepts(gradient)) return true;
  algorithm_->refused();
  return false;
}

void Session::refuse(bool is_told) {
  steps_.refuse(!algorithm_->gradients_are_equal(), is_told);
  algorithm_->refused();
}

void Session::after_update(std::span<float> model) {
  require_begun();
  if (is_away_)
    throw Error(ErrorCode::bad_input, "this worker has left: call come_back or consolidate before its next step");
  has_result_ = false;
  algorithm_->after_update(updates_++, model);
  if (is_elastic_) go_on_together();
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

void Session::go_on_together() {
  is_away_ = false;
  if (const auto* const departures = algorithm_->departures()) updates_ = departures->next_step(updates_);
}

bool Session::drain(std::span<float> gradient) {
  require_begun();
  return algorithm_->drain(gradient);
}

void Session::consolidate(std::span<float> model) {
  require_begun();
  if (is_elastic_ && is_away_) come_back(model);
  algorithm_->consolidate(model);
  go_on_together();
  has_result_ = is_elastic_;
}

void Session::require_drained() {
  if (algorithm_->has_gradients_under_way())
    throw Error(ErrorCode::bad_input,
                "some gradients are still in flight: call drain, make one more update with its result, then "
                "consolidate (DataParallel::finish does all of it)");
}

algorithms::GuardCounts Session::guards() const {
  algorithms::GuardCounts guards = algorithm_->guards();
  guards.non_finite += steps_.unseen_non_finite();
  return guards;
}

std::vector<math::Finding> Session::findings() const {
  std::vector<math::Finding> all = steps_.findings();
  std::ranges::move(algorithm_->findings(), std::back_inserter(all));
  return all;
}

algorithms::MeetingReport Session::meetings() const {
  algorithms::MeetingReport all = earlier_;
  if (const auto* const mine = algorithm_->meetings()) all += *mine;
  return all;
}

void Session::save(base::Archive& archive) const {
  archive.put_value("updates", updates_);
  steps_.save(archive);
  meetings().save(archive);
  algorithm_->save(archive);
}

std::string Session::restore(const base::Archive& archive) {
  if (is_elastic_ && begun_)
    throw Error(ErrorCode::bad_input, "this worker has joined a run already: restore a state before it joins");
  std::unique_ptr<algorithms::Algorithm> other = begun_ ? make() : nullptr;
  std::string remade = (other ? *other : *algorithm_).restore(archive);
  const auto updates = archive.get_value<std::int64_t>("updates");
  auto earlier = algorithms::MeetingReport::restored(archive);
  steps_.restore(archive);
  if (other) {
    algorithm_.swap(other);
    present_.clear();
    if (facts_.needs_begin) given_up_ = std::move(other);
  }
  updates_ = updates;
  earlier_ = std::move(earlier);
  begun_ = is_away_ = false;
  restored_ = true;
  return remade;
}

void Session::renew(std::span<const float> model) {
  require_begun();
  give_up(*algorithm_, model);
  go_on_together();
  base::Archive state;
  save(state);
  restore(state);
  if (given_up_) end_given_up();
  begin(model);
}

}  // namespace flockstep::session
