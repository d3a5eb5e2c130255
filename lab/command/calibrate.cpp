#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "algorithms/registry.h"
#include "base/files.h"
#include "base/schema.h"
#include "base/settings.h"
#include "base/split.h"
#include "base/text.h"
#include "bench/calibrated_platform.h"
#include "bench/calibration.h"
#include "bench/steps.h"
#include "bench/workers.h"
#include "command/arguments.h"
#include "command/bench.h"
#include "command/commands.h"
#include "command/completion.h"
#include "command/launcher.h"
#include "command/progress.h"
#include "command/table.h"
#include "engines/launcher.h"
#include "engines/sim/presets.h"

namespace flockstep::command {
namespace {

struct CalibrateFlags {
  std::string engine = "auto", platform, out, steps, against;
  int workers = 0, rounds = 0;
  std::size_t megabytes = 100;
  std::string algorithms = "mean,adacons,wagma", floats = "25600000,2500000", compute_ms = "20,100";
  bool json = false;
};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unknown processor";
}

// For a comment in the file, where two dashes would end it.
std::string machine_of(const std::string& engine) {
  std::string text =
      fmt::format("{}, {}; {} {}.", processor_name(), base::counted(std::thread::hardware_concurrency(), "core"),
                  engine, engines::find_backend(engine).availability().version);
  for (std::size_t at; (at = text.find("--")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::vector<bench::StepCase> cases_of(const CalibrateFlags& flags) {
  std::vector<bench::StepCase> cases;
  for (const std::string& algorithm : names_of("--algorithms", flags.algorithms))
    for (const std::string& floats : base::split(flags.floats, ','))
      for (const std::string& compute_ms : base::split(flags.compute_ms, ','))
        cases.push_back({std::string(algorithms::find_algorithm(algorithm).name),
                         static_cast<std::size_t>(base::parse_integer("--floats", floats, 1, 1 << 30)),
                         base::parse_real("--compute-ms", compute_ms, 0, 1e5)});
  return cases;
}

engines::LaunchOptions launch_of(const CalibrateFlags& flags, int workers) {
  engines::LaunchOptions launch;
  launch.workers = workers;
  launch.sim.platform = engines::sim::platform_of(flags.platform);
  return launch;
}

Table table_of(const bench::Calibration& measured) {
  const auto rate = [](double bytes_per_s) { return fmt::format("{:.2f} GB/s", bytes_per_s / 1e9); };
  Table table({"measured", ""});
  table.add({"a short message", fmt::format("{:.2f} us", 1e6 * measured.latency_s)});
  table.add({"one worker into another", rate(measured.one_way)});
  table.add({"the same when both send", rate(measured.both_ways)});
  table.add({"into each when all exchange", rate(measured.all_at_once)});
  table.add({"the same when all sleep", rate(measured.asleep)});
  table.add({"sums, one worker", rate(measured.sum_alone)});
  table.add({"sums, each when all add", rate(measured.sums)});
  table.add({"copies, each when all copy", rate(measured.copies)});
  return table;
}

Table table_of(const bench::StepTimes& steps) {
  Table table({"step of", "floats", "compute, ms", "ms (quartiles)"});
  for (const auto& [of, seconds] : steps.times)
    table.add({of.algorithm, std::to_string(of.floats), fmt::format("{:g}", of.compute_ms), milliseconds(seconds)});
  return table;
}

nlohmann::json to_json(const bench::Calibration& measured) {
  return {{"workers", measured.workers},     {"latency_s", measured.latency_s},     {"one_way", measured.one_way},
          {"both_ways", measured.both_ways}, {"all_at_once", measured.all_at_once}, {"sum_alone", measured.sum_alone},
          {"sums", measured.sums},           {"copies", measured.copies},           {"asleep", measured.asleep}};
}

struct Measured {
  bench::Calibration machine;
  bench::StepTimes steps;
  int rank = 0;  // 0 where this process should speak
};

int run_measuring(const CalibrateFlags& flags) {
  const std::string engine = engines::resolve_engine(flags.engine);
  const engines::Backend& backend = engines::find_backend(engine);
  if (!flags.platform.empty() && engine != "sim")
    throw Error(ErrorCode::bad_input,
                "--platform names what is simulated: leave it out, or give --against FILE or --engine sim");
  const auto cases = flags.steps.empty() ? std::vector<bench::StepCase>{} : cases_of(flags);
  bench::CalibrationOptions options{.floats = (flags.megabytes << 20) / sizeof(float)};
  bench::StepOptions step_options;
  if (flags.rounds > 0) options.rounds = step_options.rounds = flags.rounds;
  if (speaks())  // rather now than after minutes of measuring
    for (const std::string& path : {flags.out, flags.steps})
      if (!path.empty()) base::check_writable(path);
  warn_when_bound_to_one_core();
  const int workers = flags.workers > 0 ? flags.workers : engines::is_launched(engine) ? 0 : 4;
  Progress progress;
  progress.begin_uncounted("measuring this machine");
  const auto measured =
      bench::run_on_workers<Measured>(backend, launch_of(flags, workers), [&](engines::Engine& worker) {
        Measured result{{}, {engine, worker.size(), step_options.steps, {}}, worker.rank()};
        bench::CalibrationOptions own = options;
        own.halfway = [&] {
          for (const auto& each : cases) result.steps.times.push_back(measure_steps(worker, each, step_options));
        };
        result.machine = bench::calibrate(worker, own);
        return result;
      });
  if (measured.rank != 0) return 0;
  if (!flags.out.empty()) base::write_atomically(flags.out, platform_file(measured.machine, machine_of(engine)));
  nlohmann::json json{{"schema", base::kSchema}};
  if (!flags.steps.empty()) {
    nlohmann::json steps = json;
    steps.update(to_json(measured.steps));
    base::write_atomically(flags.steps, steps.dump(2) + "\n");
  }
  if (flags.json) {
    json.update(to_json(measured.machine));
    if (!cases.empty()) json.update(to_json(measured.steps));
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} on {}\n{}", base::counted(measured.machine.workers, "worker"), engine,
             table_of(measured.machine).text());
  if (!cases.empty()) fmt::print("\n{}", table_of(measured.steps).text());
  for (const std::string& path : {flags.out, flags.steps})
    if (!path.empty()) fmt::print("written to {}\n", path);
  return 0;
}

bench::StepTimes read_steps(const std::string& path) {
  // What is no JSON is a value in which nothing is found.
  const auto json = nlohmann::json::parse(base::read_text(path), nullptr, false);
  base::require_known_schema(json, path);
  const auto times = bench::step_times_from_json(json);
  if (times) return *times;
  throw Error(ErrorCode::bad_file,
              fmt::format("{} holds no step times: write it with flockstep calibrate --steps {}", path, path));
}

bench::StepTimes simulate(const CalibrateFlags& flags, const bench::StepTimes& measured) {
  Progress progress;
  progress.begin("simulating", "step times");
  return bench::run_on_workers<bench::StepTimes>(
      engines::find_backend("sim"), launch_of(flags, measured.workers), [&](engines::Engine& worker) {
        bench::StepTimes simulated{"sim", worker.size(), measured.steps, {}};
        for (const auto& [of, seconds] : measured.times) {
          simulated.times.push_back(measure_steps(worker, of, {.steps = measured.steps, .rounds = 1}));
          if (worker.rank() == 0)
            progress.show(static_cast<std::int64_t>(simulated.times.size()),
                          static_cast<std::int64_t>(measured.times.size()));
        }
        return simulated;
      });
}

int run_against(const CalibrateFlags& flags) {
  if (flags.platform.empty())
    throw Error(ErrorCode::bad_input, "--against compares with a simulation: name what to simulate with --platform");
  const bench::StepTimes measured = read_steps(flags.against), simulated = simulate(flags, measured);
  nlohmann::json cells = nlohmann::json::array();
  Table table({"step of", "floats", "compute, ms", "measured, ms", "simulated, ms", "error"});
  double largest = 0;
  for (std::size_t i = 0; i < measured.times.size(); ++i) {
    const auto& [of, seconds] = measured.times[i];
    const double simulated_s = simulated.times[i].seconds.median, error = simulated_s / seconds.median - 1;
    largest = std::max(largest, std::abs(error));
    table.add({of.algorithm, std::to_string(of.floats), fmt::format("{:g}", of.compute_ms), milliseconds(seconds),
               fmt::format("{:.2f}", 1e3 * simulated_s), fmt::format("{:+.1f}%", 100 * error)});
    cells.push_back({{"algorithm", of.algorithm},
                     {"floats", of.floats},
                     {"compute_ms", of.compute_ms},
                     {"measured_s", seconds.median},
                     {"simulated_s", simulated_s},
                     {"error", error}});
  }
  if (flags.json) {
    fmt::print("{}\n", nlohmann::json{{"schema", base::kSchema},
                                      {"workers", measured.workers},
                                      {"measured_on", measured.engine},
                                      {"platform", flags.platform},
                                      {"largest_error", largest},
                                      {"step_times", cells}}
                           .dump(2));
    return 0;
  }
  fmt::print("{}, measured on {}, simulated on {}\n{}largest error {:.1f}%\n",
             base::counted(measured.workers, "worker"), measured.engine, flags.platform, table.text(), 100 * largest);
  return 0;
}

int run_calibrate(const CalibrateFlags& flags) {
  return flags.against.empty() ? run_measuring(flags) : run_against(flags);
}

}  // namespace

void add_calibrate(CLI::App& app, Action& chosen) {
  CLI::App& command =
      *app.add_subcommand("calibrate", "measure this machine for simulations, under mpirun or on threads");
  const auto flags = std::make_shared<CalibrateFlags>();
  command
      .add_option("--engine", flags->engine,
                  "where workers run (see `flockstep engines`); auto: mpi under mpirun, else threads")
      ->type_name(kEngine)
      ->capture_default_str();
  command.add_option("--workers", flags->workers, "number of workers [4; under mpirun, its processes]")
      ->check(whole(1, 4096));
  command.add_option("--out", flags->out, "write the measured machine to this file, for --platform")->type_name(kFile);
  command
      .add_option("--steps", flags->steps,
                  "also measure training steps, and write their times to this file, for --against")
      ->type_name(kFile);
  command.add_option("--algorithms", flags->algorithms, "with --steps: the algorithms to measure")
      ->type_name(kAlgorithms)
      ->capture_default_str();
  command.add_option("--floats", flags->floats, "with --steps: how many parameters the models have")
      ->capture_default_str();
  command
      .add_option("--compute-ms", flags->compute_ms,
                  "with --steps: compute time of a step in milliseconds; workers sleep that long")
      ->capture_default_str();
  command.add_option("--rounds", flags->rounds, "number of measurements [15; of step times 5]")
      ->check(whole(1, 100000));
  command
      .add_option("--megabytes", flags->megabytes,
                  "size of the vectors that workers exchange and add up; should be more than caches hold")
      ->check(whole(1, 1 << 12))
      ->capture_default_str();
  command
      .add_option("--against", flags->against,
                  "instead of measuring, simulate the step times in this file on --platform and compare")
      ->type_name(kFile);
  command
      .add_option("--platform", flags->platform,
                  "for --against and --engine sim only: the network to simulate, a preset (see `flockstep "
                  "platforms`) or a SimGrid platform file")
      ->type_name(kNetwork);
  command.add_flag("--json", flags->json, "print the result as JSON");
  command.callback([flags, &chosen] { chosen = [flags] { return run_calibrate(*flags); }; });
}

}  // namespace flockstep::command
