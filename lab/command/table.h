// An aligned table: the first column to the left, the others to the right.
#pragma once

#include <string>
#include <vector>

namespace flockstep::command {

class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  // All columns to the left, for words rather than numbers.
  Table& left() {
    all_left_ = true;
    return *this;
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;
  std::size_t width() const;  // in characters

 private:
  std::vector<std::size_t> widths() const;

  std::vector<std::vector<std::string>> rows_;
  bool all_left_ = false;
};

}  // namespace flockstep::command
