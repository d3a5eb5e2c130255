#include "tasks/navigation/maze.h"

#include <array>

namespace flockstep::tasks {
namespace {

constexpr std::array kAllHeadings{Heading::north, Heading::east, Heading::south, Heading::west};

Cell between(Cell a, Cell b) { return {(a.row + b.row) / 2, (a.column + b.column) / 2}; }

void join_rooms(Maze& maze, Cell first, base::Random& random) {
  const auto is_new = [&](Cell room) { return maze.contains(room) && maze.walls[maze.index(room)] != 0; };
  std::vector<Cell> way{first};
  maze.walls[maze.index(first)] = 0;
  while (!way.empty()) {
    std::vector<Cell> next;
    for (const Heading heading : kAllHeadings) {
      const Cell room = ahead_of(ahead_of(way.back(), heading), heading);
      if (is_new(room)) next.push_back(room);
    }
    if (next.empty()) {
      way.pop_back();
      continue;
    }
    const Cell room = next[random.below(static_cast<std::uint32_t>(next.size()))];
    maze.walls[maze.index(room)] = maze.walls[maze.index(between(way.back(), room))] = 0;
    way.push_back(room);
  }
}

void open_walls(Maze& maze, double open, base::Random& random) {
  for (int row = 1; row + 1 < maze.rows; ++row)
    for (int column = 1; column + 1 < maze.columns; ++column) {
      const bool separates_rooms = row % 2 != column % 2;
      if (separates_rooms && maze.is_wall({row, column}) && random.uniform() < open)
        maze.walls[maze.index({row, column})] = 0;
    }
}

}  // namespace

Cell ahead_of(Cell cell, Heading heading) {
  constexpr std::array<Cell, kHeadings> kMoves{{{-1, 0}, {0, 1}, {1, 0}, {0, -1}}};
  const Cell move = kMoves[static_cast<std::size_t>(heading)];
  return {cell.row + move.row, cell.column + move.column};
}

Maze generate_maze(int side, double open, base::Random& random) {
  Maze maze;
  maze.rows = maze.columns = 2 * side + 1;
  maze.walls.assign(static_cast<std::size_t>(maze.rows * maze.columns), 1);
  const auto draw_room = [&] {
    const auto below_side = [&] { return static_cast<int>(random.below(static_cast<std::uint32_t>(side))); };
    const int row = 2 * below_side() + 1, column = 2 * below_side() + 1;
    return Cell{row, column};
  };
  maze.start = draw_room();
  do maze.goal = draw_room();
  while (maze.goal == maze.start);
  maze.heading = static_cast<Heading>(random.below(kHeadings));
  join_rooms(maze, draw_room(), random);  // from anywhere: the start is a room like others
  open_walls(maze, open, random);
  return maze;
}

std::vector<int> distances_to_goal(const Maze& maze) {
  std::vector<int> distances(maze.walls.size(), kUnreachable);
  std::vector<Cell> seen{maze.goal};  // the nearest first
  seen.reserve(distances.size());
  distances[maze.index(maze.goal)] = 0;
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (const Heading heading : kAllHeadings) {
      const Cell next = ahead_of(seen[i], heading);
      if (maze.is_wall(next) || distances[maze.index(next)] != kUnreachable) continue;
      distances[maze.index(next)] = distances[maze.index(seen[i])] + 1;
      seen.push_back(next);
    }
  return distances;
}

}  // namespace flockstep::tasks
