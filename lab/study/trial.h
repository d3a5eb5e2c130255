// What our own studies are made of: an algorithm under some settings, among so many workers whose steps are uneven.
//
// Unless a study says otherwise, steps take a second on the mean and are spread as those of the published reinforcement
// learning were: lognormal with sigma 0.53. The model is as large as that one's, the network is `aries`.
#pragma once

#include <functional>
#include <span>

#include "study/study.h"

namespace flockstep::study {

struct Contender {
  std::string name;  // as tables have it
  std::string algorithm;
  base::Settings settings{};
};

struct Conditions {
  std::string name{};  // in the names of cells; those of most studies have none
  std::string platform = "aries";
  std::int64_t parameters = 8'476'421;  // that the model pretends to have
  double compute_s = 1, jitter_sigma = 0.53;
  std::string straggler{};  // as --straggler has it
  base::Settings task{};    // settings of `images`
};

struct Trial {
  Contender contender;
  int workers = 0;
  std::int64_t steps = 0;
  int seeds = 1;
  Conditions conditions{};
  std::int64_t evaluations = 5;            // of a trained run
  std::vector<telemetry::Summary> runs{};  // one for each seed, once made

  double mean_of(const std::function<double(const telemetry::Summary&)>& figure) const;
  double time_s() const;
  double share_of_ideal() const;
  double quality() const;
  compare::Spread quality_spread() const;
  // At the pace of the runs that are there.
  std::int64_t steps_within(double seconds) const;
  // NaN where workers meet in lockstep.
  double fresh_fraction() const;
  double staleness() const;
};

// How a run of the trial is asked for, for its time alone or with real gradients (the task `images`).
Cell timed_cell(const Trial& trial, int seed);
Cell trained_cell(const Trial& trial, int seed, const std::filesystem::path& data);

// Makes the runs of all trials.
void time_all(Cells& cells, const std::string& title, std::vector<Trial>& trials);
void train_all(const StudyOptions& options, Cells& cells, const std::string& title, std::vector<Trial>& trials);

// A row for each trial, without a picture: throughput, freshness and bytes, and for trained ones their quality.
StudyTable table_of_times(std::string name, std::string title, std::span<const Trial> trials);
StudyTable table_of_qualities(std::string name, std::string title, std::span<const Trial> trials);

// A figure over something that trials differ in, a line for each name.
using Figure = std::function<double(const Trial&)>;
using Name = std::function<std::string(const Trial&)>;
struct Axis {
  std::string title;
  Figure of;
};
Picture lines_of(std::span<const Trial> trials, const Axis& x, const Axis& y, const Name& name);
Picture share_over_workers(std::span<const Trial> trials);
// Quality against share of ideal throughput, a point for each trial and a colour for each contender.
Picture quality_over_share(std::span<const Trial> trials);

// Three digits, or "-" for NaN: there is no such figure.
std::string digits(double value);

}  // namespace flockstep::study
