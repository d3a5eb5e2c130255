// Averaging models in groups that wait for nobody: the one implementation behind `wagma` and `flock`, and behind
// `local_sgd` where it overlaps its averages with steps.
#pragma once

#include <limits>
#include <optional>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/registry.h"
#include "math/outer_step.h"
#include "protocol/options.h"

namespace flockstep::algorithms {

enum class MergeRule {
  published,  // (m average + own) / (m + 1) where the average was taken without the worker's own model
  additive,   // rounds move a shared model, to which each worker adds its updates
};

struct GroupAveragingOptions {
  MergeRule merge = MergeRule::published;
  bool overlap = false;            // with additive merges: a worker takes the next step while its round runs
  std::int64_t steps_a_round = 1;  // that a worker takes before it arrives at the next
  bool survives_losses = false;    // where the engine does
  bool guard = true;               // updates are guarded (math/update_guard.h)
  math::UpdateWeights weights = math::UpdateWeights::mean;  // of guarded updates
  std::optional<math::OuterStep> outer = {};                // with additive merges, whose updates it steps along
  bool finds_nodes = false;                                 // asks the engine for them when it begins
  protocol::Options protocol;
};

constexpr base::OptionSpec kOverlapOption{
    "overlap", "off", "on: take the next step while the average is computed, and add its change when it is complete"};
bool overlap_of(const base::SettingsReader& reader);

// What `wagma` and `flock` take; they differ in the defaults.
inline constexpr std::size_t kGroupAveragingOptions = 13;
consteval std::array<base::OptionSpec, kGroupAveragingOptions> group_averaging_specs(std::string_view merge,
                                                                                     std::string_view sync,
                                                                                     std::string_view activation) {
  return {{
      {"group_size", "auto", "workers in a group (S), 2 to P; auto: the power of two at or above the square root of P"},
      {"groups", "dynamic",
       "dynamic: other groups in every round; fixed: those of round 0; nodes: the workers of a node, and in every "
       "`across`-th round those at the same place in their nodes"},
      {"across", "auto", "groups = nodes: every across-th round goes across nodes, 2 or more; auto: 4"},
      {"workers_per_node", "auto",
       "groups = nodes: workers of a node, whose ranks are consecutive; auto: as the launcher or the simulated "
       "platform says; where none does, all workers are one node"},
      {"period", "10", "steps from one round over all workers to the next (tau), which bounds staleness"},
      {"merge", merge,
       "how a worker's model is merged with an average that was taken without it: published or additive"},
      {"sync", sync,
       "barrier: the last round of a period waits for all workers; rolling: no worker is a period ahead of another"},
      {"activation", activation,
       "who starts a round: first, majority, quorum or deadline; auto: majority, or deadline with overlap"},
      {"quorum", "auto", "activation = quorum: number of workers, 1 to P; auto: all but one, at least one"},
      {"deadline", "auto",
       "activation = deadline: time after the first worker, such as 20ms; auto: twice the median lateness"},
      kOverlapOption,
      {"weights", "mean",
       "weight of a worker's update: mean, all the same; direction_consensus or geometric_median, by its agreement "
       "with the others"},
      kGuardOption,
  }};
}

// Reads and validates for so many workers; throws Error{bad_input}.
GroupAveragingOptions group_averaging_options(std::string_view name, std::span<const base::OptionSpec> specs,
                                              const base::Settings& settings, int workers);
Facts group_averaging_facts(const GroupAveragingOptions& options);
std::unique_ptr<Algorithm> make_group_averaging(const AlgorithmInputs& inputs, GroupAveragingOptions options);
double group_averaging_bytes(int workers, double parameters, const GroupAveragingOptions& options);

// The row of one of them: a type with a name and with options, kName and kOptions.
template <typename Corner>
AlgorithmRow group_averaging_row(std::string_view description) {
  static constexpr auto options_of = [](const base::Settings& settings, int workers) {
    return group_averaging_options(Corner::kName, Corner::kOptions, settings, workers);
  };
  return {
      .name = Corner::kName,
      .family = Family::model,
      .description = description,
      .bytes_text = "8 D (P-G)/P; G groups, 1 each tau-th step",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return group_averaging_bytes(workers, parameters, options_of(settings, workers));
          },
      .models_held = models_held_among_others<3>,
      .options = Corner::kOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            return make_group_averaging(inputs, options_of(inputs.settings, inputs.context.size()));
          },
      .check = [](const base::Settings& settings, int workers) { options_of(settings, workers); },
      .facts =
          [](const base::Settings& settings) {
            return group_averaging_facts(options_of(settings, std::numeric_limits<int>::max()));
          },
  };
}

}  // namespace flockstep::algorithms
