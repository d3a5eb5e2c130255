// What one worker did when: spans of engine time on a few tracks. Recording only; src/train/trace_file.h writes them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace flockstep::base {

enum class Track : std::uint8_t {
  compute,   // the worker's own thread: forward, backward, update
  wait,      // the same thread, blocked in the engine
  transfer,  // operations in flight, from issue to completion
};

std::string_view to_string(Track track);

struct Span {
  Track track;
  std::uint8_t name;  // index into Trace::names()
  Time begin, end;
};

// Bounded: when full, later spans are counted and dropped.
class Trace {
 public:
  explicit Trace(std::size_t capacity) : capacity_(capacity) {}

  void record(Track track, std::string_view name, Time begin, Time end);

  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<std::string_view>& names() const { return names_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::size_t capacity_;
  std::vector<Span> spans_;
  std::vector<std::string_view> names_;  // of string literals: few, and they outlive the trace
  std::uint64_t dropped_ = 0;
};

}  // namespace flockstep::base
