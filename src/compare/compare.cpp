#include "compare/compare.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/files.h"
#include "compare/earlier.h"

namespace flockstep::compare {
namespace {

// Figures of the runs with one variant and value, in the order of their seeds.
struct Collected {
  std::vector<double> quality, validation, samples_per_s, wait_share, time_s;
  bool has_validation = false;
  double bytes_sent_per_step = 0;
  std::vector<train::MeetingFigures> meetings;
  std::vector<std::string> folders;
  std::vector<Evaluations> evaluations;
};

void add(Collected& collected, const train::Summary& summary, const std::string& folder) {
  collected.quality.push_back(summary.quality);
  // A run that diverged or stopped early may have none where others do.
  collected.validation.push_back(summary.validation.value_or(std::numeric_limits<double>::quiet_NaN()));
  collected.has_validation = collected.has_validation || summary.validation.has_value();
  collected.samples_per_s.push_back(summary.samples_per_s);
  collected.wait_share.push_back(summary.wait_share);
  collected.time_s.push_back(summary.time_s);
  collected.bytes_sent_per_step = summary.bytes_sent_per_step;
  if (summary.meetings) collected.meetings.push_back(*summary.meetings);
  if (!folder.empty()) collected.folders.push_back(folder);
  collected.evaluations.push_back(summary.evaluations);
}

std::optional<Meetings> meetings_of(const std::vector<train::MeetingFigures>& runs) {
  if (runs.empty()) return std::nullopt;
  const auto spread = [&](double train::MeetingFigures::*figure) {
    std::vector<double> values;
    for (const train::MeetingFigures& run : runs) values.push_back(run.*figure);
    return spread_of(values);
  };
  Meetings meetings{spread(&train::MeetingFigures::fresh_fraction),
                    spread(&train::MeetingFigures::alone_share),
                    spread(&train::MeetingFigures::mean_staleness),
                    spread(&train::MeetingFigures::mean_round_s),
                    {}};
  for (const train::MeetingFigures& run : runs) {
    meetings.staleness.resize(std::max(meetings.staleness.size(), run.staleness.size()));
    for (std::size_t age = 0; age < run.staleness.size(); ++age) meetings.staleness[age] += run.staleness[age];
  }
  return meetings;
}

Result result_of(const Collected& collected, bool lower_is_better) {
  const auto diverged = std::ranges::count_if(collected.quality, [](double value) { return !std::isfinite(value); });
  Result result{.runs = static_cast<int>(collected.quality.size()),
                .diverged = static_cast<int>(diverged),
                .quality = spread_of(collected.quality, lower_is_better),
                .samples_per_s = spread_of(collected.samples_per_s, false),
                .wait_share = spread_of(collected.wait_share),
                .time_s = spread_of(collected.time_s),
                .validation = std::nullopt,
                .bytes_sent_per_step = collected.bytes_sent_per_step,
                .meetings = meetings_of(collected.meetings),
                .folders = collected.folders,
                .evaluations = collected.evaluations};
  if (collected.has_validation) result.validation = spread_of(collected.validation, lower_is_better);
  return result;
}

// Smaller is better: first who diverged least, then by the mean, or by the median where there is no mean.
std::pair<int, double> order_of(const Result& result, bool by_validation, bool lower_is_better) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Spread spread =
      by_validation ? result.validation.value_or(Spread{kNone, kNone, kNone, kNone, kNone}) : result.quality;
  double figure = std::isfinite(spread.mean) ? spread.mean : spread.median;
  if (!lower_is_better) figure = -figure;
  return {result.diverged, std::isfinite(figure) ? figure : std::numeric_limits<double>::infinity()};
}

// Whether `value` is the smallest or the largest of them; never so for words, which have no order.
bool is_edge(const std::string& value, const std::vector<std::string>& values) {
  std::vector<double> numbers;
  double mine = 0;
  for (const std::string& each : values) {
    double number = 0;
    const auto [end, code] = std::from_chars(each.data(), each.data() + each.size(), number);
    if (code != std::errc{} || end != each.data() + each.size()) return false;
    numbers.push_back(number);
    if (each == value) mine = number;
  }
  return mine == std::ranges::min(numbers) || mine == std::ranges::max(numbers);
}

Row row_of(const Plan& plan, const Variant& variant, const std::vector<Collected>& values, bool lower_is_better) {
  Row row{.algorithm = variant.label, .result = {}, .searched = {}, .tried = {}, .curve = {}, .target = {}};
  if (variant.values.empty()) {
    row.result = result_of(values[0], lower_is_better);
    return row;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i].quality.empty()) row.tried.push_back({variant.values[i], result_of(values[i], lower_is_better)});
  if (row.tried.empty()) return row;
  const bool by_validation =
      std::ranges::any_of(row.tried, [](const Tried& tried) { return tried.result.validation.has_value(); });
  const auto best = std::ranges::min_element(
      row.tried, {}, [&](const Tried& tried) { return order_of(tried.result, by_validation, lower_is_better); });
  row.result = best->result;
  const bool nothing_worked = row.result.diverged == row.result.runs;
  row.searched = Searched{plan.search->name(), best->value, !nothing_worked && is_edge(best->value, variant.values),
                          by_validation};
  return row;
}

