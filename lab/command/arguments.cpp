#include "command/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "algorithms/registry.h"
#include "base/names.h"
#include "base/split.h"
#include "command/completion.h"
#include "engines/launcher.h"
#include "engines/registry.h"
#include "engines/sim/presets.h"
#include "runs/device.h"
#include "tasks/registry.h"

namespace flockstep::command {
namespace {

constexpr double kSimComputeMs = 100;  // a step on `sim` has to take some time

struct LogName {
  std::string_view name;
  base::LogLevel level;
};
constexpr std::array<LogName, 4> kLogNames{{{"quiet", base::LogLevel::quiet},
                                            {"warning", base::LogLevel::warning},
                                            {"info", base::LogLevel::info},
                                            {"debug", base::LogLevel::debug}}};

// Stands for the option in a validator's sentence, since a validator does not know the option's name.
constexpr std::string_view kOption = "it";

template <typename Number>
CLI::Validator validator(Number (*parse)(std::string_view, std::string_view, Number, Number), Number least,
                         Number most) {
  return {[parse, least, most](const std::string& text) -> std::string {
            try {
              parse(kOption, text, least, most);
            } catch (const Error& error) {
              return error.what();
            }
            return "";
          },
          fmt::format("{}..{}", least, most)};  // one word, as the columns of the help need it
}

void add_dotted(CLI::App& command, RunFlags& flags, std::string_view owner, std::span<const base::OptionSpec> options) {
  for (const base::OptionSpec& option : options) {
    const std::string name = fmt::format("{}.{}", owner, option.name);
    command
        .add_option_function<std::string>(
            "--" + name, [&flags, name](const std::string& value) { flags.dotted[name] = value; },
            fmt::format("{} [{}]", option.help, option.default_value))
        ->group(fmt::format("Options of {}", owner))
        ->type_name(option.default_value == "on" || option.default_value == "off" ? "on|off" : "TEXT");
  }
}

// A number, or several with commas between them.
template <typename Number>
void add_size(CLI::App& command, const std::string& name, std::vector<Number>& numbers, std::int64_t most, Sizes sizes,
              const std::string& help) {
  command.add_option_function<std::string>(
      name,
      [&numbers, name, most, sizes](const std::string& text) {
        numbers.clear();
        const auto parts = sizes == Sizes::lists ? base::split(text, ',') : std::vector{text};
        if (std::ranges::count(parts, "") > 0)
          throw Error(ErrorCode::bad_input, fmt::format("{} takes numbers such as 8 or 8,32, not '{}'", name, text));
        for (const std::string& part : parts)
          numbers.push_back(static_cast<Number>(base::parse_integer(name, part, 1, most)));
      },
      help);
}

// Options that several tasks have, and that need not be given with a task's name.
struct TaskOption {
  base::OptionSpec option;
  std::string_view type;
};
constexpr std::array<TaskOption, 4> kTaskOptions{{
    {{"data", "", "files with the task's data, instead of the built-in data"}, kFile},
    {{"size", "", "size of the network and its training: tiny, small or paper"}, "tiny|small|paper"},
    {{"shard", "", "iid, or skewed: each worker sees its own kind of data only"}, "iid|skewed"},
    {{"noisy_workers", "", "this many workers, the last ranks, have random labels"}, "TEXT"},
}};

std::string flag_of(std::string_view option) {
  if (option == kLearningRate) return "--lr";
  std::string flag = fmt::format("--{}", option);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

bool has_option(const tasks::TaskRow& task, std::string_view name) {
  return std::ranges::find(task.options, name, &base::OptionSpec::name) != task.options.end();
}

engines::SimOptions sim_of(const RunFlags& flags, std::string_view engine) {
  engines::SimOptions sim = flags.sim;
  if (!sim.platform.empty() && engine != "sim")
    throw Error(
        ErrorCode::bad_input,
        fmt::format("--platform is for simulations, and the engine is {}: leave it out, or use --engine sim", engine));
  sim.platform = engines::sim::platform_of(sim.platform);
  if (!sim.platform.empty() && (flags.latency_us || flags.bandwidth_gbps))
    throw Error(ErrorCode::bad_input,
                fmt::format("a platform sets its own latencies and bandwidths: leave out {}, or --platform",
                            flags.latency_us ? "--latency-us" : "--bandwidth-gbps"));
  sim.latency_us = flags.latency_us.value_or(sim.latency_us);
  sim.bandwidth_gbps = flags.bandwidth_gbps.value_or(sim.bandwidth_gbps);
  return sim;
}

// The task's own flag, --TASK.OPTION, wins.
void set_task_options(const RunFlags& flags, base::Settings& settings) {
  for (const auto& [name, value] : flags.task_options) {
    if (!has_option(tasks::find_task(flags.task), name)) {
      std::vector<std::string_view> others;
      for (const auto& row : tasks::tasks())
        if (has_option(row, name)) others.push_back(row.name);
      throw Error(ErrorCode::bad_input, fmt::format("the task {} takes no {}: leave it out, or use --task {}",
                                                    flags.task, flag_of(name), fmt::join(others, " or ")));
    }
    settings.try_emplace(name, value);
  }
}

// How long steps compute, and how unevenly.
void set_compute(const RunFlags& flags, std::string_view engine, train::PaceOptions& pace) {
  if (flags.compute && flags.compute_ms >= 0)
    throw Error(ErrorCode::bad_input, "--compute and --compute-ms set the same thing: give one of them");
  const double compute_ms = flags.compute_ms >= 0 ? flags.compute_ms : engine == "sim" ? kSimComputeMs : 0;
  pace.compute = base::Duration(compute_ms / 1000);
  if (flags.compute) train::parse_compute(*flags.compute, pace);
  if (flags.jitter.empty()) return;
  if (pace.measured || pace.jitter_sigma > 0)
    throw Error(ErrorCode::bad_input,
                fmt::format("--compute {} already sets how uneven steps are: leave --jitter out", *flags.compute));
  train::parse_jitter(flags.jitter, pace);
}

template <typename Row>
void refuse_options_of_others(const CLI::App& command, std::string_view kind, std::span<const Row> rows,
                              const Row& chosen) {
  for (const Row& row : rows)
    for (const base::OptionSpec& option : row.options)
      if (const std::string flag = fmt::format("--{}.{}", row.name, option.name);
          &row != &chosen && command.count(flag) > 0)
        throw Error(ErrorCode::bad_input, fmt::format("{} does not apply to the {} {}: leave it out, or use --{} {}",
                                                      flag, kind, chosen.name, kind, row.name));
}

}  // namespace

CLI::Validator whole(std::int64_t least, std::int64_t most) { return validator(base::parse_integer, least, most); }
CLI::Validator real(double least, double most) { return validator(base::parse_real, least, most); }

std::vector<std::string> names_of(const std::string& flag, const std::string& text) {
  std::vector<std::string> names = base::split(text, ',');
  if (std::ranges::count(names, "") > 0)
    throw Error(ErrorCode::bad_input, fmt::format("{} takes names such as mean,adacons, not '{}'", flag, text));
  return names;
}

std::string in_our_words(const CLI::Error& error) {
  std::string text = error.what();
  if (const auto* mismatch = dynamic_cast<const CLI::ArgumentMismatch*>(&error); mismatch && text.ends_with("missing"))
    return text.substr(0, text.find(':')) + " needs a value";
  if (const std::string before = fmt::format(": {} takes", kOption); text.find(before) != std::string::npos)
    return text.replace(text.find(before), before.size(), " takes");
  constexpr std::string_view kNoFlag = "Could not convert: ";  // numbers have been looked at before
  if (const std::size_t equals = text.find(" = "); text.starts_with(kNoFlag) && equals != std::string::npos)
    return fmt::format("{} takes no value, not '{}'", text.substr(kNoFlag.size(), equals - kNoFlag.size()),
                       text.substr(equals + 3));
  return text;
}

void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options())
    if (std::ranges::count(option->results(), "") > 0)
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} has no value: give it one, or leave it out", option->get_name()));
}

