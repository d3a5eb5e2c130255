// Mazes against a plain search for distances, what every generated maze has to be, and files of mazes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "data_files.h"
#include "tasks/navigation/mazes.h"

namespace flockstep::tasks::navigation_maze_test {
namespace {

// A cell is one step farther than its nearest neighbour: until nothing changes.
std::vector<int> plain_distances(const Maze& maze) {
  constexpr int kFar = 1 << 20;
  std::vector<int> distances(maze.walls.size(), kFar);
  distances[maze.index(maze.goal)] = 0;
  for (bool changed = true; std::exchange(changed, false);)
    for (int row = 0; row < maze.rows; ++row)
      for (int column = 0; column < maze.columns; ++column)
        for (const Cell near : {Cell{row - 1, column}, {row + 1, column}, {row, column - 1}, {row, column + 1}}) {
          if (maze.is_wall({row, column}) || !maze.contains(near)) continue;
          int& here = distances[maze.index({row, column})];
          changed = changed || distances[maze.index(near)] + 1 < here;
          here = std::min(here, distances[maze.index(near)] + 1);
        }
  std::ranges::replace(distances, kFar, kUnreachable);
  return distances;
}

Maze random_cells(int rows, int columns, double walls, base::Random& random) {
  Maze maze{.rows = rows, .columns = columns, .walls = {}, .start = {}, .goal = {}};
  for (int i = 0; i < rows * columns; ++i) maze.walls.push_back(random.uniform() < walls ? 1 : 0);
  maze.goal = {static_cast<int>(random.below(static_cast<std::uint32_t>(rows))),
               static_cast<int>(random.below(static_cast<std::uint32_t>(columns)))};
  maze.walls[maze.index(maze.goal)] = 0;
  return maze;
}

TEST(Maze, distancesAreThoseOfAPlainSearch) {
  base::Random random(1, base::Purpose::test);
  for (int round = 0; round < 200; ++round) {
    const Maze scattered = random_cells(1 + round % 17, 1 + round % 23, 0.35, random);
    EXPECT_EQ(distances_to_goal(scattered), plain_distances(scattered)) << round;
    const Maze generated = generate_maze(2 + round % 9, 0.01 * round, random);
    EXPECT_EQ(distances_to_goal(generated), plain_distances(generated)) << round;
  }
}

std::size_t passages(const Maze& maze) {
  std::size_t count = 0;
  for (int row = 0; row < maze.rows; ++row)
    for (int column = 0; column < maze.columns; ++column)
      if (row % 2 != column % 2 && !maze.is_wall({row, column})) ++count;
  return count;
}

TEST(Maze, aGeneratedOneJoinsAllRoomsInOneWayOnlyUnlessItIsOpened) {
  base::Random random(3, base::Purpose::test);
  for (int side = 2; side < 12; ++side) {
    const auto rooms = static_cast<std::size_t>(side * side);
    const Maze tree = generate_maze(side, 0, random), opened = generate_maze(side, 0.3, random),
               open = generate_maze(side, 1, random);
    for (const Maze* maze : {&tree, &opened, &open}) {
      EXPECT_EQ(maze->rows, 2 * side + 1);
      EXPECT_FALSE(maze->start == maze->goal);
      const std::vector<int> distances = distances_to_goal(*maze);
      for (int i = 0; i < side * side; ++i)
        EXPECT_NE(distances[maze->index({2 * (i / side) + 1, 2 * (i % side) + 1})], kUnreachable);
      for (int i = 0; i < maze->rows; ++i)
        for (const Cell cell : {Cell{0, i}, Cell{i, 0}, Cell{maze->rows - 1, i}, Cell{i, maze->rows - 1}})
          EXPECT_TRUE(maze->is_wall(cell));
    }
    EXPECT_EQ(passages(tree), rooms - 1);  // a tree
    EXPECT_EQ(passages(open), 2 * rooms - 2 * static_cast<std::size_t>(side));
    EXPECT_LE(passages(tree), passages(opened));
  }
}

// What Mazes needs of a run.
WorkerData worker(int rank, int workers, std::uint64_t seed = 1) {
  static const base::Settings none;
  return WorkerData(TaskInputs{none, seed, 64, rank, workers});
}

TEST(Mazes, testsAreTheSameInEveryRunAndTrainingIsNot) {
  const MazeOptions options{.side = 5, .open = 0.2, .data = ""};
  const Mazes first(options, {}, worker(0, 4, 1)), second(options, {}, worker(3, 4, 2));
  std::set<int> sides;
  for (std::size_t i = 0; i < first.count(train::Split::test); ++i) {
    const Maze a = first.fixed(train::Split::test, i), b = second.fixed(train::Split::test, i);
    EXPECT_TRUE(a.walls == b.walls && a.start == b.start && a.heading == b.heading) << i;
    sides.insert(a.rows);
  }
  EXPECT_EQ(sides, (std::set<int>{5, 7, 9, 11}));
  EXPECT_NE(first.fixed(train::Split::test, 0).walls, first.fixed(train::Split::validation, 0).walls);
  base::Random random(1, base::Purpose::data), other(2, base::Purpose::data);
  EXPECT_NE(first.draw(random).walls, first.draw(other).walls);
}

TEST(Mazes, skewedWorkersHaveOneSizeEach) {
  base::Random random(4, base::Purpose::test);
  std::vector<int> rows;
  for (int rank = 0; rank < 4; ++rank) {
    const Mazes mazes({.side = 5, .open = 0.2, .data = ""}, {.shard = Shard::skewed}, worker(rank, 4));
    rows.push_back(mazes.draw(random).rows);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(mazes.draw(random).rows, rows.back());
  }
  EXPECT_EQ(rows, (std::vector<int>{5, 7, 9, 11}));
}

const std::string kGood = "####\n#SG#\n####\n\n\n#.G\r\n. S\r\n";

std::string refusal_of(const std::string& text) {
  return refusal([&] { parse_mazes(text, "the file"); });
}

TEST(MazeFile, aPlainFileIsRead) {
  const std::vector<Maze> mazes = parse_mazes(kGood, "the file");
  ASSERT_EQ(mazes.size(), 2u);
  EXPECT_EQ(std::pair(mazes[0].rows, mazes[0].columns), std::pair(3, 4));
  EXPECT_EQ(mazes[0].start, (Cell{1, 1}));
  EXPECT_EQ(mazes[0].goal, (Cell{1, 2}));
  EXPECT_EQ(mazes[0].heading, Heading::north);
  EXPECT_EQ(mazes[1].walls, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(mazes[1].start, (Cell{1, 2}));
  EXPECT_EQ(parse_mazes("SG", "").size(), 1u);  // walls all around are a matter of course
}

TEST(MazeFile, whatIsNoMazeIsRefusedInOneSentence) {
  std::string tall;
  for (int i = 0; i < 254; ++i) tall += ".\n";
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"", "the file holds no maze"},
           {"\n\r\n\n", "the file holds no maze"},
           {"SG\n...\n", "the file line 2: 3 cells, where the maze has 2 in a row"},
           {"#S#\n#G\n", "the file line 2: 2 cells, where the maze has 3 in a row"},
           {"SG\n\nSxG\n", "the file line 3: cell 2 is none of # . S G and blanks"},
           {std::string("S\0G", 3), "the file line 1: cell 2 is none of # . S G and blanks"},
           {"S\tG", "the file line 1: cell 2 is none of # . S G and blanks"},
           {"S\xc3\xa4G", "the file line 1: cell 2 is none of # . S G and blanks"},
           {"sg", "the file line 1: cell 1 is none of # . S G and blanks"},
           {"SGS", "the file line 1: a second start in one maze"},
           {"SG\nG.", "the file line 2: a second goal in one maze"},
           {"...\n\nSG", "the file line 2: the maze that ends here has no start (S)"},
           {"S..", "the file line 1: the maze that ends here has no goal (G)"},
           {"S#G", "the file line 1: in the maze that ends here no way leads from the start to the goal"},
           {"S" + std::string(256, '.') + "G", "the file line 1: a maze has at most 255 cells in a row"},
           {tall + "S\nG", "the file line 256: a maze has at most 255 rows"},
       })
    EXPECT_EQ(refusal_of(text), sentence) << text;
  EXPECT_EQ(refusal_of(tall.substr(2) + "S\nG"), "");
  EXPECT_EQ(refusal_of("S" + std::string(253, '.') + "G"), "");
}

