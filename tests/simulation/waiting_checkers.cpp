// When things happen: what rounds wait for, and what workers wait for.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "simulation/checker.h"

namespace flockstep::simulation {
namespace {

using namespace protocol;

// Arrivals at each round, and how many of them the policy asks for.
class Arrivals {
 public:
  explicit Arrivals(const Truth& truth) : truth_(truth), times_(static_cast<std::size_t>(truth.scenario.iterations)) {}

  void note(Iteration round) { at(round).push_back(truth_.now); }
  const std::vector<double>& of(Iteration round) const { return times_[place_of(round)]; }

  // Of so many living workers; for deadlines, that need only one.
  int needed(int living) const {
    const Options& options = truth_.options();
    if (options.activation == Activation::majority) return std::max(1, living / 2);
    if (options.activation == Activation::quorum) return std::min(options.quorum, living);
    return 1;
  }

 private:
  std::vector<double>& at(Iteration round) { return times_[place_of(round)]; }
  std::size_t place_of(Iteration round) const { return static_cast<std::size_t>(round - truth_.options().first); }

  const Truth& truth_;
  std::vector<std::vector<double>> times_;  // rising, per round
};

class PolicyKept final : public Checker {
 public:
  explicit PolicyKept(const Truth& truth) : Checker(truth, property::kPolicy), arrivals_(truth) {}

  void before(int, const Event& event) override {
    if (const auto* arrived = std::get_if<Arrived>(&event)) arrivals_.note(arrived->iteration);
  }

  void after(int rank, const Action& action) override {
    const auto* freeze = std::get_if<Freeze>(&action);
    if (!freeze || freeze->is_synchronisation) return;
    const Options& options = truth_.options();
    const auto& times = arrivals_.of(freeze->round);
    const int there = static_cast<int>(times.size());
    // Who decides may not know yet of those who have come back.
    const int living = options.workers - size_of(truth_.crashed | truth_.ever_left);
    if (there < arrivals_.needed(living))
      fail(rank, freeze->round, fmt::format("{} of {} workers have arrived", there, living));
    if (options.activation == Activation::deadline && options.deadline.count() > 0 && there < living &&
        truth_.now < times.front() + options.deadline.count() - 1e-9)
      fail(rank, freeze->round, fmt::format("the first arrival was {:.6g} s ago", truth_.now - times.front()));
  }

 private:
  Arrivals arrivals_;
};

// A bound from the longest delays: a round that the policy starts at time a has run everywhere by
//   max(end of the round before, a + time for the word to spread) + 2 phases for each chunk, or 4 in a grid.
// An agreement on who takes part keeps rounds from beginning for three messages. It holds while nobody stops or
// crashes. Not for `appointed` and learned deadlines, whose decisions are drawn or measured where nobody sees it.
class NoWait final : public Checker {
 public:
  explicit NoWait(const Truth& truth)
      : Checker(truth, property::kNoWait),
        arrivals_(truth),
        arrived_(truth.workers.size()),
        is_known_(truth.options().activation != Activation::appointed &&
                  !(truth.options().activation == Activation::deadline && truth.options().deadline.count() == 0)) {}

  void before(int rank, const Event& event) override {
    const auto* arrived = std::get_if<Arrived>(&event);
    if (!arrived) return;
    arrivals_.note(arrived->iteration);
    arrived_[static_cast<std::size_t>(rank)] = truth_.now;
  }

  void after(int rank, const Action& action) override {
    const auto* merge = std::get_if<Merge>(&action);
    if (!merge || !is_known_ || truth_.stops > 0 || truth_.crashed != 0) return;
    const double arrived = arrived_[static_cast<std::size_t>(rank)];
    const double bound = std::max(arrived, end_of(merge->iteration));
    if (truth_.now > bound + 1e-9 * (1 + bound))
      fail(rank, merge->iteration,
           fmt::format("the worker waited {:.6g} s, where {:.6g} s are enough", truth_.now - arrived, bound - arrived));
  }

 private:
  double end_of(Iteration round) {
    const Scenario& scenario = truth_.scenario;
    const double phase = 2 * scenario.parts.longest + scenario.sent.longest;
    const bool is_in_one_row = truth_.options().workers <= truth_.options().direct;
    if (truth_.last_change > changed_) ends_.clear();
    changed_ = truth_.last_change;
    while (static_cast<Iteration>(ends_.size()) <= round - truth_.options().first) {
      const double before = ends_.empty() ? 0 : ends_.back();
      const Iteration next = truth_.options().first + static_cast<Iteration>(ends_.size());
      ends_.push_back(std::max({before, begin_of(next), truth_.ever_left != 0 ? agreed() : 0}) +
                      (is_in_one_row ? 2 : 4) * phase * truth_.options().chunks);
    }
    return ends_[place_of(round)];
  }

  // A tree of the word may be cut by the tree of a lower root, that one's by a lower one's, and so on.
  double begin_of(Iteration round) const {
    const Options& options = truth_.options();
    const auto& times = arrivals_.of(round);
    const auto all = static_cast<std::size_t>(options.workers - size_of(truth_.away));
    if (times.empty()) return 0;  // a round that all who were there had left out
    if (truth_.is_synchronisation(round)) return times.size() >= all ? times.back() : kNever;
    const double hop = truth_.scenario.control.longest;
    const int depth = std::bit_width(static_cast<unsigned>(options.workers - 1));
    if (options.activation == Activation::first) return times.front() + hop * depth * options.workers;
    const auto needed = static_cast<std::size_t>(arrivals_.needed(static_cast<int>(all)));
    double decided = times.size() < needed ? kNever : times[needed - 1];
    if (options.activation == Activation::deadline) {
      decided = times.front() + options.deadline.count() + truth_.scenario.timers.longest;
      if (times.size() >= all) decided = std::min(decided, times.back());
    }
    return std::max(decided, truth_.ever_left != 0 ? agreed() : 0) + hop * (1 + depth);
  }

