#include "train/pace.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/settings.h"
#include "flockstep/error.h"

namespace flockstep::train {
namespace {

constexpr std::int64_t kMostWorkers = 1'000'000;
constexpr std::string_view kIndependent = "independent:";

// Splits "a<separator>b"; throws with the form that is expected.
std::pair<std::string_view, std::string_view> split(std::string_view flag, std::string_view text, char separator,
                                                    std::string_view form) {
  const auto at = text.find(separator);
  if (at == std::string_view::npos)
    throw Error(ErrorCode::bad_input, fmt::format("{} takes the form {}, not '{}'", flag, form, text));
  return {text.substr(0, at), text.substr(at + 1)};
}

double parse_sigma(std::string_view flag, std::string_view text) {
  return base::parse_real(fmt::format("the sigma in {}", flag), text, 0, 5);
}

}  // namespace

void parse_compute(std::string_view text, PaceOptions& options) {
  constexpr std::string_view kFile = "file:", kLognormal = "lognormal:";
  const bool is_lognormal = text.starts_with(kLognormal);
  const std::string_view lognormal = is_lognormal ? text.substr(kLognormal.size()) : "";
  const auto colon = lognormal.find(':');
  if (text.empty() || text == kFile || (is_lognormal && colon == std::string_view::npos))
    throw Error(ErrorCode::bad_input,
                fmt::format("--compute takes the form 200ms, lognormal:200ms:0.53 or file:PATH, not '{}'", text));
  if (text.starts_with(kFile)) {
    options.measured = std::make_shared<const MeasuredSteps>(read_measured_steps(text.substr(kFile.size())));
    options.compute = options.measured->mean();
  } else if (is_lognormal) {
    options.compute = base::parse_duration("the mean in --compute", lognormal.substr(0, colon));
    options.jitter_sigma = parse_sigma("--compute", lognormal.substr(colon + 1));
  } else {
    options.compute = base::parse_duration("--compute", text);
  }
}

void parse_straggler(std::string_view text, PaceOptions& options) {
  options.independent_stragglers = text.starts_with(kIndependent);
  if (options.independent_stragglers) text.remove_prefix(kIndependent.size());
  const auto [count, delay] = split("--straggler", text, 'x', "2x320ms or independent:2x320ms");
  options.random_stragglers = static_cast<int>(base::parse_integer("the count in --straggler", count, 0, kMostWorkers));
  options.random_delay = base::parse_duration("--straggler", delay);
}

std::string straggler_text(const PaceOptions& options) {
  return fmt::format("{}{}x{}s", options.independent_stragglers ? kIndependent : "", options.random_stragglers,
                     options.random_delay.count());
}

void parse_fixed_stragglers(std::string_view text, PaceOptions& options) {
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto [worker, delay] = split("--straggler-fixed", text.substr(0, comma), ':', "3:50ms");
    options.fixed.push_back(
        {static_cast<int>(base::parse_integer("the worker in --straggler-fixed", worker, 0, kMostWorkers)),
         base::parse_duration("--straggler-fixed", delay)});
    if (std::ranges::count(options.fixed, options.fixed.back().worker, &FixedStraggler::worker) > 1)
      throw Error(ErrorCode::bad_input, fmt::format("--straggler-fixed names worker {} twice: give it one delay",
                                                    options.fixed.back().worker));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
}

void parse_jitter(std::string_view text, PaceOptions& options) {
  const auto [distribution, sigma] = split("--jitter", text, ':', "lognormal:0.3");
  if (distribution != "lognormal")
    throw Error(ErrorCode::bad_input, fmt::format("--jitter knows the distribution lognormal, not '{}'", distribution));
  options.jitter_sigma = parse_sigma("--jitter", sigma);
}

Pace::Pace(PaceOptions options, std::uint64_t seed, int rank, int workers)
    : options_(std::move(options)), seed_(seed), rank_(rank), workers_(workers) {
  if (!options_.independent_stragglers && options_.random_stragglers > workers)
    throw Error(ErrorCode::bad_input, fmt::format("--straggler asks for {} slow workers of {}: ask for 0 to {}",
                                                  options_.random_stragglers, workers, workers));
  for (const FixedStraggler& straggler : options_.fixed)
    if (straggler.worker >= workers)
      throw Error(ErrorCode::bad_input, fmt::format("--straggler-fixed names worker {}, but workers are 0 to {}",
                                                    straggler.worker, workers - 1));
}

base::Random Pace::draws_of(std::int64_t step) const {
  return {seed_, base::Purpose::jitter, static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(step)};
}

double Pace::jitter(std::int64_t step) const {
  return options_.jitter_sigma == 0 ? 1 : draws_of(step).lognormal_mean_one(options_.jitter_sigma);
}

base::Duration Pace::compute(std::int64_t step) const {
  if (!options_.measured) return options_.compute * jitter(step);
  const auto& durations = options_.measured->durations;
  return durations[draws_of(step).below(static_cast<std::uint32_t>(durations.size()))];
}

base::Duration Pace::jitter_of_measured(std::int64_t step, base::Duration measured) const {
  if (options_.compute.count() > 0) return base::Duration(0);
  return measured * std::max(0.0, jitter(step) - 1);
}

// As the WAGMA authors' code has it: every worker draws `random_stragglers` ranks from a stream of its own and is late
// if one of them is its own. So each is late with probability 1 - (1 - 1/P)^n whatever the others are, and with n = 2
// nobody is in about 13% of all steps.
bool Pace::is_named_by_own_draws(std::int64_t step) const {
  base::Random random(seed_, base::Purpose::straggler_choice, static_cast<std::uint32_t>(rank_),
                      static_cast<std::uint32_t>(step));
  for (int draw = 0; draw < options_.random_stragglers; ++draw)
    if (random.below(static_cast<std::uint32_t>(workers_)) == static_cast<std::uint32_t>(rank_)) return true;
  return false;
}

// Every worker draws the same set: the first `random_stragglers` places of a shuffle.
bool Pace::is_random_straggler(std::int64_t step) const {
  if (options_.random_stragglers == 0) return false;
  if (options_.independent_stragglers) return is_named_by_own_draws(step);
  base::Random random(seed_, base::Purpose::straggler_choice, 0, static_cast<std::uint32_t>(step));
  std::vector<int> order(static_cast<std::size_t>(workers_));
  std::iota(order.begin(), order.end(), 0);
  for (int place = 0; place < options_.random_stragglers; ++place) {
    const auto from = static_cast<std::size_t>(place);
    std::swap(order[from], order[from + random.below(static_cast<std::uint32_t>(workers_ - place))]);
    if (order[from] == rank_) return true;
  }
  return false;
}

base::Duration Pace::delay(std::int64_t step) const {
  base::Duration sum = is_random_straggler(step) ? options_.random_delay : base::Duration(0);
  for (const FixedStraggler& straggler : options_.fixed)
    if (straggler.worker == rank_) sum += straggler.delay;
  return sum;
}

}  // namespace flockstep::train
