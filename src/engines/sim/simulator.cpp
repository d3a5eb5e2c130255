#include "engines/sim/simulator.h"

#include <cxxabi.h>
#include <fmt/core.h>
#include <malloc.h>
#include <simgrid/version.h>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/simix.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <exception>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/available_memory.h"
#include "engines/sim/platform_trial.h"

namespace flockstep::engines::sim {
namespace {

namespace s4u = simgrid::s4u;

// The C++ runtime keeps its list of exceptions being handled per thread, and actors share a thread: one that blocks in
// a catch block or in a destructor during unwinding would find another's exceptions on its return. So each actor takes
// its list with it. The layout is that of the Itanium C++ ABI, 2.2.2.
class ExceptionsKept {
 public:
  ExceptionsKept() : globals_(reinterpret_cast<Globals*>(abi::__cxa_get_globals())), kept_(*globals_) {
    *globals_ = {};
  }
  ~ExceptionsKept() { *reinterpret_cast<Globals*>(abi::__cxa_get_globals()) = kept_; }
  ExceptionsKept(const ExceptionsKept&) = delete;
  ExceptionsKept& operator=(const ExceptionsKept&) = delete;

 private:
  struct Globals {
    void* caught;
    unsigned int uncaught;
  };
  Globals* globals_;
  Globals kept_;
};

// SimGrid takes over Ctrl-C and crashes to print the state of its actors; both are the application's.
class SignalsKept {
 public:
  SignalsKept() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &kept_[i]);
  }
  ~SignalsKept() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &kept_[i], nullptr);
  }
  SignalsKept(const SignalsKept&) = delete;
  SignalsKept& operator=(const SignalsKept&) = delete;

 private:
  static constexpr std::array kSignals{SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, kSignals.size()> kept_;
};

// Sanitizers follow threads, not stacks that are switched by hand. One actor runs at a time either way.
constexpr bool needs_threads() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
  return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  return false;
#endif
}

constexpr std::uint64_t kStackKib = 8192;  // only what is touched takes memory, and libtorch runs on these

// SimGrid ends the process where it gets no stack for another actor.
void require_room_for_another(std::uint64_t actors) {
  const auto most = base::most_stacks();
  const auto space = base::address_space_left();
  if ((!most || actors < *most) && (!space || *space > 2 * (kStackKib << 10))) return;
  throw Error(
      ErrorCode::bad_input,
      fmt::format("the workers of this simulation and their agents need a stack each, and there is room for {}: "
                  "use fewer workers, or raise {}",
                  actors, most && actors >= *most ? "vm.max_map_count" : "the limit that ulimit -v tells"),
      "sim");
}

s4u::Engine* make_engine() {
  if (s4u::Engine::has_instance())
    throw Error(
        ErrorCode::unavailable,
        "this process has already had a simulation, and SimGrid's clock never restarts; start a process per run",
        "sim");
  const SignalsKept signals;
  std::vector<std::string> arguments{
      "flockstep",
      "--log=root.thresh:critical",
      fmt::format("--cfg=contexts/stack-size:{}", kStackKib),
      needs_threads() ? "--cfg=contexts/factory:thread" : "--cfg=contexts/factory:raw",
      "--cfg=debug/clean-atexit:no",  // an exit from inside an actor would destroy the stack it stands on
      "--cfg=network/model:CM02",
      "--cfg=network/TCP-gamma:0",
      "--cfg=network/weight-S:0",
      "--cfg=network/bandwidth-factor:1",
      "--cfg=network/crosstraffic:no",
  };
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(arguments.size());
  return s4u::Engine::get_instance(&count, pointers.data());  // lives as long as the process, and says so to the next
}

s4u::Engine* engine_for(int hosts, const SimOptions& options) {
  if (!tree_of(options)) try_platform_file(options.platform, [&] { make_platform(*make_engine(), options, hosts); });
  return make_engine();
}

}  // namespace

struct Simulator::Flights {
  struct Flight {
    s4u::CommPtr comm;
    std::function<void()> arrived;
  };
  std::unordered_map<const s4u::Activity*, Flight> under_way;  // looked up only, so its order has no influence
  s4u::CommPtr ended;                                          // SimGrid still uses it after the callback

  void end(const s4u::Activity& activity) {
    auto found = under_way.extract(&activity);
    if (found.empty()) return;
    ended = std::move(found.mapped().comm);
    found.mapped().arrived();
  }
};

Simulator::Simulator(int hosts, const SimOptions& options)
    : engine_(engine_for(hosts, options)),
      platform_(make_platform(*engine_, options, hosts)),
      flights_(std::make_shared<Flights>()) {
  // SimGrid reports the end of a flow that no actor waits for only where its own context started it, as start() does.
  s4u::Activity::on_completion_cb([weak = std::weak_ptr(flights_)](const s4u::Activity& activity) {
    if (const auto flights = weak.lock()) flights->end(activity);
  });
}

