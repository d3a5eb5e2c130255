// A folder with one file per worker, in two sets, so that one bad file does not end a training; and a list of the sets
// that are whole, with the files' checksums, which bind a file to its worker and its set. Knows nothing of what is in
// the files.
//
//   FOLDER/a/worker-0.pt ...   written first, each atomically; the next set goes to b, the one after that to a
//   FOLDER/latest              then this, the newest set first: whoever is killed leaves a whole set behind
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
    int workers = 0;      // that wrote it
    std::string warning;  // why it is not of the newest set; empty if it is
  };
  // Collective: this worker's file of the newest set of which everybody can read theirs, or worker 0's if another
  // number of workers wrote it. Throws Error{bad_file}, everywhere.
  Found read() const;

  // Collective: where `body`, which waits for nobody, threw on one worker, all throw the first such sentence as
  // Error{bad_file}, so that nobody goes on to wait for a worker that has given up.
  static void together(runtime::Context& context, const std::function<void()>& body);

 private:
  struct Set {
    std::string name;
    std::vector<std::uint64_t> checksums;  // of the workers' files
    int workers() const { return static_cast<int>(checksums.size()); }
  };
  bool has_latest() const;  // as far as can be told
  std::vector<Set> listed() const;
  void list(const std::vector<Set>& sets) const;
  Found read(const Set& set, const std::vector<Set>& all) const;
  std::filesystem::path file_of(const std::string& set, int rank) const;

  runtime::Context& context_;
  std::filesystem::path folder_;
};

}  // namespace flockstep::torch_front
