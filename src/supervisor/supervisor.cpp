#include "supervisor/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "base/settings.h"
#include "base/text.h"
#include "engines/mesh/store.h"
#include "flockstep/error.h"
#include "supervisor/relay.h"
#include "supervisor/run_store.h"
#include "supervisor/secret.h"
#include "supervisor/words.h"
#include "supervisor/worker_slot.h"

namespace flockstep::supervisor {
namespace {

constexpr base::Duration kGrace{5};        // between a signal and SIGKILL
constexpr base::Duration kLastWords{0.5};  // for ssh to tell of the end of a worker that was killed
constexpr base::Duration kLook{0.02};      // where the kernel does not tell of the end of a process
constexpr int kNotStarted = 127;           // as shells say it

base::Time now() { return base::Time(std::chrono::steady_clock::now().time_since_epoch()); }

// The run's secret, and a file that holds it.
struct Secret {
  PrivateFolder folder;
  std::string file, text;

  explicit Secret(const Options& options) : file(options.secret_file) {
    const bool is_ours = file.empty();
    if (is_ours) file = folder.path() + "/secret";
    if (is_ours || (options.join.empty() && ::access(file.c_str(), F_OK) != 0))
      write_secret(file, engines::mesh::make_secret());
    text = read_secret(file);
    if (std::array<char, 4096> path; file[0] != '/' && ::getcwd(path.data(), path.size()))
      file = fmt::format("{}/{}", path.data(), file);  // workers may start elsewhere
  }
};

// FLOCKSTEP_HOST of workers here; empty where they should find out.
std::string host_of_workers(const Options& options) {
  if (!options.address.empty() || options.join.empty()) return options.hosts.empty() ? store_host(options) : "";
  return options.join.starts_with("127.") || options.join.starts_with("localhost:") ? "127.0.0.1" : "";
}

RunPlan plan_of(const Options& options, const Secret& secret, const RunStore& store) {
  std::array<char, 4096> folder{};
  RunPlan plan{.command = options.command,
               .variables = {fmt::format("FLOCKSTEP_WORKERS={}", store.workers()), "FLOCKSTEP_STORE=" + store.address(),
                             fmt::format("FLOCKSTEP_HEARTBEAT={}s",
                                         base::parse_duration("--heartbeat", options.heartbeat).count())},
               .secret = secret.text,
               .secret_file = secret.file,
               .host = host_of_workers(options),
               .ssh = options.ssh,
               .id = engines::mesh::make_secret().substr(0, 16),
               .folder = ::getcwd(folder.data(), folder.size()) ? folder.data() : "/"};
  return plan;
}

class Supervisor {
 public:
  Supervisor(const Options& options, int stop)
      : stop_(stop),
        secret_(options),
        relay_(options.prefix || ::isatty(STDOUT_FILENO) == 1, secret_.folder.path()),
        store_(options, secret_.text),
        plan_(plan_of(options, secret_, store_)) {
    limits_.most = options.restarts;
    for (int i = 0; i < options.workers; ++i)
      slots_.push_back(
          {WorkerSlot(store_.ranks()[static_cast<std::size_t>(i)], host_of(options, i), place_of(options, i), limits_),
           now()});
  }

  int run() {
    while (std::ranges::any_of(slots_, [](const Slot& slot) { return slot.start_at || slot.worker.is_running(); })) {
      start_who_is_due();
      wait();
      take_stop();
      for (Slot& slot : slots_)
        if (const auto ending = slot.worker.ended()) take_ending(slot, *ending);
      kill_after_grace();
    }
    if (stop_signal_ != 0) return 128 + stop_signal_;
    if (finished_ < slots_.size())
      relay_.say(fmt::format("{} of {} finished", finished_, base::counted(slots_.size(), "worker")));
    return finished_ > 0 ? 0 : first_failure_;
  }

 private:
  struct Slot {
    WorkerSlot worker;
    std::optional<base::Time> start_at;  // nothing while it runs, and when it has finished or is given up
    base::Time started{};
  };

  void start_who_is_due() {
    for (Slot& slot : slots_)
      if (slot.start_at && *slot.start_at <= now()) start(slot);
    if (is_announced_ || stop_signal_ != 0) return;
    is_announced_ = true;
    relay_.say(fmt::format("{} started; others join with --join {} --secret-file {}",
                           base::counted(slots_.size(), "worker"), store_.address(), plan_.secret_file));
  }

  void start(Slot& slot) {
    slot.start_at.reset();
    slot.started = now();
    slot.worker.restarts().started(slot.started);
    try {
      slot.worker.start(plan_, relay_);
    } catch (const Error& error) {
      // At first it is the call that is wrong. Later, memory or processes may be scarce for a while.
      if (!is_announced_) throw Error(ErrorCode::bad_input, error.what());
      relay_.say(error.what());
      take_ending(slot, {kNotStarted, 0});
    }
  }