  double agreed() const { return truth_.last_change + 3 * truth_.scenario.control.longest; }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  Arrivals arrivals_;
  std::vector<double> arrived_;  // when, per worker
  std::vector<double> ends_;     // bounds, per round
  double changed_ = 0;           // the last change that these are about
  bool is_known_;
};

// What a member was told of the minimum, or tells others, it knows.
class Prompt final : public Checker {
 public:
  explicit Prompt(const Truth& truth)
      : Checker(truth, property::kPrompt), known_(truth.workers.size(), truth.options().first) {}

  void before(int rank, const Event& event) override {
    if (const auto* received = std::get_if<Received>(&event)) learn(rank, received->message);
  }
  void after(int rank, const Action& action) override {
    if (const auto* send = std::get_if<Send>(&action)) learn(rank, send->message);
  }
  void settled(int rank) override {
    const StandIn& worker = truth_.worker(rank);
    if (contains(truth_.away, rank)) return;
    const bool waits = worker.merged() == worker.version() && worker.begun() == worker.merged();
    const Iteration known = known_[static_cast<std::size_t>(rank)];
    const bool may = truth_.options().sync != Sync::rolling || known >= worker.merged() + 2 - truth_.options().period;
    if (waits && may && worker.merged() >= truth_.options().first)
      fail(rank, worker.merged(),
           fmt::format("everybody has finished {} iterations, and the worker does not proceed", known));
  }

 private:
  void learn(int rank, const Message& message) {
    Iteration& known = known_[static_cast<std::size_t>(rank)];
    if (message.kind == Message::Kind::minimum) known = std::max(known, message.number);
  }

  std::vector<Iteration> known_;  // per worker
};

class Bound final : public Checker {
 public:
  explicit Bound(const Truth& truth)
      : Checker(truth, property::kBound), begun_(truth.workers.size(), truth.options().first) {}

  void after(int rank, const Action& action) override {
    if (const auto* proceed = std::get_if<Proceed>(&action)) {
      Iteration& begun = begun_[static_cast<std::size_t>(rank)];
      if (proceed->iteration != ++begun || truth_.worker(rank).merged() + 1 != begun)
        fail(rank, begun - 1, fmt::format("iteration {} begins, and is not the next one", proceed->iteration));
      if (truth_.options().sync == Sync::rolling) expect_finished(rank, begun - truth_.options().period + 1);
    } else if (const auto* rejoin = std::get_if<Rejoin>(&action)) {
      begun_[static_cast<std::size_t>(rank)] = rejoin->iteration - 1;
    } else if (const auto* send = std::get_if<Send>(&action)) {
      if (send->message.kind == Message::Kind::minimum) expect_finished(rank, send->message.number);
    }
  }

 private:
  void expect_finished(int rank, Iteration count) const {
    for (int other = 0; other < truth_.options().workers; ++other)
      if (truth_.lives(other) && !contains(truth_.away, other) && truth_.worker(other).merged() + 1 < count)
        fail(rank, truth_.worker(rank).merged(),
             fmt::format("{} iterations are needed, and worker {} has finished {}", count, other,
                         truth_.worker(other).merged() + 1));
  }

  std::vector<Iteration> begun_;  // per worker
};

class Staleness final : public Checker {
 public:
  explicit Staleness(const Truth& truth) : Checker(truth, property::kStaleness) {}

  void after(int rank, const Action& action) override {
    const auto* freeze = std::get_if<Freeze>(&action);
    if (!freeze || truth_.options().sync == Sync::none) return;
    const Iteration age = freeze->round - truth_.contributions.back().version;
    Iteration allowed = freeze->is_synchronisation ? 0 : truth_.options().period;
    // One who leaves while others wait for it to synchronise; those who come back meanwhile begin rounds after that.
    if (contains(truth_.away, rank) && truth_.options().sync == Sync::barrier)
      allowed = truth_.options().period + size_of(truth_.ever_left) - 1;
    if (age > allowed || age < 0)
      fail(rank, freeze->round,
           fmt::format("the contribution is {} iterations old, where {} are allowed", age, allowed));
  }
};

// It would be woken at once, and again, and use up a core.
class Timers final : public Checker {
 public:
  explicit Timers(const Truth& truth) : Checker(truth, property::kTimers) {}

  void after(int rank, const Action& action) override {
    const auto* wake = std::get_if<WakeAt>(&action);
    if (wake && wake->time.time_since_epoch().count() <= truth_.now)
      fail(rank, truth_.worker(rank).executed() + 1,
           fmt::format("it is {:.6g} s late", truth_.now - wake->time.time_since_epoch().count()));
  }
};

}  // namespace

void add_waiting_checkers(Checkers& checkers, const Truth& truth) {
  checkers.push_back(std::make_unique<PolicyKept>(truth));
  checkers.push_back(std::make_unique<NoWait>(truth));
  checkers.push_back(std::make_unique<Prompt>(truth));
  checkers.push_back(std::make_unique<Bound>(truth));
  checkers.push_back(std::make_unique<Staleness>(truth));
  checkers.push_back(std::make_unique<Timers>(truth));
}

}  // namespace flockstep::simulation
