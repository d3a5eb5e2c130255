#include "engines/sim/presets.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <vector>

#include "base/names.h"

namespace flockstep::engines::sim {
namespace {

// Switches of 64 ports: 32 workers below each, 32 switches in a pod.
constexpr int kLeaf = 32, kPod = 1024;

const std::array<Preset, 5> kPresets{{
    {"star",
     "every worker's link to one switch, as --latency-us and --bandwidth-gbps say; the default",
     {.latency_us = SimOptions{}.latency_us, .bandwidth_gbps = SimOptions{}.bandwidth_gbps}},
    {"ethernet-10g",
     "10 Gbit/s Ethernet and TCP in the kernel, a worker per machine",
     {.latency_us = 10,
      .bandwidth_gbps = 10,
      .workers_per_switch = kLeaf,
      .workers_per_pod = kPod,
      .core_latency_us = 1}},
    {"ethernet-100g",
     "100 Gbit/s Ethernet with RDMA, a worker per machine",
     {.latency_us = 1.5,
      .bandwidth_gbps = 100,
      .workers_per_switch = kLeaf,
      .workers_per_pod = kPod,
      .core_latency_us = 0.5}},
    {"aries",
     "like Piz Daint: a GPU per node, 10 GB/s into the network, 4 nodes per router, 384 per group, sums on the host",
     {.latency_us = 0.6,
      .bandwidth_gbps = 80,
      .workers_per_switch = 4,
      .workers_per_pod = 384,
      .core_latency_us = 0.1,
      .memory_gbytes_s = 20}},
    {"nvlink-node",
     "nodes of 8 GPUs with 450 GB/s NVLink inside, and 400 Gbit/s InfiniBand per GPU outside",
     {.latency_us = 1,
      .bandwidth_gbps = 400,
      .workers_per_switch = kLeaf,
      .workers_per_pod = kPod,
      .core_latency_us = 0.2,
      .workers_per_node = 8,
      .node_latency_us = 0.5,
      .node_bandwidth_gbps = 3600,
      .memory_gbytes_s = 2000}},
}};

bool together(int one, int other, int size) { return size == 0 || one / size == other / size; }

}  // namespace

std::span<const Preset> presets() { return kPresets; }

std::string text_of(const SimOptions& options) {
  if (!options.platform.empty()) return options.platform;
  return fmt::format("a star of {} Gbit/s and {} us", options.bandwidth_gbps, options.latency_us);
}

const Preset* find_preset(const std::string& platform) {
  std::vector<std::string_view> known;
  for (const Preset& preset : presets()) {
    if (preset.name == platform) return &preset;
    known.push_back(preset.name);
  }
  std::error_code code;
  if (platform.find_first_of("/.") != std::string::npos || std::filesystem::exists(platform, code)) return nullptr;
  throw Error(ErrorCode::bad_input,
              base::unknown_name_sentence("platform", platform, known) + ", or the path of a SimGrid platform file");
}

std::string platform_of(const std::string& name) {
  return name.empty() || find_preset(name) == &kPresets[0] ? "" : name;
}

std::optional<Tree> tree_of(const SimOptions& options) {
  if (platform_of(options.platform).empty())
    return Tree{.latency_us = options.latency_us, .bandwidth_gbps = options.bandwidth_gbps};
  if (const Preset* preset = find_preset(options.platform)) return preset->tree;
  return std::nullopt;
}

bool takes_node_links(const Tree& tree, int from, int to) { return together(from, to, tree.workers_per_node); }

double latency_s(const Tree& tree, int from, int to) {
  if (takes_node_links(tree, from, to)) return 2e-6 * tree.node_latency_us;
  const int levels = together(from, to, tree.workers_per_switch) ? 0 : together(from, to, tree.workers_per_pod) ? 1 : 2;
  return 2e-6 * (tree.latency_us + levels * tree.core_latency_us);
}

}  // namespace flockstep::engines::sim
