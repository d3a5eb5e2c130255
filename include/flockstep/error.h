// The one exception type that crosses the library's boundary.
// Programmer errors do not come this way: they stop the process (src/base/check.h).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace flockstep {

// What went wrong, for programs. Each code has the name that the command and the Python package use, too.
enum class ErrorCode {
  bad_input,    // a value or name the caller can change
  mismatch,     // workers disagree on something that has to be equal
  deadline,     // a wait lasted longer than allowed
  peer_lost,    // another worker failed or vanished
  unavailable,  // this build or machine lacks what was asked for
  bad_file,     // a file cannot be read, written or trusted
};

// The name of a code, such as "bad_input".
std::string_view to_string(ErrorCode code);

// What every call of the library throws that cannot do what it was asked for; what() is one sentence.
class Error : public std::runtime_error {
 public:
  // `sentence` says what is wrong and what to change; `engine` is empty when no engine was involved.
  Error(ErrorCode code, const std::string& sentence, std::string engine = {})
      : std::runtime_error(sentence), code_(code), engine_(std::move(engine)) {}

  ErrorCode code() const noexcept { return code_; }  // what went wrong
  // The engine that was involved, such as "mpi"; empty where none was.
  const std::string& engine() const noexcept { return engine_; }

 private:
  ErrorCode code_;
  std::string engine_;
};

}  // namespace flockstep
