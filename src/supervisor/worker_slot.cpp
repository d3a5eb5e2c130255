#include "supervisor/worker_slot.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "flockstep/error.h"
#include "supervisor/remote.h"
#include "supervisor/words.h"

namespace flockstep::supervisor {

std::vector<std::string> WorkerSlot::variables_of(const RunPlan& plan) const {
  std::vector<std::string> variables = plan.variables;
  variables.push_back(fmt::format("FLOCKSTEP_RANK={}", rank_));
  variables.push_back(fmt::format("FLOCKSTEP_RESTARTS={}", restarts_.count()));
  variables.push_back(fmt::format("FLOCKSTEP_LOCAL_RANK={}", place_.number));
  variables.push_back(fmt::format("FLOCKSTEP_LOCAL_WORKERS={}", place_.workers));
  return variables;
}

void WorkerSlot::start_here(const RunPlan& plan, int output, int errors) {
  ProcessStart start{
      .command = plan.command, .variables = variables_of(plan), .without = {}, .output = output, .errors = errors};
  start.variables.push_back("FLOCKSTEP_SECRET_FILE=" + plan.secret_file);
  // What another run may have left in our environment.
  start.without = {"FLOCKSTEP_SECRET"};
  if (plan.host.empty())
    start.without.emplace_back("FLOCKSTEP_HOST");
  else
    start.variables.push_back("FLOCKSTEP_HOST=" + plan.host);
  process_ = std::make_unique<Process>(start);
}

void WorkerSlot::start_there(const RunPlan& plan, int output, int errors) {
  RemoteWorker worker{.id = fmt::format("{}.{}", plan.id, rank_),
                      .folder = plan.folder,
                      .variables = variables_of(plan),
                      .command = plan.command};
  worker.variables.push_back("FLOCKSTEP_SECRET=" + plan.secret);
  const std::string script = script_of(worker);
  // A pair of sockets, not a pipe: ssh may end first, and who writes to a pipe then gets a signal.
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Error(ErrorCode::unavailable, fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  Descriptor ours(ends[0]);
  const Descriptor its(ends[1]);
  process_ = std::make_unique<Process>(ProcessStart{.command = {plan.ssh, host_, "sh", "-s"},
                                                    .variables = {},
                                                    .without = {"FLOCKSTEP_SECRET"},
                                                    .input = its.get(),
                                                    .output = output,
                                                    .errors = errors});
  orders_ = std::move(ours);
  // Where ssh has ended already, its status tells.
  [[maybe_unused]] const auto sent = ::send(orders_.get(), script.data(), script.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void WorkerSlot::start(const RunPlan& plan, Relay& relay) {
  const Descriptor output = relay.stream(rank_, STDOUT_FILENO), errors = relay.stream(rank_, STDERR_FILENO);
  if (host_.empty())
    start_here(plan, output.get(), errors.get());
  else
    start_there(plan, output.get(), errors.get());
}

std::optional<Ending> WorkerSlot::ended() {
  if (!process_) return {};
  std::optional<Ending> ending = process_->ended();
  if (!ending) return {};
  process_.reset();
  orders_.close();
  // A shell says 128 + N of a command that signal N ended.
  if (!host_.empty() && ending->signal == 0 && ending->status > 128 && ending->status < 128 + SIGRTMAX)
    ending = Ending{0, ending->status - 128};
  return ending;
}

void WorkerSlot::signal(int number) {
  if (!process_) return;
  if (host_.empty()) {
    process_->signal_group(number);
    return;
  }
  const std::string order = signal_name(number).substr(std::strlen("SIG")) + "\n";
  [[maybe_unused]] const auto sent = ::send(orders_.get(), order.data(), order.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void WorkerSlot::kill_connection() {
  if (process_) process_->signal_group(SIGKILL);
}

}  // namespace flockstep::supervisor
