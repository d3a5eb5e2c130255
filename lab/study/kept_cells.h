// The runs of a study through a Runner, each kept in a file of its own: FOLDER/cells/NAME.json holds how it was asked
// for (`request`) and what came of it (`result`, as summary.json has it). One that was asked for otherwise is made
// anew. Comparisons keep their runs themselves (compare/earlier.h).
#pragma once

#include <functional>
#include <set>

#include "compare/compare.h"
#include "study/study.h"

namespace flockstep::study {

struct KeptCellsOptions {
  std::filesystem::path folder;                                 // empty: nothing is kept
  std::function<bool()> stop_requested = [] { return false; };  // asked before every run
  // Told before the first run and after each: of those that `make` has to make, how many are made.
  std::function<void(const std::string& title, std::size_t made, std::size_t to_make)> on_progress = [](const auto&,
                                                                                                        auto, auto) {};
};

class KeptCells : public Cells {
 public:
  KeptCells(KeptCellsOptions options, compare::Runner& runner) : options_(std::move(options)), runner_(runner) {}

  std::vector<telemetry::Summary> make(const std::string& title, const std::vector<Cell>& cells) override;
  nlohmann::json compared(const std::string& name, compare::CompareRequest request) override;
  std::size_t made() const { return made_.size() + compared_; }       // by this object
  std::size_t kept() const { return kept_.size() + kept_compared_; }  // and found, made by an earlier one

 private:
  std::optional<telemetry::Summary> find(const Cell& cell) const;
  void keep(const Cell& cell, const runs::RunOutcome& outcome) const;
  std::filesystem::path file_of(const Cell& cell) const { return options_.folder / "cells" / (cell.name + ".json"); }

  KeptCellsOptions options_;
  compare::Runner& runner_;
  std::set<std::string> made_, kept_;             // a study may ask for a cell again
  std::size_t compared_ = 0, kept_compared_ = 0;  // runs of comparisons
};

}  // namespace flockstep::study
