// Passes every call of rounds on to the data of a worker, and writes it into the ledger.
#pragma once

#include <optional>

#include "runtime/rounds/round_agent.h"
#include "simulation/ledger.h"
#include "simulation/passed_on.h"
#include "simulation/seeded_network.h"
#include "simulation/violation.h"

namespace flockstep::simulation {

class WatchedData final : public PassedOn {
 public:
  // `model` is the worker's, wherever it is.
  WatchedData(runtime::RoundData& data, std::span<float> model, Ledger& ledger, const SeededNetwork& network, int rank)
      : PassedOn(data), model_(model), ledger_(ledger), network_(network), rank_(rank) {}

  // There is none before it has begun; rounds may run before.
  void watch(const runtime::RoundAgent& agent) { agent_ = &agent; }

  void arrive(std::span<float> values) override {
    network_.tell(rank_, "arrives at {}", agent_->ended() - 1);
    set_out_in([&] { PassedOn::arrive(values); });
    ledger_.arrives(rank_, model_);
    land_if_here();
  }
  void land() override {
    network_.tell(rank_, "has its numbers here");
    judge_in([&] { PassedOn::land(); });
    ledger_.lands(rank_);
  }
  void merge(std::span<float> values, protocol::Outcome outcome) override {
    network_.tell(rank_, "merges: {}", to_string(outcome));
    PassedOn::merge(values, outcome);
    ledger_.merges(rank_, values, outcome);
  }
  void proceed(std::span<float> values) override {
    network_.tell(rank_, "goes on");
    PassedOn::proceed(values);
    ledger_.proceeds(rank_, model_);
  }
  void hand_over(std::span<float> values) override {
    network_.tell(rank_, "hands {} over and goes on", agent_->ended() - 1);
    set_out_in([&] { PassedOn::hand_over(values); });
    ledger_.goes_on(rank_, model_);
    land_if_here();
  }
  void freeze(std::size_t size, bool is_fresh) override {
    ledger_.freezes(rank_, agent_ ? agent_->ended() : 0, size, is_fresh);
    network_.tell(rank_, "begins round {} over {} numbers", ledger_.round_of(rank_), size);
    PassedOn::freeze(size, is_fresh);
  }
  void settle(runtime::Range part, std::span<const float> average) override {
    network_.tell(rank_, "settles numbers {} to {}", part.begin, part.end());
    ledger_.settles(rank_, part, average);
    PassedOn::settle(part, average);
  }
  void complete(int members) override {
    network_.tell(rank_, "completes the round of {} members", members);
    ledger_.completes(rank_, members);
    PassedOn::complete(members);
  }
  void give(std::span<float> values) override {
    network_.tell(rank_, "gives its model");
    PassedOn::give(values);
    ledger_.gives(rank_, values);
  }
  void rejoin(std::span<float> values, bool is_adopted) override {
    network_.tell(rank_, "is back with {} model", is_adopted ? "another one's" : "its own");
    PassedOn::rejoin(values, is_adopted);
    ledger_.rejoins(rank_, model_, is_adopted);
  }

 private:
  template <typename Call>
  void set_out_in(Call call) {
    ledger_.sets_out(rank_, agent_->ended() - 1, model_);
    ledger_.judges_late() ? call() : judge_in(call);
  }
  // The worker's guard judges its update in this call.
  template <typename Call>
  void judge_in(Call call) {
    const std::optional<math::UpdateGuard> before = guard() ? std::optional(*guard()) : std::nullopt;
    call();
    if (before) ledger_.judges(rank_, *before, guard()->news());
  }
  void land_if_here() {
    if (!on_the_way()) ledger_.lands(rank_);
  }

  const std::span<float> model_;
  Ledger& ledger_;
  const SeededNetwork& network_;
  const int rank_;
  const runtime::RoundAgent* agent_ = nullptr;
};

}  // namespace flockstep::simulation