TEST(MazeFile, damagedFilesAreReadOrRefused) {
  const int refused = refused_of_damaged(kGood, 5000, "the file ", [](const std::string& text) {
    for (const Maze& maze : parse_mazes(text, "the file")) {
      ASSERT_EQ(maze.walls.size(), static_cast<std::size_t>(maze.rows * maze.columns));
      ASSERT_FALSE(maze.is_wall(maze.start) || maze.is_wall(maze.goal));
      ASSERT_GT(distances_to_goal(maze)[maze.index(maze.start)], 0);
    }
  });
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 5000);
}

class MazeFolder : public testing::Test {
 protected:
  Mazes read(Shard shard = Shard::iid, int rank = 0, int workers = 4) {
    return Mazes({.side = 3, .open = 0, .data = folder_.string()}, {.shard = shard}, worker(rank, workers));
  }

  const test::TemporaryFolder folder_;
};

TEST_F(MazeFolder, aTenthOfTheTrainingMazesIsKeptAsideAndSkewedWorkersHaveTheirShare) {
  std::string corridors;
  for (std::size_t i = 0; i < 20; ++i) corridors += "S" + std::string(i, '.') + "G\n\n";
  folder_.write("train.txt", corridors);
  folder_.write("test.txt", kGood);
  const Mazes all = read();
  EXPECT_EQ(all.count(train::Split::test), 2u);
  EXPECT_EQ(all.count(train::Split::validation), 2u);
  EXPECT_EQ(all.fixed(train::Split::validation, 1).columns, 21);
  EXPECT_EQ(all.mean_distance(), 1);
  base::Random random(6, base::Purpose::test);
  const Mazes own = read(Shard::skewed, 1, 3);  // 18 mazes: 6 for each
  std::set<int> of_all, of_own;
  for (int i = 0; i < 300; ++i) {
    of_all.insert(all.draw(random).columns);
    of_own.insert(own.draw(random).columns);
  }
  EXPECT_EQ(*of_all.begin(), 2);
  EXPECT_EQ(*of_all.rbegin(), 19);
  EXPECT_EQ(of_own, (std::set<int>{8, 9, 10, 11, 12, 13}));
}

TEST_F(MazeFolder, missingAndTooShortFilesAreTold) {
  const std::string train = folder_.string() + "/train.txt", test = folder_.string() + "/test.txt";
  EXPECT_EQ(refusal([&] { read(); }), train + " is not there");
  folder_.write("train.txt", kGood);
  EXPECT_EQ(refusal([&] { read(); }), test + " is not there");
  folder_.write("test.txt", "");
  EXPECT_EQ(refusal([&] { read(); }), test + " is empty");
  folder_.write("test.txt", "SG\n?");
  EXPECT_EQ(refusal([&] { read(); }), test + " line 2: 1 cells, where the maze has 2 in a row");
  folder_.write("test.txt", kGood);
  EXPECT_EQ(refusal([&] { read(Shard::skewed, 2, 3); }),
            "there are fewer mazes in " + train + " than workers: use --shard iid");
}

}  // namespace
}  // namespace flockstep::tasks::navigation_maze_test
