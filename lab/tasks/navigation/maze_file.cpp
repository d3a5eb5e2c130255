// Mazes as users draw them.
#include <fmt/core.h>

#include <optional>

#include "tasks/data_file.h"
#include "tasks/navigation/mazes.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kLongestSide = 255;  // cells

class MazeReader {
 public:
  MazeReader(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  std::vector<Maze> read() {
    while (!rest_.empty()) {
      const std::string_view line = take_line(rest_);
      ++line_number_;
      if (line.empty())
        finish_maze();
      else
        add_row(line);
    }
    finish_maze();
    if (mazes_.empty()) refuse_file(name_, "holds no maze");
    return std::move(mazes_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    refuse_file(name_, fmt::format("line {}: {}", line_number_, why));
  }

  void add_row(std::string_view line) {
    if (line.size() > kLongestSide) refuse(fmt::format("a maze has at most {} cells in a row", kLongestSide));
    if (maze_.rows > 0 && static_cast<int>(line.size()) != maze_.columns)
      refuse(fmt::format("{} cells, where the maze has {} in a row", line.size(), maze_.columns));
    if (maze_.rows == static_cast<int>(kLongestSide)) refuse(fmt::format("a maze has at most {} rows", kLongestSide));
    maze_.columns = static_cast<int>(line.size());
    for (std::size_t column = 0; column < line.size(); ++column)
      add_cell(line[column], {maze_.rows, static_cast<int>(column)});
    ++maze_.rows;
  }

  void add_cell(char sign, Cell cell) {
    if (sign != '#' && sign != '.' && sign != ' ' && sign != 'S' && sign != 'G')
      refuse(fmt::format("cell {} is none of # . S G and blanks", cell.column + 1));
    if (sign == 'S') place(start_, cell, "start");
    if (sign == 'G') place(goal_, cell, "goal");
    maze_.walls.push_back(sign == '#' ? 1 : 0);
  }

  void place(std::optional<Cell>& at, Cell cell, std::string_view what) {
    if (at) refuse(fmt::format("a second {} in one maze", what));
    at = cell;
  }

  void finish_maze() {
    if (maze_.rows == 0) return;
    if (!start_ || !goal_) refuse(fmt::format("the maze that ends here has no {}", start_ ? "goal (G)" : "start (S)"));
    maze_.start = *start_;
    maze_.goal = *goal_;
    if (distances_to_goal(maze_)[maze_.index(maze_.start)] == kUnreachable)
      refuse("in the maze that ends here no way leads from the start to the goal");
    mazes_.push_back(std::move(maze_));
    maze_ = {};
    start_ = goal_ = std::nullopt;
  }

  std::string_view rest_;
  const std::string& name_;
  std::size_t line_number_ = 0;
  Maze maze_;  // so far
  std::optional<Cell> start_, goal_;
  std::vector<Maze> mazes_;
};

}  // namespace

std::vector<Maze> parse_mazes(std::string_view text, const std::string& name) { return MazeReader(text, name).read(); }

}  // namespace flockstep::tasks
