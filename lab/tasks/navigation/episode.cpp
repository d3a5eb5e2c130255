#include "tasks/navigation/episode.h"

#include <algorithm>

namespace flockstep::tasks {
namespace {

constexpr double kPerMove = 0.1, kPerAction = -0.01, kAtGoal = 1;

}  // namespace

Episode::Episode(Maze maze, int limit)
    : maze_(std::move(maze)),
      distances_(distances_to_goal(maze_)),
      limit_(limit),
      cell_(maze_.start),
      heading_(maze_.heading) {}

double Episode::act(Action action) {
  const int before = distance();
  ++actions_;
  if (action == Action::left) heading_ = left_of(heading_);
  if (action == Action::right) heading_ = right_of(heading_);
  if (action == Action::stop) stopped_ = true;
  if (const Cell next = ahead_of(cell_, heading_); action == Action::forward && !maze_.is_wall(next)) {
    cell_ = next;
    ++moves_;
  }
  return kPerMove * (before - distance()) + kPerAction + (succeeded() ? kAtGoal : 0);
}

double Episode::success_by_length() const {
  if (!succeeded()) return 0;
  const int shortest = distances_[maze_.index(maze_.start)];
  return static_cast<double>(shortest) / std::max(moves_, shortest);
}

}  // namespace flockstep::tasks
