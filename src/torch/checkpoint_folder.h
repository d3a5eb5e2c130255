// A folder with one file per worker, and a pointer to the last complete set of them with the files' checksums. Knows
// nothing of what is in the files.
//
//   FOLDER/a/worker-0.pt ...   written first, each atomically; the next set goes to b, the one after that to a
//   FOLDER/latest              then this, so that whoever is killed leaves a whole set behind
#pragma once

#include <filesystem>
#include <string>

#include "runtime/context.h"

namespace flockstep::torch_front {

class CheckpointFolder {
 public:
  CheckpointFolder(runtime::Context& context, std::filesystem::path folder)
      : context_(context), folder_(std::move(folder)) {}

  // Collective: returns once everybody's file, which `make` gives the bytes of, is there and is the latest. Throws
  // Error{bad_file}, everywhere.
  void write(const std::function<std::string()>& make);

  struct Found {
    std::string bytes, path;
    int workers;  // that wrote it
  };
  // This worker's file of the latest set, or worker 0's if another number of workers wrote it. Throws Error{bad_file}.
  Found read() const;

  // Collective: where `body`, which waits for nobody, threw on one worker, all throw the first such sentence as
  // Error{bad_file}, so that nobody goes on to wait for a worker that has given up.
  static void together(runtime::Context& context, const std::function<void()>& body);

 private:
  struct Latest {
    std::string set;
    int workers;
    std::vector<std::uint64_t> checksums;
  };
  bool has_latest() const;  // as far as can be told
  Latest read_latest() const;
  std::filesystem::path file_of(const std::string& set, int rank) const;

  runtime::Context& context_;
  std::filesystem::path folder_;
};

}  // namespace flockstep::torch_front