// What the worst seed of the first variant ended with: everybody is asked when they were as good. Where that seed
// diverged, or an untrained model is as good, there is nothing to ask for.
std::optional<double> target_of(const Plan& plan, const std::vector<Row>& rows, bool lower_is_better) {
  if (rows.empty() || rows[0].algorithm != plan.variants[0].label || rows[0].result.diverged > 0) return std::nullopt;
  const Spread& quality = rows[0].result.quality;
  const double worst = lower_is_better ? quality.max : quality.min;
  for (const Row& row : rows)
    for (const Evaluations& run : row.result.evaluations)
      if (!run.empty() && run[0].step == 0 && as_good(run[0].quality, worst, lower_is_better)) return std::nullopt;
  return worst;
}

nlohmann::json how_of(const CompareRequest& request, const Plan& plan) {
  nlohmann::json settings = nlohmann::json::object();
  for (const Variant& variant : plan.variants) settings[variant.label] = variant.settings;
  nlohmann::json how{{"task", request.base.train.task},
                     {"task_settings", request.base.train.task_settings},
                     {"algorithm_settings", settings},
                     {"engine", request.base.engine},
                     {"first_seed", request.base.train.seed},
                     {"seeds", request.seeds},
                     {"pace", train::pace_of(request.base.train)}};
  how["target"] = request.target ? nlohmann::json(*request.target) : nlohmann::json();
  if (plan.search) how["search"] = {{"name", plan.search->name()}, {"values", plan.search->values}};
  return how;
}

class Study {
 public:
  Study(const CompareRequest& request) : request_(request), plan_(plan_of(request)) {
    comparison_.how = how_of(request, plan_);
    cases_.assign(plan_.cases.size(), {});
    for (auto& variants : cases_)
      for (const Variant& variant : plan_.variants)
        variants.emplace_back(std::max<std::size_t>(1, variant.values.size()));
  }

  Comparison run(Runner& runner) {
    Earlier earlier = find_earlier(request_, plan_);  // and with it the lock on the folder, until the end
    comparison_.rank = earlier.rank;
    outcomes_ = std::move(earlier.done);
    const std::vector<const PlannedRun*> missing = missing_runs();
    const auto done = std::ssize(plan_.runs) - std::ssize(missing);
    if (done > 0 && comparison_.rank == 0) request_.on_earlier(done, plan_.runs.size());

    std::size_t started = 0, ended = 0;
    bool stopped = false;
    request_.on_progress(ended, missing.size());
    while (true) {
      while (!stopped && started < missing.size() && started - ended < runner.at_a_time()) {
        if ((stopped = request_.stop_requested())) break;
        const PlannedRun& planned = *missing[started];
        if (!request_.out.empty() && comparison_.rank == 0) mark_begun(planned);
        runner.start(planned);
        ++started;
      }
      if (ended == started) break;
      auto [planned, outcome] = runner.wait_for_one();
      stopped = stopped || outcome.summary.interrupted;
      outcomes_[static_cast<std::size_t>(planned - plan_.runs.data())] = std::move(outcome);
      request_.on_progress(++ended, missing.size());
      if (ended < missing.size()) gather_and_write(true);
    }
    gather_and_write(stopped);
    return comparison_;
  }

