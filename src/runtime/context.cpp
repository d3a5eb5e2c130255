#include "runtime/context.h"

#include <algorithm>

#include "engines/all_reduce.h"
#include "engines/missing.h"

namespace flockstep::runtime {
namespace {

constexpr base::Duration kPatienceForAgents{3};
constexpr base::Duration kShortestPause{2e-5}, kLongestPause{1e-3};  // between two looks at a device

}  // namespace

Context::Context(engines::Engine& engine, base::Duration patience, std::size_t trace_capacity, base::LogLevel log_level)
    : engine_(engine),
      queue_([&engine](double bytes) { engine.charge(bytes); }),
      patience_(patience),
      trace_(trace_capacity),
      log_(base::make_log(engine.name(), engine.rank(), log_level)) {}

void Context::wait(engines::Operation& operation, std::string_view name, base::Time issued) {
  const base::Time begin = engine_.now();
  engines::wait(engine_, operation, begin + patience_, name);
  count(name, issued, begin);
}

// An agent that is asked for something has the same deadline, and then finds out who is missing: it may say so first.
void Context::wait_for(const std::function<bool()>& ready, std::string_view name) {
  const base::Time begin = engine_.now();
  bool is_ready = engine_.wait_until(ready, begin + patience_);
  if (!is_ready && has_agent_) is_ready = engine_.wait_until(ready, engine_.now() + kPatienceForAgents);
  end_wait(is_ready, name, begin);
}

base::Time Context::next_look(base::Time since, base::Time now) {
  return now + std::clamp((now - since) / 8, kShortestPause, kLongestPause);
}

bool Context::poll_until(const std::function<bool()>& ready, base::Time deadline) {
  const base::Time begin = engine_.now();
  while (!ready()) {
    if (engine_.now() >= deadline) return false;
    engine_.wait_until([] { return false; }, std::min(deadline, next_look(begin, engine_.now())));
  }
  return true;
}

void Context::poll_for(const std::function<bool()>& ready, std::string_view name) {
  const base::Time begin = engine_.now();
  const bool is_ready = poll_until(ready, begin + patience_);
  end_wait(is_ready, name, begin);
}

void Context::end_wait(bool is_ready, std::string_view name, base::Time begin) {
  if (!is_ready)
    engine_.fail(
        Error(ErrorCode::deadline, engines::late_sentence({}, name, rank(), patience_), std::string(engine_.name())));
  const base::Time end = engine_.now();
  waited_ += end - begin;
  trace_.record(base::Track::wait, name, begin, end);
}

std::vector<double> Context::all_reduce(std::vector<double> values, std::string_view name) {
  const base::Time begin = engine_.now();
  std::vector<double> sums = engines::all_reduce(engine_, std::move(values), begin + patience_);
  count(name, begin, begin);
  return sums;
}

void Context::record(const base::Round& round) {
  transferred_ += round.end - round.begin;
  trace_.record(round);
}

std::uint32_t Context::begin_agent() {
  if (has_agent_)
    throw Error(ErrorCode::bad_input,
                "a worker can run one algorithm that averages without waiting at a time: end the one that has begun "
                "before another begins",
                std::string(engine_.name()));
  has_agent_ = true;
  return agents_++;
}

void Context::count(std::string_view name, base::Time issued, base::Time begin) {
  const base::Time end = engine_.now();
  waited_ += end - begin;
  transferred_ += end - issued;
  trace_.record(base::Track::wait, name, begin, end);
  trace_.record(base::Track::transfer, name, issued, end);
}

}  // namespace flockstep::runtime
