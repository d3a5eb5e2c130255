#include "bench/workers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "runtime/gather.h"

namespace flockstep::bench {
namespace {

constexpr std::size_t kStretch = 1 << 16;

// Number `begin` on, a multiple of kStretch.
void fill_stretch(int rank, std::size_t begin, std::span<float> values) {
  std::vector<float> shared(values.size());
  const auto number = static_cast<std::uint32_t>(begin / kStretch);
  base::Random(1, base::Purpose::test, 1u << 30, number).fill_uniform(shared, -1, 1);
  base::Random(1, base::Purpose::test, static_cast<std::uint32_t>(rank), number).fill_uniform(values, -1, 1);
  const auto scale = static_cast<float>(input_scale(rank));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = scale * (0.3f * shared[k] + values[k]);
}

// Calls action(place, sum over the members, own number) for every number.
template <typename Action>
void each_sum(std::span<const int> members, std::size_t floats, std::size_t own, const Action& action) {
  each_stretch(members, floats, [&](std::size_t begin, const Rows& rows) {
    for (std::size_t k = 0; k < rows[0].size(); ++k) {
      double sum = 0;
      for (const auto& row : rows) sum += row[k];
      action(begin + k, sum, rows[own][k]);
    }
  });
}

double scale_of(std::span<const int> members) {
  double scale = 0;
  for (const int rank : members) scale += input_scale(rank);
  return scale;
}

}  // namespace

double input_scale(int rank) { return 1 + 0.25 * rank; }

void fill_input(int rank, std::span<float> values) {
  for (std::size_t begin = 0; begin < values.size(); begin += kStretch)
    fill_stretch(rank, begin, values.subspan(begin, std::min(kStretch, values.size() - begin)));
}

void each_stretch(std::span<const int> members, std::size_t floats,
                  const std::function<void(std::size_t begin, const Rows& rows)>& action) {
  for (std::size_t begin = 0; begin < floats; begin += kStretch) {
    Rows rows(members.size(), std::vector<float>(std::min(kStretch, floats - begin)));
    for (std::size_t i = 0; i < members.size(); ++i) fill_stretch(members[i], begin, rows[i]);
    action(begin, rows);
  }
}

void wrong(const std::string& what) {
  throw Error(ErrorCode::mismatch, fmt::format("the benchmark's result is wrong before it is timed: {}", what));
}

bool differ(double value, double expected, double scale) { return !(std::abs(value - expected) <= 1e-5 * scale); }

void verify_sum(std::span<const int> members, std::span<const float> values, std::string_view name) {
  const double scale = scale_of(members);
  each_sum(members, values.size(), 0, [&](std::size_t place, double sum, double) {
    if (differ(values[place], sum, scale)) wrong(fmt::format("{} is off at {}", name, place));
  });
}

void verify_merged(std::span<const int> members, int rank, protocol::Outcome outcome, std::span<const float> values) {
  const auto m = static_cast<double>(members.size());
  const double scale = scale_of(members) / m;
  const bool is_fresh = outcome == protocol::Outcome::fresh;
  const auto own = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  each_sum(members, values.size(), own, [&](std::size_t place, double sum, double mine) {
    if (differ(values[place], is_fresh ? sum / m : (sum + mine) / (m + 1), scale))
      wrong(fmt::format("the round's average is off at {}", place));
  });
}

protocol::Options rounds_without_end(int workers, int group_size) {
  protocol::Options options;
  options.workers = workers;
  options.group_size = group_size;
  options.period = protocol::Iteration{1} << 40;
  options.activation = protocol::Activation::first;
  return options;
}

void meet(runtime::Context& context) { context.wait(context.engine().barrier(), "barrier"); }

Timings slowest(runtime::Context& context, const Timings& mine) {
  std::vector<std::vector<double>> times;
  for (const std::string& name : mine.names()) {
    const auto own = mine.seconds_of(name);
    const auto all = runtime::gather_doubles(context, own);
    std::vector<double> longest(own.size());
    for (std::size_t i = 0; i < all.size(); ++i) longest[i % own.size()] = std::max(longest[i % own.size()], all[i]);
    times.push_back(std::move(longest));
  }
  return {{mine.names().begin(), mine.names().end()}, std::move(times)};
}

const engines::Backend& find_real_backend(const std::string& name) {
  const engines::Backend& backend = engines::find_backend(name);
  if (name == "sim")
    throw Error(ErrorCode::bad_input, "a benchmark takes real time, and sim has none: use --engine threads or mpi");
  return backend;
}

}  // namespace flockstep::bench