void refuse_options_of_others(const CLI::App& command, std::string_view task, std::string_view algorithm) {
  refuse_options_of_others(command, "task", tasks::tasks(), tasks::find_task(task));
  refuse_options_of_others(command, "algorithm", algorithms::algorithms(), algorithms::find_algorithm(algorithm));
}

std::string unknown_flag_sentence(const CLI::App& command, const std::string& flag) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames()[0]);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view nearest = base::nearest_name(flag, known);
  const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
  return fmt::format("{} does not take {}{} (see `flockstep {} --help`)", command.get_name(), flag, hint,
                     command.get_name());
}

void add_run_flags(CLI::App& command, RunFlags& flags, Sizes sizes) {
  command.add_option("--task", flags.task, "what to learn (see `flockstep tasks`)")
      ->type_name(kTask)
      ->capture_default_str();
  command
      .add_option("--engine", flags.engine,
                  "where workers run (see `flockstep engines`); auto: mesh under `flockstep launch`, mpi under mpirun, "
                  "else threads")
      ->type_name(kEngine)
      ->capture_default_str();
  command
      .add_option(
          "--device", flags.device,
          "device of tasks with torch: cpu, cuda (the workers divide the GPUs), cuda:N, or auto: a GPU if there is one")
      ->type_name("cpu|cuda|auto")
      ->capture_default_str();
  const std::string several = sizes == Sizes::lists ? "; several values, such as 8,32: a table for each" : "";
  add_size(command, "--workers", flags.workers, 1 << 20, sizes,
           "number of workers [4; under a launcher, its processes]" + several);
  command.add_option("--steps", flags.steps, "updates [the task's default]")->check(whole(1, std::int64_t{1} << 31));
  add_size(command, "--batch", flags.batch, std::int64_t{1} << 40, sizes,
           "samples per step over all workers [the task's default]" + several);
  command.add_option("--seed", flags.seed, "seed of data, model and stragglers")
      ->check(whole(0, std::int64_t{1} << 53))
      ->capture_default_str();
  command.add_option("--evaluate-every", flags.evaluate_every, "steps between evaluations [a twentieth of the run]")
      ->check(whole(1, std::int64_t{1} << 40));
  command.add_option("--compute-ms", flags.compute_ms, "pretended compute time of a step [0; on sim 100]")
      ->check(real(0, 1e7));
  command.add_option_function<std::string>(
      "--compute", [&flags](const std::string& text) { flags.compute = text; },
      "the same in other forms: 200ms, lognormal:200ms:0.53 (uneven, with this mean and sigma) or file:PATH (one "
      "duration in seconds per line; every step draws one)");
  command.add_option("--straggler", flags.straggler,
                     "stragglers: 2x320ms delays two random workers by 320 ms in each step; independent:2x320ms: each "
                     "worker draws two ranks and is late if one is its own, as in the WAGMA paper's code");
  command.add_option("--straggler-fixed", flags.straggler_fixed,
                     "workers that are late in every step, such as 3:50ms or 3:50ms,5:20ms");
  command.add_option("--jitter", flags.jitter, "uneven steps, such as lognormal:0.3 (a factor of mean one)");
  command.add_option("--faulty", flags.faulty,
                     "faulty workers, such as 3:scale:-5, 2:noise:10, 4:zeros, 5:nan:100 or 6:copies:1; "
                     "3:scale:1000@50: only in step 50; 3:scale:-5@100-: from step 100 on");
  for (const auto& [option, type] : kTaskOptions) {
    const std::string name(option.name);
    command
        .add_option_function<std::string>(
            flag_of(name), [&flags, name = name](const std::string& value) { flags.task_options[name] = value; },
            fmt::format("option of the task: {}", option.help))
        ->type_name(std::string(type));
  }
  command.add_option("--bucket-kib", flags.bucket_kib, "size of the buckets in which gradients are sent")
      ->check(whole(1, std::int64_t{1} << 23))
      ->capture_default_str();
  command.add_option("--deadline", flags.deadline_s, "longest single wait for another worker, in seconds")
      ->check(real(0.001, 1e6))
      ->capture_default_str();
  command.add_flag("--deterministic", flags.deterministic,
                   "threads only: one worker at a time in an order drawn from the seed");
  command
      .add_option("--platform", flags.sim.platform,
                  "sim: the network, a preset (see `flockstep platforms`) or a SimGrid platform file [a star of equal "
                  "links]")
      ->type_name(kNetwork);
  const engines::SimOptions star;
  command.add_option("--latency-us", flags.latency_us, fmt::format("sim: latency of a link [{}]", star.latency_us))
      ->check(real(0, 1e7));
  command
      .add_option("--bandwidth-gbps", flags.bandwidth_gbps,
                  fmt::format("sim: bandwidth of a link, Gbit/s [{}]", star.bandwidth_gbps))
      ->check(real(1e-6, 1e6));
  command
      .add_option("--memory-gbytes-s", flags.sim.memory_gbytes_s,
                  "sim: speed of sums, GB/s read and written by a worker [the platform's, mostly 10]")
      ->check(real(1e-6, 1e6));
  command
      .add_option("--bytes-scale", flags.sim.bytes_scale,
                  "sim: factor by which the model is larger for the simulated network")
      ->check(real(1e-6, 1e9))
      ->capture_default_str();
  command.add_option_function<std::string>(
      "--pretend-parameters",
      [&flags](const std::string& text) {
        flags.pretend_parameters = base::parse_integer("--pretend-parameters", text, 1, std::int64_t{1} << 40);
      },
      "sim: the same as a number of parameters, such as 25559081; with --no-gradients on any engine [the task's]");
  command.add_flag("--no-gradients", flags.no_gradients,
                   "measure time only: no data, no network, no evaluation; --compute sets the length of a step");
  command.add_option("--out", flags.out, "folder for metrics, trace and results")->type_name(kFolder);
  command
      .add_option("--log", flags.log,
                  "level of messages on standard error: quiet, warning, info (options, evaluations, checkpoints) or "
                  "debug (every step, too)")
      ->type_name("quiet|warning|info|debug")
      ->capture_default_str();
  command.add_flag("--json", flags.json, "print the result as JSON");
  command.add_option("--config", flags.config, "TOML file with any of these options, such as steps = 100")
      ->type_name(kFile);
  for (const auto& row : tasks::tasks()) add_dotted(command, flags, row.name, row.options);
  for (const auto& row : algorithms::algorithms()) add_dotted(command, flags, row.name, row.options);
}

