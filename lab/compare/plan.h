// What a comparison will do: every run of it, in order, checked before the first one starts.
//
// A case is one number of workers and one batch. A variant is an entry of --algorithms, such as mean or
// local_sgd:period=4. A search runs a variant once per value of one option; the best value becomes its row. Where not
// all seeds take part in the search, only the best value gets the others.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runs/run.h"

namespace flockstep::compare {

struct CompareRequest {
  runs::RunRequest base;                // what follows replaces its algorithm, seed, workers and batch
  std::vector<std::string> algorithms;  // variants as given; all: every algorithm
  std::map<std::string, base::Settings> algorithm_settings;     // of every variant of that algorithm
  std::vector<int> workers;                                     // empty: base's
  std::vector<std::int64_t> batches;                            // empty: base's
  std::string search;                                           // NAME.OPTION=VALUE,VALUE,...; empty: none
  std::function<bool()> stop_requested = [] { return false; };  // asked before every run
  // Told on rank 0, where an earlier call has left runs that need not be made again.
  std::function<void(std::ptrdiff_t done, std::size_t planned)> on_earlier = [](auto, auto) {};
  // Told before the first run and after each: of those that this call has to make, how many are made.
  std::function<void(std::size_t made, std::size_t to_make)> on_progress = [](auto, auto) {};
  int seeds = 1;                 // base.train.seed and those that follow it
  int search_seeds = 0;          // so many of them, the first ones, take part in the search; 0: all
  std::optional<double> target;  // a quality; nothing: each case finds its own
  std::filesystem::path out;     // a folder per run below it; empty: nothing is written
};

struct Case {
  int workers = 0;         // 0: as many as a launcher has started
  std::int64_t batch = 0;  // over all workers
};

struct Search {
  std::string owner, option;  // owner: the task, or an algorithm
  std::vector<std::string> values;
  int seeds = 1;  // that choose among them
  std::string name() const { return owner + "." + option; }
};

struct Variant {
  std::string label;      // as given
  std::string algorithm;  // its name
  base::Settings settings;
  base::Settings own;               // of them, those given for this entry alone
  std::string folder;               // the label as a file name
  std::vector<std::string> values;  // of the search; empty where it does not concern this variant
};

struct PlannedRun {
  std::size_t case_index, variant, value;  // places in the lists of the plan; value is 0 where nothing is searched
  runs::RunRequest request;
  std::string folder;         // below `out`
  std::string title;          // for people who watch
  bool after_search = false;  // made only if the search has chosen its value
};

struct Plan {
  std::vector<Case> cases;
  std::vector<Variant> variants;
  std::optional<Search> search;
  std::vector<PlannedRun> runs;  // case by case; seeds outermost in each, so that what disturbs the machine disturbs
                                 // all variants alike
  std::size_t to_make = 0;       // of them, whatever the search chooses
};

// Throws Error{bad_input} for whatever could be known to be wrong: names, options, values, sizes.
Plan plan_of(const CompareRequest& request);

}  // namespace flockstep::compare
