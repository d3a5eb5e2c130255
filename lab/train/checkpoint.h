// The state of a whole run on disk, one file per worker. Two generations are kept, so that one bad file does not end a
// run.
//
//   OUT/checkpoint/step-40/worker-0.bin ...   written first, each atomically and with a checksum
//   OUT/checkpoint/latest                     then this: which generations are whole, the newest first, each with its
//                                             step, its number of workers and the checksum of every worker's file
//
// The checksums bind a file to its generation and so to its run; rank, size and step stand in the file as well, for a
// sentence that says what a wrong one is.
#pragma once

#include <filesystem>
#include <optional>

#include "base/archive.h"
#include "runtime/context.h"

namespace flockstep::train {

class Checkpoints {
 public:
  Checkpoints(runtime::Context& context, const std::filesystem::path& out)
      : context_(context), folder_(out / "checkpoint") {}

  static bool exist_in(const std::filesystem::path& out);

  // Collective: returns once the generation of `step` is whole and is the newest; of older ones the last is kept.
  void write(std::int64_t step, base::Archive archive);

  struct Found {
    base::Archive archive;
    int workers;          // of the run that wrote it
    std::string warning;  // why it is not the newest generation; empty if it is
  };
  // Collective: this worker's part of the newest generation of which everybody can read theirs, or nothing when there
  // is no checkpoint. If another number of workers wrote it, everybody gets worker 0's. Throws Error{bad_file},
  // everywhere, if no generation is whole.
  std::optional<Found> read_latest();

 private:
  struct Generation {
    std::int64_t step = 0;
    std::vector<std::uint64_t> checksums;  // of the workers' files
    int workers() const { return static_cast<int>(checksums.size()); }
  };
  std::filesystem::path file_of(std::int64_t step, int rank) const;
  std::vector<Generation> listed();
  base::Archive read(const Generation& generation) const;
  void check_complete(std::int64_t step) const;
  void list(const std::vector<Generation>& generations) const;
  void remove_others(const std::vector<Generation>& generations) const;

  runtime::Context& context_;
  std::filesystem::path folder_;
  std::optional<Generation> newest_;  // that was written or read by this object
};

}  // namespace flockstep::train
