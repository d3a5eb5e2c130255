// Mazes against plain searches: breadth-first for distances, and what every generated maze has to be.
#include <gtest/gtest.h>

#include <set>

#include "tasks/navigation/mazes.h"

namespace flockstep::tasks::navigation_maze_test {
namespace {

constexpr std::array kAllHeadings{Heading::north, Heading::east, Heading::south, Heading::west};

// Breadth-first, by whole levels: every cell next to one of the last level that was in none before.
std::vector<int> levels_from_goal(const Maze& maze) {
  using Place = std::pair<int, int>;
  std::vector<int> levels(maze.walls.size(), -1);
  std::set<Place> seen, last{{maze.goal.row, maze.goal.column}};
  for (int level = 0; !last.empty(); ++level) {
    std::set<Place> next;
    for (const auto& [row, column] : last) {
      levels[static_cast<std::size_t>(row * maze.columns + column)] = level;
      seen.insert({row, column});
    }
    for (const auto& [row, column] : last)
      for (const Place& place :
           {Place{row - 1, column}, Place{row + 1, column}, Place{row, column - 1}, Place{row, column + 1}}) {
        const bool inside =
            place.first >= 0 && place.first < maze.rows && place.second >= 0 && place.second < maze.columns;
        if (inside && maze.walls[static_cast<std::size_t>(place.first * maze.columns + place.second)] == 0 &&
            !seen.contains(place))
          next.insert(place);
      }
    last = std::move(next);
  }
  return levels;
}

Maze random_cells(int rows, int columns, double walls, base::Random& random) {
  Maze maze{.rows = rows, .columns = columns, .walls = {}, .start = {}, .goal = {}};
  for (int i = 0; i < rows * columns; ++i) maze.walls.push_back(random.uniform() < walls ? 1 : 0);
  maze.goal = {static_cast<int>(random.below(static_cast<std::uint32_t>(rows))),
               static_cast<int>(random.below(static_cast<std::uint32_t>(columns)))};
  maze.walls[maze.index(maze.goal)] = 0;
  return maze;
}

TEST(Maze, distancesAreThoseOfABreadthFirstSearch) {
  base::Random random(1, base::Purpose::test);
  for (int round = 0; round < 200; ++round) {
    const Maze scattered = random_cells(1 + round % 17, 1 + round % 23, 0.35, random);
    EXPECT_EQ(distances_to_goal(scattered), levels_from_goal(scattered)) << round;
    const Maze generated = generate_maze(2 + round % 9, 0.01 * round, random);
    EXPECT_EQ(distances_to_goal(generated), levels_from_goal(generated)) << round;
  }
}

TEST(Maze, withoutWallsTheDistanceIsThatOfTheCoordinates) {
  base::Random random(2, base::Purpose::test);
  const Maze maze = random_cells(9, 14, 0, random);
  const std::vector<int> distances = distances_to_goal(maze);
  for (int row = 0; row < 9; ++row)
    for (int column = 0; column < 14; ++column)
      EXPECT_EQ(distances[maze.index({row, column})],
                std::abs(row - maze.goal.row) + std::abs(column - maze.goal.column));
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
  double distance = 0, opened_distance = 0;
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
  for (int i = 0; i < 100; ++i) {
    const Maze tree = generate_maze(6, 0, random), opened = generate_maze(6, 0.5, random);
    distance += distances_to_goal(tree)[tree.index(tree.start)];
    opened_distance += distances_to_goal(opened)[opened.index(opened.start)];
  }
  EXPECT_LT(opened_distance, 0.7 * distance);
}

TEST(Maze, aTurnToTheRightAndOneToTheLeftLeadBack) {
  for (const Heading heading : kAllHeadings) {
    EXPECT_EQ(left_of(right_of(heading)), heading);
    EXPECT_EQ(right_of(right_of(right_of(right_of(heading)))), heading);
    const Heading back = right_of(right_of(heading));
    EXPECT_EQ(ahead_of(ahead_of({4, 7}, heading), back), (Cell{4, 7}));
  }
  EXPECT_EQ(right_of(Heading::north), Heading::east);
  EXPECT_EQ(ahead_of({4, 7}, Heading::north), (Cell{3, 7}));
  EXPECT_EQ(ahead_of({4, 7}, Heading::east), (Cell{4, 8}));
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
    EXPECT_EQ(a.walls, b.walls);
    EXPECT_EQ(a.start, b.start);
    EXPECT_EQ(a.heading, b.heading);
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
  const Mazes alone({.side = 5, .open = 0.2, .data = ""}, {.shard = Shard::skewed}, worker(0, 1));
  EXPECT_LE(alone.draw(random).rows, 11);
}

}  // namespace
}  // namespace flockstep::tasks::navigation_maze_test
