#include "engines/sim/platform_file.h"

#include <fmt/core.h>
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <regex>
#include <string_view>

#include "base/files.h"
#include "base/settings.h"
#include "base/split.h"
#include "base/text.h"

namespace flockstep::engines::sim {
namespace {

namespace s4u = simgrid::s4u;

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw unusable(path, why); }

// What SimGrid says about these is long, or depends on how the file is called.
void check_kind(const std::string& path) {
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code))
    refuse(path, "it is not a file");
  const std::string text = base::read_text(path);
  const auto start = text.rfind("<platform");  // the last: comments come before it
  if (text.find_first_not_of(" \t\r\n\xEF\xBB\xBF") != text.find('<') || start == std::string::npos)
    refuse(path, "it is not a SimGrid platform file, which is XML with an element <platform>");
  const std::string head = text.substr(start, std::min<std::size_t>(text.find('>', start) - start, 1000));
  std::smatch version;
  if (!std::regex_search(head, version, std::regex("version\\s*=\\s*[\"']([^\"']*)[\"']")))
    refuse(path, "its <platform> tells no version");
  if (version[1] != "4" && version[1] != "4.0" && version[1] != "4.1")
    refuse(path, fmt::format("it has version {} of the format, and only 4 and 4.1 are read", version[1].str()));
}

// Numbers in names by their value, everything else by its letters.
bool natural_less(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits = [&](std::string_view& text) {
    const auto length = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
    std::string_view number = text.substr(0, length);
    text.remove_prefix(length);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
  };
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const auto left = digits(a), right = digits(b);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() != b.empty() ? a.empty() : whole_a < whole_b;
}

std::vector<int> nodes_of(const std::vector<s4u::Host*>& hosts) {
  std::map<const s4u::NetZone*, int> zones;
  std::vector<int> nodes;
  for (const auto* host : hosts)
    nodes.push_back(zones.emplace(host->get_englobing_zone(), static_cast<int>(zones.size())).first->second);
  if (zones.size() == 1)
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<int>(i);
  return nodes;
}

const char* property_of(const s4u::Engine& engine, const s4u::Host& host, const char* name) {
  const auto* zone = host.get_englobing_zone();
  const char* value = host.get_property(name);
  if (!value) value = zone->get_property(name);
  while (!value && zone != engine.get_netzone_root()) {  // whose parent SimGrid does not tell as null
    zone = zone->get_parent();
    value = zone->get_property(name);
  }
  return value;
}

double real_property(const std::string& path, const s4u::Engine& engine, const s4u::Host& host, const char* name,
                     double otherwise, double least, double most) {
  const char* value = property_of(engine, host, name);
  if (!value) return otherwise;
  try {
    return base::parse_real(name, value, least, most);
  } catch (const Error& error) {
    refuse(path, error.what());
  }
}

bool sums_share_links(const std::string& path, const s4u::Engine& engine, const std::vector<s4u::Host*>& hosts) {
  const char* value = property_of(engine, *hosts[0], kSumsProperty);
  if (!value || value == std::string_view("no")) return false;
  if (value != std::string_view("yes")) refuse(path, fmt::format("{} is yes or no, not '{}'", kSumsProperty, value));
  for (const auto* host : hosts) {
    std::vector<s4u::Link*> links;
    host->route_to(host, links, nullptr);
    if (links.empty()) refuse(path, fmt::format("sums share links, and {} has no route to itself", host->get_name()));
  }
  return true;
}

void check_links(const std::string& path, const s4u::Engine& engine) {
  for (const auto* link : engine.get_all_links())
    if (!(std::isfinite(link->get_bandwidth()) && link->get_bandwidth() > 0 && std::isfinite(link->get_latency()) &&
          link->get_latency() >= 0))
      refuse(path, fmt::format("link {} has a bandwidth of {} B/s and a latency of {} s", link->get_name(),
                               link->get_bandwidth(), link->get_latency()));
}

// All pairs, or of many hosts those whose distance is a power of two: SimGrid would end the process over a message that
// finds no way.
void check_routes(const std::string& path, const std::vector<s4u::Host*>& hosts) {
  constexpr std::size_t kAllPairs = 128;
  for (std::size_t distance = 1; distance<hosts.size(); distance += hosts.size()> kAllPairs ? distance : 1) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const auto *from = hosts[i], *to = hosts[(i + distance) % hosts.size()];
      std::vector<s4u::Link*> links;
      double latency = 0;
      from->route_to(to, links, &latency);
      if (links.empty()) refuse(path, fmt::format("no link leads from {} to {}", from->get_name(), to->get_name()));
    }
  }
}

}  // namespace

Error unusable(const std::string& path, const std::string& why) {
  return Error(ErrorCode::bad_file, fmt::format("cannot use {} as a platform: {}", path, why), "sim");
}

Platform load_platform_file(s4u::Engine& engine, const std::string& path, int workers) {
  check_kind(path);
  Platform platform;
  try {
    s4u::Engine::set_config("network/latency-factor:1");  // whatever the file says
    engine.load_platform(path);
    engine.seal_platform();
    platform.hosts = engine.get_all_hosts();
    if (platform.hosts.empty()) refuse(path, "it has no hosts");
    if (platform.hosts.size() < static_cast<std::size_t>(workers))
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} has hosts for {}, not for {}: use fewer --workers or another --platform", path,
                              base::counted(platform.hosts.size(), "worker"), workers),
                  "sim");
    std::ranges::sort(platform.hosts, natural_less, &s4u::Host::get_name);
    platform.hosts.resize(static_cast<std::size_t>(workers));
    check_links(path, engine);
    check_routes(path, platform.hosts);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse(path, base::split(error.what(), '\n')[0]);
  }
  platform.nodes = nodes_of(platform.hosts);
  const auto& first = *platform.hosts[0];
  platform.memory_gbytes_s = real_property(path, engine, first, kMemoryProperty, Tree{}.memory_gbytes_s, 1e-6, 1e6);
  platform.sums_share_links = sums_share_links(path, engine, platform.hosts);
  if (platform.sums_share_links)
    platform.asleep_share = real_property(path, engine, first, kAsleepProperty, 1, 1e-3, 1);
  platform.path = [hosts = platform.hosts](int from, int to) {
    std::vector<s4u::Link*> links;
    Path path{0, std::numeric_limits<double>::infinity()};
    hosts[static_cast<std::size_t>(from)]->route_to(hosts[static_cast<std::size_t>(to)], links, &path.latency_s);
    for (const auto* link : links) path.bytes_per_s = std::min(path.bytes_per_s, link->get_bandwidth());
    return path;
  };
  return platform;
}

}  // namespace flockstep::engines::sim
