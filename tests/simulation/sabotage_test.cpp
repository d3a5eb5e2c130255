// The checkers can fail: each way of breaking the protocol is noticed, by the property that it violates.
#include <gtest/gtest.h>

#include <cctype>
#include <ostream>

#include "simulation/explore.h"
#include "simulation/sabotage.h"

namespace flockstep::simulation {

void PrintTo(const Sabotage& sabotage, std::ostream* out) { *out << sabotage.name; }

namespace {

constexpr std::uint64_t kSeeds = 400;

class SabotageTest : public testing::TestWithParam<Sabotage> {};

TEST_P(SabotageTest, isNoticedByThePropertyItViolates) {
  const Sabotage& sabotage = GetParam();
  Summary summary;
  const Exploration how{
      .make = sabotage.make, .flaw = sabotage.flaw, .only = sabotage.alone ? sabotage.property : std::string_view{}};
  for (std::uint64_t seed = 0; seed < kSeeds && !summary.failure; ++seed)
    if (sabotage.applies(draw_scenario(seed))) run_seed(seed, how, summary);
  ASSERT_TRUE(summary.failure) << "nobody noticed in " << summary.runs << " runs";
  EXPECT_EQ(summary.failure->property, sabotage.property) << summary.failure->report();
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

INSTANTIATE_TEST_SUITE_P(All, SabotageTest, testing::ValuesIn(all_sabotages()), name_of);

}  // namespace
}  // namespace flockstep::simulation
