#include "engines/sim/platform_trial.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/split.h"
#include "engines/sim/platform_file.h"

namespace flockstep::engines::sim {
namespace {

constexpr int kDone = 0, kThrew = 64;  // exit codes of the child; the second and up: an Error of this code
constexpr char kSentence = '\1';       // what follows in its output is the Error's

[[noreturn]] void load_and_exit(int output, const std::function<void()>& load) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  int code = kDone;
  try {
    load();
  } catch (const Error& error) {
    const std::string sentence = kSentence + std::string(error.what());
    code = kThrew + static_cast<int>(error.code());
    if (::write(output, sentence.data(), sentence.size()) < 0) code = EXIT_FAILURE;
  } catch (...) {
    code = EXIT_FAILURE;
  }
  ::_exit(code);
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ::ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// The first line of what SimGrid has printed, without where in its source that was.
std::string last_words(const std::string& output) {
  const std::string line = base::split(output, '\n')[0];
  const auto end = line.find("/CRITICAL] ");
  if (end != std::string::npos) return line.substr(end + std::strlen("/CRITICAL] "));
  return line.empty() ? "SimGrid breaks off without a word" : line;
}

}  // namespace

void try_platform_file(const std::string& path, const std::function<void()>& load) {
  std::array<int, 2> pipe;
  if (::pipe(pipe.data()) != 0) throw unusable(path, std::strerror(errno));
  const ::pid_t child = ::fork();
  if (child == 0) load_and_exit(pipe[1], load);
  ::close(pipe[1]);
  const std::string output = child < 0 ? "" : read_all(pipe[0]);
  ::close(pipe[0]);
  if (child < 0) throw unusable(path, std::strerror(errno));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kDone) return;
  const auto sentence = output.rfind(kSentence);
  if (WIFEXITED(status) && WEXITSTATUS(status) >= kThrew && sentence != std::string::npos)
    throw Error(static_cast<ErrorCode>(WEXITSTATUS(status) - kThrew), output.substr(sentence + 1), "sim");
  throw unusable(path, last_words(output));
}

}  // namespace flockstep::engines::sim
