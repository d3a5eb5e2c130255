#include "supervisor/lines.h"

#include <algorithm>

namespace flockstep::supervisor {

std::string Lines::add(std::string_view text) {
  // Where the old rest had no end, only the new text can have one; the last character may be the first half of \r\n.
  std::size_t looked_at = rest_.empty() ? 0 : rest_.size() - 1;
  rest_ += text;
  std::string whole;
  std::size_t begin = 0;
  while (true) {
    std::size_t at = rest_.find_first_of("\r\n", std::max(begin, looked_at));
    looked_at = 0;
    if (at != std::string::npos && rest_[at] == '\r') {
      if (at + 1 == rest_.size()) break;  // whether this is \r\n, the next text tells
      if (rest_[at + 1] == '\n') ++at;
    }
    if (at == std::string::npos) break;
    whole.append(prefix_).append(rest_, begin, at + 1 - begin);
    begin = at + 1;
  }
  rest_.erase(0, begin);
  if (rest_.size() >= kMost) whole += end();
  return whole;
}

std::string Lines::end() {
  if (rest_.empty()) return {};
  std::string line = prefix_ + rest_;
  if (line.back() != '\r') line += '\n';
  rest_.clear();
  return line;
}

}  // namespace flockstep::supervisor
