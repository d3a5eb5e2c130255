#include "command/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "command/signals.h"
#include "flockstep/error.h"

extern char** environ;

namespace flockstep::command {
namespace {

// The end of a pipe that a child writes to; the other one is given away. No other child gets to hold it open.
struct WritingEnd {
  explicit WritingEnd(int& reading_end) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw Error(ErrorCode::unavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    reading_end = ends[0];
    descriptor = ends[1];
  }
  ~WritingEnd() { ::close(descriptor); }
  WritingEnd(const WritingEnd&) = delete;
  WritingEnd& operator=(const WritingEnd&) = delete;
  int descriptor;
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Ours, in which `variables` replace those of the same name.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> words = variables;
  for (char** each = environ; *each; ++each) {
    const std::string_view entry(*each), name = entry.substr(0, entry.find('=') + 1);
    if (std::ranges::none_of(variables, [&](const std::string& variable) { return variable.starts_with(name); }))
      words.emplace_back(entry);
  }
  return words;
}

}  // namespace

Child::Stream::~Stream() {
  if (descriptor >= 0) ::close(descriptor);
}

void Child::Stream::read() {
  std::array<char, 4096> buffer;
  const ::ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  if (count == 0 || (count < 0 && errno != EINTR)) {
    ::close(descriptor);
    descriptor = -1;
  }
}

Child::Child(const std::string& program, const std::vector<std::string>& arguments,
             const std::vector<std::string>& variables, Errors errors) {
  std::vector<std::string> words{program}, environment = environment_with(variables);
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers_to(words), envp = pointers_to(environment);

  const WritingEnd its_output(output_.descriptor);
  std::optional<WritingEnd> its_errors;
  if (errors == Errors::kept) its_errors.emplace(errors_.descriptor);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, its_output.descriptor, STDOUT_FILENO);
  if (its_errors) posix_spawn_file_actions_adddup2(&actions, its_errors->descriptor, STDERR_FILENO);

  // A process group of its own: the terminal's Ctrl-C reaches us alone, and we pass it on once.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  int code = 0;
  {
    const HeldSignals held;  // none comes between the start and the note that there is somebody to pass it to
    posix_spawnattr_setsigmask(&attributes, &held.before);
    code = ::posix_spawnp(&id_, program.c_str(), &actions, &attributes, argv.data(), envp.data());
    if (code == 0) pass_signals_to(id_);
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    id_ = -1;
    throw Error(ErrorCode::unavailable, fmt::format("cannot start {}: {}", program, std::strerror(code)));
  }
}

Child::~Child() {
  if (id_ < 0) return;
  ::kill(id_, SIGKILL);
  reap();
}

int Child::reap() {
  // Left as it is until nothing is passed on to it: from then on its number may be another process's.
  siginfo_t info;
  while (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  pass_no_signals_to(id_);
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<Child::Stream*> Child::open_streams() {
  std::vector<Stream*> open;
  for (Stream* stream : {&output_, &errors_})
    if (stream->descriptor >= 0) open.push_back(stream);
  return open;
}

void Child::read_what_comes(const std::vector<Stream*>& streams) {
  std::vector<pollfd> watched;
  for (const Stream* stream : streams) watched.push_back({stream->descriptor, POLLIN, 0});
  if (::poll(watched.data(), watched.size(), -1) < 0) {
    if (errno == EINTR) return;
    throw Error(ErrorCode::unavailable, fmt::format("cannot wait for a child: {}", std::strerror(errno)));
  }
  for (std::size_t i = 0; i < watched.size(); ++i)
    if (watched[i].revents != 0) streams[i]->read();
}

Finished Child::finish() {
  for (auto open = open_streams(); !open.empty(); open = open_streams()) read_what_comes(open);
  const int code = reap();
  return {code, std::move(output_.text), std::move(errors_.text)};
}

std::size_t wait_for_any(std::span<const std::unique_ptr<Child>> children) {
  while (true) {
    std::vector<Child::Stream*> streams;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const auto open = children[i]->open_streams();
      if (open.empty()) return i;
      streams.insert(streams.end(), open.begin(), open.end());
    }
    Child::read_what_comes(streams);
  }
}

Finished run_program(const std::string& program, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& variables) {
  return Child(program, arguments, variables).finish();
}

}  // namespace flockstep::command
