#include "tasks/sizes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "flockstep/error.h"
#include "support/refusal.h"

namespace flockstep::tasks::sizes_test {
namespace {

constexpr std::array<base::OptionSpec, 3> kOptions{{
    kSizeOption,
    {"width", kBySize, "of the toy"},
    {"height", "3", "of the toy, whatever its size"},
}};
constexpr std::array<SizeSetting, 1> kTiny{{{"width", "4"}}}, kPaper{{{"width", "400"}}};
constexpr std::array<Size, 2> kSizes{
    {{"tiny", {.steps = 10, .batch_per_worker = 1}, kTiny}, {"paper", {.steps = 1000, .batch_per_worker = 8}, kPaper}}};

TEST(Sizes, fillInWhatIsNotGiven) {
  EXPECT_EQ(with_size("toy", kOptions, kSizes, {}), (base::Settings{{"width", "4"}}));
  EXPECT_EQ(with_size("toy", kOptions, kSizes, {{"size", "paper"}}),
            (base::Settings{{"size", "paper"}, {"width", "400"}}));
  EXPECT_EQ(with_size("toy", kOptions, kSizes, {{"size", "paper"}, {"width", "7"}, {"height", "5"}}),
            (base::Settings{{"size", "paper"}, {"width", "7"}, {"height", "5"}}));
}

TEST(Sizes, haveStepsAndBatchesOfTheirOwn) {
  EXPECT_EQ(size_of("toy", kOptions, kSizes, {}).defaults.steps, 10);
  EXPECT_EQ(size_of("toy", kOptions, kSizes, {{"size", "paper"}}).defaults.batch_per_worker, 8);
}

TEST(Sizes, thatDoNotExistAreTold) {
  EXPECT_EQ(test::refusal(ErrorCode::bad_input,
                          [&] {
                            size_of("toy", kOptions, kSizes, {{"size", "huge"}});
                          }),
            "--toy.size takes tiny or paper, not 'huge'");
}

TEST(Sizes, ofATaskAreListedAndNameEveryOptionThatIsLeftToThem) {
  for (const TaskRow& row : tasks()) {
    const bool has_sizes = std::ranges::find(row.options, "size", &base::OptionSpec::name) != row.options.end();
    EXPECT_EQ(has_sizes, !row.sizes.empty()) << row.name;
    for (const Size& size : row.sizes)
      for (const base::OptionSpec& option : row.options) {
        const bool is_set = std::ranges::find(size.settings, option.name, &SizeSetting::first) != size.settings.end();
        EXPECT_EQ(is_set, option.default_value == kBySize) << row.name << " " << size.name << " " << option.name;
      }
  }
}

}  // namespace
}  // namespace flockstep::tasks::sizes_test
