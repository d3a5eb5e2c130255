// What becomes of the models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulation/checker.h"

namespace flockstep::simulation {
namespace {

using namespace protocol;

// Among those who synchronised with the same members; without a loss these are all.
class Equal final : public Checker {
 public:
  explicit Equal(const Truth& truth) : Checker(truth, property::kEqual), members_(truth.workers.size()) {}

  void after(int rank, const Action& action) override {
    if (std::holds_alternative<Freeze>(action)) {
      members_[static_cast<std::size_t>(rank)] = truth_.contributions.back().members;
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      if (complete->is_synchronisation)
        compare(rank, complete->round, truth_.worker(rank).shared(), "what is published");
    } else if (const auto* merge = std::get_if<Merge>(&action)) {
      if (merge->outcome == Outcome::synchronised && truth_.scenario.merging == Merging::published)
        compare(rank, merge->round, truth_.worker(rank).model(), "the model");
    }
  }

 private:
  struct Synchronised {
    Iteration round;
    RankSet members;
    int rank;
    Model model;
  };

  void compare(int rank, Iteration round, const Model& model, std::string_view what) {
    const RankSet members = members_[static_cast<std::size_t>(rank)];
    for (const Synchronised& known : known_) {
      if (known.round != round || known.members != members) continue;
      if (known.model != model) fail(rank, round, fmt::format("{} differs from that of worker {}", what, known.rank));
      return;
    }
    known_.push_back({round, members, rank, model});
  }

  std::vector<RankSet> members_;     // of the newest round, per worker
  std::vector<Synchronised> known_;  // the first of each round
};

// Every worker: its shared model moves by its updates, and by mean - contribution once for each round. Every group:
// these corrections add up to nothing. All together: the sum of the models moves by the updates, but for corrections
// that some members of a group have applied and others not yet. The last two hold where nobody was lost.
class Conserved final : public Checker {
 public:
  explicit Conserved(const Truth& truth)
      : Checker(truth, property::kConserved),
        workers_(truth.workers.size()),
        rounds_(static_cast<std::size_t>(truth.scenario.iterations)) {
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      workers_[rank].model = truth.workers[rank].shared();
      add(expected_, truth.workers[rank].shared());
    }
  }

  void before(int rank, const Event& event) override {
    if (!applies()) return;
    if (std::holds_alternative<Adopted>(event)) adopt(rank);
    if (!std::holds_alternative<Arrived>(event)) return;
    const StandIn& worker = truth_.worker(rank);
    add(workers_[static_cast<std::size_t>(rank)].model, worker.update());
    add(expected_, worker.update());
    check_one(rank, worker.version());
  }

  void after(int rank, const Action& action) override {
    if (!applies()) return;
    if (std::holds_alternative<Freeze>(action)) {
      begin(rank);
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      end(rank, complete->round);
    }
  }

 private:
  struct State {
    Model model{};
    std::size_t contribution = 0;
  };
  struct Attempt {
    RankSet members = 0;
    std::vector<std::size_t> contributions{};
    int applied = 0;
    Model corrections{};
  };

  bool applies() const { return truth_.scenario.merging == Merging::additive; }

  Attempt& attempt(Iteration round, RankSet members) {
    auto& attempts = rounds_.at(place_of(round));
    for (Attempt& known : attempts)
      if (known.members == members) return known;
    return attempts.emplace_back(Attempt{members});
  }

  void begin(int rank) {
    const Contribution& taken = truth_.contributions.back();
    const std::size_t number = truth_.contributions.size() - 1;
    attempt(taken.round, taken.members).contributions.push_back(number);
    workers_[static_cast<std::size_t>(rank)].contribution = number;
  }

  void end(int rank, Iteration round) {
    State& state = workers_[static_cast<std::size_t>(rank)];
    const Contribution& own = truth_.contributions[state.contribution];
    Attempt& its = attempt(round, own.members);
    Model correction{};
    for (const std::size_t other : its.contributions) add(correction, truth_.contributions[other].numbers);
    for (std::size_t k = 0; k < kMaxChunks; ++k) correction[k] = correction[k] / size_of(own.members) - own.numbers[k];
    add(state.model, correction);
    check_one(rank, round);
    add(its.corrections, correction);
    add(applied_, correction);
    check_all(rank, round);
    if (truth_.crashed != 0) return;
    if (++its.applied == size_of(own.members) && !is_near(its.corrections, {}))
      fail(rank, round, fmt::format("the corrections of the group add up to {:.6g}", its.corrections[0]));
  }

