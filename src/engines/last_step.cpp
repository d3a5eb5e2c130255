#include "engines/last_step.h"

#include <array>
#include <atomic>
#include <deque>
#include <map>

#include "engines/last_step_talk.h"
#include "engines/process_engine.h"
#include "engines/wait.h"

namespace flockstep::engines {
namespace {

constexpr base::Duration kLook{0.02};  // how often the agent asks whether to end

class AgreedLastStep final : public LastStep {
 public:
  AgreedLastStep(Engine& engine, std::function<bool()> asked, base::Duration patience)
      : engine_(engine),
        asked_(std::move(asked)),
        patience_(patience),
        root_(engine.size()),
        for_agent_(engine.make_signal()),
        for_worker_(engine.make_signal()) {
    agent_ = engine.spawn("last step", [this] { serve(); });
  }
  ~AgreedLastStep() override {
    is_abandoned_ = true;
    for_agent_->raise();
    agent_.reset();
  }
  AgreedLastStep(const AgreedLastStep&) = delete;
  AgreedLastStep& operator=(const AgreedLastStep&) = delete;

  bool may_take(std::int64_t step) override {
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (!member_.is_frozen()) return member_.may_take(step);
      }
      wait([this] { return !member_.is_frozen(); }, "the agreement on the step after which to end");
    }
  }

  void close() override {
    is_closing_ = true;
    for_agent_->raise();
    wait([this] { return member_.all_have_ended(); }, "the end of all workers");
  }

 private:
  struct Line {  // what is to come from a peer
    LastStepWord word;
    Pending receive;
  };
  struct Sent {
    LastStepWord word;
    Pending send;
  };

  bool is_root() const { return engine_.rank() == 0; }

  void wait(const std::function<bool()>& is_so, std::string_view what) {
    const auto ready = [&] {
      for_worker_->take();
      const std::lock_guard lock(mutex_);
      return is_so();
    };
    if (!engine_.wait_until(ready, engine_.now() + patience_))
      engine_.fail(
          Error(ErrorCode::deadline, std::string(what) + " did not come in time", std::string(engine_.name())));
  }

  // When the run fails, others tell why.
  void serve() {
    try {
      while (!is_abandoned_ && (!is_over() || !sent_.empty())) {
        look_for_words();
        engine_.wait_until([this] { return for_agent_->take() || has_news(); }, engine_.now() + kLook);
        if (asked_()) say([this] { return member_.request(); });
        if (is_closing_) say([this] { return member_.end(); });
        take_words();
        while (!sent_.empty() && sent_.front().send->done()) sent_.pop_front();
      }
      for_worker_->raise();
    } catch (const Error&) {
    }
  }

  bool is_over() {
    const std::lock_guard lock(mutex_);
    return member_.all_have_ended();
  }

  void look_for_words() {
    for (int peer = 0; peer < (is_root() ? engine_.size() : 1); ++peer) {
      const bool is_expected = is_root() ? peer != 0 && root_.expects(peer) : !is_over();
      if (!is_expected || lines_.contains(peer)) continue;
      Line& line = lines_[peer];
      line.receive = engine_.receive(peer, kQuietTag, bytes_of(std::span(&line.word, 1)));
    }
  }

  bool has_news() {
    return std::ranges::any_of(lines_, [](const auto& line) { return line.second.receive->done(); }) ||
           (!sent_.empty() && sent_.front().send->done());
  }

  void take_words() {
    for (auto line = lines_.begin(); line != lines_.end();) {
      if (!line->second.receive->done()) {
        ++line;
        continue;
      }
      const int peer = line->first;
      const LastStepWord word = line->second.word;
      line = lines_.erase(line);
      is_root() ? hear_as_root(peer, word) : hear(word);
    }
  }

  // A word of this worker to rank 0.
  template <typename Words>
  void say(const Words& words) {
    std::optional<LastStepWord> word;
    {
      const std::lock_guard lock(mutex_);
      word = words();
    }
    if (word) is_root() ? hear_as_root(0, *word) : send(0, *word);
  }

  // A word of rank 0.
  void hear(const LastStepWord& word) {
    say([&] { return member_.take(word); });
    for_worker_->raise();
  }

  void hear_as_root(int worker, const LastStepWord& word) {
    for (const LastStepWord& told : root_.take(worker, word)) {
      for (int peer = 1; peer < engine_.size(); ++peer) send(peer, told);
      hear(told);
    }
  }

  void send(int peer, const LastStepWord& word) {
    Sent& sent = sent_.emplace_back(word, nullptr);
    sent.send = engine_.send(peer, kQuietTag, const_bytes_of(std::span(&sent.word, 1)));
  }

  Engine& engine_;
  const std::function<bool()> asked_;
  const base::Duration patience_;
  std::atomic<bool> is_abandoned_ = false, is_closing_ = false;

  // The agent's own.
  LastStepRoot root_;
  std::map<int, Line> lines_;
  std::deque<Sent> sent_;  // references stay valid

  std::mutex mutex_;
  LastStepMember member_;
  const std::unique_ptr<Signal> for_agent_, for_worker_;
  std::unique_ptr<Agent> agent_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<LastStep> make_last_step(Engine& engine, std::function<bool()> asked, base::Duration patience) {
  return std::make_unique<AgreedLastStep>(engine, std::move(asked), patience);
}

}  // namespace flockstep::engines
