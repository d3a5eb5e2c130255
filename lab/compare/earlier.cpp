#include "compare/earlier.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/schema.h"
#include "engines/registry.h"
#include "flockstep/version.h"
#include "runtime/gather.h"
#include "session/checkpoints.h"
#include "tasks/registry.h"

namespace flockstep::compare {
namespace {

using std::filesystem::exists;
using std::filesystem::path;

train::TrainOptions options_of(const runs::RunRequest& request) {
  return request.launch.workers > 0 ? tasks::complete(request.train, request.launch.workers) : request.train;
}

// The files that the run reads, each with its size and when it was last changed; of a folder, when something was last
// added to it or removed. One that cannot be read is left out: the run will tell.
runtime::Agreed files_of(const runs::RunRequest& request, const train::TrainOptions& options) {
  const tasks::TaskRow& task = tasks::find_task(options.task);
  std::vector<path> read;
  if (task.files) read = task.files(options.task_settings);
  if (request.engine == "sim" && !request.launch.sim.platform.empty()) read.emplace_back(request.launch.sim.platform);
  runtime::Agreed files;
  for (const path& file : read) {
    std::error_code no_size, no_time;
    const bool is_folder = std::filesystem::is_directory(file, no_size);
    const auto size = is_folder ? 0 : std::filesystem::file_size(file, no_size);
    const auto changed = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(file, no_time));
    if (no_size || no_time) continue;
    // The whole path: a task may read files of the same name from several folders.
    files.emplace_back(file.string(),
                       fmt::format("{} from {:%F %T}", is_folder ? "a folder" : fmt::format("of {} bytes", size),
                                   std::chrono::floor<std::chrono::microseconds>(changed)));
  }
  return files;
}

}  // namespace

runtime::Agreed identity_of(const runs::RunRequest& request) {
  const train::TrainOptions options = options_of(request);
  runtime::Agreed identity{
      {"version", kVersion}, {"engine", request.engine}, {"workers", std::to_string(request.launch.workers)}};
  for (auto& each : train::agreed_of(options)) identity.push_back(std::move(each));
  for (auto& each : files_of(request, options)) identity.push_back(std::move(each));
  const auto add = [&](const std::string& name, const nlohmann::json& value) {
    identity.emplace_back(name, value.dump());
  };
  const nlohmann::json pace = train::pace_of(options);
  for (const auto& [name, value] : pace.items()) add(name, value);
  if (request.engine == "threads") add("deterministic", request.launch.deterministic);
  if (request.engine == "sim") {
    if (request.launch.sim.platform.empty()) {
      add("latency-us", request.launch.sim.latency_us);
      add("bandwidth-gbps", request.launch.sim.bandwidth_gbps);
    } else {
      add("platform", request.launch.sim.platform);
    }
    add("bytes-scale", request.launch.sim.bytes_scale);
    if (request.launch.sim.memory_gbytes_s > 0) add("memory-gbytes-s", request.launch.sim.memory_gbytes_s);
  }
  return identity;
}

