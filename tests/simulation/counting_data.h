// Numbers for rounds of workers that come and go that show who is in an average.
#pragma once

#include <algorithm>
#include <cmath>

#include "simulation/elastic_data.h"

namespace flockstep::simulation {

// Rank r writes the number of its contribution where the place of a number, divided by how many ranks there are, leaves
// r, and 0 elsewhere: an average shows whose it is.
class CountingData final : public runtime::RoundData {
 public:
  CountingData(Roll& roll, Machine& machine, std::size_t size, int ranks)
      : roll_(roll),
        machine_(machine),
        ranks_(ranks),
        contribution_(size),
        landed_(size),
        average_(size),
        is_settled_(size) {}

  // The round's number is known to whoever passes it on.
  void is_of(const Iteration& round) { round_ = &round; }

  void arrive(std::span<float>) override {}
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float>) override {}
  void hand_over(std::span<float>) override {}
  void rest(std::span<float>) override {}
  void freeze(std::size_t size, bool is_fresh) override {
    size_ = size;
    lands_here_ = is_fresh;
    own_ = roll_.takes(machine_, *round_);
    known_lost_ = machine_.knows_lost;
    for (std::size_t i = 0; i < contribution_.size(); ++i)
      contribution_[i] = static_cast<int>(i) % ranks_ == machine_.rank ? static_cast<float>(own_) : 0.0f;
    is_settled_.assign(is_settled_.size(), false);
  }
  std::span<const float> contribution(runtime::Range part) const override {
    return part.of(std::span<const float>(contribution_));
  }
  std::span<float> landing(runtime::Range part, std::span<float> spare) override {
    return lands_here_ ? part.of(std::span(landed_)) : spare;
  }
  void settle(runtime::Range part, std::span<const float> average) override {
    for (std::size_t i = 0; i < part.size; ++i) {
      require(property::kCounted, !is_settled_[part.begin + i], "a number is settled twice");
      is_settled_[part.begin + i] = true;
      average_[part.begin + i] = average[i];
    }
  }
  void complete(int members) override {
    for (std::size_t i = 0; i < size_; ++i)
      require(property::kCounted, is_settled_[i], fmt::format("number {} is not settled", i));
    std::set<int> counted;
    for (int rank = 0; rank < ranks_; ++rank) {
      const int number = number_of(rank, members);
      if (number == 0) continue;
      require(property::kCounted, roll_.is_contribution(number),
              fmt::format("what it shows of worker {} is nobody's contribution", rank));
      const Roll::Contribution& its = roll_.contribution(number);
      require(property::kCounted, its.who.first == rank && its.round == *round_,
              fmt::format("it shows as worker {} what worker {} took for round {}", rank, its.who.first, its.round));
      require(property::kLeftOut, !known_lost_.contains(its.who),
              fmt::format("it counts incarnation {} of worker {}", its.who.second, rank));
      counted.insert(number);
    }
    require(property::kNobody, !counted.empty(), "one shows no contribution");
    require(property::kCounted, counted.contains(own_), "its own contribution is missing");
    require(property::kCounted, static_cast<int>(counted.size()) == members,
            fmt::format("{} contributions are divided by {}", counted.size(), members));
    for (const int number : counted) {
      std::set<int>& with = roll_.contribution(number).counted;
      require(property::kCounted, with.empty() || with == counted,
              fmt::format("the contribution of worker {} is also in an average of others",
                          roll_.contribution(number).who.first));
      with = counted;
    }
    if (const auto found = roll_.present().find(&machine_); found != roll_.present().end())
      found->second.last_counted = counted;
    size_ = 0;
  }
  void abandon() override { size_ = 0; }
  void give(std::span<float> values) override { std::ranges::fill(values, static_cast<float>(roll_.gives(machine_))); }
  void rejoin(std::span<float> values, bool is_adopted) override {
    if (!is_adopted) return;
    const float first = values.empty() ? 0 : values.front();
    const int number = std::isfinite(first) ? static_cast<int>(first) : 0;
    require(property::kCurrentModel,
            roll_.is_gift(number) && std::ranges::all_of(values, [&](float value) { return value == first; }),
            "what it joins with was given by nobody");
    require(property::kCurrentModel, roll_.gift(number).first != machine_.rank, "it joins with a model of its own");
  }

 private:
  void require(std::string_view property, bool holds, const std::string& what) const {
    if (!holds) throw Violation(property, machine_.rank, *round_, what);
  }
  // The number of the contribution of a rank to the average, or 0.
  int number_of(int rank, int members) const {
    std::optional<float> shown;
    for (std::size_t i = static_cast<std::size_t>(rank); i < size_; i += static_cast<std::size_t>(ranks_)) {
      require(property::kCounted, !shown || *shown == average_[i],
              fmt::format("parts of it show different contributions of worker {}", rank));
      shown = average_[i];
    }
    const int number = static_cast<int>(std::lround(shown.value_or(0.0f) * static_cast<float>(members)));
    require(property::kCounted, shown == static_cast<float>(number) / static_cast<float>(members),
            fmt::format("what it shows of worker {} is nobody's contribution", rank));
    return number;
  }

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

}  // namespace flockstep::simulation
