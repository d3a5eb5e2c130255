// What an agent in a maze knows at any moment: the cells before it that no wall hides, and where the goal lies as seen
// from it. Nothing tells where it is, or what it saw before.
#pragma once

#include <array>
#include <span>

#include "tasks/navigation/maze.h"

namespace flockstep::tasks {

// A square of cells, side x side of them, with the agent in the middle of the last row, looking towards the first.
class View {
 public:
  explicit View(int side);  // odd

  // Row by row: 1 for a free cell, -1 for a wall, 0 for what cannot be seen. A cell can be seen if those on the
  // straight line to it are free.
  void look(const Maze& maze, Cell cell, Heading heading, std::span<std::int8_t> seen) const;
  int side() const { return side_; }
  std::size_t cells() const { return places_.size(); }

 private:
  struct Place {
    int ahead = 0, right = 0;
  };
  struct Sight {
    Place at;
    std::vector<Place> before;  // the cells on the line to it
  };
  int side_;
  std::vector<Sight> places_;
};

// The goal's distance as the crow flies, in tens of cells, and the cosine and sine of its direction: straight ahead is
// (1, 0), to the right (0, 1).
constexpr int kSenses = 3;
using GoalSense = std::array<float, kSenses>;
GoalSense sense_goal(const Maze& maze, Cell cell, Heading heading);

}  // namespace flockstep::tasks
