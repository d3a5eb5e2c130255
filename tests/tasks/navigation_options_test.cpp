#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "support/refusal.h"
#include "tasks/navigation/navigation.h"

namespace flockstep::tasks::navigation_options_test {
namespace {

std::string refusal_of(const base::Settings& settings) {
  return test::refusal([&] { navigation_options_of(settings, 4, 0); });
}

TEST(NavigationOptions, aSizeSetsWhatIsNotGiven) {
  const NavigationOptions tiny = navigation_options_of({}, 4, 100);
  EXPECT_EQ(tiny.policy.encoder, Encoder::dense);
  EXPECT_EQ(tiny.adam.rate.steps, 100);
  const NavigationOptions paper = navigation_options_of({{"size", "paper"}, {"hidden", "64"}}, 4, 0);
  EXPECT_EQ(paper.policy.encoder, Encoder::resnet);
  EXPECT_EQ(paper.policy.hidden, 64);
  EXPECT_EQ(paper.policy.layers, 2);
  EXPECT_LT(tiny.mazes.side, navigation_options_of({{"size", "small"}}, 4, 0).mazes.side);
}

TEST(NavigationOptions, wrongOnesSayWhatIsAllowed) {
  EXPECT_EQ(refusal_of({{"side", "1"}}), "--navigation.side takes a whole number from 2 to 100, not '1'");
  EXPECT_EQ(refusal_of({{"view", "4"}}), "--navigation.view takes an odd number, not '4'");
  EXPECT_EQ(refusal_of({{"image", "100"}}), "--navigation.image takes a multiple of 32, not '100'");
  EXPECT_EQ(refusal_of({{"encoder", "vit"}}), "--navigation.encoder takes dense or resnet, not 'vit'");
  EXPECT_EQ(refusal_of({{"memory", "some"}}), "--navigation.memory takes yes or no, not 'some'");
  EXPECT_EQ(refusal_of({{"discount", "1.5"}}), "--navigation.discount takes a number from 0 to 1, not '1.5'");
  EXPECT_EQ(refusal_of({{"noisy_workers", "5"}}),
            "--navigation.noisy_workers takes a whole number from 0 to 4, not '5'");
}

TEST(NavigationOptions, theFilesOfAFolderAreKnown) {
  const TaskRow& row = find_task("navigation");
  EXPECT_TRUE(row.files({}).empty());
  EXPECT_EQ(row.files({{"data", "there"}}), (std::vector<std::filesystem::path>{"there/train.txt", "there/test.txt"}));
}

}  // namespace
}  // namespace flockstep::tasks::navigation_options_test
