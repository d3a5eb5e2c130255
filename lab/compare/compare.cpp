#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/files.h"
#include "compare/earlier.h"
#include "compare/rows.h"
#include "engines/sim/presets.h"

namespace flockstep::compare {
namespace {

// Nine tenths of the way from the untrained models to where the algorithms end, in the median over them: no run's own
// end. Nothing where an untrained model is as good, and where no algorithm ends with a number.
std::optional<double> target_of(const std::vector<Row>& rows, bool lower_is_better) {
  constexpr double kWay = 0.9;
  std::vector<double> begins, ends;
  for (const Row& row : rows) {
    if (std::isfinite(row.result.quality.median)) ends.push_back(row.result.quality.median);
    for (const Evaluations& run : row.result.evaluations)
      if (!run.empty() && run[0].step == 0) begins.push_back(run[0].quality);
  }
  const double begin = spread_of(begins, lower_is_better).mean, end = spread_of(ends, lower_is_better).median;
  if (begins.empty() || ends.empty() || !std::isfinite(begin)) return std::nullopt;
  const double target = std::stod(fmt::format("{:.3g}", begin + kWay * (end - begin)));  // as tables show it
  if (std::ranges::any_of(begins, [&](double each) { return as_good(each, target, lower_is_better); }))
    return std::nullopt;
  return target;
}

nlohmann::json how_of(const CompareRequest& request, const Plan& plan) {
  nlohmann::json settings = nlohmann::json::object();
  for (const Variant& variant : plan.variants) settings[variant.label] = variant.settings;
  nlohmann::json how{{"task", request.base.train.task},
                     {"task_settings", request.base.train.task_settings},
                     {"algorithm_settings", settings},
                     {"engine", request.base.engine},
                     {"device", request.base.train.device},
                     {"first_seed", request.base.train.seed},
                     {"seeds", request.seeds},
                     {"gradients", request.base.train.gradients},
                     {"pretend_parameters", request.base.train.pretend_parameters},
                     {"pace", train::pace_of(request.base.train)}};
  if (request.base.engine == "sim") how["platform"] = engines::sim::text_of(request.base.launch.sim);
  how["target"] = request.target ? nlohmann::json(*request.target) : nlohmann::json();
  if (plan.search)
    how["search"] = {{"name", plan.search->name()}, {"values", plan.search->values}, {"seeds", plan.search->seeds}};
  return how;
}

class Study {
 public:
  Study(const CompareRequest& request) : request_(request), plan_(plan_of(request)) {
    comparison_.how = how_of(request, plan_);
    cases_.assign(plan_.cases.size(), {});
    chosen_.assign(plan_.cases.size(), std::vector<std::optional<std::size_t>>(plan_.variants.size()));
    for (auto& variants : cases_)
      for (const Variant& variant : plan_.variants)
        variants.emplace_back(std::max<std::size_t>(1, variant.values.size()));
  }

  Comparison run(Runner& runner) {
    Earlier earlier = find_earlier(request_, plan_);  // and with it the lock on the folder, until the end
    comparison_.rank = earlier.rank;
    outcomes_ = std::move(earlier.done);
    started_.assign(outcomes_.size(), false);
    collect();
    const std::size_t done = done_before(), to_make = plan_.to_make - done;
    if (done > 0 && comparison_.rank == 0) request_.on_earlier(static_cast<std::ptrdiff_t>(done), plan_.to_make);

    std::size_t under_way = 0, made = 0;
    bool stopped = false;
    request_.on_progress(made, to_make);
    while (true) {
      while (!stopped && under_way < runner.at_a_time()) {
        const PlannedRun* next = next_run();
        if (!next || (stopped = request_.stop_requested())) break;
        if (!request_.out.empty() && comparison_.rank == 0) mark_begun(*next);
        started_[place_of(*next)] = true;
        runner.start(*next);
        ++under_way;
      }
      if (under_way == 0) break;
      auto [planned, outcome] = runner.wait_for_one();
      --under_way;
      if (outcome.summary.interrupted) {
        stopped = true;
        comparison_.rank = outcome.rank;
        comparison_.unfinished.push_back(
            fmt::format("{} was stopped after step {}", planned->title, outcome.summary.steps));
        continue;
      }
      outcomes_[place_of(*planned)] = std::move(outcome);
      request_.on_progress(++made, to_make);
      if (made < to_make) gather_and_write(true);
    }
    gather_and_write(stopped);
    return comparison_;
  }

