// Other processes: programs that we need, and this same command.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace flockstep::command {

struct Finished {
  int code;            // its exit code; 128 and the signal's number if one ended it
  std::string output;  // what it wrote to standard output
  std::string errors;  // and to standard error, where that is kept
};

enum class Errors { ours, kept };  // where a child's standard error goes

// A program in a process of its own. Ctrl-C and SIGTERM are passed on to it (cli/signals.h), and it is ended with this
// object.
class Child {
 public:
  // `program` is looked for on the PATH if its name has no slash. `variables` ("NAME=VALUE") come on top of our
  // environment. Throws Error{unavailable} if it cannot be started.
  Child(const std::string& program, const std::vector<std::string>& arguments,
        const std::vector<std::string>& variables = {}, Errors errors = Errors::ours);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Finished finish();  // waits until it has ended

 private:
  friend std::size_t wait_for_any(std::span<const std::unique_ptr<Child>> children);

  // The reading end of a pipe, and what came out of it; -1 from its end on.
  struct Stream {
    int descriptor = -1;
    std::string text;
    ~Stream();
    void read();
  };

  std::vector<Stream*> open_streams();
  // Waits for something to read, for the end of one of them, or for a signal.
  static void read_what_comes(const std::vector<Stream*>& streams);
  int reap();

  pid_t id_ = -1;  // -1 once it is reaped
  Stream output_, errors_;
};

// Reads what they write until one of them has closed its streams, as it does when it ends, and tells which.
std::size_t wait_for_any(std::span<const std::unique_ptr<Child>> children);

// Starts a program and waits for it.
Finished run_program(const std::string& program, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& variables = {});

}  // namespace flockstep::command
