#include "supervisor/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "flockstep/error.h"

extern char** environ;

namespace flockstep::supervisor {
namespace {

std::vector<char*> pointers_into(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string_view name_of(std::string_view variable) { return variable.substr(0, variable.find('=')); }

std::vector<std::string> environment_of(const ProcessStart& start) {
  std::vector<std::string> words = start.variables;
  for (char** each = environ; *each; ++each) {
    const std::string_view name = name_of(*each);
    const auto is_this = [&](std::string_view variable) { return name_of(variable) == name; };
    if (std::ranges::none_of(start.variables, is_this) && std::ranges::none_of(start.without, is_this))
      words.emplace_back(*each);
  }
  return words;
}

// A store's connections, say, must end with this process, not with the last worker that happens to hold them.
void close_others(posix_spawn_file_actions_t& actions) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#else
  if (DIR* open = ::opendir("/proc/self/fd")) {
    while (const dirent* each = ::readdir(open))
      if (const int number = std::atoi(each->d_name); number > STDERR_FILENO)
        posix_spawn_file_actions_addclose(&actions, number);
    ::closedir(open);
  }
#endif
}

// Descriptors that are all above 2, so that setting one of 0 to 2 does not take away another.
Descriptor copy_above_standard(int number) { return Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)); }

pid_t spawn(const ProcessStart& start) {
  std::vector<std::string> words = start.command, environment = environment_of(start);
  const std::vector<char*> argv = pointers_into(words), envp = pointers_into(environment);
  const Descriptor nothing(start.input < 0 ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  const Descriptor input = copy_above_standard(start.input < 0 ? nothing.get() : start.input);
  const Descriptor output = copy_above_standard(start.output), errors = copy_above_standard(start.errors);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
  close_others(actions);

  // Whatever this process does with signals, or a shell did before it started this in the background.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t id = -1;
  const int code = ::posix_spawnp(&id, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0)
    throw Error(ErrorCode::unavailable, fmt::format("cannot start {}: {}", start.command[0], std::strerror(code)));
  return id;
}

int descriptor_of_process([[maybe_unused]] pid_t id) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, id, 0));
#else
  return -1;
#endif
}

}  // namespace

Process::Process(const ProcessStart& start) : id_(spawn(start)), end_(descriptor_of_process(id_)) {}

Process::~Process() {
  if (id_ < 0) return;
  ::kill(-id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<Ending> Process::ended() {
  if (id_ < 0) return {};
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != id_) return {};
  const Ending ending = info.si_code == CLD_EXITED ? Ending{info.si_status, 0} : Ending{0, info.si_status};
  // Before it is reaped, its number is nobody else's.
  if (!ending.is_success()) ::kill(-id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  end_.close();
  return ending;
}

void Process::signal_group(int number) {
  if (id_ > 0) ::kill(-id_, number);
}

}  // namespace flockstep::supervisor