namespace {

[[noreturn]] void refuse(const path& folder, const std::string& what) {
  throw Error(
      ErrorCode::bad_input,
      fmt::format("{} holds {}: choose another --out, or remove that folder to repeat the run", folder.string(), what));
}

void require_same_run(const path& folder, const runtime::Agreed& mine) {
  auto saved = nlohmann::json::parse(base::read_text(folder / "request.json"), nullptr, false);
  if (!saved.is_object()) refuse(folder, "a request.json that cannot be read");
  base::require_known_schema(saved, (folder / "request.json").string());
  saved.erase("schema");
  for (const auto& [name, value] : mine) {
    const auto before = saved.find(name);
    if (before == saved.end()) refuse(folder, fmt::format("a run with {} at its default, not {}", name, value));
    if (*before != value)
      refuse(folder, fmt::format("a run with {} {}, not {}", name,
                                 before->is_string() ? before->get<std::string>() : before->dump(), value));
  }
  for (const auto& [name, value] : saved.items())
    if (std::ranges::find(mine, name, &runtime::Agreed::value_type::first) == mine.end())
      refuse(folder, fmt::format("a run with {} {}, not at its default", name,
                                 value.is_string() ? value.get<std::string>() : value.dump()));
}

// What summary.json says, if the run came to its end.
nlohmann::json finished_summary(const path& folder) {
  if (!exists(folder / "summary.json")) return {};
  const auto json = nlohmann::json::parse(base::read_text(folder / "summary.json"), nullptr, false);
  base::require_known_schema(json, (folder / "summary.json").string());
  try {
    const telemetry::Summary summary = telemetry::summary_from_json(json);
    return !summary.interrupted && summary.steps == json.at("requested_steps") ? json : nlohmann::json();
  } catch (const nlohmann::json::exception&) {  // of another version, perhaps
    return {};
  }
}

struct Found {
  nlohmann::json summary;  // null unless the run is done
  bool resumes = false, is_partial = false;
};

Found look_at(const PlannedRun& run) {
  const path& folder = run.request.train.out;
  if (!exists(folder / "request.json")) {
    if (exists(folder / "metrics.jsonl")) refuse(folder, "a run that no comparison has begun");
    return {};
  }
  require_same_run(folder, identity_of(run.request));
  Found found{finished_summary(folder), false, false};
  if (!found.summary.is_null()) return found;
  // A stopped run leaves a checkpoint in any case. Repeating it gives the figures that it would have had.
  found.resumes =
      run.request.train.checkpoint_every > 0 && session::Checkpoints::exist_in(train::checkpoints_in(folder));
  found.is_partial = !found.resumes;
  return found;
}

void remove_run(const path& folder) {
  if (!base::remove_folder(folder))
    throw Error(ErrorCode::bad_file, fmt::format("cannot remove {}: {}", folder.string(), std::strerror(errno)));
}

// For every run its summary, or whether it goes on. All folders are looked at before one is removed.
nlohmann::json look(const Plan& plan) {
  std::vector<Found> all;
  for (const PlannedRun& run : plan.runs) all.push_back(look_at(run));
  nlohmann::json told = nlohmann::json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].is_partial) remove_run(plan.runs[i].request.train.out);
    told.push_back({{"summary", std::move(all[i].summary)}, {"resumes", all[i].resumes}});
  }
  return told;
}

// The same with what went wrong in it, for the others to throw as well.
nlohmann::json look_or_tell_why_not(const CompareRequest& request, const Plan& plan,
                                    std::unique_ptr<base::FolderLock>& lock) {
  try {
    lock = std::make_unique<base::FolderLock>(request.out);
    return {{"runs", look(plan)}};
  } catch (const Error& error) {
    return {{"error", error.what()}, {"code", static_cast<int>(error.code())}};
  } catch (const std::filesystem::filesystem_error& error) {
    return {{"error", error.what()}, {"code", static_cast<int>(ErrorCode::bad_file)}};
  }
}

}  // namespace

Earlier find_earlier(const CompareRequest& request, Plan& plan) {
  Earlier earlier;
  earlier.done.resize(plan.runs.size());
  if (request.out.empty()) return earlier;
  nlohmann::json told;
  if (request.base.engine != "mpi") {
    told = look_or_tell_why_not(request, plan, earlier.lock);
  } else {
    engines::find_backend("mpi").run(request.base.launch, [&](engines::Engine& engine) {
      runtime::Context context(engine, request.base.train.patience);
      earlier.rank = engine.rank();
      std::string found;
      if (engine.rank() == 0)
        found = look_or_tell_why_not(request, plan, earlier.lock)
                    .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      told = nlohmann::json::parse(runtime::broadcast_text(context, found));
    });
  }
  if (told.contains("error")) throw Error(static_cast<ErrorCode>(told["code"]), told["error"]);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    runs::RunRequest& planned = plan.runs[i].request;
    const nlohmann::json& summary = told["runs"][i]["summary"];
    planned.train.resume = told["runs"][i]["resumes"];
    if (summary.is_null()) continue;
    runs::RunOutcome outcome{telemetry::summary_from_json(summary), planned.train, summary.at("workers"), earlier.rank};
    outcome.options.batch = summary.at("batch");
    earlier.done[i] = std::move(outcome);
  }
  return earlier;
}

void mark_begun(const PlannedRun& run) {
  nlohmann::json json{{"schema", base::kSchema}};
  for (const auto& [name, value] : identity_of(run.request)) json[name] = value;
  base::make_directory(run.request.train.out);
  base::write_atomically(run.request.train.out / "request.json", json.dump(2) + "\n");
}

}  // namespace flockstep::compare
