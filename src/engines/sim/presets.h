// The networks that have a name, as numbers: fat trees of switches with as much bandwidth up as down. Needs no SimGrid.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engines/backend.h"

namespace flockstep::engines::sim {

struct Tree {
  double latency_us = 0, bandwidth_gbps = 0;  // of the link between a worker and its switch, each way
  // Workers below one switch, and below all switches that can reach each other over one more level; 0: all of them.
  int workers_per_switch = 0, workers_per_pod = 0;
  double core_latency_us = 0;  // of a link between switches
  // Workers of one node have links of their own to a switch inside it.
  int workers_per_node = 1;
  double node_latency_us = 0, node_bandwidth_gbps = 0;
  double memory_gbytes_s = 10;  // speed of sums: bytes that a worker reads and writes
};

struct Preset {
  std::string_view name, description;
  Tree tree;
};

// The first is the star that is there without a name, with the numbers it has if none are given.
std::span<const Preset> presets();
// "aries", a path, or the numbers of a star.
std::string text_of(const SimOptions& options);
// Null for the path of a file. Throws Error{bad_input} for what is neither.
const Preset* find_preset(const std::string& platform);
// What a user's --platform is in SimOptions: itself, or nothing for a star. Throws as find_preset does.
std::string platform_of(const std::string& name);
// Nothing for the path of a file.
std::optional<Tree> tree_of(const SimOptions& options);

// How long the first byte takes between two different workers: two links each to a switch, and two between switches
// for each level above.
double latency_s(const Tree& tree, int from, int to);
// Over the links inside a node, not those into the network.
bool takes_node_links(const Tree& tree, int from, int to);

}  // namespace flockstep::engines::sim
