#include "engines/sim/platform.h"

#include <fmt/core.h>
#include <simgrid/kernel/resource/NetworkModelIntf.hpp>
#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>

#include <string>

#include "engines/sim/platform_file.h"

namespace flockstep::engines::sim {
namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::routing::NetPoint;
using simgrid::kernel::routing::NetZoneImpl;
using simgrid::kernel::routing::Route;

// Routes over the links of the two workers. SimGrid weighs flows by the latency of their route, so that near ones would
// get more of a link than far ones; here all routes claim the same, and the true latency comes in as a factor.
class TreeZone : public NetZoneImpl {
 public:
  explicit TreeZone(const Tree& tree) : NetZoneImpl("network"), tree_(tree) {}

  s4u::Host* add_worker() {
    const auto name = std::to_string(outside_.size());
    outside_.push_back(links("link" + name, tree_.bandwidth_gbps));
    if (tree_.workers_per_node > 1) inside_.push_back(links("node_link" + name, tree_.node_bandwidth_gbps));
    return get_iface()->create_host(name, 1.0);  // computing is charged as time, so the speed is never used
  }

  double latency(const NetPoint* from, const NetPoint* to) const {
    return latency_s(tree_, static_cast<int>(from->id()), static_cast<int>(to->id()));
  }

 protected:
  void get_local_route(const NetPoint* from, const NetPoint* to, Route* route, double* latency) override {
    const bool stays = takes_node_links(tree_, static_cast<int>(from->id()), static_cast<int>(to->id()));
    const auto& all = stays ? inside_ : outside_;
    route->link_list_.push_back(all[from->id()].up->get_impl());
    route->link_list_.push_back(all[to->id()].down->get_impl());
    if (latency) *latency += 1;
  }

 private:
  struct Links {
    const s4u::Link *up, *down;
  };
  Links links(const std::string& name, double gbps) {
    return {get_iface()->create_link(name + "_up", gbps * 1e9 / 8),
            get_iface()->create_link(name + "_down", gbps * 1e9 / 8)};
  }

  Tree tree_;
  std::vector<Links> outside_, inside_;
};

Platform make_tree(const Tree& tree, int workers) {
  Platform platform;
  auto* zone = new TreeZone(tree);  // the engine's from now on
  for (int i = 0; i < workers; ++i) {
    platform.hosts.push_back(zone->add_worker());
    platform.nodes.push_back(i / tree.workers_per_node);
  }
  zone->get_iface()->seal();
  zone->get_iface()->get_network_model()->set_lat_factor_cb(
      [zone](double, const s4u::Host* from, const s4u::Host* to, const auto&, const auto&) {
        return zone->latency(from->get_netpoint(), to->get_netpoint());
      });
  platform.memory_gbytes_s = tree.memory_gbytes_s;
  platform.path = [tree](int from, int to) -> Path {
    const double gbps = takes_node_links(tree, from, to) ? tree.node_bandwidth_gbps : tree.bandwidth_gbps;
    return {latency_s(tree, from, to), gbps * 1e9 / 8};
  };
  return platform;
}

}  // namespace

Platform make_platform(s4u::Engine& engine, const SimOptions& options, int workers) {
  if (const auto tree = tree_of(options)) return make_tree(*tree, workers);
  return load_platform_file(engine, options.platform, workers);
}

}  // namespace flockstep::engines::sim
