#include "simulation/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "simulation/violation.h"

namespace flockstep::simulation {
namespace {

// Far above what any scenario takes: more is a loop that does not end.
constexpr std::int64_t kMostHappenings = 1'000'000;

}  // namespace

Cluster::Cluster(const Scenario& scenario, int ranks)
    : scenario_(scenario),
      random_(scenario.seed, base::Purpose::test, 3),
      stopped_until_(static_cast<std::size_t>(ranks)),
      calls_(stopped_until_.size()) {
  for (const Fault& fault : scenario.faults)
    if (fault.kind == Fault::Kind::stop) faults_.push_back(fault);
}

Cluster::Strand& Cluster::spawn(int rank, std::function<void()> body, const Life* life) {
  auto& strand = *strands_.emplace_back(std::make_unique<Strand>(rank, life, [this, body = std::move(body)] {
    try {
      body();
    } catch (const Crash&) {
    } catch (...) {
      break_with(std::current_exception());
    }
  }));
  ++alive_;
  at(now_, [this, &strand] { resume(strand); });
  return strand;
}

void Cluster::run() {
  while (alive_ > 0) {
    base::check(!due_.empty(), "waits with deadlines");
    std::ranges::pop_heap(due_, later);
    const Due next = std::move(due_.back());
    due_.pop_back();
    now_ = std::max(now_, next.time);
    try {
      next.happen();
    } catch (...) {
      break_with(std::current_exception());
    }
    if (++events_ == kMostHappenings)
      break_with(std::make_exception_ptr(
          Violation(property::kEnds, -1, -1, fmt::format("{} things have happened", kMostHappenings))));
  }
  if (error_) std::rethrow_exception(error_);
}

void Cluster::at(double time, std::function<void()> happen) {
  due_.push_back({time, ++order_, std::move(happen)});
  std::ranges::push_heap(due_, later);
}

// A strand notices at once, or after a while, and then all that has happened meanwhile.
void Cluster::ring(int rank) {
  for (const auto& strand : strands_) {
    if (strand->rank != rank || !strand->ready || strand->is_look_due) continue;
    strand->is_look_due = true;
    const double notices = is_over(*strand) ? now_ : now_ + scenario_.reactions.draw(random_);
    at(notices, [this, strand = strand.get()] {
      strand->is_look_due = false;
      look(*strand);
    });
  }
}

void Cluster::look(Strand& strand) {
  if (!strand.ready) return;
  if (stopped_until(strand.rank) > now_ && !is_over(strand)) {
    at(stopped_until(strand.rank), [this, &strand] { look(strand); });
    return;
  }
  try {
    strand.is_met = is_over(strand) || (*strand.ready)();
  } catch (...) {
    strand.thrown = std::current_exception();
  }
  if (strand.is_met || strand.thrown || now_ >= strand.deadline) resume(strand);
}

void Cluster::resume(Strand& strand) {
  strand.ready = nullptr;
  Strand* const before = std::exchange(current_, &strand);
  strand.fiber.resume();
  current_ = before;
  if (!strand.fiber.is_over()) return;
  --alive_;
  ring(strand.rank);
}

void Cluster::throw_if_over() {
  if (is_broken()) std::rethrow_exception(error_);
  if (current_->has_crashed()) throw Crash{};
}

bool Cluster::wait_until(const std::function<bool()>& ready, double deadline) {
  throw_if_over();
  Strand& strand = *current_;
  if (ready()) return true;
  strand.ready = &ready;
  strand.deadline = deadline;
  strand.is_met = false;
  set_timer(strand);
  pause();
  if (strand.thrown) std::rethrow_exception(std::exchange(strand.thrown, nullptr));
  throw_if_over();
  return strand.is_met;
}

// One timer per strand is enough: one that goes off too early is set again.
void Cluster::set_timer(Strand& strand) {
  if (strand.timer <= strand.deadline) return;
  strand.timer = strand.deadline;
  at(strand.timer + scenario_.timers.draw(random_), [this, &strand] {
    strand.timer = kNever;
    if (!strand.ready) return;
    if (now_ < strand.deadline) return set_timer(strand);
    look(strand);
  });
}

void Cluster::join(Strand& strand) {
  const std::function<bool()> is_over = [&] { return strand.fiber.is_over(); };
  while (!is_over()) {
    current_->ready = &is_over;
    current_->deadline = kNever;
    pause();
  }
}

void Cluster::count_call(int rank) {
  const std::int64_t calls = ++calls_[static_cast<std::size_t>(rank)];
  const auto due =
      std::ranges::find_if(faults_, [&](const Fault& fault) { return fault.rank == rank && calls >= fault.after; });
  if (due == faults_.end() || is_broken()) return;
  const double until = now_ + due->seconds;
  faults_.erase(due);
  ++stops_;
  stopped_until_[static_cast<std::size_t>(rank)] = until;
  const std::function<bool()> is_over = [&] { return now_ >= until; };
  current_->ready = &is_over;
  current_->deadline = until;
  at(until, [this, strand = current_] { look(*strand); });
  pause();
  if (current_->has_crashed()) throw Crash{};
}

void Cluster::crash(int rank, Life& life) {
  life.is_over = true;
  stopped_until_[static_cast<std::size_t>(rank)] = 0;
  for (const auto& strand : strands_)
    if (strand->life == &life) at(now_, [this, strand = strand.get()] { look(*strand); });
}

void Cluster::break_with(std::exception_ptr error) {
  if (!error_) error_ = std::move(error);
  for (std::size_t rank = 0; rank < stopped_until_.size(); ++rank) ring(static_cast<int>(rank));
}

}  // namespace flockstep::simulation
