// What one worker did when: spans of engine time on a few tracks. Recording only; src/telemetry/trace_file.h writes
// them.
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
  rounds,    // averages taken beside the worker, from its contribution to the result
};

std::string_view to_string(Track track);

// How a worker took part in a round of averaging; of several that hold, the first.
enum class RoundRole : std::uint8_t {
  synchronisation,  // the round waited for everybody
  activated_here,   // this worker started it
  fresh,            // another one did, and this worker's model of that very iteration went into it
  passive,          // an older one did
};
std::string_view to_string(RoundRole role);  // as trace.json names it, such as "round, fresh"

struct Round {
  static constexpr std::int32_t kUnknown = -1;

  RoundRole role;
  Time begin, end;  // contribution to result
  std::int64_t number;
  std::int32_t activator = kUnknown;  // the worker who started it
  std::int64_t staleness = 0;         // iterations between the contribution and the round
};

struct Span {
  Track track;
  std::uint8_t name;                                                  // index into Trace::names()
  std::int32_t round = Round::kUnknown, activator = Round::kUnknown;  // of those that are rounds
  Time begin, end;
};

// Bounded: when full, later spans are counted and dropped. For one thread, the worker's: what an agent has to tell is
// handed over first.
class Trace {
 public:
  explicit Trace(std::size_t capacity) : capacity_(capacity) {}

  // Room for so many spans in all, before the first is recorded.
  void set_capacity(std::size_t capacity) { capacity_ = capacity; }

  void record(Track track, std::string_view name, Time begin, Time end);
  void record(const Round& round);

  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<std::string_view>& names() const { return names_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  void add(std::string_view name, Span span);

  std::size_t capacity_;
  std::vector<Span> spans_;
  std::vector<std::string_view> names_;  // of string literals: few, and they outlive the trace
  std::uint64_t dropped_ = 0;
};

}  // namespace flockstep::base
