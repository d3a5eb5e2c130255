// What is going to happen, by virtual time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "protocol/events.h"

namespace flockstep::simulation {

struct Happening {
  enum class Kind : std::uint8_t {
    event,         // handed to the member `rank`
    part_arrives,  // at the machine of `rank`: `post` of the network
  };
  Kind kind = Kind::event;
  int rank = 0;
  protocol::Event event{protocol::Tick{}};
  int post = -1;               // for events about parts
  std::uint64_t timer = 0;     // for ticks: which WakeAt asked
  std::uint64_t sequence = 0;  // in which it was first put here
  bool withdrawn = false;

  bool is_tick() const { return kind == Kind::event && std::holds_alternative<protocol::Tick>(event); }
};

class Queue {
 public:
  bool empty() const { return waiting_.empty(); }
  double next_time() const { return waiting_.begin()->first.first; }
  // Events that are not ticks.
  int due() const { return due_; }

  // Same times go in the order in which they were put.
  void put(double time, Happening happening) {
    if (happening.sequence == 0) happening.sequence = ++order_;
    due_ += !happening.is_tick();
    waiting_.emplace(std::pair(time, ++order_), std::move(happening));
  }

  Happening take() {
    Happening first = std::move(waiting_.extract(waiting_.begin()).mapped());
    due_ -= !first.is_tick();
    return first;
  }

  // All that is still to happen, in the order in which it was put.
  std::vector<Happening*> waiting() {
    std::vector<Happening*> all;
    for (auto& [when, happening] : waiting_) all.push_back(&happening);
    std::ranges::sort(all, {}, &Happening::sequence);
    return all;
  }

 private:
  std::map<std::pair<double, std::uint64_t>, Happening> waiting_;
  std::uint64_t order_ = 0;
  int due_ = 0;
};

}  // namespace flockstep::simulation
