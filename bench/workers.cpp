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
