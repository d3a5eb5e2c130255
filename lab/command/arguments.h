// Flags into requests. Every sentence about a wrong call comes from here or from the layer that owns the value.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/compare.h"

namespace flockstep::command {

// The flags that `train` and `compare` share, as given. Empty or zero: not given.
// The option of tasks that --lr stands for.
constexpr const char* kLearningRate = "learning_rate";

struct RunFlags {
  std::string task = "linear";
  std::string engine = "auto", device = "cpu";
  std::vector<int> workers;  // `compare` takes several of these two
  std::vector<std::int64_t> batch;
  std::uint64_t seed = 1;
  std::int64_t steps = 0, evaluate_every = 0, checkpoint_every = 0, bucket_kib = 4096;
  double deadline_s = 60, compute_ms = -1;
  std::optional<std::string> compute;
  std::string straggler, straggler_fixed, jitter, faulty, out, log = "quiet";
  bool no_gradients = false;
  std::int64_t pretend_parameters = 0;
  bool deterministic = false, resume = false, json = false;
  engines::SimOptions sim;
  std::optional<double> latency_us, bandwidth_gbps;  // of `sim`, where given
  std::string config;
  // Options of whatever task there is, such as "data", and those of algorithms and tasks by name:
  // "local_sgd.period" -> "4".
  std::map<std::string, std::string> task_options;
  std::map<std::string, std::string> dotted;
};

enum class Sizes { one, lists };  // whether --workers and --batch take one value or several
void add_run_flags(CLI::App& command, RunFlags& flags, Sizes sizes);
void add_checkpoint_flag(CLI::App& command, RunFlags& flags);

// Without algorithm: that is for the caller to set. Of several sizes, the first.
runs::RunRequest request_of(const RunFlags& flags);
// Options given as --NAME.OPTION.
base::Settings settings_of(const RunFlags& flags, std::string_view name);

// What an option with a number takes, for CLI::Option::check.
CLI::Validator whole(std::int64_t least, std::int64_t most);
CLI::Validator real(double least, double most);

// The names behind a flag that takes several, separated by commas. Throws Error{bad_input} if one is empty.
std::vector<std::string> names_of(const std::string& flag, const std::string& text);

// What CLI11 has found wrong with an option, in our words.
std::string in_our_words(const CLI::Error& error);

// Throws Error{bad_input} for an option of the command line with an empty value, as a script gives for a variable that
// is not set.
void refuse_empty_values(const CLI::App& command);

// Throws Error{bad_input} for options on the command line of algorithms and tasks other than the ones that run: they
// would be ignored without a word. A config file may have them.
void refuse_options_of_others(const CLI::App& command, std::string_view task, std::string_view algorithm);

// That the command does not take a flag, and which one may be meant.
std::string unknown_flag_sentence(const CLI::App& command, const std::string& flag);

// The arguments of `train` that make the same run in a process of its own.
std::vector<std::string> arguments_of(const runs::RunRequest& request);

}  // namespace flockstep::command
