#include "base/settings.h"

#include <gtest/gtest.h>

#include <array>

#include "flockstep/error.h"
#include "support/refusal.h"

namespace flockstep::base {
namespace {

constexpr std::array<OptionSpec, 2> kSpecs{{{"period", "8", "steps between averages"}, {"beta", "0.9", "memory"}}};

std::string sentence_of(const Settings& settings) {
  return test::refusal([&] {
    const SettingsReader reader("local_sgd", kSpecs, settings);
    reader.integer("period", 1, 1000);
    reader.real("beta", 0, 1);
  });
}

TEST(Settings, defaultsApplyWhereNothingIsGiven) {
  const Settings settings{{"beta", "0.5"}};
  const SettingsReader reader("local_sgd", kSpecs, settings);
  EXPECT_EQ(reader.integer("period", 1, 1000), 8);
  EXPECT_EQ(reader.real("beta", 0, 1), 0.5);
}

TEST(Settings, impossibleValuesNameTheOptionAndTheRange) {
  EXPECT_EQ(sentence_of({}), "");
  EXPECT_EQ(sentence_of({{"period", "0"}}), "--local_sgd.period takes a whole number from 1 to 1000, not '0'");
  EXPECT_EQ(sentence_of({{"period", "8x"}}), "--local_sgd.period takes a whole number from 1 to 1000, not '8x'");
  EXPECT_EQ(sentence_of({{"beta", "nan"}}), "--local_sgd.beta takes a number from 0 to 1, not 'nan'");
  EXPECT_EQ(sentence_of({{"priod", "3"}}),
            "unknown option of local_sgd 'priod' (did you mean period?); there are period, beta");
}

}  // namespace
}  // namespace flockstep::base
