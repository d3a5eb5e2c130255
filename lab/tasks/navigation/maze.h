// Mazes on a grid: what they are, how they are generated, and how far every place is from the goal.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace flockstep::tasks {

struct Cell {
  int row = 0, column = 0;
  bool operator==(const Cell&) const = default;
};

enum class Heading { north, east, south, west };  // north: towards row 0
constexpr int kHeadings = 4;

constexpr Heading right_of(Heading heading) {
  return static_cast<Heading>((static_cast<int>(heading) + 1) % kHeadings);
}
constexpr Heading left_of(Heading heading) { return static_cast<Heading>((static_cast<int>(heading) + 3) % kHeadings); }
Cell ahead_of(Cell cell, Heading heading);

// The task in a maze: from a start, with a heading, to a goal that can be reached.
struct Maze {
  int rows = 0, columns = 0;
  std::vector<std::uint8_t> walls;  // row by row: 1 for a wall
  Cell start, goal;
  Heading heading = Heading::north;

  bool contains(Cell cell) const {
    return cell.row >= 0 && cell.row < rows && cell.column >= 0 && cell.column < columns;
  }
  std::size_t index(Cell cell) const { return static_cast<std::size_t>(cell.row * columns + cell.column); }
  // All around a maze are walls.
  bool is_wall(Cell cell) const { return !contains(cell) || walls[index(cell)] != 0; }
};

// Rooms (side x side of them, with walls between: 2 side + 1 cells across), joined as a depth-first walk finds them.
// Then each wall that is left between two rooms goes with the probability `open`, so that there are loops.
Maze generate_maze(int side, double open, base::Random& random);

constexpr int kUnreachable = -1;
// Moves to the goal on a shortest path, from every cell.
std::vector<int> distances_to_goal(const Maze& maze);

}  // namespace flockstep::tasks
