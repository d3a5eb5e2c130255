// What is asked of the queues, links and memory of one worker's device, a line for each call, in the order of the
// host's thread. Memory goes by names, so that the lines are the same in every run.
#pragma once

#include <iterator>
#include <map>
#include <string>
#include <utility>

namespace flockstep::test {

class Calls {
 public:
  // Until another name is given to memory there.
  void name(const void* begin, std::string name) { names_[begin] = std::move(name); }
  // That of the memory it lies in.
  std::string name_of(const void* at) const {
    const auto after = names_.upper_bound(at);
    return after == names_.begin() ? "?" : std::prev(after)->second;
  }

  void add(const std::string& line) { last_ = text_.size(), text_ += line + "\n"; }
  // For a call that is made of the one before.
  void replace(const std::string& line) { text_.resize(last_), add(line); }
  std::string take() { return last_ = 0, std::exchange(text_, {}); }

 private:
  std::map<const void*, std::string> names_;
  std::string text_;
  std::size_t last_ = 0;
};

}  // namespace flockstep::test
