// The mazes of a worker: generated, or read from a user's files.
//
// Generated ones for training are drawn anew for every episode; those for validation and tests are always the same,
// whatever the seed of the run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tasks/navigation/maze.h"
#include "tasks/worker_data.h"

namespace flockstep::tasks {

struct MazeOptions {
  int side = 5;       // rooms across the largest; the smallest have kLeastSide
  double open = 0.2;  // chance of a wall between two rooms to go
  std::string data;   // a folder with train.txt and test.txt; empty: generated
};
constexpr int kLeastSide = 2;

struct MazeFiles {
  std::vector<Maze> train, validation, test;
};

class Mazes {
 public:
  // Throws Error{bad_file}.
  Mazes(const MazeOptions& options, const ShardOptions& shard, const WorkerData& worker);

  Maze draw(base::Random& random) const;  // to train in
  std::size_t count(train::Split split) const;
  Maze fixed(train::Split split, std::size_t index) const;
  double mean_distance() const;  // from start to goal, in the test mazes

 private:
  MazeOptions options_;
  int least_side_, most_side_;              // of this worker's own, to train in
  std::shared_ptr<const MazeFiles> files_;  // null: generated
  runtime::Range own_{};                    // of the files' mazes to train in
};

// Mazes in text: '#' for a wall, '.' or a blank for a free cell, one S (start) and one G (goal), and an empty line
// between two mazes. Lines of a maze have one length; who starts looks up. `name` stands for the file in sentences.
// Throws Error{bad_file} for anything else.
std::vector<Maze> parse_mazes(std::string_view text, const std::string& name);

std::filesystem::path train_mazes(const std::string& folder);
std::filesystem::path test_mazes(const std::string& folder);

}  // namespace flockstep::tasks