 private:
  std::size_t place_of(const PlannedRun& run) const { return static_cast<std::size_t>(&run - plan_.runs.data()); }

  // A run that waits for the search is one of this comparison only with the value that was chosen.
  bool is_wanted(const PlannedRun& run) const {
    return !run.after_search || chosen_[run.case_index][run.variant] == run.value;
  }

  std::size_t done_before() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        plan_.runs, [&](const PlannedRun& run) { return is_wanted(run) && outcomes_[place_of(run)].has_value(); }));
  }

  // The first that may start: while some of a search are under way, runs of other variants go ahead.
  const PlannedRun* next_run() const {
    for (const PlannedRun& run : plan_.runs)
      if (const std::size_t place = place_of(run); !started_[place] && !outcomes_[place] && is_wanted(run)) return &run;
    return nullptr;
  }

  // In the order of the plan: seeds stand side by side, and sums round, the same whichever run ended first.
  void collect() {
    for (auto& variants : cases_)
      for (auto& values : variants) std::ranges::fill(values, ValueRuns{});
    for (auto& variants : chosen_) std::ranges::fill(variants, std::nullopt);
    for (const PlannedRun& run : plan_.runs)
      if (!run.after_search) collect(run);
    if (plan_.search) choose();
    for (const PlannedRun& run : plan_.runs)
      if (run.after_search && is_wanted(run)) collect(run);
  }

  void collect(const PlannedRun& planned) {
    if (!outcomes_[place_of(planned)]) return;
    const runs::RunOutcome& outcome = *outcomes_[place_of(planned)];
    comparison_.rank = outcome.rank;
    comparison_.metric = outcome.summary.metric;
    comparison_.lower_is_better = outcome.summary.lower_is_better;
    Case& size = plan_.cases[planned.case_index];
    size.workers = outcome.workers;
    if (size.batch == 0) size.batch = outcome.options.batch;
    ValueRuns& runs = cases_[planned.case_index][planned.variant][planned.value];
    const std::string folder = request_.out.empty() ? "" : planned.folder;
    if (!planned.after_search) add_run(runs.trials, outcome.summary, folder);
    add_run(runs.all, outcome.summary, folder);
  }

  // The value of every variant whose trials are all done.
  void choose() {
    for (std::size_t i = 0; i < cases_.size(); ++i)
      for (std::size_t j = 0; j < plan_.variants.size(); ++j) {
        const auto is_missing = [&](const PlannedRun& run) {
          if (run.case_index != i || run.variant != j || run.after_search) return false;
          return !outcomes_[place_of(run)];
        };
        const Variant& variant = plan_.variants[j];
        if (!variant.values.empty() && std::ranges::none_of(plan_.runs, is_missing))
          chosen_[i][j] = best_value(variant, cases_[i][j], comparison_.lower_is_better);
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
    if (!comparison_.has_quality()) return;
    result.target = request_.target ? request_.target : target_of(result.rows, lower_is_better);
    for (Row& row : result.rows) {
      row.curve = curve_of(row.result.evaluations, lower_is_better);
      if (result.target) row.target = time_to(*result.target, row.result.evaluations, lower_is_better);
    }
  }

  const CompareRequest& request_;
  Plan plan_;
  std::vector<std::optional<runs::RunOutcome>> outcomes_;        // of the planned runs
  std::vector<bool> started_;                                    // of them, by this call
  std::vector<std::vector<std::vector<ValueRuns>>> cases_;       // by case, variant and value
  std::vector<std::vector<std::optional<std::size_t>>> chosen_;  // by case and variant: the value, once it is known
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
