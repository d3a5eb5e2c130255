#include "train/faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/names.h"
#include "base/settings.h"
#include "kernels/cpu/kernels.h"

namespace flockstep::train {
namespace {

constexpr double kMostFaultyRank = 1'000'000, kMostSteps = 0x1p40, kMostFactor = 1e6;

struct KindRow {
  std::string_view name;
  FaultKind kind;
  std::string_view example;  // of the whole form
  enum { none, optional, required } value;
  bool is_whole;
  double least, most;  // of the value
};
constexpr std::array<KindRow, 5> kKinds{{
    {"scale", FaultKind::scale, "3:scale:-5", KindRow::required, false, -kMostFactor, kMostFactor},
    {"noise", FaultKind::noise, "2:noise:10", KindRow::required, false, 0, kMostFactor},
    {"zeros", FaultKind::zeros, "4:zeros", KindRow::none, true, 0, 0},
    {"nan", FaultKind::nan, "5:nan:100", KindRow::optional, true, 1, kMostSteps},
    {"copies", FaultKind::copies, "6:copies:1", KindRow::required, true, 0, kMostFaultyRank},
}};

const KindRow& row_of(FaultKind kind) { return *std::ranges::find(kKinds, kind, &KindRow::kind); }

[[noreturn]] void refuse(const std::string& sentence) { throw Error(ErrorCode::bad_input, sentence); }

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// "50", "50-80" or "50-", behind the @.
void parse_steps(std::string_view text, Fault& fault) {
  const auto words = parts_of(text, '-');
  const auto number = [](std::string_view word, std::int64_t least) {
    return base::parse_integer("the step after @ in --faulty", word, least, static_cast<std::int64_t>(kMostSteps));
  };
  if (words.size() > 2) refuse(fmt::format("--faulty takes steps as @50, @50-80 or @50-, not '@{}'", text));
  fault.first_step = fault.last_step = number(words[0], 1);
  if (words.size() == 2) fault.last_step = words[1].empty() ? Fault::kEveryStep : number(words[1], fault.first_step);
}

std::string text_of_steps(const Fault& fault) {
  if (fault.last_step == Fault::kEveryStep)
    return fault.first_step == 1 ? std::string() : fmt::format("@{}-", fault.first_step);
  return fault.first_step == fault.last_step ? fmt::format("@{}", fault.first_step)
                                             : fmt::format("@{}-{}", fault.first_step, fault.last_step);
}

Fault parse_fault(std::string_view text) {
  const auto at = text.find('@');
  const auto words = parts_of(text.substr(0, at), ':');
  if (words.size() < 2) refuse(fmt::format("--faulty takes the form 3:scale:-5, not '{}'", text));
  const auto worker =
      base::parse_integer("the worker in --faulty", words[0], 0, static_cast<std::int64_t>(kMostFaultyRank));
  const KindRow& row = base::find_by_name(std::span<const KindRow>(kKinds), words[1], "fault");
  const bool has_value = words.size() == 3;
  if (words.size() > 3 || (has_value ? row.value == KindRow::none : row.value == KindRow::required))
    refuse(fmt::format("--faulty takes the form {} for {}, not '{}'", row.example, row.name, text));
  double value = 0;
  const std::string what = fmt::format("the number after {} in --faulty", row.name);
  if (has_value && row.is_whole)
    value = static_cast<double>(
        base::parse_integer(what, words[2], static_cast<std::int64_t>(row.least), static_cast<std::int64_t>(row.most)));
  else if (has_value)
    value = base::parse_real(what, words[2], row.least, row.most);
  if (row.kind == FaultKind::copies && value == static_cast<double>(worker))
    refuse(fmt::format("--faulty {} changes nothing: a worker reads its own data anyway", text));
  Fault fault{static_cast<int>(worker), row.kind, value};
  if (at == std::string_view::npos) return fault;
  if (row.kind == FaultKind::copies || row.kind == FaultKind::nan)
    refuse(fmt::format("--faulty takes no steps after @ for {}, as in '{}'", row.name, text));
  parse_steps(text.substr(at + 1), fault);
  return fault;
}

void multiply(std::span<float> range, float factor) {
  for (float& number : range) number *= factor;
}

double norm(std::span<const float> range) { return std::sqrt(kernels::cpu::dot(range, range)); }

}  // namespace

int FaultOptions::data_rank(int rank) const {
  int from = rank;
  for (const Fault& fault : faulty)
    if (fault.worker == rank && fault.kind == FaultKind::copies) from = static_cast<int>(fault.value);
  return from;
}

FaultOptions parse_faults(std::string_view text) {
  FaultOptions options;
  for (const std::string_view part : parts_of(text, ',')) options.faulty.push_back(parse_fault(part));
  return options;
}

std::string text_of(const FaultOptions& options) {
  std::vector<std::string> parts;
  for (const Fault& fault : options.faulty) {
    const KindRow& row = row_of(fault.kind);
    const bool has_value = row.value == KindRow::required || (row.value == KindRow::optional && fault.value != 0);
    parts.push_back((has_value ? fmt::format("{}:{}:{}", fault.worker, row.name, fault.value)
                               : fmt::format("{}:{}", fault.worker, row.name)) +
                    text_of_steps(fault));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

Faults::Faults(const FaultOptions& options, std::uint64_t seed, int rank, int workers)
    : seed_(seed), rank_(rank), random_(seed, base::Purpose::fault_noise) {
  for (const Fault& fault : options.faulty) {
    const double copied = fault.kind == FaultKind::copies ? fault.value : 0;
    if (fault.worker >= workers || copied >= workers)
      refuse(fmt::format("--faulty names worker {}, but workers are 0 to {}",
                         fault.worker >= workers ? fault.worker : static_cast<int>(copied), workers - 1));
    if (fault.worker == rank) mine_.push_back(fault);
  }
}

void Faults::begin(std::int64_t step) {
  step_ = step;
  random_ = base::Random(seed_, base::Purpose::fault_noise, static_cast<std::uint32_t>(rank_),
                         static_cast<std::uint32_t>(step));
}

void Faults::turn_into_noise(double factor, std::span<float> range) {
  const double wanted = factor * norm(range);
  for (float& number : range) number = static_cast<float>(random_.normal());
  if (const double drawn = norm(range); drawn > 0) multiply(range, static_cast<float>(wanted / drawn));
}

void Faults::apply(std::size_t first, std::span<float> range) {
  for (const Fault& fault : mine_) {
    if (step_ + 1 < fault.first_step || step_ + 1 > fault.last_step) continue;
    switch (fault.kind) {
      case FaultKind::scale: multiply(range, static_cast<float>(fault.value)); break;
      case FaultKind::noise: turn_into_noise(fault.value, range); break;
      case FaultKind::zeros: std::ranges::fill(range, 0.0f); break;
      case FaultKind::nan:
        if (first == 0 && !range.empty() && (fault.value == 0 || fault.value == static_cast<double>(step_ + 1)))
          range[0] = std::numeric_limits<float>::quiet_NaN();
        break;
      case FaultKind::copies: break;  // its task was made so
    }
  }
}

}  // namespace flockstep::train
