#include "tasks/recommendation/generated_clicks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/portable_math.h"

namespace flockstep::tasks {
namespace {

constexpr std::uint64_t kRule = 0xC11C;         // the seed of hidden vectors and effects
constexpr std::uint64_t kFixedClicks = 0x7E57;  // and that of clicks to evaluate by
constexpr std::size_t kHidden = 4;              // numbers in a hidden vector
// Deviations of the three terms, whatever the shape.
constexpr double kOfNumbers = 0.8, kOfEffects = 0.5, kOfInteractions = 2;
constexpr double kBias = -0.5;  // clicks are the rarer case

struct Hidden {
  std::array<double, kHidden> vector;
  double effect;
};

// All uniform with variance 1.
Hidden hidden_of(std::size_t table, std::uint32_t id) {
  base::Random random(kRule, base::Purpose::fixed_data, static_cast<std::uint32_t>(table), id);
  const auto draw = [&] { return std::sqrt(12.0) * (random.uniform() - 0.5); };
  Hidden hidden;
  for (double& number : hidden.vector) number = draw();
  hidden.effect = draw();
  return hidden;
}

double dot(const Hidden& one, const Hidden& other) {
  double sum = 0;
  for (std::size_t i = 0; i < kHidden; ++i) sum += one.vector[i] * other.vector[i];
  return sum;
}

// Half of it is linear, with signs that alternate; half is in the distance of the first number from zero.
double of_numbers(std::span<const float> numbers) {
  if (numbers.empty()) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) sum += i % 2 == 0 ? numbers[i] : -numbers[i];
  return kOfNumbers * (sum / std::sqrt(static_cast<double>(numbers.size())) + std::abs(numbers[0]));
}

std::uint32_t draw_id(std::uint32_t rows, FirstIds ids, base::Random& random) {
  const std::uint32_t of = (rows - ids.first + ids.step - 1) / ids.step;  // rows to draw from
  const double place = random.uniform();
  return ids.first + ids.step * static_cast<std::uint32_t>(place * place * of);
}

}  // namespace

LogOdds planted_log_odds(const ClickShape& shape, std::span<const float> numbers, std::span<const std::uint32_t> ids) {
  LogOdds odds{.numbers = kBias + of_numbers(numbers)};
  const auto pairs = static_cast<double>(shape.categories() / 2);
  for (std::size_t table = 0; table < ids.size(); table += 2) {
    const Hidden one = hidden_of(table, ids[table]);
    odds.effects += one.effect;
    if (table + 1 == ids.size()) break;
    const Hidden other = hidden_of(table + 1, ids[table + 1]);
    odds.effects += other.effect;
    odds.interactions += dot(one, other) / std::sqrt(pairs * kHidden);
  }
  odds.effects *= kOfEffects / std::sqrt(static_cast<double>(std::max<std::size_t>(1, ids.size())));
  odds.interactions *= kOfInteractions;
  return odds;
}

void draw_click(const ClickShape& shape, FirstIds first_ids, base::Random& random, Clicks& clicks) {
  for (std::size_t i = 0; i < shape.numbers; ++i) clicks.numbers.push_back(static_cast<float>(random.normal()));
  for (std::size_t table = 0; table < shape.categories(); ++table)
    clicks.ids.push_back(draw_id(shape.rows[table], table == 0 ? first_ids : FirstIds{}, random));
  const LogOdds odds = planted_log_odds(shape, std::span<const float>(clicks.numbers).last(shape.numbers),
                                        std::span<const std::uint32_t>(clicks.ids).last(shape.categories()));
  clicks.probabilities.push_back(1 / (1 + base::portable_exp(-odds.sum())));
  clicks.labels.push_back(random.uniform() < clicks.probabilities.back() ? 1 : 0);
}

Clicks fixed_clicks(const ClickShape& shape, std::size_t count, std::uint32_t number) {
  base::Random random(kFixedClicks, base::Purpose::fixed_data, number);
  Clicks clicks;
  for (std::size_t i = 0; i < count; ++i) draw_click(shape, {}, random, clicks);
  return clicks;
}

}  // namespace flockstep::tasks
