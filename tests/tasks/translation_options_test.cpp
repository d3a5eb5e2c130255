#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "support/refusal.h"
#include "tasks/translation/translation.h"

namespace flockstep::tasks::translation_options_test {
namespace {

std::string refusal_of(const base::Settings& settings) {
  return test::refusal([&] { translation_options_of(settings, 4, 0); });
}

TEST(TranslationOptions, aSizeSetsWhatIsNotGiven) {
  const TranslationOptions tiny = translation_options_of({}, 4, 100);
  EXPECT_EQ(tiny.corpus.tokens, TokenKind::words);
  EXPECT_EQ(tiny.search.width, 1u);
  EXPECT_EQ(tiny.adam.rate.schedule, Schedule::inverse_root);
  EXPECT_GT(tiny.adam.rate.warmup, 0);
  const TranslationOptions paper = translation_options_of({{"size", "paper"}, {"dropout", "0"}, {"beam", "4"}}, 4, 0);
  EXPECT_EQ(paper.network.layers, 6);
  EXPECT_EQ(paper.network.vocabulary, 33708);
  EXPECT_EQ(paper.corpus.vocabulary, 33708u);
  EXPECT_EQ(paper.corpus.tokens, TokenKind::bpe);
  EXPECT_EQ(paper.dropout, 0);
  EXPECT_EQ(paper.label_smoothing, 0.1);
  EXPECT_EQ(paper.search.width, 4u);
  const auto defaults = find_task("translation").defaults;
  EXPECT_GT(defaults({{"size", "paper"}}).steps, defaults({{"size", "small"}}).steps);
}

TEST(TranslationOptions, wrongOnesSayWhatIsAllowed) {
  EXPECT_EQ(refusal_of({{"heads", "3"}}),
            "--translation.width takes an even multiple of --translation.heads (3), not '64'");
  EXPECT_EQ(refusal_of({{"tokens", "letters"}}), "--translation.tokens takes words or bpe, not 'letters'");
  EXPECT_EQ(refusal_of({{"spelling", "wrong"}}), "--translation.spelling takes together or apart, not 'wrong'");
  EXPECT_EQ(refusal_of({{"beam", "0"}}), "--translation.beam takes a whole number from 1 to 64, not '0'");
  EXPECT_EQ(refusal_of({{"vocabulary", "4"}}),
            "--translation.vocabulary takes a whole number from 5 to 16777216, not '4'");
  EXPECT_EQ(refusal_of({{"dropout", "1"}}), "--translation.dropout takes a number from 0 to below 1, not '1'");
}

TEST(TranslationOptions, theFilesOfAFolderAreNamed) {
  const auto files = find_task("translation").files;
  EXPECT_TRUE(files({}).empty());
  EXPECT_EQ(files({{"data", "/some/folder"}, {"source", "fr"}, {"target", "it"}}),
            (std::vector<std::filesystem::path>{"/some/folder/train.fr", "/some/folder/train.it",
                                                "/some/folder/test.fr", "/some/folder/test.it"}));
}

}  // namespace
}  // namespace flockstep::tasks::translation_options_test
