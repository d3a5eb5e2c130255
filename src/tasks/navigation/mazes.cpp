#include "tasks/navigation/mazes.h"

#include "tasks/data_file.h"

namespace flockstep::tasks {
namespace {

constexpr std::uint64_t kFixedSeed = 0x6d617a6573;  // of mazes that are the same in every run
constexpr std::size_t kTestMazes = 256, kValidationMazes = 128;
constexpr std::size_t kValidationShare = 10;  // one of so many mazes of a file

std::vector<Maze> read_mazes(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_data_file(path);
  return parse_mazes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
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

  train_ = read_mazes(train_mazes(options.data));
  test_ = read_mazes(test_mazes(options.data));
  const auto kept = static_cast<std::ptrdiff_t>(train_.size() / kValidationShare);
  validation_.assign(train_.end() - kept, train_.end());
  train_.erase(train_.end() - kept, train_.end());
  if (!skewed) return;
  const base::Parts parts(train_.size(), static_cast<std::size_t>(worker.workers));
  const std::span<Maze> own = parts.of(std::span(train_), static_cast<std::size_t>(worker.data_rank));
  if (own.empty())
    refuse_file(train_mazes(options.data).string(), "holds fewer mazes than there are workers: use --shard iid");
  train_ = std::vector<Maze>(own.begin(), own.end());
}

Maze Mazes::draw(base::Random& random) const {
  if (train_.empty()) {
    const int side = draw_side(least_side_, most_side_, random);
    return generate_maze(side, options_.open, random);
  }
  Maze maze = train_[random.below(static_cast<std::uint32_t>(train_.size()))];
  maze.heading = static_cast<Heading>(random.below(kHeadings));
  return maze;
}

std::size_t Mazes::count(train::Split split) const {
  const bool test = split == train::Split::test;
  if (options_.data.empty()) return test ? kTestMazes : kValidationMazes;
  return (test ? test_ : validation_).size();
}

Maze Mazes::fixed(train::Split split, std::size_t index) const {
  const bool test = split == train::Split::test;
  if (!options_.data.empty()) return (test ? test_ : validation_)[index];
  base::Random random(kFixedSeed, base::Purpose::data, static_cast<std::uint32_t>(index), test ? 1 : 0);
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