void add_checkpoint_flag(CLI::App& command, RunFlags& flags) {
  command.add_option("--checkpoint-every", flags.checkpoint_every, "steps between checkpoints in --out [never]")
      ->check(whole(1, std::int64_t{1} << 40));
}

base::Settings settings_of(const RunFlags& flags, std::string_view name) {
  base::Settings settings;
  const std::string prefix = fmt::format("{}.", name);
  for (const auto& [key, value] : flags.dotted)
    if (key.starts_with(prefix)) settings[key.substr(prefix.size())] = value;
  return settings;
}

runs::RunRequest request_of(const RunFlags& flags) {
  runs::RunRequest request;
  request.engine = engines::resolve_engine(flags.engine);
  engines::find_backend(request.engine);
  if (const auto here = engines::launched(); here && here->size > 1 && request.engine != "mpi")
    throw Error(
        ErrorCode::bad_input,
        fmt::format(
            "a launcher has started {} processes, but the {} engine runs in one: drop mpirun, or use --engine mpi",
            here->size, request.engine));
  const int usual = engines::is_launched(request.engine) ? 0 : request.engine == "self" ? 1 : 4;
  request.launch.workers = flags.workers.empty() ? usual : flags.workers[0];
  request.launch.seed = flags.seed;
  request.launch.deterministic = flags.deterministic;
  request.launch.sim = sim_of(flags, request.engine);

  train::TrainOptions& train = request.train;
  train.task = flags.task;
  train.task_settings = settings_of(flags, flags.task);
  set_task_options(flags, train.task_settings);
  train.seed = flags.seed;
  train.steps = flags.steps;
  train.batch = flags.batch.empty() ? 0 : flags.batch[0];
  train.evaluate_every = flags.evaluate_every;
  train.checkpoint_every = flags.checkpoint_every;
  train.bucket_kib = flags.bucket_kib;
  train.patience = base::Duration(flags.deadline_s);
  train.out = flags.out;
  train.resume = flags.resume;
  train.log_level = base::find_by_name(std::span<const LogName>(kLogNames), flags.log, "log level").level;
  train.gradients = !flags.no_gradients;
  train.pretend_parameters = flags.pretend_parameters;
  train.device = runs::chosen_device(flags.device, train);
  set_compute(flags, request.engine, train.pace);
  if (!flags.straggler.empty()) train::parse_straggler(flags.straggler, train.pace);
  if (!flags.straggler_fixed.empty()) train::parse_fixed_stragglers(flags.straggler_fixed, train.pace);
  if (!flags.faulty.empty()) train.faults = train::parse_faults(flags.faulty);
  return request;
}

