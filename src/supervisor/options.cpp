#include "supervisor/options.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/settings.h"
#include "base/text.h"
#include "engines/mesh/book.h"
#include "flockstep/error.h"

namespace flockstep::supervisor {
namespace {

constexpr int kMostPort = 65535, kMostRestarts = 1'000'000;
constexpr base::Duration kShortestHeartbeat{0.1}, kLongestHeartbeat{3600};

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::bad_input, sentence); }

void check_range(std::string_view what, int value, int least, int most) {
  if (value < least || value > most)
    refuse(fmt::format("{} takes a whole number from {} to {}, not {}", what, least, most, value));
}

// A name that no program takes for an option, nor a shell for more than a word.
bool is_host(std::string_view name) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-@:[]%").find(c) != std::string_view::npos;
  };
  return !name.empty() && name[0] != '-' && std::ranges::all_of(name, is_fine);
}

void check_join(const Options& options) {
  const std::size_t colon = options.join.rfind(':');
  if (colon == std::string::npos || !is_host(options.join.substr(0, colon)))
    refuse(fmt::format("--join takes host:port, as the launcher of the run to join has told, not '{}'", options.join));
  base::parse_integer("the port in --join", options.join.substr(colon + 1), 1, kMostPort);
  if (options.secret_file.empty()) refuse("--join needs the run's secret: give its file with --secret-file");
  if (options.port != 0)
    refuse("--port is for the store of a new run, and --join uses that of another run: leave one of them out");
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// Also where it stands for nothing at all.
bool stands_for_this_host_alone(const std::string& name) {
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0) return true;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  return is_loopback(*found->ai_addr);
}

}  // namespace

void check(const Options& options) {
  if (options.command.empty() || options.command[0].empty())
    refuse("launch needs the command of a worker after --, such as `-- python train.py`");
  if (options.workers == 0) refuse("launch needs --workers, the number of workers to start");
  check_range("--workers", options.workers, 1, engines::mesh::kMostRanks);
  check_range("--restarts", options.restarts, 0, kMostRestarts);
  check_range("--port", options.port, 0, kMostPort);
  const base::Duration heartbeat = base::parse_duration("--heartbeat", options.heartbeat);
  if (heartbeat < kShortestHeartbeat || heartbeat > kLongestHeartbeat)
    refuse(fmt::format("--heartbeat takes a time from 100ms to 3600s, not {}", options.heartbeat));
  for (const std::string& host : options.hosts)
    if (!is_host(host)) refuse(fmt::format("--hosts takes names such as a,b or user@a, not '{}'", host));
  if (options.hosts.size() > static_cast<std::size_t>(options.workers))
    refuse(fmt::format("{} cannot be spread over {}: give each host one at least",
                       base::counted(options.workers, "worker"), base::counted(options.hosts.size(), "host")));
  if (!options.address.empty() && !is_host(options.address))
    refuse(fmt::format("--address takes the name or number of this host, not '{}'", options.address));
  if (options.ssh.empty()) refuse("--ssh takes a program, not ''");
  if (!options.join.empty()) check_join(options);
}

std::string store_host(const Options& options) {
  if (!options.address.empty()) return options.address;
  if (options.hosts.empty()) return "127.0.0.1";
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  if (stands_for_this_host_alone(name.data()))
    refuse(fmt::format("other hosts do not reach this one by its name, {}: give --address", name.data()));
  return name.data();
}

std::string host_of(const Options& options, int index) {
  if (options.hosts.empty()) return {};
  const std::size_t hosts = options.hosts.size(), workers = static_cast<std::size_t>(options.workers);
  return options.hosts[static_cast<std::size_t>(index) * hosts / workers];
}

engines::Place place_of(const Options& options, int index) {
  const std::string host = host_of(options, index);
  int first = index, last = index;
  while (first > 0 && host_of(options, first - 1) == host) --first;
  while (last + 1 < options.workers && host_of(options, last + 1) == host) ++last;
  return {index - first, last - first + 1};
}

}  // namespace flockstep::supervisor
