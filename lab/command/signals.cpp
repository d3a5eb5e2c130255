#include "command/signals.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/hash.h"
#include "engines/launcher.h"
#include "flockstep/error.h"
#include "runtime/gather.h"

namespace flockstep::command {
namespace {

// A handler can reach nothing but globals, and only what is lock-free is safe in it.
std::atomic<int> g_first{0};  // the first signal that came
std::atomic<bool> g_asks{false}, g_interrupted{false}, g_terminated{false}, g_is_child{false};
std::atomic<bool> g_has_timer{false};
timer_t g_timer;       // written before g_has_timer, like the next
itimerspec g_grace{};  // what a launcher leaves, less a little
std::atomic<const char*> g_advice{""};
std::array<std::atomic<pid_t>, 4096> g_lower_ranks{};  // processes; filled before the count is
std::atomic<int> g_lower_rank_count{0};

std::array<std::atomic<pid_t>, kMostChildren> g_children{};  // runs in processes of their own; 0: none

std::atomic<int> g_pipe_of_signals{-1};  // its writing end

constexpr int kTerminated = 128 + SIGTERM;

constexpr const char* kParentVariable = "FLOCKSTEP_ENDS_WITH";

void signal_children(int number) {
  for (const auto& each : g_children)
    if (const pid_t child = each.load(); child > 0) kill(child, number);
}

void end_at_once(int number) {
  signal_children(SIGKILL);
  for (int i = 0; i < g_lower_rank_count.load(); ++i)
    if (kill(g_lower_ranks[static_cast<std::size_t>(i)].load(), 0) == 0) _exit(exit_code_of_signal());
  if (g_is_child.load()) _exit(exit_code_of_signal());
  const bool is_terminated = number != SIGINT && number != SIGUSR1;
  const std::array<std::string_view, 4> sentence{"flockstep: ended by ",
                                                 is_terminated ? "SIGTERM: a worker was lost or the job was cancelled"
                                                 : number == SIGINT ? "Ctrl-C"
                                                                    : "SIGUSR1",
                                                 g_advice.load(), "\n"};
  std::array<iovec, sentence.size()> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = {const_cast<char*>(sentence[i].data()), sentence[i].size()};
  [[maybe_unused]] const auto written = writev(STDERR_FILENO, parts.data(), parts.size());
  // Others look for this process to know whether to speak: stay long enough for them to see it.
  const timespec while_others_look{0, 300'000'000};
  if (is_terminated) nanosleep(&while_others_look, nullptr);
  _exit(exit_code_of_signal());
}

void on_stop(int number) {
  int none = 0;
  g_first.compare_exchange_strong(none, number);
  const bool again = number == SIGINT    ? g_interrupted.exchange(true)
                     : number == SIGTERM ? g_terminated.exchange(true)
                                         : false;
  const bool has_grace = number == SIGTERM && g_has_timer.load();  // a launcher and a job's end may both send it
  if (!g_asks.load() || (again && !has_grace)) end_at_once(number);
  signal_children(number);
  if (has_grace && !again) timer_settime(g_timer, 0, &g_grace, nullptr);
}

void on_terminate_silently(int) { _exit(kTerminated); }

void on_signal_for_pipe(int number) {
  const auto byte = static_cast<unsigned char>(number);
  const int before = errno;
  [[maybe_unused]] const auto written = write(g_pipe_of_signals.load(), &byte, 1);
  errno = before;
}

void install(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  if (engines::launched()) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    install(SIGALRM, end_at_once);
    // A peer may be lost that the run would wait for. Open MPI's mpirun kills after one second, Slurm after thirty.
    if (std::getenv("OMPI_COMM_WORLD_RANK"))
      g_grace.it_value.tv_nsec = 700'000'000;
    else
      g_grace.it_value.tv_sec = 20;
    g_has_timer = timer_create(CLOCK_MONOTONIC, &event, &g_timer) == 0;
  }
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) install(number, on_stop);
}

bool stop_requested() {
  g_asks = true;
  return g_first.load() != 0;
}

int exit_code_of_signal() { return g_first.load() == SIGINT ? 128 + SIGINT : kTerminated; }

std::string_view name_of_signal() { return g_first.load() == SIGINT ? "Ctrl-C" : "a signal"; }

int signals_as_bytes() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(ErrorCode::unavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  g_pipe_of_signals = ends[1];
  install(SIGINT, on_signal_for_pipe);
  install(SIGTERM, on_signal_for_pipe);
  struct sigaction at_hangup {};
  sigaction(SIGHUP, nullptr, &at_hangup);
  if (at_hangup.sa_handler != SIG_IGN) install(SIGHUP, on_signal_for_pipe);
  return ends[0];
}

void ignore_further_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGALRM}) install(number, SIG_IGN);
}

void advise_on_sigterm(const char* advice) { g_advice = advice; }

void end_silently_on_sigterm() {
  install(SIGTERM, on_terminate_silently);
  install(SIGALRM, on_terminate_silently);
}

void pass_signals_to(pid_t child) {
  for (auto& each : g_children) {
    pid_t none = 0;
    if (each.compare_exchange_strong(none, child)) return;
  }
}

void pass_no_signals_to(pid_t child) {
  for (auto& each : g_children) {
    pid_t expected = child;
    if (each.compare_exchange_strong(expected, 0)) return;
  }
}

HeldSignals::HeldSignals() {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  sigaddset(&held, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &held, &before);
}

HeldSignals::~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

std::string end_with_us_variable() { return fmt::format("{}={}", kParentVariable, getpid()); }

void end_with_parent_if_asked() {
  const char* parent = std::getenv(kParentVariable);
  if (!parent) return;
  g_is_child = true;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::atoi(parent) != getppid()) _exit(kTerminated);  // it was gone before we asked
}

void learn_peers(runtime::Context& context) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::string_view name(host);
  const double host_hash = static_cast<double>(base::hash_of(std::span(name)) >> 11);  // exact in a double
  const std::array<double, 2> mine{host_hash, static_cast<double>(getpid())};
  const auto all = runtime::gather_doubles(context, mine);
  int count = 0;
  for (int rank = 0; rank < context.rank() && static_cast<std::size_t>(count) < g_lower_ranks.size(); ++rank) {
    const double* theirs = all.data() + 2 * rank;
    if (theirs[0] == mine[0] && theirs[1] != mine[1])
      g_lower_ranks[static_cast<std::size_t>(count++)] = static_cast<pid_t>(theirs[1]);
  }
  g_lower_rank_count = count;
}

}  // namespace flockstep::command