  // What it has now takes the place of what it had: all models add up to so much more.
  void adopt(int rank) {
    Model& model = workers_[static_cast<std::size_t>(rank)].model;
    const Model& adopted = truth_.worker(rank).shared();
    for (std::size_t k = 0; k < kMaxChunks; ++k) expected_[k] += adopted[k] - model[k];
    model = adopted;
  }

  void check_one(int rank, Iteration round) {
    Model& should_be = workers_[static_cast<std::size_t>(rank)].model;
    const Model& is = truth_.worker(rank).shared();
    if (!is_near(is, should_be))
      fail(rank, round, fmt::format("the shared model is {:.9g} and should be {:.9g}", is[0], should_be[0]));
    should_be = is;  // roundings do not add up
  }

  void check_all(int rank, Iteration round) const {
    if (truth_.crashed != 0) return;
    Model sum{}, should_be = expected_;
    for (const StandIn& worker : truth_.workers) add(sum, worker.shared());
    add(should_be, applied_);
    if (!is_near(sum, should_be))
      fail(rank, round, fmt::format("all models add up to {:.9g} and should to {:.9g}", sum[0], should_be[0]));
  }

  static void add(Model& to, const Model& model) {
    for (std::size_t k = 0; k < kMaxChunks; ++k) to[k] += model[k];
  }
  static bool is_near(const Model& a, const Model& b) {
    for (std::size_t k = 0; k < kMaxChunks; ++k)
      if (std::abs(a[k] - b[k]) > 1e-9 * (1 + std::abs(a[k]))) return false;
    return true;
  }

  std::vector<State> workers_;
  std::vector<std::vector<Attempt>> rounds_;
  Model expected_{}, applied_{};  // sums of initial models and updates; of corrections
};

// Unless nobody is there. Whoever comes back may not have heard of others who have just done so.
class CurrentModel final : public Checker {
 public:
  explicit CurrentModel(const Truth& truth) : Checker(truth, property::kCurrentModel), returns_(truth.workers.size()) {}

  void before(int rank, const Event& event) override {
    Return& its = returns_[static_cast<std::size_t>(rank)];
    if (std::holds_alternative<ComesBack>(event)) {
      its = {.there = ~RankSet{0} >> (64 - truth_.options().workers) & ~(truth_.ever_left | truth_.crashed)};
    } else if (const auto* adopted = std::get_if<Adopted>(&event)) {
      its.adopted = true;
      if (contains(its.were_away, adopted->peer))
        fail(rank, truth_.worker(rank).executed(), fmt::format("worker {}, who is away, gave it", adopted->peer));
    } else if (std::holds_alternative<Leaves>(event)) {
      for (Return& other : returns_) other.there &= ~bit(rank);
    }
  }
  void after(int rank, const Action& action) override {
    Return& its = returns_[static_cast<std::size_t>(rank)];
    if (const auto* rejoin = std::get_if<Rejoin>(&action)) {
      if (its.there != 0 && !its.adopted)
        fail(rank, rejoin->iteration, "it goes on with its own, and others were there all the time");
    } else if (const auto* adopt = std::get_if<Adopt>(&action)) {
      its.were_away = 0;
      if (contains(truth_.away, adopt->peer) && !contains(just_left(), adopt->peer)) its.were_away = bit(adopt->peer);
    }
  }
  void crashed(int rank) override {
    for (Return& other : returns_) other.there &= ~bit(rank);
  }

 private:
  struct Return {
    RankSet there = 0;  // all the time since it wanted to come back, without ever having left
    RankSet were_away = 0;
    bool adopted = false;
  };

  // Word of it may be under way, or wait for an agent that has stopped.
  RankSet just_left() const {
    if (truth_.stops > 0) return truth_.away;
    return truth_.now <= truth_.last_change + truth_.scenario.control.longest ? truth_.away : 0;
  }

  std::vector<Return> returns_;
};

}  // namespace

void add_number_checkers(Checkers& checkers, const Truth& truth) {
  checkers.push_back(std::make_unique<Equal>(truth));
  checkers.push_back(std::make_unique<Conserved>(truth));
  checkers.push_back(std::make_unique<CurrentModel>(truth));
}

}  // namespace flockstep::simulation
