// What is going to happen, by virtual time.
#pragma once

#include <algorithm>
#include <cstdint>
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
};

class Queue {
 public:
  bool empty() const { return heap_.empty(); }
  double next_time() const { return heap_.front().time; }
  // Events that are not ticks.
  int due() const { return due_; }

  // Same times go in the order in which they were put.
  void put(double time, Happening happening) {
    if (happening.sequence == 0) happening.sequence = ++order_;
    if (!std::holds_alternative<protocol::Tick>(happening.event) || happening.kind != Happening::Kind::event) ++due_;
    int slot;
    if (free_.empty()) {
      slot = static_cast<int>(slots_.size());
      slots_.push_back(std::move(happening));
    } else {
      slot = free_.back();
      free_.pop_back();
      slots_[static_cast<std::size_t>(slot)] = std::move(happening);
    }
    heap_.push_back({time, ++order_, slot});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  Happening take() {
    const Entry first = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    free_.push_back(first.slot);
    Happening happening = std::move(slots_[static_cast<std::size_t>(first.slot)]);
    if (!std::holds_alternative<protocol::Tick>(happening.event) || happening.kind != Happening::Kind::event) --due_;
    return happening;
  }

  // All that is still to happen, in the order in which it was put.
  std::vector<Happening*> waiting() {
    std::vector<Happening*> all;
    for (const Entry& entry : heap_) all.push_back(&slots_[static_cast<std::size_t>(entry.slot)]);
    std::ranges::sort(all, {}, &Happening::sequence);
    return all;
  }

 private:
  struct Entry {
    double time;
    std::uint64_t order;
    int slot;
  };
  static bool later(const Entry& a, const Entry& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }

  std::vector<Entry> heap_;
  std::vector<Happening> slots_;
  std::vector<int> free_;
  std::uint64_t order_ = 0;
  int due_ = 0;
};

}  // namespace flockstep::simulation
