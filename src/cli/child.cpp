#include "cli/child.h"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/signals.h"

extern char** environ;

namespace flockstep::cli {
namespace {

// Both ends of a pipe; closed when they go.
struct Pipe {
  Pipe() {
    if (::pipe(ends.data()) != 0)
      throw Error(ErrorCode::unavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t end) {
    if (ends[end] >= 0) ::close(ends[end]);
    ends[end] = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  while (true) {
    const ::ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
  }
}

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

Finished run_program(const std::string& program, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& variables) {
  std::vector<std::string> words{program}, environment = environment_with(variables);
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> argv = pointers_to(words), envp = pointers_to(environment);

  Pipe pipe;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe.ends[0]);
  posix_spawn_file_actions_addclose(&actions, pipe.ends[1]);
  // A process group of its own: the terminal's Ctrl-C reaches us alone, and we pass it on once.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t child = -1;
  const int code = ::posix_spawnp(&child, program.c_str(), &actions, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) throw Error(ErrorCode::unavailable, fmt::format("cannot start {}: {}", program, std::strerror(code)));
  pass_signals_to(child);
  pipe.close_end(1);
  std::string output = read_all(pipe.ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  pass_signals_to(0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), std::move(output)};
}

tasks::RunOutcome run_in_child(const tasks::RunRequest& request) {
  const auto [code, output] = run_program("/proc/self/exe", arguments_of(request));
  // The child has said on standard error what was wrong.
  if (code == 2) throw Error(ErrorCode::bad_input, "");
  if (code != 0)
    throw Error(ErrorCode::peer_lost, fmt::format("the run of {} ended with code {}", request.train.algorithm, code),
                request.engine);
  const auto json = nlohmann::json::parse(output);
  tasks::RunOutcome outcome;
  outcome.options = request.train;
  outcome.workers = json.at("workers");
  outcome.summary = train::summary_from_json(json);
  return outcome;
}

}  // namespace flockstep::cli
