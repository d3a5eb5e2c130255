// One walk through a maze, and how good it was.
#pragma once

#include "tasks/navigation/maze.h"

namespace flockstep::tasks {

enum class Action { forward, left, right, stop };
constexpr int kActions = 4;
constexpr int kNoAction = kActions;  // before the first

class Episode {
 public:
  Episode(Maze maze, int limit);  // actions that it may take at most

  // The reward: by how many moves the goal has come nearer, less a little for the time, and more for stopping there. So
  // says Habitat's PointNav; here a move is a tenth of what the goal is worth.
  double act(Action action);

  bool is_over() const { return stopped_ || actions_ == limit_; }
  bool succeeded() const { return stopped_ && cell_ == maze_.goal; }
  int actions() const { return actions_; }
  // 1 for stopping at the goal after a shortest path, less in proportion for a longer one, 0 for anything else: the
  // mean over episodes is SPL (Anderson et al., 2018).
  double success_by_length() const;

  const Maze& maze() const { return maze_; }
  Cell cell() const { return cell_; }
  Heading heading() const { return heading_; }

 private:
  int distance() const { return distances_[maze_.index(cell_)]; }

  Maze maze_;
  std::vector<int> distances_;
  int limit_;
  Cell cell_;
  Heading heading_;
  int actions_ = 0, moves_ = 0;
  bool stopped_ = false;
};

}  // namespace flockstep::tasks