 private:
  std::vector<const PlannedRun*> missing_runs() const {
    std::vector<const PlannedRun*> missing;
    for (std::size_t i = 0; i < plan_.runs.size(); ++i)
      if (!outcomes_[i]) missing.push_back(&plan_.runs[i]);
    return missing;
  }

  // In the order of the plan: seeds stand side by side, and sums round, the same whichever run ended first.
  void collect() {
    for (auto& variants : cases_)
      for (auto& values : variants) std::ranges::fill(values, Collected{});
    for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
      if (!outcomes_[i]) continue;
      const PlannedRun& planned = plan_.runs[i];
      const tasks::RunOutcome& outcome = *outcomes_[i];
      comparison_.rank = outcome.rank;
      if (outcome.summary.steps == 0) continue;  // interrupted before there was anything to tell
      comparison_.metric = outcome.summary.metric;
      comparison_.lower_is_better = outcome.summary.lower_is_better;
      Case& size = plan_.cases[planned.case_index];
      size.workers = outcome.workers;
      if (size.batch == 0) size.batch = outcome.options.batch;
      add(cases_[planned.case_index][planned.variant][planned.value], outcome.summary,
          request_.out.empty() ? "" : planned.folder);
    }
  }

  void gather_and_write(bool interrupted) {
    collect();
    comparison_.interrupted = interrupted;
    comparison_.cases.clear();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      CaseResult result{plan_.cases[i].workers, plan_.cases[i].batch, {}, {}};
      for (std::size_t j = 0; j < plan_.variants.size(); ++j) {
        Row row = row_of(plan_, plan_.variants[j], cases_[i][j], comparison_.lower_is_better);
        if (row.result.runs > 0) result.rows.push_back(std::move(row));
      }
      add_curves(result);
      if (!result.rows.empty()) comparison_.cases.push_back(std::move(result));
    }
    if (request_.out.empty() || comparison_.rank != 0) return;
    base::make_directory(request_.out);
    base::write_atomically(request_.out / "compare.json", to_json(comparison_).dump(2) + "\n");
  }

  void add_curves(CaseResult& result) const {
    const bool lower_is_better = comparison_.lower_is_better;
    result.target = request_.target ? request_.target : target_of(plan_, result.rows, lower_is_better);
    for (Row& row : result.rows) {
      row.curve = curve_of(row.result.evaluations, lower_is_better);
      if (result.target) row.target = time_to(*result.target, row.result.evaluations, lower_is_better);
    }
  }

  const CompareRequest& request_;
  Plan plan_;
  std::vector<std::optional<tasks::RunOutcome>> outcomes_;  // of the planned runs
  std::vector<std::vector<std::vector<Collected>>> cases_;  // by case, variant and value
  Comparison comparison_;
};

class OneAtATime : public Runner {
 public:
  explicit OneAtATime(const Execute& execute) : execute_(execute) {}
  std::size_t at_a_time() const override { return 1; }
  void start(const PlannedRun& run) override { run_ = &run; }
  Ended wait_for_one() override { return {run_, execute_(*run_)}; }

 private:
  const Execute& execute_;
  const PlannedRun* run_ = nullptr;
};

}  // namespace

Comparison compare(const CompareRequest& request, Runner& runner) { return Study(request).run(runner); }

Comparison compare(const CompareRequest& request, const Execute& execute) {
  OneAtATime runner(execute);
  return compare(request, runner);
}

}  // namespace flockstep::compare
