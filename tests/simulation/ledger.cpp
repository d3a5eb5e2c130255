#include "simulation/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/guarded.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

using protocol::Outcome;

// Numbers are rounded to float a few times on their way; a wrong one is far off. What is not finite is as good as
// anything else that is not: on a worker's own device, until its guard has seen it.
bool is_close(double a, double b) {
  return std::abs(a - b) <= 1e-5 * (1 + std::abs(b)) || (!std::isfinite(a) && !std::isfinite(b));
}

void add(std::vector<double>& sum, std::span<const double> numbers, double times = 1) {
  sum.resize(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) sum[i] += times * numbers[i];
}

bool are_close(std::span<const float> is, const std::vector<double>& should_be) {
  return std::ranges::equal(is, should_be, [](float a, double b) { return is_close(a, b); });
}

// What a guard makes of an update of these numbers. `news` is what the worker has measured of it: the median of
// directions that nearly agree turns a rounding in a direction into a change of its weight that is hundreds of times as
// large. So a direction that differs by roundings alone is taken as the worker has it.
struct Judgement {
  double factor;
  bool is_far_off;  // so far that a worker whose model is on a device begins again from the shared one
};

Judgement judgement_of(math::UpdateGuard guard, const Scenario& scenario, std::span<const float> update,
                       const math::UpdateNews& news) {
  const runtime::Guarded guarded{.buffers = scenario.statistics};
  const std::vector<float> nothing(update.size());
  math::UpdateGuard::Update measured = guarded.begin(update);
  runtime::Guarded::add(measured, update, nothing, {0, scenario.parameters}, scenario.parameters);
  if (math::are_alike(guard.news_of(measured), news)) measured.sketch = news.sketch;
  const bool is_close = std::isfinite(measured.squared_norm) && measured.squared_norm <= 100 * guard.longest_squared();
  return {guard.judge(measured), !is_close};
}

}  // namespace

Ledger::Ledger(const Scenario& scenario)
    : scenario_(scenario), groups_(scenario), workers_(static_cast<std::size_t>(scenario.options.workers)) {
  for (Worker& its : workers_) its.version = its.executed = its.merged = scenario.options.first - 1;
}

void Ledger::require(std::string_view property, int rank, bool holds, const char* what) const {
  if (!holds) throw Violation(property, rank, round_of(rank), what);
}

void Ledger::require_near(std::string_view property, int rank, std::span<const float> is, const Numbers& should_be,
                          const char* what) const {
  if (are_close(is, should_be)) return;
  for (std::size_t i = 0; i < std::min(is.size(), should_be.size()); ++i)
    if (!is_close(is[i], should_be[i]))
      throw Violation(property, rank, round_of(rank),
                      fmt::format("number {} of {} is {:.7g} and should be {:.7g}", i, what, is[i], should_be[i]));
  throw Violation(property, rank, round_of(rank), fmt::format("{} has another size", what));
}

// ---- the worker ----

void Ledger::begins(int rank, std::span<const float> model) {
  Worker& its = worker(rank);
  if (!its.shared.empty()) add(total_, its.shared, -1);
  its.shared.assign(model.begin(), model.end());
  add(total_, its.shared);
  its.snapshot = its.before = its.goes_on_with = its.shared;
  its.has_snapshot = true;
  its.is_lost = false;
}

void Ledger::sets_out(int rank, Iteration iteration, std::span<const float> model) {
  Worker& its = worker(rank);
  require(property::kOneInFlight, rank, !its.has_to_merge, "the one before is not merged");
  if (std::exchange(its.has_come_back, false)) its.version = its.executed = its.merged = iteration - 1;
  its.arrives_at = iteration;
  its.own.assign(model.begin(), model.end());
  // Nothing is left to go on from: the worker takes what rounds have made of the shared model.
  if (std::exchange(its.is_lost, false)) its.own = its.snapshot = its.shared;
  its.update = its.own;
  const Numbers& from = measured_from(its);
  for (std::size_t i = 0; i < its.own.size(); ++i) its.update[i] -= from[i];
}

const Ledger::Numbers& Ledger::measured_from(const Worker& its) const {
  return is_additive() || its.has_snapshot ? its.snapshot : its.shared;
}

void Ledger::judges(int rank, const math::UpdateGuard& before, const math::UpdateNews& news) {
  Worker& its = worker(rank);
  const std::vector<float> update(its.update.begin(), its.update.end());
  const auto [factor, is_far_off] = judgement_of(before, scenario_, update, news);
  const Numbers& from = measured_from(its);
  for (std::size_t i = 0; i < its.update.size(); ++i) {
    const double left = i < scenario_.parameters ? factor : factor > 0 ? 1 : 0;
    its.update[i] = left > 0 ? left * its.update[i] : 0;
    if (!is_additive()) its.own[i] = from[i] + its.update[i];
  }
  its.is_lost = scenario_.on_device && is_far_off;
}

