#include "engines/process_engine.h"

#include <fmt/core.h>

#include <thread>
#include <utility>

namespace flockstep::engines {

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
