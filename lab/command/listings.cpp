#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "base/schema.h"
#include "command/commands.h"
#include "command/table.h"
#include "engines/mpi/backend.h"
#include "engines/registry.h"
#include "engines/sim/presets.h"
#include "flockstep/version.h"
#include "kernels/cpu/kernels.h"
#include "tasks/registry.h"
#include "tasks/torch_tasks.h"

namespace flockstep::command {
namespace {

nlohmann::json options_json(std::span<const base::OptionSpec> options) {
  nlohmann::json json = nlohmann::json::array();
  for (const auto& option : options)
    json.push_back({{"name", option.name}, {"default", option.default_value}, {"help", option.help}});
  return json;
}

nlohmann::json sizes_json(std::span<const tasks::Size> sizes) {
  nlohmann::json json = nlohmann::json::array();
  for (const auto& size : sizes) {
    nlohmann::json settings = nlohmann::json::object();
    for (const auto& [name, value] : size.settings) settings[std::string(name)] = value;
    json.push_back({{"name", size.name},
                    {"steps", size.defaults.steps},
                    {"batch_per_worker", size.defaults.batch_per_worker},
                    {"settings", settings}});
  }
  return json;
}

int list_algorithms(bool as_json) {
  nlohmann::json json = nlohmann::json::array();
  Table table({"name", "family", "bytes sent per worker and step", "what it does"});
  table.left();
  for (const auto& row : algorithms::algorithms()) {
    table.add({std::string(row.name), std::string(to_string(row.family)), std::string(row.bytes_text),
               std::string(row.description)});
    json.push_back({{"schema", base::kSchema},
                    {"name", row.name},
                    {"family", to_string(row.family)},
                    {"bytes_per_step", row.bytes_text},
                    {"description", row.description},
                    {"options", options_json(row.options)}});
  }
  if (as_json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print(
        "{}\nD is the number of parameters, P of workers, H the period.\n"
        "`flockstep algorithms --json` lists the options of each, too.\n",
        table.text());
  return 0;
}

int list_tasks(bool as_json) {
  nlohmann::json json = nlohmann::json::array();
  Table table({"name", "here", "metric", "what it is"});
  table.left();
  for (const auto& row : tasks::tasks()) {
    const bool available = !row.needs_torch || tasks::torch_tasks_are_built();
    table.add({std::string(row.name), available ? "yes" : "no, needs torch", std::string(row.metric),
               std::string(row.description)});
    json.push_back({{"schema", base::kSchema},
                    {"name", row.name},
                    {"available", available},
                    {"metric", row.metric},
                    {"description", row.description},
                    {"default_steps", row.defaults({}).steps},
                    {"default_batch_per_worker", row.defaults({}).batch_per_worker},
                    {"sizes", sizes_json(row.sizes)},
                    {"options", options_json(row.options)}});
  }
  fmt::print("{}", as_json ? json.dump(2) + "\n" : table.text());
  return 0;
}

int list_engines(bool as_json) {
  nlohmann::json json{{"schema", base::kSchema},
                      {"version", kVersion},
                      {"simd", kernels::cpu::simd_target()},
                      {"engines", nlohmann::json::array()}};
  Table table({"name", "here", "version, or how to get it", "what it is"});
  table.left();
  for (const auto& backend : engines::backends()) {
    const engines::Availability here = backend.availability();
    std::string detail = here.available ? here.version : here.reason;
    nlohmann::json entry{{"name", backend.name}, {"available", here.available}, {"description", backend.description}};
    entry[here.available ? "version" : "reason"] = detail;
    if (backend.name == "mpi" && here.available) {
      entry["thread_level"] = engines::mpi::thread_level();
      detail += ", " + engines::mpi::thread_level();
    }
    json["engines"].push_back(entry);
    table.add({std::string(backend.name), here.available ? "yes" : "no", detail, std::string(backend.description)});
  }
  if (as_json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print("{}\nflockstep {}, kernels for {}\n", table.text(), kVersion, kernels::cpu::simd_target());
  return 0;
}

int list_platforms(bool as_json) {
  nlohmann::json json = nlohmann::json::array();
  Table table({"name", "Gbit/s per worker", "latency, us", "sums, GB/s", "what it is"});
  table.left();
  for (const auto& [name, description, tree] : engines::sim::presets()) {
    // To a worker below the same switch, in the same pod, and anywhere.
    const double near = 1e6 * engines::sim::latency_s(tree, 0, tree.workers_per_node);
    const double pod = 1e6 * engines::sim::latency_s(tree, 0, std::max(tree.workers_per_switch, 1));
    const double far = 1e6 * engines::sim::latency_s(tree, 0, std::max(tree.workers_per_pod, 1));
    table.add({std::string(name), fmt::format("{}", tree.bandwidth_gbps),
               far > near ? fmt::format("{:.3g} to {:.3g}", near, far) : fmt::format("{:.3g}", near),
               fmt::format("{}", tree.memory_gbytes_s), std::string(description)});
    json.push_back({{"schema", base::kSchema},
                    {"name", name},
                    {"description", description},
                    {"bandwidth_gbps", tree.bandwidth_gbps},
                    {"latency_us", {{"switch", near}, {"pod", pod}, {"far", far}}},
                    {"workers_per_switch", tree.workers_per_switch},
                    {"workers_per_pod", tree.workers_per_pod},
                    {"workers_per_node", tree.workers_per_node},
                    {"node_bandwidth_gbps", tree.node_bandwidth_gbps},
                    {"node_latency_us", 2 * tree.node_latency_us},
                    {"memory_gbytes_s", tree.memory_gbytes_s}});
  }
  if (as_json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print("{}\nNetworks for --engine sim: --platform takes one of these names, or a SimGrid platform file.\n",
               table.text());
  return 0;
}

void add(CLI::App& app, Action& chosen, const std::string& name, const std::string& help, int (*list)(bool)) {
  CLI::App& command = *app.add_subcommand(name, help)->group("What there is");
  const auto as_json = std::make_shared<bool>(false);
  command.add_flag("--json", *as_json, "print as JSON");
  command.callback([as_json, list, &chosen] { chosen = [as_json, list] { return list(*as_json); }; });
}

}  // namespace

void add_listings(CLI::App& app, Action& chosen) {
  add(app, chosen, "algorithms", "list the algorithms", list_algorithms);
  add(app, chosen, "tasks", "list the tasks", list_tasks);
  add(app, chosen, "engines", "list the engines, and which of them work here", list_engines);
  add(app, chosen, "platforms", "list the networks that sim knows by name", list_platforms);
}

}  // namespace flockstep::command