void Ledger::arrives(int rank, std::span<const float> model) {
  if (is_additive() || !scenario_.guarded) return;
  Worker& its = worker(rank);
  require_near(property::kGuarded, rank, model, its.own, "what it arrives with");
  // The next update may be measured from it: from here on the numbers are those that are there, as they were rounded.
  its.own.assign(model.begin(), model.end());
}

void Ledger::lands(int rank) {
  Worker& its = worker(rank);
  its.version = its.arrives_at;
  its.was_behind = its.executed >= its.version;
  its.has_to_merge = true;
  if (is_additive()) {
    for (std::size_t i = 0; i < its.own.size(); ++i) its.shared[i] += its.update[i];
    add(total_, its.update);
  } else {
    its.before = std::exchange(its.shared, its.own);
  }
}

Outcome Ledger::right_outcome(const Worker& its) const {
  if (groups_.is_synchronisation(its.version)) return Outcome::synchronised;
  if (its.was_behind) return its.executed > its.merged ? Outcome::stale_behind : Outcome::alone;
  return its.executed_version == its.version ? Outcome::fresh : Outcome::stale_in_flight;
}

Ledger::Numbers Ledger::merged(const Worker& its, Outcome outcome) const {
  Numbers model = its.own;
  if (outcome == Outcome::alone) return model;
  const bool is_stale = outcome == Outcome::stale_in_flight || outcome == Outcome::stale_behind;
  for (std::size_t i = 0; i < its.average.size(); ++i)
    model[i] =
        is_stale ? (its.members * static_cast<double>(its.average[i]) + model[i]) / (its.members + 1) : its.average[i];
  return model;
}

void Ledger::merges(int rank, std::span<const float> model, Outcome outcome) {
  Worker& its = worker(rank);
  require(property::kHonestOutcome, rank, std::exchange(its.has_to_merge, false), "nobody waits for it");
  require(property::kHonestOutcome, rank, its.executed >= its.version, "the worker's round has not run");
  if (outcome != right_outcome(its))
    throw Violation(property::kHonestOutcome, rank, its.executed,
                    fmt::format("it says {}, which is {}", to_string(outcome), to_string(right_outcome(its))));
  its.merged = its.executed;
  if (is_additive()) return;
  its.goes_on_with = merged(its, outcome);
  require_near(property::kMerged, rank, model, its.goes_on_with, "the model");
  if (outcome == Outcome::synchronised) its.shared = its.goes_on_with;
}

// Roundings do not add up: from here on the numbers are those that are there.
void Ledger::proceeds(int rank, std::span<const float> model) {
  Worker& its = worker(rank);
  require(property::kHonestOutcome, rank, !its.has_to_merge, "the worker goes on without it");
  require_near(property::kMerged, rank, model, is_additive() ? its.shared : its.goes_on_with, "the model");
  if (is_additive()) its.shared.assign(model.begin(), model.end());
  its.snapshot.assign(model.begin(), model.end());
  its.goes_on_with = its.snapshot;
  // Of three places one is published. A round takes one, and another where it reads what was published before; the
  // newest average that is not merged yet has one, too.
  const bool reads_another = its.taken_version<its.version, has_average = its.executed> its.merged;
  its.has_snapshot = !its.is_under_way || (!reads_another && !has_average);
  its.is_lost = false;
}

// Its own update comes to what rounds have moved so far, whether rounds can take it yet or not.
void Ledger::goes_on(int rank, std::span<const float> model) {
  Worker& its = worker(rank);
  Numbers right = its.shared;
  for (std::size_t i = 0; i < right.size(); ++i) right[i] += its.update[i];
  require_near(property::kMerged, rank, model, right, "the model");
  its.snapshot.assign(model.begin(), model.end());
}

// ---- rounds ----

Ledger::Average& Ledger::average_of(int rank) {
  const Iteration round = round_of(rank);
  return averages_[{round, groups_.of(rank, round).front()}];
}

