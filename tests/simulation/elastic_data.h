// Numbers for rounds of workers that come and go: some that show who is in an average, and a watch over real models.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "runtime/rounds/round_agent.h"
#include "simulation/elastic_network.h"
#include "simulation/watched_data.h"

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

  explicit Roll(ElasticNetwork& network) : network_(network) {}

  ElasticNetwork& network() { return network_; }
  int takes(const Machine& machine, Iteration round);
  Contribution& contribution(int number) { return contributions_[static_cast<std::size_t>(number)]; }
  bool is_contribution(int number) const { return number > 0 && number < static_cast<int>(contributions_.size()); }
  int gives(const Machine& machine);
  const Who& gift(int number) const { return gifts_.at(static_cast<std::size_t>(number)); }
  bool is_gift(int number) const { return number > 0 && number < static_cast<int>(gifts_.size()); }
  // The worker is part of a flock, with the model of another one or with its own, having waited for it since then.
  void joins(const Machine& machine, bool is_adopted, double since);
  void leaves(const Machine& machine) { present_.erase(&machine); }
  std::map<const Machine*, Presence>& present() { return present_; }
  const std::map<const Machine*, Presence>& present() const { return present_; }

 private:
  ElasticNetwork& network_;
  std::deque<Contribution> contributions_{1};
  std::vector<Who> gifts_{1};
  std::map<const Machine*, Presence> present_;
};

// What both kinds know of a worker.
class ElasticData : public PassedOn {
 public:
  ElasticData(runtime::RoundData& data, Roll& roll, Machine& machine)
      : PassedOn(data), roll_(roll), machine_(machine) {}

  void watch(const runtime::RoundAgent& agent) { agent_ = &agent; }
  // The worker begins to wait until it may join.
  const Iteration& round() const { return round_; }
  int members() const { return members_; }  // of the newest average
  void waits() { waits_since_ = roll_.network().cluster().now(); }

  void proceed(std::span<float> values) override;
  void freeze(std::size_t size, bool is_fresh) override;
  void complete(int members) override;
  void abandon() override;
  void give(std::span<float> values) override;
  void rejoin(std::span<float> values, bool is_adopted) override;

 protected:
  void require(std::string_view property, bool holds, const std::string& what) const;
  void note_first_round();

  Roll& roll_;
  Machine& machine_;
  const runtime::RoundAgent* agent_ = nullptr;
  Iteration round_ = 0;      // under way, or the next
  bool has_joined_ = false;  // and has begun no round since
  double waits_since_ = 0;
  int members_ = 0;
  std::function<void()> on_give_;

 public:
  void on_give(std::function<void()> action) { on_give_ = std::move(action); }
};

// Rank r writes the number of its contribution where the place of a number, divided by how many ranks there are, leaves
// r, and 0 elsewhere: an average shows whose it is.
class CountingData final : public runtime::RoundData {
 public:
  CountingData(Roll& roll, Machine& machine, std::size_t size, int ranks);

  // The round's number is known to whoever passes it on.
  void is_of(const Iteration& round) { round_ = &round; }

  void arrive(std::span<float>) override {}
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float>) override {}
  void hand_over(std::span<float>) override {}
  void rest(std::span<float>) override {}
  void freeze(std::size_t size, bool is_fresh) override;
  std::span<const float> contribution(runtime::Range part) const override {
    return part.of(std::span<const float>(contribution_));
  }
  std::span<float> landing(runtime::Range part, std::span<float> spare) override {
    return lands_here_ ? part.of(std::span(landed_)) : spare;
  }
  void settle(runtime::Range part, std::span<const float> average) override;
  void complete(int members) override;
  void abandon() override;
  void give(std::span<float> values) override;
  void rejoin(std::span<float> values, bool is_adopted) override;

 private:
  void require(std::string_view property, bool holds, const std::string& what) const;
  // The number of the contribution of a rank to the average, or 0.
  int number_of(int rank, int members) const;

  Roll& roll_;
  Machine& machine_;
  const int ranks_;
  const Iteration* round_ = nullptr;
  std::vector<float> contribution_, landed_, average_;
  std::vector<bool> is_settled_;
  std::size_t size_ = 0;  // of the round under way
  int own_ = 0;           // number
  bool lands_here_ = false;
  std::set<Who> known_lost_;  // when the attempt began
};

// A real model: what a round takes does not change when it begins again.
class SteadyData final : public PassedOn {
 public:
  SteadyData(runtime::RoundData& data, const Machine& machine, std::size_t size)
      : PassedOn(data), machine_(machine), is_guarded_(data.guard() != nullptr), seen_(size), is_seen_(size) {}

  void arrive(std::span<float> values) override;
  void hand_over(std::span<float> values) override;
  void land() override;
  void rejoin(std::span<float> values, bool is_adopted) override;
  void freeze(std::size_t size, bool is_fresh) override;
  std::span<const float> contribution(runtime::Range part) const override;
  void complete(int members) override;

 private:
  const Machine& machine_;
  const bool is_guarded_;
  mutable std::vector<float> seen_;
  mutable std::vector<bool> is_seen_;
  bool has_changed_ = false;  // since the newest attempt began
};

}  // namespace flockstep::simulation
