#include "compare/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "algorithms/registry.h"
#include "base/names.h"
#include "base/split.h"
#include "base/text.h"
#include "tasks/registry.h"

namespace flockstep::compare {
namespace {

constexpr int kUnknown = std::numeric_limits<int>::max();  // number of workers

template <typename Value>
void refuse_repeats(std::string_view flag, const std::vector<Value>& values) {
  for (const Value& value : values)
    if (std::ranges::count(values, value) > 1)
      throw Error(ErrorCode::bad_input, fmt::format("{} names {} twice", flag, value));
}

std::string as_file_name(std::string_view text) {
  std::string name(text);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-') c = '-';
  return name;
}

void require_option(std::string_view owner, std::span<const base::OptionSpec> options, std::string_view name) {
  if (options.empty())
    throw Error(ErrorCode::bad_input, fmt::format("{} has no options, so it cannot take '{}'", owner, name));
  base::find_by_name(options, name, fmt::format("option of {}", owner));
}

Variant variant_of(const std::string& entry, const CompareRequest& request) {
  const std::vector<std::string> parts = base::split(entry, ':');
  const algorithms::AlgorithmRow& row = algorithms::find_algorithm(parts[0]);
  Variant variant{entry, parts[0], {}, {}, as_file_name(entry), {}};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos || equals + 1 == parts[i].size())
      throw Error(ErrorCode::bad_input,
                  fmt::format("'{}' in --algorithms {} should be an option and its value, such as {}:OPTION=VALUE",
                              parts[i], entry, parts[0]));
    const std::string name = parts[i].substr(0, equals);
    require_option(row.name, row.options, name);
    if (!variant.own.emplace(name, parts[i].substr(equals + 1)).second)
      throw Error(ErrorCode::bad_input, fmt::format("--algorithms {} gives {} twice", entry, name));
  }
  if (const auto common = request.algorithm_settings.find(variant.algorithm);
      common != request.algorithm_settings.end())
    variant.settings = common->second;
  for (const auto& [name, value] : variant.own) variant.settings[name] = value;
  return variant;
}

// `all` stands for every algorithm there is.
std::vector<std::string> entries_of(const CompareRequest& request) {
  std::vector<std::string> entries;
  for (const std::string& entry : request.algorithms)
    if (entry == "all")
      for (const auto& row : algorithms::algorithms()) entries.emplace_back(row.name);
    else
      entries.push_back(entry);
  return entries;
}

std::vector<Variant> variants_of(const CompareRequest& request) {
  const std::vector<std::string> entries = entries_of(request);
  if (entries.empty()) throw Error(ErrorCode::bad_input, "nothing to compare: name one or more --algorithms");
  refuse_repeats("--algorithms", entries);
  std::vector<Variant> variants;
  for (const std::string& entry : entries) {
    Variant variant = variant_of(entry, request);
    while (std::ranges::find(variants, variant.folder, &Variant::folder) != variants.end()) variant.folder += "-too";
    variants.push_back(std::move(variant));
  }
  return variants;
}

// Reads --search, and tells the variants that it concerns. One that fixes the searched option itself keeps its value.
std::optional<Search> search_of(const CompareRequest& request, std::vector<Variant>& variants) {
  if (request.search_seeds > request.seeds)
    throw Error(ErrorCode::bad_input, fmt::format("--search-seeds {} is more than there are seeds: use --seeds {}",
                                                  request.search_seeds, request.search_seeds));
  if (request.search.empty() && request.search_seeds > 0)
    throw Error(ErrorCode::bad_input,
                "--search-seeds needs a search: add --search, or several learning rates with --lr");
  if (request.search.empty()) return std::nullopt;
  const std::size_t equals = request.search.find('='), dot = request.search.substr(0, equals).find('.');
  if (equals == std::string::npos || dot == std::string::npos)
    throw Error(ErrorCode::bad_input,
                fmt::format("--search takes the form NAME.OPTION=VALUE,VALUE, not '{}'", request.search));
  Search search{request.search.substr(0, dot), request.search.substr(dot + 1, equals - dot - 1),
                base::split(std::string_view(request.search).substr(equals + 1), ','),
                request.search_seeds > 0 ? request.search_seeds : request.seeds};
  if (search.values.size() < 2 || std::ranges::count(search.values, "") > 0)
    throw Error(ErrorCode::bad_input, fmt::format("--search {} needs two or more values, such as {}=VALUE,VALUE",
                                                  request.search, search.name()));
  refuse_repeats("--search " + search.name(), search.values);

  const std::string& task = request.base.train.task;
  const bool of_task = search.owner == task;
  if (of_task) {
    require_option(task, tasks::find_task(task).options, search.option);
  } else {
    if (std::ranges::find(variants, search.owner, &Variant::algorithm) == variants.end())
      throw Error(ErrorCode::bad_input, fmt::format("--search names {}, which is neither the task ({}) nor one of the "
                                                    "--algorithms",
                                                    search.owner, task));
    require_option(search.owner, algorithms::find_algorithm(search.owner).options, search.option);
  }
  for (Variant& variant : variants) {
    const bool fixed = variant.own.contains(search.option);
    if (of_task || (variant.algorithm == search.owner && !fixed)) variant.values = search.values;
  }
  if (std::ranges::all_of(variants, [](const Variant& variant) { return variant.values.empty(); }))
    throw Error(ErrorCode::bad_input, fmt::format("every {} in --algorithms sets {} itself: there is nothing to search",
                                                  search.owner, search.option));
  return search;
}