void Ledger::freezes(int rank, Iteration next, std::size_t size, bool is_fresh) {
  Worker& its = worker(rank);
  if (std::exchange(its.has_come_back, false)) its.version = its.executed = its.merged = next - 1;
  const Iteration round = round_of(rank);
  require(property::kOnceInOrder, rank, !std::exchange(its.is_under_way, true), "another is under way");
  require(property::kOnceInOrder, rank, round <= scenario_.last(), "there is no such iteration");
  require(property::kAverage, rank, size == (groups_.ends_period(round) ? scenario_.size() : scenario_.parameters),
          "it is about other numbers");
  require(property::kHonestOutcome, rank, is_fresh == (its.version == round), "it is not said rightly to be fresh");
  its.taken.assign(its.shared.begin(), its.shared.begin() + static_cast<std::ptrdiff_t>(size));
  its.taken_version = its.version;
  if (its.executed > its.merged) its.has_snapshot = false;
  its.is_settled.assign(size, false);
  Average& average = average_of(rank);
  require(property::kAverage, rank, std::ranges::find(average.is_settled, true) == average.is_settled.end(),
          "a member begins when some of it is there already");
  average.sums.resize(size);
  average.bits.resize(size);
  average.is_settled.resize(size);
  ++average.members;
  for (std::size_t i = 0; i < size; ++i) average.sums[i] += its.taken[i];
}

void Ledger::settles(int rank, runtime::Range part, std::span<const float> values) {
  Worker& its = worker(rank);
  require(property::kAverage, rank, its.is_under_way && part.end() <= its.taken.size() && values.size() == part.size,
          "a part of it lies elsewhere");
  Average& average = average_of(rank);
  for (std::size_t i = 0, at = part.begin; i < part.size; ++i, ++at) {
    require(property::kAverage, rank, !its.is_settled[at], "a part is placed twice");
    its.is_settled[at] = true;
    const double mean = average.sums[at] / average.members;
    if (!is_close(values[i], mean))
      throw Violation(property::kAverage, rank, round_of(rank),
                      fmt::format("number {} is {:.7g} and should be {:.7g}", at, values[i], mean));
    if (!average.is_settled[at]) average.bits[at] = values[i];
    average.is_settled[at] = true;
    require(property::kSameBits, rank, average.bits[at] == values[i], "one of them is rounded otherwise");
  }
}

void Ledger::completes(int rank, int members) {
  Worker& its = worker(rank);
  require(property::kOnceInOrder, rank, std::exchange(its.is_under_way, false), "it has not begun");
  require(property::kAverage, rank, std::ranges::find(its.is_settled, false) == its.is_settled.end(),
          "a part is missing");
  const Average& average = average_of(rank);
  require(property::kAverage, rank, members == average.members, "another number of members is said to be in it");
  if (is_additive())
    for (std::size_t i = 0; i < its.taken.size(); ++i) its.shared[i] += average.bits[i] - its.taken[i];
  its.average = average.bits;
  its.members = members;
  its.executed_version = its.taken_version;
  ++its.executed;
}

// ---- away and back ----

// One who has arrived gives what it will publish, or what is published until then.
void Ledger::gives(int rank, std::span<const float> model) {
  const Worker& its = worker(rank);
  require(property::kCurrentModel, rank, !its.is_under_way, "it is given while a round is under way");
  if (is_additive() || !are_close(model, its.before))
    require_near(property::kCurrentModel, rank, model, its.shared, "what is given");
  gifts_.emplace_back(model.begin(), model.end());
}

void Ledger::rejoins(int rank, std::span<const float> model, bool is_adopted) {
  Worker& its = worker(rank);
  if (is_adopted) {
    const auto gift = std::ranges::find_if(gifts_, [&](const auto& given) { return std::ranges::equal(given, model); });
    require(property::kCurrentModel, rank, gift != gifts_.end(), "nobody has given it");
    gifts_.erase(gift);
  } else {
    require_near(property::kCurrentModel, rank, model, is_additive() ? its.shared : its.goes_on_with, "its own model");
  }
  begins(rank, model);
  its.has_come_back = true;
}

// ---- the end ----

void Ledger::ends(int rank, std::span<const float> model) {
  const Numbers numbers(model.begin(), model.end());
  if (is_additive()) require_near(property::kMerged, rank, model, worker(rank).shared, "the shared model");
  add(ended_, numbers);
  size_.resize(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) size_[i] += 1 + std::abs(numbers[i]);
}

// Roundings of all updates and rounds add up here.
void Ledger::require_conserved() const {
  for (std::size_t i = 0; is_additive() && i < total_.size(); ++i)
    if (std::abs(ended_[i] - total_[i]) > 1e-4 * size_[i])
      throw Violation(property::kConserved, -1, -1,
                      fmt::format("the sum of number {} is {:.7g} and should be {:.7g}", i, ended_[i], total_[i]));
}

bool Ledger::all_is_over() const { return gifts_.empty() && std::ranges::none_of(workers_, &Worker::is_under_way); }

}  // namespace flockstep::simulation