std::vector<std::string> arguments_of(const runs::RunRequest& request) {
  const train::TrainOptions& train = request.train;
  std::vector<std::string> arguments{"train"};
  const auto add = [&](std::string_view name, const auto& value) {
    arguments.push_back(fmt::format("--{}={}", name, value));
  };
  add("engine", request.engine);
  add("workers", request.launch.workers);
  add("task", train.task);
  add("algorithm", train.algorithm);
  add("seed", train.seed);
  if (train.device != "cpu") add("device", train.device);
  if (train.steps > 0) add("steps", train.steps);
  if (train.batch > 0) add("batch", train.batch);
  if (train.evaluate_every > 0) add("evaluate-every", train.evaluate_every);
  if (train.checkpoint_every > 0) add("checkpoint-every", train.checkpoint_every);
  add("bucket-kib", train.bucket_kib);
  add("deadline", train.patience.count());
  if (train.pace.measured)
    add("compute", fmt::format("file:{}", train.pace.measured->file.string()));
  else
    add("compute-ms", train.pace.compute.count() * 1000);
  if (train.pace.random_stragglers > 0) add("straggler", train::straggler_text(train.pace));
  if (!train.pace.fixed.empty()) {
    std::vector<std::string> fixed;
    for (const auto& straggler : train.pace.fixed)
      fixed.push_back(fmt::format("{}:{}s", straggler.worker, straggler.delay.count()));
    add("straggler-fixed", fmt::format("{}", fmt::join(fixed, ",")));
  }
  if (train.pace.jitter_sigma > 0) add("jitter", fmt::format("lognormal:{}", train.pace.jitter_sigma));
  if (!train.faults.faulty.empty()) add("faulty", train::text_of(train.faults));
  if (request.launch.sim.platform.empty()) {
    add("latency-us", request.launch.sim.latency_us);
    add("bandwidth-gbps", request.launch.sim.bandwidth_gbps);
  } else {
    add("platform", request.launch.sim.platform);
  }
  add("bytes-scale", request.launch.sim.bytes_scale);
  if (request.launch.sim.memory_gbytes_s > 0) add("memory-gbytes-s", request.launch.sim.memory_gbytes_s);
  add("log", std::ranges::find(kLogNames, train.log_level, &LogName::level)->name);
  for (const auto& [name, value] : train.task_settings) add(fmt::format("{}.{}", train.task, name), value);
  for (const auto& [name, value] : train.algorithm_settings) add(fmt::format("{}.{}", train.algorithm, name), value);
  if (train.pretend_parameters > 0) add("pretend-parameters", train.pretend_parameters);
  if (!train.gradients) arguments.push_back("--no-gradients");
  if (!train.out.empty()) add("out", train.out.string());
  if (train.resume) arguments.push_back("--resume");
  if (request.launch.deterministic) arguments.push_back("--deterministic");
  arguments.push_back("--json");
  return arguments;
}

}  // namespace flockstep::command
