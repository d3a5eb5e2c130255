#include "tasks/navigation/mazes.h"

#include "tasks/data_file.h"
#include "tasks/shared_data.h"

namespace flockstep::tasks {
namespace {

constexpr std::uint64_t kFixedSeed = 0x6d617a6573;  // of mazes that are the same in every run
constexpr std::size_t kTestMazes = 256, kValidationMazes = 128;
constexpr std::size_t kValidationShare = 10;  // one of so many mazes of a file

std::vector<Maze> read_mazes(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_data_file(path);
  return parse_mazes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

// Training mazes and those kept aside of them, and the test mazes.
MazeFiles read_files(const std::string& folder) {
  MazeFiles files{.train = read_mazes(train_mazes(folder)), .validation = {}, .test = read_mazes(test_mazes(folder))};
  const auto kept = static_cast<std::ptrdiff_t>(files.train.size() / kValidationShare);
  files.validation.assign(files.train.end() - kept, files.train.end());
  files.train.erase(files.train.end() - kept, files.train.end());
  return files;
}

std::shared_ptr<const MazeFiles> maze_files(const std::string& folder) {
  static SharedData<MazeFiles> shared;
  return shared.get(folder, [&] { return read_files(folder); });
}

int draw_side(int least, int most, base::Random& random) {
  return least + static_cast<int>(random.below(static_cast<std::uint32_t>(most - least + 1)));
}

}  // namespace

std::filesystem::path train_mazes(const std::string& folder) { return std::filesystem::path(folder) / "train.txt"; }
std::filesystem::path test_mazes(const std::string& folder) { return std::filesystem::path(folder) / "test.txt"; }

Mazes::Mazes(const MazeOptions& options, const ShardOptions& shard, const WorkerData& worker)
    : options_(options), least_side_(kLeastSide), most_side_(options.side) {
  const bool skewed = shard.shard == Shard::skewed;
  if (skewed && worker.workers > 1)
    least_side_ = most_side_ = kLeastSide + (options.side - kLeastSide) * worker.data_rank / (worker.workers - 1);
  if (options.data.empty()) return;
  files_ = maze_files(options.data);
  own_ = {0, files_->train.size()};
  if (skewed) own_ = worker.own_part(own_.size, "mazes in " + train_mazes(options.data).string());
}

Maze Mazes::draw(base::Random& random) const {
  if (!files_) {
    const int side = draw_side(least_side_, most_side_, random);
    return generate_maze(side, options_.open, random);
  }
  Maze maze = files_->train[own_.begin + random.below(static_cast<std::uint32_t>(own_.size))];
  maze.heading = static_cast<Heading>(random.below(kHeadings));
  return maze;
}

std::size_t Mazes::count(train::Split split) const {
  const bool test = split == train::Split::test;
  if (!files_) return test ? kTestMazes : kValidationMazes;
  return (test ? files_->test : files_->validation).size();
}

Maze Mazes::fixed(train::Split split, std::size_t index) const {
  const bool test = split == train::Split::test;
  if (files_) return (test ? files_->test : files_->validation)[index];
  base::Random random(kFixedSeed, base::Purpose::fixed_data, static_cast<std::uint32_t>(index), test ? 1 : 0);
  const int side = draw_side(kLeastSide, options_.side, random);
  return generate_maze(side, options_.open, random);
}

double Mazes::mean_distance() const {
  double sum = 0;
  const std::size_t mazes = count(train::Split::test);
  for (std::size_t i = 0; i < mazes; ++i) {
    const Maze maze = fixed(train::Split::test, i);
    sum += distances_to_goal(maze)[maze.index(maze.start)];
  }
  return sum / static_cast<double>(mazes);
}

}  // namespace flockstep::tasks
