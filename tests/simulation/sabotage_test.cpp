// The checkers can fail: each way of breaking the protocol is noticed, by the property that it violates.
#include "simulation/sabotage.h"

#include <gtest/gtest.h>

#include <cctype>
#include <ostream>

namespace flockstep::simulation {

void PrintTo(const Sabotage& sabotage, std::ostream* out) { *out << sabotage.name; }

namespace {

constexpr std::uint64_t kSeeds = 400, kElasticSeeds = 10000;

class SabotageTest : public testing::TestWithParam<Sabotage> {};

TEST_P(SabotageTest, isNoticedByThePropertyItViolates) {
  const Sabotage& its = GetParam();
  const Exploration how{its.kind, its.alone ? its.property : "", its.flaws};
  const bool is_elastic = its.kind == Kind::elastic;
  Summary summary;
  for (std::uint64_t seed = 0; seed < (is_elastic ? kElasticSeeds : kSeeds) && !summary.failure; ++seed)
    if (its.applies(is_elastic ? draw_elastic(seed) : steady(draw_scenario(seed)))) run_seed(seed, how, summary);
  ASSERT_TRUE(summary.failure) << "no property noticed it in " << summary.runs << " runs";
  EXPECT_EQ(summary.failure->property, its.property) << summary.failure->report();
  RecordProperty("runs", static_cast<int>(summary.runs));
}

std::string name_of(const testing::TestParamInfo<Sabotage>& info) {
  std::string name;
  bool begins_word = true;
  for (const char letter : info.param.name) {
    if (std::isalpha(static_cast<unsigned char>(letter)))
      name += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : letter;
    begins_word = letter == ' ';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Members, SabotageTest, testing::ValuesIn(member_sabotages()), name_of);
INSTANTIATE_TEST_SUITE_P(Agents, SabotageTest, testing::ValuesIn(agent_sabotages()), name_of);
INSTANTIATE_TEST_SUITE_P(Elastic, SabotageTest, testing::ValuesIn(elastic_sabotages()), name_of);

}  // namespace
}  // namespace flockstep::simulation
