#include "supervisor/words.h"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <utility>

#include "base/text.h"
#include "supervisor/remote.h"

namespace flockstep::supervisor {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 16> kSignals{{{SIGHUP, "SIGHUP"},
                                                                     {SIGINT, "SIGINT"},
                                                                     {SIGQUIT, "SIGQUIT"},
                                                                     {SIGILL, "SIGILL"},
                                                                     {SIGTRAP, "SIGTRAP"},
                                                                     {SIGABRT, "SIGABRT"},
                                                                     {SIGBUS, "SIGBUS"},
                                                                     {SIGFPE, "SIGFPE"},
                                                                     {SIGKILL, "SIGKILL"},
                                                                     {SIGUSR1, "SIGUSR1"},
                                                                     {SIGSEGV, "SIGSEGV"},
                                                                     {SIGUSR2, "SIGUSR2"},
                                                                     {SIGPIPE, "SIGPIPE"},
                                                                     {SIGALRM, "SIGALRM"},
                                                                     {SIGTERM, "SIGTERM"},
                                                                     {SIGXCPU, "SIGXCPU"}}};

std::string what_happened(bool is_remote, const Ending& ending) {
  if (ending.is_success()) return "has finished";
  if (ending.signal != 0) return "was killed by " + signal_name(ending.signal);
  if (is_remote && ending.status == kConnectionFailed) return "lost its connection";
  return fmt::format("ended with status {}", ending.status);
}

std::string what_next(const Decision& decision, const RestartLimits& limits) {
  switch (decision.what) {
    case Decision::What::again:
      return fmt::format("starting it again{} ({} of {})",
                         decision.wait < base::Duration(1) ? "" : " in " + readable(decision.wait), decision.restart,
                         limits.most);
    case Decision::What::used_up:
      return limits.most == 0
                 ? "it is not started again"
                 : fmt::format("it is not started again: it had {}", base::counted(limits.most, "restart"));
    case Decision::What::hopeless:
      return fmt::format("it is not started again: it has ended like this {} times in a row and never ran for {}",
                         limits.same_early_endings, readable(limits.early));
    case Decision::What::too_late: return "it is not started again, since another worker has finished";
    case Decision::What::finished: break;
  }
  return {};
}

}  // namespace

std::string signal_name(int number) {
  for (const auto& [known, name] : kSignals)
    if (known == number) return std::string(name);
  return fmt::format("signal {}", number);
}

std::string readable(base::Duration duration) {
  return duration.count() < 10 ? fmt::format("{:.1f} s", duration.count()) : fmt::format("{:.0f} s", duration.count());
}

std::string ending_sentence(int rank, const std::string& host, const Ending& ending, base::Duration ran,
                            const Decision& decision, const RestartLimits& limits) {
  const std::string where = host.empty() ? "" : " on " + host, next = what_next(decision, limits);
  return fmt::format("worker {}{} {} after {}{}{}", rank, where, what_happened(!host.empty(), ending), readable(ran),
                     next.empty() ? "" : "; ", next);
}

}  // namespace flockstep::supervisor