  // Until somebody has ended, is due to be started or killed, or we are asked to stop.
  void wait() {
    std::vector<pollfd> watched{{stop_, POLLIN, 0}};
    std::optional<base::Time> until = kill_at_;
    const auto no_later_than = [&](base::Time time) { until = until ? std::min(*until, time) : time; };
    for (const Slot& slot : slots_) {
      if (slot.start_at) no_later_than(*slot.start_at);
      if (!slot.worker.is_running()) continue;
      if (slot.worker.end_descriptor() >= 0)
        watched.push_back({slot.worker.end_descriptor(), POLLIN, 0});
      else
        no_later_than(now() + kLook);
    }
    const double ms = until ? std::ceil(1000 * std::max((*until - now()).count(), 0.0)) : -1;
    if (::poll(watched.data(), watched.size(), static_cast<int>(ms)) < 0 && errno != EINTR)
      throw Error(ErrorCode::unavailable, fmt::format("cannot wait for workers: {}", std::strerror(errno)));
    may_stop_ = (watched[0].revents & POLLIN) != 0;
    if (watched[0].revents != 0 && !may_stop_) stop_ = -1;  // nobody is left who could ask
  }

  void take_stop() {
    if (!may_stop_) return;
    std::array<unsigned char, 64> numbers;
    const ::ssize_t count = ::read(stop_, numbers.data(), numbers.size());
    if (count == 0) stop_ = -1;
    for (::ssize_t i = 0; i < count; ++i) {
      const int number = numbers[static_cast<std::size_t>(i)];
      if (number != SIGINT && number != SIGTERM && number != SIGHUP) continue;
      if (stop_signal_ == 0)
        begin_to_stop(number);
      else if (!is_killed_)
        kill_at_ = now();  // it was asked for twice
    }
  }

  void begin_to_stop(int number) {
    stop_signal_ = number;
    kill_at_ = now() + kGrace;
    std::size_t running = 0;
    for (Slot& slot : slots_) {
      slot.start_at.reset();
      if (!slot.worker.is_running()) continue;
      ++running;
      slot.worker.signal(number);
    }
    relay_.say(fmt::format("{}: ending {}", signal_name(number), base::counted(running, "worker")));
  }

  void kill_after_grace() {
    if (!kill_at_ || now() < *kill_at_) return;
    std::string ranks;
    for (Slot& slot : slots_) {
      if (!slot.worker.is_running()) continue;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(slot.worker.rank());
      slot.worker.signal(SIGKILL);
      if (is_killed_) slot.worker.kill_connection();
    }
    if (!is_killed_ && !ranks.empty()) relay_.say(fmt::format("killing what has not ended: worker {}", ranks));
    kill_at_.reset();
    if (!is_killed_) kill_at_ = now() + kLastWords;
    is_killed_ = true;
  }

  // A worker that would be started now would find none to join, and begin all by itself.
  void finish_run(const Slot& slot) {
    if (++finished_ == 1 && store_.has_trained() && !store_.is_over())
      relay_.say(fmt::format(
          "worker {} ended early: it has status 0, and the run was not at its end (which a program tells by "
          "consolidate() after its last step); the run counts as finished, and no worker is started again",
          slot.worker.rank()));
    store_.end_run();
    for (Slot& slot : slots_) slot.start_at.reset();
  }

  void take_ending(Slot& slot, const Ending& ending) {
    if (stop_signal_ != 0) return;
    Decision decision = slot.worker.restarts().ended(now(), ending);
    if (decision.what == Decision::What::finished) return finish_run(slot);
    if (decision.what == Decision::What::again && (finished_ > 0 || store_.is_over()))
      decision.what = Decision::What::too_late;
    relay_.say(
        ending_sentence(slot.worker.rank(), slot.worker.host(), ending, now() - slot.started, decision, limits_));
    if (decision.what == Decision::What::again)
      slot.start_at = now() + decision.wait;
    else if (first_failure_ == 0)
      first_failure_ = ending.exit_status();
  }

  int stop_;
  RestartLimits limits_;
  Secret secret_;
  Relay relay_;  // before the store, which has a thread
  RunStore store_;
  RunPlan plan_;
  std::vector<Slot> slots_;
  bool is_announced_ = false, may_stop_ = false, is_killed_ = false;
  int stop_signal_ = 0;                // 0: not asked to stop
  std::optional<base::Time> kill_at_;  // when grace ends
  std::size_t finished_ = 0;
  int first_failure_ = 0;
};

}  // namespace

int supervise(const Options& options, int stop) {
  check(options);
  return Supervisor(options, stop).run();
}

}  // namespace flockstep::supervisor
