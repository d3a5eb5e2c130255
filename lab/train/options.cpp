#include "train/options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"

namespace flockstep::train {
nlohmann::json pace_of(const TrainOptions& options) {
  nlohmann::json fixed = nlohmann::json::array();
  for (const FixedStraggler& straggler : options.pace.fixed)
    fixed.push_back({{"worker", straggler.worker}, {"delay_s", straggler.delay.count()}});
  nlohmann::json pace{
      {"compute_s", options.pace.compute.count()},
      {"jitter_sigma", options.pace.jitter_sigma},
      {"random_stragglers", options.pace.random_stragglers},
      {"random_delay_s", options.pace.random_delay.count()},
      {"fixed_stragglers", fixed},
  };
  // Written where it is so alone: runs of versions that did not know it can be continued.
  if (options.pace.independent_stragglers) pace["independent_stragglers"] = true;
  if (const auto& measured = options.pace.measured)
    pace["compute_file"] = {
        {"path", measured->file.string()},
        {"durations", measured->durations.size()},
        {"hash", base::hash_of(std::span(measured->durations))},
    };
  return pace;
}

nlohmann::json identity_of(const TrainOptions& options, int workers) {
  return {
      {"task", options.task},
      {"task_settings", options.task_settings},
      {"algorithm", options.algorithm},
      {"algorithm_settings", options.algorithm_settings},
      {"seed", options.seed},
      {"batch", options.batch},
      {"bucket_kib", options.bucket_kib},
      {"workers", workers},
      {"faulty", text_of(options.faults)},
      {"gradients", options.gradients},
      {"pretend_parameters", options.pretend_parameters},
  };
}

nlohmann::json machine_of(const TrainOptions& options) {
  if (options.platform.empty()) return nlohmann::json::object();
  return {{"platform", options.platform},
          {"bytes_scale", options.bytes_scale},
          {"memory_gbytes_s", options.memory_gbytes_s}};
}

void require_same_run(const TrainOptions& options, int workers, const nlohmann::json& saved, bool are_apart) {
  nlohmann::json mine = identity_of(options, workers);
  const nlohmann::json machine = machine_of(options);
  for (const auto& [name, value] : machine.items())  // on another engine it may go on
    if (saved.contains(name)) mine[name] = value;
  for (const auto& [name, value] : mine.items()) {
    if (saved.contains(name) && saved[name] == value) continue;
    if (name == "workers" && !are_apart) continue;
    const std::string before = saved.value(name, nlohmann::json()).dump();
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{} holds a run with {} {}, which one with {} cannot continue: {}", options.out.string(), name,
                    before, value.dump(), name == "batch" ? "add --batch " + before : "start it like the first"));
  }
}

runtime::Agreed agreed_of(const TrainOptions& options) {
  runtime::Agreed agreed{{"task", options.task}, {"algorithm", options.algorithm}};
  runtime::add_settings(agreed, options.task, options.task_settings);
  runtime::add_settings(agreed, options.algorithm, options.algorithm_settings);
  agreed.insert(agreed.end(), {{"seed", std::to_string(options.seed)},
                               {"steps", std::to_string(options.steps)},
                               {"batch", std::to_string(options.batch)},
                               {"evaluate-every", std::to_string(options.evaluate_every)},
                               {"checkpoint-every", std::to_string(options.checkpoint_every)},
                               {"bucket-kib", std::to_string(options.bucket_kib)},
                               {"faulty", text_of(options.faults)},
                               {"gradients", options.gradients ? "yes" : "no"},
                               {"pretend-parameters", std::to_string(options.pretend_parameters)}});
  if (options.device != "cpu") agreed.emplace_back("device", options.device);
  return agreed;
}

nlohmann::json describe(const telemetry::Summary& summary, const TrainOptions& options, std::string_view engine,
                        int workers) {
  nlohmann::json described = identity_of(options, workers);
  described["engine"] = engine;
  described["device"] = options.device;
  described.update(machine_of(options));
  described["requested_steps"] = options.steps;
  described["evaluate_every"] = options.evaluate_every;
  described["pace"] = pace_of(options);
  described.update(to_json(summary));
  return described;
}

}  // namespace flockstep::train
