// Checkpoints of a training, in a folder that all its workers share: the last two generations, each with one file per
// worker, so that one bad file does not end the training. What is in the files is up to the caller.
//
//   FOLDER/a/worker-0.bin ...   written first, each atomically; the next generation goes to b, the one after that to a
//   FOLDER/latest               then this: the generations that are complete, the newest first, each with its step and
//                               its files' checksums, which bind a file to its worker, its generation and its training
//
// So a training that is killed leaves a complete generation behind. All functions that say "collective" throw the same
// Error on every worker, also where only one could not read or write: nobody waits for a worker that has given up.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"

namespace flockstep::session {

class Checkpoints {
 public:
  // `suffix` is how the names of the workers' files end, such as ".bin".
  Checkpoints(runtime::Context& context, std::filesystem::path folder, std::string suffix)
      : context_(context), folder_(std::move(folder)), suffix_(std::move(suffix)) {}

  // As far as can be told.
  static bool exist_in(const std::filesystem::path& folder);

  // Collective: returns once every worker's file, of the bytes that `make` returns, is written and the generation is
  // listed as the newest. Throws Error{bad_file}.
  void write(std::int64_t step, const std::function<std::vector<std::byte>()>& make);

  struct Found {
    std::vector<std::byte> bytes;
    std::string path;
    int workers = 0;      // that wrote the generation
    std::string warning;  // why it is not the newest generation; empty if it is
  };
  // Collective: this worker's file of the newest generation of which every worker can read its own; worker 0's if
  // another number of workers wrote it; nothing if the folder has no checkpoint. Throws Error{bad_file}.
  std::optional<Found> read() const;

 private:
  struct Generation {
    std::string name;  // a or b
    std::int64_t step = 0;
    std::vector<std::uint64_t> checksums;  // of the workers' files
    int workers() const { return static_cast<int>(checksums.size()); }
  };
  static std::string text_of(const std::vector<Generation>& generations);
  static std::vector<Generation> parsed(const std::string& text);  // nothing unless text_of wrote it
  std::vector<Generation> listed() const;
  Found read(const Generation& generation, const std::vector<Generation>& all) const;
  std::filesystem::path list() const { return folder_ / "latest"; }
  std::filesystem::path file_of(const Generation& generation, int rank) const;

  runtime::Context& context_;
  std::filesystem::path folder_;
  std::string suffix_;
};

// Collective: where `body`, which waits for nobody, threw on a worker, all throw the first such sentence as
// Error{bad_file}.
void together(runtime::Context& context, const std::function<void()>& body);

}  // namespace flockstep::session
