#include "tasks/navigation/view.h"

#include <cmath>
#include <cstdlib>

namespace flockstep::tasks {
namespace {

constexpr double kSensedUnit = 10;  // cells

// To the nearest whole number, halves away from zero: the left is the mirror image of the right.
int divide_rounded(int value, int by) { return (value < 0 ? -1 : 1) * ((2 * std::abs(value) + by) / (2 * by)); }

Cell moved(Cell cell, Heading heading, int ahead, int right) {
  const Cell origin{}, forward = ahead_of(origin, heading), sideways = ahead_of(origin, right_of(heading));
  return {cell.row + ahead * forward.row + right * sideways.row,
          cell.column + ahead * forward.column + right * sideways.column};
}

}  // namespace

View::View(int side) : side_(side) {
  for (int ahead = side - 1; ahead >= 0; --ahead)
    for (int right = -(side / 2); right <= side / 2; ++right) {
      Sight sight{{ahead, right}, {}};
      const int steps = std::max(ahead, std::abs(right));
      for (int i = 1; i < steps; ++i)
        sight.before.push_back({divide_rounded(ahead * i, steps), divide_rounded(right * i, steps)});
      places_.push_back(std::move(sight));
    }
}

void View::look(const Maze& maze, Cell cell, Heading heading, std::span<std::int8_t> seen) const {
  const auto is_wall = [&](Place place) { return maze.is_wall(moved(cell, heading, place.ahead, place.right)); };
  for (std::size_t i = 0; i < places_.size(); ++i) {
    bool hidden = false;
    for (const Place& place : places_[i].before) hidden = hidden || is_wall(place);
    seen[i] = static_cast<std::int8_t>(hidden ? 0 : is_wall(places_[i].at) ? -1 : 1);
  }
}

GoalSense sense_goal(const Maze& maze, Cell cell, Heading heading) {
  const Cell forward = ahead_of({}, heading), sideways = ahead_of({}, right_of(heading));
  const int down = maze.goal.row - cell.row, along = maze.goal.column - cell.column;
  const double ahead = down * forward.row + along * forward.column,
               right = down * sideways.row + along * sideways.column;
  const double distance = std::sqrt(ahead * ahead + right * right), least = std::max(distance, 1.0);
  return {static_cast<float>(distance / kSensedUnit), static_cast<float>(ahead / least),
          static_cast<float>(right / least)};
}

}  // namespace flockstep::tasks
