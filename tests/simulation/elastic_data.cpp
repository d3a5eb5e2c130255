#include "simulation/elastic_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "simulation/violation.h"

namespace flockstep::simulation {

// ---- of all workers ----

int Roll::takes(const Machine& machine, Iteration round) {
  contributions_.push_back({{machine.rank, machine.incarnation}, round});
  return static_cast<int>(contributions_.size()) - 1;
}

int Roll::gives(const Machine& machine) {
  gifts_.emplace_back(machine.rank, machine.incarnation);
  return static_cast<int>(gifts_.size()) - 1;
}

// One that was there all the time, and that could be heard, would have given its model.
void Roll::joins(const Machine& machine, bool is_adopted, double since) {
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

// ---- of one worker ----

void ElasticData::require(std::string_view property, bool holds, const std::string& what) const {
  if (!holds) throw Violation(property, machine_.rank, round_, what);
}

// The agent knows it from when it has joined to when its worker ends an iteration.
void ElasticData::note_first_round() {
  if (std::exchange(has_joined_, false)) round_ = agent_->ended();
}

void ElasticData::proceed(std::span<float> values) {
  note_first_round();
  PassedOn::proceed(values);
}

void ElasticData::freeze(std::size_t size, bool is_fresh) {
  note_first_round();
  if (std::FILE* history = roll_.network().history())
    fmt::print(history, "{:12.6f} {:3} begins round {}{}\n", roll_.network().cluster().now(), machine_.rank, round_,
               is_fresh ? ", fresh" : "");
  PassedOn::freeze(size, is_fresh);
}

void ElasticData::complete(int members) {
  if (std::FILE* history = roll_.network().history())
    fmt::print(history, "{:12.6f} {:3} completes round {} of {}\n", roll_.network().cluster().now(), machine_.rank,
               round_, members);
  require(property::kNobody, members > 0, fmt::format("one is of {} members", members));
  PassedOn::complete(members);
  members_ = members;
  ++round_;
}

void ElasticData::abandon() {
  if (std::FILE* history = roll_.network().history())
    fmt::print(history, "{:12.6f} {:3} abandons round {}\n", roll_.network().cluster().now(), machine_.rank, round_);
  PassedOn::abandon();
}

void ElasticData::give(std::span<float> values) {
  require(property::kCurrentModel, roll_.present().contains(&machine_), "one gives who is not there");
  PassedOn::give(values);
  if (on_give_) on_give_();
}

void ElasticData::rejoin(std::span<float> values, bool is_adopted) {
  if (std::FILE* history = roll_.network().history())
    fmt::print(history, "{:12.6f} {:3} has joined with {} model\n", roll_.network().cluster().now(), machine_.rank,
               is_adopted ? "another one's" : "its own");
  has_joined_ = true;
  roll_.joins(machine_, is_adopted, waits_since_);
  PassedOn::rejoin(values, is_adopted);
}

// ---- numbers that count ----

CountingData::CountingData(Roll& roll, Machine& machine, std::size_t size, int ranks)
    : roll_(roll),
      machine_(machine),
      ranks_(ranks),
      contribution_(size),
      landed_(size),
      average_(size),
      is_settled_(size) {}

void CountingData::require(std::string_view property, bool holds, const std::string& what) const {
  if (!holds) throw Violation(property, machine_.rank, *round_, what);
}

void CountingData::freeze(std::size_t size, bool is_fresh) {
  size_ = size;
  lands_here_ = is_fresh;
  own_ = roll_.takes(machine_, *round_);
  known_lost_ = machine_.knows_lost;
  for (std::size_t i = 0; i < contribution_.size(); ++i)
    contribution_[i] = static_cast<int>(i) % ranks_ == machine_.rank ? static_cast<float>(own_) : 0.0f;
  is_settled_.assign(is_settled_.size(), false);
}

void CountingData::settle(runtime::Range part, std::span<const float> average) {
  for (std::size_t i = 0; i < part.size; ++i) {
    require(property::kCounted, !is_settled_[part.begin + i], "a number is settled twice");
    is_settled_[part.begin + i] = true;
    average_[part.begin + i] = average[i];
  }
}

int CountingData::number_of(int rank, int members) const {
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

void CountingData::complete(int members) {
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

void CountingData::abandon() { size_ = 0; }

void CountingData::give(std::span<float> values) {
  std::ranges::fill(values, static_cast<float>(roll_.gives(machine_)));
}

void CountingData::rejoin(std::span<float> values, bool is_adopted) {
  if (!is_adopted) return;
  const float first = values.empty() ? 0 : values.front();
  const int number = std::isfinite(first) ? static_cast<int>(first) : 0;
  require(property::kCurrentModel,
          roll_.is_gift(number) && std::ranges::all_of(values, [&](float value) { return value == first; }),
          "what it joins with was given by nobody");
  require(property::kCurrentModel, roll_.gift(number).first != machine_.rank, "it joins with a model of its own");
}

// ---- real models ----

void SteadyData::arrive(std::span<float> values) {
  has_changed_ = true;
  PassedOn::arrive(values);
}

void SteadyData::hand_over(std::span<float> values) {
  has_changed_ = true;
  PassedOn::hand_over(values);
}

void SteadyData::land() {
  has_changed_ = true;
  PassedOn::land();
}

void SteadyData::rejoin(std::span<float> values, bool is_adopted) {
  has_changed_ = true;
  PassedOn::rejoin(values, is_adopted);
}

void SteadyData::freeze(std::size_t size, bool is_fresh) {
  if (std::exchange(has_changed_, false)) is_seen_.assign(is_seen_.size(), false);
  PassedOn::freeze(size, is_fresh);
}

std::span<const float> SteadyData::contribution(runtime::Range part) const {
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

void SteadyData::complete(int members) {
  has_changed_ = true;
  PassedOn::complete(members);
}

}  // namespace flockstep::simulation
