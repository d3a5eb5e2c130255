// Log lines that somebody else is to show, such as another language, whose own lock nobody needs to take for it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace flockstep::base {

// Kept until they are taken, and beyond a thousand only counted. For any thread.
class KeptLines {
 public:
  static constexpr std::size_t kMost = 1000;
  struct Line {
    LogLevel level;
    std::string text;
  };

  void add(LogLevel level, std::string text);
  std::vector<Line> take();

 private:
  std::mutex mutex_;
  std::vector<Line> lines_;
  std::uint64_t left_out_ = 0;
};

// From now on the log's lines go there, from `info` on, and not to standard error. Before anybody writes one.
void keep_lines(spdlog::logger& log, std::shared_ptr<KeptLines> lines);

}  // namespace flockstep::base
