// The command: `flockstep train`, `compare`, `report`, `study`, `bench`, `calibrate`, `launch`, and the lists
// `algorithms`, `tasks`, `engines`, `platforms`; and `completion`.
// Exit codes: 0 done, 1 a run failed, 2 a wrong call, 130 and 143 stopped by a signal. One sentence on standard error
// says why.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "base/names.h"
#include "command/arguments.h"
#include "command/commands.h"
#include "command/completion.h"
#include "command/config_file.h"
#include "command/launcher.h"
#include "command/signals.h"
#include "engines/launcher.h"
#include "engines/mpi/backend.h"
#include "flockstep/version.h"

namespace flockstep::command {
namespace {

constexpr int kFailedRun = 1, kWrongCall = 2;

// Under a launcher every process may have the same to say, and the first to leave ends the others. So rank 0 speaks at
// once and stays for a moment; the others wait for longer than that, and who is still there then speaks for itself.
constexpr std::chrono::milliseconds kStay{200}, kLetRankZeroSpeak{2000};

int complain(const std::string& sentence, int code) {
  if (engines::launched()) {
    end_silently_on_sigterm();
    if (!speaks()) std::this_thread::sleep_for(kLetRankZeroSpeak);
  }
  // Not by fmt, which throws where nobody can be told.
  if (!sentence.empty()) std::fputs(fmt::format("flockstep: {}\n", sentence).c_str(), stderr);
  if (engines::launched()) {
    std::this_thread::sleep_for(kStay);
    if (code == kFailedRun) engines::mpi::abort_all(code);  // peers may be waiting for this process
    std::_Exit(code);                                       // without MPI_Finalize, which would wait for the others
  }
  return code;
}

// What CLI11 found wrong, with a suggestion where a flag is merely misspelt.
std::string sentence_of(const CLI::App& command, const CLI::Error& error) {
  const auto extras = command.remaining();
  if (extras.empty()) return fmt::format("{} (see `flockstep {} --help`)", in_our_words(error), command.get_name());
  return unknown_flag_sentence(command, extras[0].substr(0, extras[0].find('=')));
}

// Of `launch`: what stands after --, which is another program's business.
std::vector<std::string> take_words_of_worker(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "launch") return {};
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes == arguments.end()) return {};
  std::vector<std::string> words(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return words;
}

int run(std::vector<std::string> arguments) {
  CLI::App app("Data-parallel deep learning without lockstep.", "flockstep");
  app.set_version_flag("--version", std::string("flockstep ") + kVersion);
  app.option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // the last of several values, for every command
  app.require_subcommand(1);
  app.fallthrough(false);
  Action chosen;
  add_train(app, chosen);
  add_compare(app, chosen);
  add_report(app, chosen);
  add_study(app, chosen);
  add_bench(app, chosen);
  add_calibrate(app, chosen);
  const std::vector<std::string> words = take_words_of_worker(arguments);
  add_launch(app, chosen, words);
  add_listings(app, chosen);
  add_completion(app, chosen);

  if (!arguments.empty() && arguments[0] == kComplete) return complete(app, {arguments.begin() + 1, arguments.end()});

  if (arguments.empty()) {
    fmt::print("{}", app.help());
    return kWrongCall;
  }
  CLI::App* command = nullptr;
  if (!arguments[0].starts_with("-")) {
    std::vector<std::string> names;
    for (CLI::App* each : app.get_subcommands([](CLI::App*) { return true; })) {
      names.push_back(each->get_name());
      if (names.back() == arguments[0]) command = each;
    }
    if (!command) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      return complain(base::unknown_name_sentence("command", arguments[0], known), kWrongCall);
    }
  }
  try {
    if (command) apply_config_file(*command, arguments);
    std::ranges::reverse(arguments);  // as CLI11 wants them
    app.parse(arguments);
    if (command) refuse_empty_values(*command);
    return chosen();
  } catch (const CLI::Success& success) {  // --help, --version
    return speaks() ? app.exit(success) : 0;
  } catch (const CLI::Error& error) {
    return complain(command ? sentence_of(*command, error) : error.what(), kWrongCall);
  } catch (const Error& error) {
    const bool wrong_call = error.code() == ErrorCode::bad_input || error.code() == ErrorCode::mismatch;
    return complain(error.what(), wrong_call ? kWrongCall : kFailedRun);
  } catch (const std::bad_alloc&) {
    return complain("there is not enough memory for this run", kFailedRun);
  } catch (const std::exception& error) {
    return complain(std::ferror(stdout) ? fmt::format("cannot write the result: {}", error.what()) : error.what(),
                    kFailedRun);
  }
}

// Whatever was printed, by whichever command and however long ago: a result that is lost is a failure.
int flush_output(int code) {
  if (code != 0) return code;
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return code;
  return complain(failed_before ? "cannot write the result to standard output"
                                : fmt::format("cannot write the result: {}", std::strerror(errno)),
                  kFailedRun);
}

// The number of a closed standard stream would go to the next file that is opened, and what is meant for the terminal
// into it. Standard output stays closed for writing, so that a lost result is noticed.
void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest number that is free
}

}  // namespace
}  // namespace flockstep::command

int main(int argc, char** argv) {
  flockstep::command::occupy_standard_streams();
  flockstep::command::end_with_parent_if_asked();
  flockstep::command::install_signal_handlers();
  return flockstep::command::flush_output(flockstep::command::run({argv + 1, argv + argc}));
}
