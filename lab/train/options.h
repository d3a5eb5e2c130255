// Everything that defines one training run, but for the engine it runs on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/settings.h"
#include "runtime/gather.h"
#include "telemetry/summary.h"
#include "train/faults.h"
#include "train/pace.h"

namespace flockstep::train {

struct TrainOptions {
  std::string task = "linear";
  base::Settings task_settings{};
  std::string algorithm = "mean";
  base::Settings algorithm_settings{};
  std::uint64_t seed = 1;
  std::int64_t steps = 0;           // 0: the task's default
  std::int64_t batch = 0;           // over all workers; 0: the task's default per worker
  std::int64_t evaluate_every = 0;  // 0: twenty times per run
  std::int64_t bucket_kib = 4096;
  std::int64_t buckets = 0;                     // so many, whatever their size; 0: of bucket_kib
  base::Duration patience{60};                  // deadline of every single wait for a peer
  std::string device = "cpu";                   // cpu, cuda (shared out among the workers) or cuda:N
  std::string platform{};                       // whose network is simulated, for the record; empty: a real one
  double bytes_scale = 1, memory_gbytes_s = 0;  // of that platform, as asked for; 0: its own
  PaceOptions pace{};
  FaultOptions faults{};
  // False: time alone is of interest. A stand-in takes the task's place, without data, network or quality.
  bool gradients = true;
  // The model takes as long to travel as one with so many parameters (sim), or the stand-in has so many; 0: the task's.
  std::int64_t pretend_parameters = 0;

  std::filesystem::path out{};        // empty: nothing is written
  std::int64_t checkpoint_every = 0;  // 0: never
  bool resume = false;
  base::LogLevel log_level = base::LogLevel::quiet;
};

// Where a run in `out` keeps its checkpoints.
inline std::filesystem::path checkpoints_in(const std::filesystem::path& out) { return out / "checkpoint"; }

// What must be equal for one run to continue another: all that can change its bits, but not how long it lasts. The
// device is left out, though it rounds in its own way: a run may go on elsewhere.
nlohmann::json identity_of(const TrainOptions& options, int workers);

// How fast the simulated machine is; empty for a real one. Times of two such machines are not to be mixed in one run.
nlohmann::json machine_of(const TrainOptions& options);

// Throws Error{bad_input} unless a run with `options` continues the one whose identity_of() and machine_of() are
// `saved`. If the models of the workers `are_apart`, the number of workers has to be the same, too.
void require_same_run(const TrainOptions& options, int workers, const nlohmann::json& saved, bool are_apart);

// What all workers of a run must have been started with alike.
runtime::Agreed agreed_of(const TrainOptions& options);

// How long steps pretended to take, and who was late.
nlohmann::json pace_of(const TrainOptions& options);

// A run's summary and how the run was made: what summary.json holds and `train --json` prints.
nlohmann::json describe(const telemetry::Summary& summary, const TrainOptions& options, std::string_view engine,
                        int workers);

}  // namespace flockstep::train
