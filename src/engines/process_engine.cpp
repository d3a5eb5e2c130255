#include "engines/process_engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"
#include "engines/launcher.h"
#include "engines/schedules.h"

namespace flockstep::engines {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kPatienceForAnAnswer{1}, kPatienceForAnswers{2};

}  // namespace

Place ProcessEngine::place() const { return launched_place(size_).value_or(Place{rank_, size_}); }

class ProcessEngine::ThreadAgent final : public Agent {
 public:
  ThreadAgent(ProcessEngine& engine, const std::string& name, std::function<void()> body)
      : thread_([this, &engine, name, body = std::move(body)] {
          engine.run_agent(name, body);
          done_.store(true, std::memory_order_release);
          engine.bell_.ring();
        }) {}
  bool done() override { return done_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> done_ = false;
  std::jthread thread_;  // last: it is joined before anything that it uses goes
};

Pending ProcessEngine::broadcast(Bytes data, int root) {
  base::check(root >= 0 && root < size_, "a root among the workers");
  const bool in_slices = goes_in_slices(static_cast<double>(data.size()), size_);
  return count_and_start(broadcast_schedule(rank_, size_, root, data, in_slices));
}

Pending ProcessEngine::barrier() { return count_and_start(barrier_schedule(rank_, size_)); }

void ProcessEngine::ask_around() {
  roll_call_.forget_answers();
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) ask_for_answer(peer);
}

bool ProcessEngine::take_answer(int peer, ConstBytes answer) {
  if (!roll_call_.take_answer(peer, answer)) return false;
  if (const auto sentence = roll_call_.difference(rank_, peer)) record(error(ErrorCode::mismatch, *sentence));
  return true;
}

std::vector<int> ProcessEngine::absent_from(std::uint64_t collective) {
  ask_around();
  const base::Time end = now() + kPatienceForAnswers;
  std::vector<int> silent = roll_call_.silent(rank_);
  const auto is_answered = [&] { return roll_call_.silent(rank_).size() < silent.size(); };
  while (!silent.empty() && wait_until(is_answered, std::min(end, now() + kPatienceForAnAnswer)))
    silent = roll_call_.silent(rank_);
  const std::vector<int> absent = roll_call_.absent(rank_, collective);
  return absent.empty() ? silent : absent;
}

void ProcessEngine::sleep(base::Duration duration) {
  if (duration > 0s) std::this_thread::sleep_for(duration);
}

bool ProcessEngine::wait_until(const std::function<bool()>& ready, base::Time deadline) {
  const auto is_ready = [&] {
    require_usable();
    return ready();
  };
  // A deadline may lie further away than the clock can count.
  while (!bell_.wait_for(is_ready, std::clamp<base::Duration>(deadline - now(), 0s, 1h)))
    if (now() >= deadline) return false;
  return true;
}

std::unique_ptr<Agent> ProcessEngine::spawn(const std::string& name, std::function<void()> body) {
  require_usable();
  return std::make_unique<ThreadAgent>(*this, name, std::move(body));
}

void ProcessEngine::run_agent(const std::string& name, const std::function<void()>& body) noexcept {
  try {
    body();
  } catch (const Error& failure) {
    record(failure);
  } catch (const std::exception& failure) {
    record(error(ErrorCode::peer_lost,
                 fmt::format("the agent '{}' of worker {} failed: {}", name, rank_, failure.what())));
  } catch (...) {
    record(error(ErrorCode::peer_lost, fmt::format("the agent '{}' of worker {} failed", name, rank_)));
  }
}

void ProcessEngine::fail(const Error& error) {
  record(error);
  require_usable();
  __builtin_unreachable();
}

bool ProcessEngine::record_here(const Error& error) noexcept {
  const bool is_first = first_error_.record(error);
  bell_.ring();
  return is_first;
}

}  // namespace flockstep::engines
