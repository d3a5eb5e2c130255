#include "base/names.h"

#include <gtest/gtest.h>

#include <array>

#include "base/partition.h"

namespace flockstep::base {
namespace {

constexpr std::array<std::string_view, 3> kKnown{"adacons", "mean", "local_sgd"};

TEST(Names, editDistanceCountsSingleLetterChanges) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("mean", "mean"), 0u);
  EXPECT_EQ(edit_distance("maen", "mean"), 1u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

TEST(Names, theNearestIsSuggestedAndAFarOneIsNot) {
  EXPECT_EQ(nearest_name("adacon", kKnown), "adacons");
  EXPECT_EQ(nearest_name("localsgd", kKnown), "local_sgd");
  EXPECT_EQ(nearest_name("zzzzzzzz", kKnown), "");
  EXPECT_EQ(unknown_name_sentence("algorithm", "maen", kKnown),
            "unknown algorithm 'maen' (did you mean mean?); there are adacons, mean, local_sgd");
  EXPECT_EQ(unknown_name_sentence("option of eager_solo", "period", {}),
            "unknown option of eager_solo 'period'; there is none");
}

TEST(Names, aShortWordIsNotTakenForAnotherOfTheSameLength) {
  constexpr std::array<std::string_view, 4> kFlags{"--log", "--lr", "--json", "--out"};
  EXPECT_EQ(nearest_name("--foo", kFlags), "");
  EXPECT_EQ(nearest_name("--colour", kFlags), "");
  EXPECT_EQ(nearest_name("--", kFlags), "");
  EXPECT_EQ(nearest_name("--lgo", kFlags), "--log");
  EXPECT_EQ(nearest_name("--jsn", kFlags), "--json");
}

TEST(Partition, coverTheWholeInOrderWithSizesThatDifferByAtMostOne) {
  for (std::size_t total = 0; total < 40; ++total)
    for (std::size_t count = 1; count < 12; ++count) {
      const Partition parts(total, count);
      std::size_t next = 0;
      for (std::size_t part = 0; part < count; ++part) {
        EXPECT_EQ(parts.begin(part), next);
        EXPECT_LE(parts.size(part), parts.size(0));
        EXPECT_GE(parts.size(part) + 1, parts.size(0));
        next += parts.size(part);
      }
      EXPECT_EQ(next, total);
    }
}

}  // namespace
}  // namespace flockstep::base
