// What is known of the data of workers that come and go: a roll of all, and a watch over real models.
#pragma once

#include <cmath>

#include "runtime/rounds/round_agent.h"
#include "simulation/passed_on.h"
#include "simulation/seeded_network.h"
#include "simulation/violation.h"

namespace flockstep::simulation {

// All contributions of a run, and all models that were given, each under a number of its own that a float holds.
class Roll {
 public:
  struct Contribution {
    Who who;
    Iteration round;
    std::set<int> counted{};  // contributions of the average that this one is in, once one is complete
  };
  struct Presence {  // of a process in a flock
    double since;
    Iteration ended;               // iterations
    std::set<int> last_counted{};  // contributions of the newest average
  };

  explicit Roll(SeededNetwork& network) : network_(network) {}

  SeededNetwork& network() { return network_; }
  int takes(const Machine& machine, Iteration round) {
    contributions_.push_back({{machine.rank, machine.incarnation}, round});
    return static_cast<int>(contributions_.size()) - 1;
  }
  Contribution& contribution(int number) { return contributions_[static_cast<std::size_t>(number)]; }
  bool is_contribution(int number) const { return number > 0 && number < static_cast<int>(contributions_.size()); }
  int gives(const Machine& machine) {
    gifts_.emplace_back(machine.rank, machine.incarnation);
    return static_cast<int>(gifts_.size()) - 1;
  }
  const Who& gift(int number) const { return gifts_.at(static_cast<std::size_t>(number)); }
  bool is_gift(int number) const { return number > 0 && number < static_cast<int>(gifts_.size()); }
  // The worker is part of a flock, with the model of another one or with its own, having waited for it since then.
  // One that was there all the time, and that could be heard, would have given its model.
  void joins(const Machine& machine, bool is_adopted, double since) {
    const Scenario& scenario = network_.scenario().base;
    const double now = network_.cluster().now();
    const double known = now - 5 * (scenario.control.longest + scenario.reactions.longest + scenario.timers.longest);
    if (!is_adopted && network_.cluster().stops() == 0)
      for (const auto& [other, presence] : present_)
        if (other->rank != machine.rank && presence.since < std::min(since, known) &&
            network_.is_up(machine.rank, other->rank, known))
          throw Violation(property::kCurrentModel, machine.rank, presence.ended,
                          fmt::format("it goes on with its own, and worker {} was there all the time", other->rank));
    present_[&machine] = {now, protocol::kAway};
  }
  void leaves(const Machine& machine) { present_.erase(&machine); }
  std::map<const Machine*, Presence>& present() { return present_; }
  const std::map<const Machine*, Presence>& present() const { return present_; }

 private:
  SeededNetwork& network_;
  std::deque<Contribution> contributions_{1};
  std::vector<Who> gifts_{1};
  std::map<const Machine*, Presence> present_;
};

// What models that count and real ones know of a worker.
class ElasticData : public PassedOn {
 public:
  ElasticData(runtime::RoundData& data, Roll& roll, Machine& machine)
      : PassedOn(data), roll_(roll), machine_(machine) {}

  void watch(const runtime::RoundAgent& agent) { agent_ = &agent; }
  const Iteration& round() const { return round_; }
  // The worker begins to wait until it may join.
  void waits() { waits_since_ = roll_.network().cluster().now(); }
  void on_give(std::function<void()> action) { on_give_ = std::move(action); }

  void proceed(std::span<float> values) override {
    note_first_round();
    PassedOn::proceed(values);
  }
  void freeze(std::size_t size, bool is_fresh) override {
    note_first_round();
    roll_.network().tell(machine_.rank, "begins round {}{}", round_, is_fresh ? ", fresh" : "");
    PassedOn::freeze(size, is_fresh);
  }
  void complete(int members) override {
    roll_.network().tell(machine_.rank, "completes round {} of {}", round_, members);
    require(property::kNobody, members > 0, fmt::format("one is of {} members", members));
    PassedOn::complete(members);
    ++round_;
  }
  void abandon() override {
    roll_.network().tell(machine_.rank, "abandons round {}", round_);
    PassedOn::abandon();
  }
  void give(std::span<float> values) override {
    require(property::kCurrentModel, roll_.present().contains(&machine_), "one gives who is not there");
    PassedOn::give(values);
    if (on_give_) on_give_();
  }
  void rejoin(std::span<float> values, bool is_adopted) override {
    roll_.network().tell(machine_.rank, "has joined with {} model", is_adopted ? "another one's" : "its own");
    has_joined_ = true;
    roll_.joins(machine_, is_adopted, waits_since_);
    PassedOn::rejoin(values, is_adopted);
  }

 protected:
  void require(std::string_view property, bool holds, const std::string& what) const {
    if (!holds) throw Violation(property, machine_.rank, round_, what);
  }
  // The agent knows it from when it has joined to when its worker ends an iteration.
  void note_first_round() {
    if (std::exchange(has_joined_, false)) round_ = agent_->ended();
  }

  Roll& roll_;
  Machine& machine_;
  const runtime::RoundAgent* agent_ = nullptr;
  Iteration round_ = 0;      // under way, or the next
  bool has_joined_ = false;  // and has begun no round since
  double waits_since_ = 0;
  std::function<void()> on_give_;
};

// A real model: what a round takes does not change when it begins again.
class SteadyData final : public PassedOn {
 public:
  SteadyData(runtime::RoundData& data, const Machine& machine, std::size_t size)
      : PassedOn(data), machine_(machine), is_guarded_(data.guard() != nullptr), seen_(size), is_seen_(size) {}

  void arrive(std::span<float> values) override {
    has_changed_ = true;
    PassedOn::arrive(values);
  }
  void hand_over(std::span<float> values) override {
    has_changed_ = true;
    PassedOn::hand_over(values);
  }
  void land() override {
    has_changed_ = true;
    PassedOn::land();
  }
  void rejoin(std::span<float> values, bool is_adopted) override {
    has_changed_ = true;
    PassedOn::rejoin(values, is_adopted);
  }
  void freeze(std::size_t size, bool is_fresh) override {
    if (std::exchange(has_changed_, false)) is_seen_.assign(is_seen_.size(), false);
    PassedOn::freeze(size, is_fresh);
  }
  std::span<const float> contribution(runtime::Range part) const override {
    const std::span<const float> numbers = PassedOn::contribution(part);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t at = part.begin + i;
      if (is_seen_[at] && seen_[at] != numbers[i])
        throw Violation(property::kUnchanged, machine_.rank, -1,
                        fmt::format("number {} was {} and is {}", at, seen_[at], numbers[i]));
      if (is_guarded_ && !std::isfinite(numbers[i]))
        throw Violation(property::kGuarded, machine_.rank, -1, fmt::format("number {} is not finite", at));
      if (!std::isfinite(numbers[i]))
        throw Violation(property::kOwnSpan, machine_.rank, -1, fmt::format("number {} is read there", at));
      seen_[at] = numbers[i];
      is_seen_[at] = true;
    }
    return numbers;
  }
  void complete(int members) override {
    has_changed_ = true;
    PassedOn::complete(members);
  }

 private:
  const Machine& machine_;
  const bool is_guarded_;
  mutable std::vector<float> seen_;
  mutable std::vector<bool> is_seen_;
  bool has_changed_ = false;  // since the newest attempt began
};

}  // namespace flockstep::simulation
