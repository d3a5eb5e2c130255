// The checkers can fail: each way of breaking the protocol is noticed, by the property that it violates.
#include <gtest/gtest.h>

#include <cctype>
#include <ostream>

#include "simulation/explore.h"
#include "simulation/sabotage.h"

namespace flockstep::simulation {

void PrintTo(const Sabotage& sabotage, std::ostream* out) { *out << sabotage.name; }
void PrintTo(const AgentSabotage& sabotage, std::ostream* out) { *out << sabotage.name; }
void PrintTo(const ElasticSabotage& sabotage, std::ostream* out) { *out << sabotage.name; }

namespace {

constexpr std::uint64_t kSeeds = 400, kElasticSeeds = 10000;

class MemberSabotageTest : public testing::TestWithParam<Sabotage> {};
class AgentSabotageTest : public testing::TestWithParam<AgentSabotage> {};
class ElasticSabotageTest : public testing::TestWithParam<ElasticSabotage> {};

template <typename T>
void expect_noticed(const T& sabotage, const Exploration& how) {
  Summary summary;
  for (std::uint64_t seed = 0; seed < kSeeds && !summary.failure; ++seed)
    if (sabotage.applies(draw_scenario(seed))) run_seed(seed, how, summary);
  ASSERT_TRUE(summary.failure) << "nobody noticed in " << summary.runs << " runs";
  EXPECT_EQ(summary.failure->property, sabotage.property) << summary.failure->report();
  testing::Test::RecordProperty("runs", static_cast<int>(summary.runs));
}

TEST_P(MemberSabotageTest, isNoticedByThePropertyItViolates) {
  Exploration how;
  how.runs_agents = how.runs_elastic = false;
  how.make = GetParam().make;
  how.flaw = GetParam().flaw;
  if (GetParam().alone) how.only = GetParam().property;
  expect_noticed(GetParam(), how);
}

TEST_P(AgentSabotageTest, isNoticedByThePropertyItViolates) {
  Exploration how;
  how.runs_members = how.runs_elastic = false;
  how.agent_flaw = GetParam().flaw;
  if (GetParam().alone) how.only = GetParam().property;
  expect_noticed(GetParam(), how);
}

TEST_P(ElasticSabotageTest, isNoticedByThePropertyItViolates) {
  Exploration how;
  how.runs_members = how.runs_agents = false;
  how.elastic_flaw = GetParam().flaw;
  how.elastic_rounds = GetParam().rounds;
  Summary summary;
  for (std::uint64_t seed = 0; seed < kElasticSeeds && !summary.failure; ++seed)
    if (GetParam().applies(draw_elastic(seed))) run_seed(seed, how, summary);
  ASSERT_TRUE(summary.failure) << "nobody noticed in " << summary.runs << " runs";
  EXPECT_EQ(summary.failure->property, GetParam().property) << summary.failure->report();
  testing::Test::RecordProperty("runs", static_cast<int>(summary.runs));
}

template <typename T>
std::string name_of(const testing::TestParamInfo<T>& info) {
  std::string name;
  bool begins_word = true;
  for (const char letter : info.param.name) {
    if (std::isalpha(static_cast<unsigned char>(letter)))
      name += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : letter;
    begins_word = letter == ' ';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, MemberSabotageTest, testing::ValuesIn(member_sabotages()), name_of<Sabotage>);
INSTANTIATE_TEST_SUITE_P(All, AgentSabotageTest, testing::ValuesIn(agent_sabotages()), name_of<AgentSabotage>);
INSTANTIATE_TEST_SUITE_P(All, ElasticSabotageTest, testing::ValuesIn(elastic_sabotages()), name_of<ElasticSabotage>);

}  // namespace
}  // namespace flockstep::simulation