runs::RunRequest run_of(const CompareRequest& request, const Case& size, const Variant& variant, const Plan& plan,
                        std::size_t value) {
  runs::RunRequest run = request.base;
  run.launch.workers = size.workers;
  run.train.batch = size.batch;
  run.train.algorithm = variant.algorithm;
  run.train.algorithm_settings = variant.settings;
  if (!variant.values.empty()) {
    auto& settings = plan.search->owner == run.train.task ? run.train.task_settings : run.train.algorithm_settings;
    settings[plan.search->option] = variant.values[value];
  }
  return run;
}

std::size_t runs_per_seed(const Variant& variant) { return std::max<std::size_t>(1, variant.values.size()); }

// What an algorithm takes may depend on the number of workers, so the sentence says which variant it was, and with how
// many.
void check_algorithm(const Variant& variant, const Plan& plan, std::size_t value, const train::TrainOptions& options,
                     int workers) {
  try {
    algorithms::find_algorithm(options.algorithm).check(options.algorithm_settings, workers);
  } catch (const Error& error) {
    std::string who = variant.label;
    if (!variant.values.empty() && plan.search->owner == variant.algorithm)
      who += fmt::format(":{}={}", plan.search->option, variant.values[value]);
    if (workers != kUnknown) who += " with " + base::counted(workers, "worker");
    throw Error(error.code(), fmt::format("{}: {}", who, error.what()));
  }
}

// Fills in the batch of a case that has none, now that its task can tell.
void check_case(const CompareRequest& request, Plan& plan, Case& size) {
  if (request.base.engine == "self" && size.workers != 1)
    throw Error(ErrorCode::bad_input,
                fmt::format("the self engine has one worker, not {}: use --engine threads", size.workers), "self");
  std::int64_t batch = size.batch;
  for (const Variant& variant : plan.variants)
    for (std::size_t value = 0; value < runs_per_seed(variant); ++value) {
      train::TrainOptions options = run_of(request, size, variant, plan, value).train;
      options.out = request.out;
      const int workers = size.workers > 0 ? size.workers : kUnknown;
      check_algorithm(variant, plan, value, options, workers);
      if (workers != kUnknown)
        batch = tasks::complete(options, workers).batch;
      else  // the engine will know how many there are, and check the rest
        tasks::find_task(options.task).check(options.task_settings, kUnknown);
    }
  size.batch = batch;
}

std::string folder_of_case(const CompareRequest& request, const Case& size) {
  std::string name;
  if (request.workers.size() > 1) name = fmt::format("workers-{}", size.workers);
  if (request.batches.size() > 1) name += fmt::format("{}batch-{}", name.empty() ? "" : "-", size.batch);
  return name;
}

void plan_case(const CompareRequest& request, Plan& plan, std::size_t case_index) {
  const Case& size = plan.cases[case_index];
  const std::string case_folder = folder_of_case(request, size);
  for (int seed = 0; seed < request.seeds; ++seed)
    for (std::size_t index = 0; index < plan.variants.size(); ++index)
      for (std::size_t value = 0; value < runs_per_seed(plan.variants[index]); ++value) {
        const Variant& variant = plan.variants[index];
        PlannedRun run{case_index, index, value, run_of(request, size, variant, plan, value), "", ""};
        run.after_search = !variant.values.empty() && seed >= plan.search->seeds;
        run.request.train.seed += static_cast<std::uint64_t>(seed);
        run.request.launch.seed = run.request.train.seed;
        std::string name = fmt::format("{}-seed-{}", variant.folder, run.request.train.seed);
        run.title = fmt::format("{}, seed {}", variant.label, run.request.train.seed);
        if (!variant.values.empty()) {
          name += "-" + as_file_name(variant.values[value]);
          run.title += fmt::format(", {} {}", plan.search->option, variant.values[value]);
        }
        if (!case_folder.empty()) run.title = fmt::format("{}: {}", case_folder, run.title);
        run.folder = (std::filesystem::path("runs") / case_folder / name).string();
        if (!request.out.empty()) run.request.train.out = request.out / run.folder;
        plan.runs.push_back(std::move(run));
      }
}

// Of the runs that wait for the search, one of all values is made: they share a number.
void number_runs(Plan& plan) {
  const auto is_another = [](const PlannedRun& run) { return !run.after_search || run.value == 0; };
  plan.to_make = static_cast<std::size_t>(std::ranges::count_if(plan.runs, is_another));
  std::size_t number = 0;
  for (PlannedRun& run : plan.runs) {
    if (is_another(run)) ++number;
    if (plan.to_make > 1) run.title += fmt::format(" ({} of {})", number, plan.to_make);
  }
}

}  // namespace

Plan plan_of(const CompareRequest& request) {
  if (!request.base.train.gradients && (request.target || !request.search.empty()))
    throw Error(ErrorCode::bad_input,
                fmt::format("{} depends on quality, and a run with --no-gradients has none: leave it out",
                            request.target ? "--target" : "a search"));
  Plan plan;
  plan.variants = variants_of(request);
  plan.search = search_of(request, plan.variants);
  refuse_repeats("--workers", request.workers);
  refuse_repeats("--batch", request.batches);
  const auto all_workers = request.workers.empty() ? std::vector{request.base.launch.workers} : request.workers;
  const auto batches = request.batches.empty() ? std::vector{request.base.train.batch} : request.batches;
  for (const int workers : all_workers)
    for (const std::int64_t batch : batches) plan.cases.push_back({workers, batch});
  for (Case& size : plan.cases) check_case(request, plan, size);
  for (std::size_t index = 0; index < plan.cases.size(); ++index) plan_case(request, plan, index);
  number_runs(plan);
  return plan;
}

}  // namespace flockstep::compare
