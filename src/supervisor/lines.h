// What a worker writes, cut into whole lines, so that those of several workers can share one stream.
#pragma once

#include <string>
#include <string_view>

namespace flockstep::supervisor {

class Lines {
 public:
  // Longer lines are cut: memory is bounded, whatever a worker writes.
  static constexpr std::size_t kMost = std::size_t{1} << 20;

  explicit Lines(std::string prefix) : prefix_(std::move(prefix)) {}

  // All lines that are whole now, each behind the prefix. A carriage return ends a line as well, as progress bars write
  // them.
  std::string add(std::string_view text);
  // What is left, as a line of its own: nothing more will come.
  std::string end();

 private:
  std::string prefix_, rest_;
};

}  // namespace flockstep::supervisor
