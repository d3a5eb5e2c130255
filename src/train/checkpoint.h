// The state of a whole run on disk, one file per worker, and a pointer to the last complete set.
//
//   OUT/checkpoint/step-40/worker-0.bin ...   written first, each atomically and with a checksum
//   OUT/checkpoint/latest                     then this, so a killed run always finds a whole set
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

  // Collective: returns once the set of `step` is complete and is the latest; older ones are then removed.
  void write(std::int64_t step, const base::Archive& archive);

  struct Found {
    base::Archive archive;
    int workers;  // of the run that wrote it
  };
  // This worker's part of the latest complete set, or nothing when there is none. If another number of workers wrote
  // it, everybody gets worker 0's. Throws Error{bad_file} if damaged.
  std::optional<Found> read_latest();

 private:
  std::filesystem::path file_of(std::int64_t step, int rank) const;
  void check_complete(std::int64_t step) const;

  runtime::Context& context_;
  std::filesystem::path folder_;
};

}  // namespace flockstep::train