Simulator::~Simulator() = default;

std::string Simulator::version() {
  int major = 0, minor = 0, patch = 0;
  sg_version_get(&major, &minor, &patch);
  return fmt::format("SimGrid {}.{}", major, minor);
}

double Simulator::now() { return s4u::Engine::get_clock(); }

void Simulator::start(std::span<const Flow> flows, const std::function<void()>& arrived) {
  if (flows.empty()) return;
  at_once([&] {
    for (const auto& flow : flows) {
      const auto bytes = static_cast<std::uint64_t>(std::llround(std::max(flow.bytes, 1.0)));
      auto comm = s4u::Comm::sendto_async(platform_.hosts[static_cast<std::size_t>(flow.from)],
                                          platform_.hosts[static_cast<std::size_t>(flow.to)], bytes);
      const auto* key = comm.get();
      flights_->under_way.emplace(key, Flights::Flight{std::move(comm), arrived});
    }
  });
}

double Simulator::time_alone(const Flow& flow) const {
  const Path path = platform_.path(flow.from, flow.to);
  return path.latency_s + flow.bytes / path.bytes_per_s;
}

void Simulator::after(double seconds, std::function<void()> action) {
  at_once([&] { simgrid::kernel::timer::Timer::set(now() + seconds, std::move(action)); });
}

void Simulator::spawn(int host, const std::string& name, const std::function<void()>& body) {
  std::optional<Error> refused;
  at_once([&] {  // one after the other, so that each finds the stacks of those before it
    try {
      require_room_for_another(engine_->get_actor_count());
      s4u::Actor::create(name, platform_.hosts[static_cast<std::size_t>(host)], body);
    } catch (const Error& error) {
      refused = error;
    }
  });
  if (refused) throw Error(*refused);
}

// Blocks of a mebibyte and more go back to the system when they are freed: the matrices that a thousand workers hold by
// turns differ a little in size, so that in the heap one worker's gap would not fit the next one's.
void Simulator::run() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  engine_->run();
}

void Simulator::add_up(int host, double seconds) const {
  if (!platform_.sums_share_links) return sleep(seconds);
  const ExceptionsKept exceptions;
  auto* const at = platform_.hosts[static_cast<std::size_t>(host)];
  const double bytes = std::max(seconds * platform_.path(host, host).bytes_per_s, 1.0);
  s4u::Comm::sendto(at, at, static_cast<std::uint64_t>(std::llround(bytes)));
}

void Simulator::doze(int host, double seconds) const {
  if (platform_.asleep_share == 1) return sleep(seconds);
  const ExceptionsKept exceptions;
  const auto* const at = platform_.hosts[static_cast<std::size_t>(host)];
  std::vector<s4u::Link*> links;
  at->route_to(at, links, nullptr);
  for (auto* link : links) link->set_bandwidth(link->get_bandwidth() * platform_.asleep_share);
  sleep(seconds);
  for (auto* link : links) link->set_bandwidth(link->get_bandwidth() / platform_.asleep_share);
}

void Simulator::sleep(double seconds) {
  const ExceptionsKept exceptions;
  s4u::this_actor::sleep_for(std::max(seconds, kTick_s));
}

void Simulator::at_once(const std::function<void()>& work) {
  const ExceptionsKept exceptions;
  simgrid::kernel::actor::simcall_answered([&work] { work(); });
}

SimBell::SimBell() = default;
SimBell::~SimBell() = default;

struct SimBell::Waiting {
  const std::function<bool()>& ready;
  s4u::SemaphorePtr semaphore = s4u::Semaphore::create(0);
  bool is_ready = false;
  std::exception_ptr thrown = nullptr;

  bool should_wake() {
    try {
      is_ready = ready();
    } catch (...) {
      thrown = std::current_exception();
    }
    return is_ready || thrown;
  }
};

bool SimBell::wait(const std::function<bool()>& ready, double seconds) {
  const ExceptionsKept exceptions;
  // A fresh semaphore each time: a ring that meets the timeout cannot be left over for a later wait.
  Waiting waiting{ready};
  waiting_.push_back(&waiting);
  waiting.semaphore->acquire_timeout(std::clamp(seconds, kTick_s, kForever_s));
  std::erase(waiting_, &waiting);
  if (waiting.thrown) std::rethrow_exception(waiting.thrown);
  return waiting.is_ready;
}

void SimBell::ring() {
  std::vector<s4u::SemaphorePtr> woken;
  std::erase_if(waiting_, [&](Waiting* waiting) {
    if (!waiting->should_wake()) return false;
    woken.push_back(waiting->semaphore);
    return true;
  });
  if (woken.empty()) return;
  Simulator::at_once([&] {
    for (const auto& semaphore : woken) semaphore->release();
  });
}

}  // namespace flockstep::engines::sim
