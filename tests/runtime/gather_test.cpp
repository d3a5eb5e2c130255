#include "runtime/gather.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/on_threads.h"

namespace flockstep::runtime {
namespace {

TEST(Gather, doublesOfAllWorkersComeInRankOrder) {
  test::on_threads(3, [](Context& context) {
    const std::vector<double> mine{static_cast<double>(context.rank()), 0.5};
    EXPECT_EQ(gather_doubles(context, mine), (std::vector<double>{0, 0.5, 1, 0.5, 2, 0.5}));
  });
}

// Nobody, the first or the last may have none.
TEST(Gather, recordsOfAnyLengthsComeInRankOrderOnEveryWorker) {
  const std::vector<std::vector<std::size_t>> cases{{2, 0, 5}, {0, 1, 0}, {0, 0, 0}, {3, 3, 3}, {0, 0, 1000}};
  for (const auto& lengths : cases)
    test::on_threads(3, [&](Context& context) {
      const auto records_of = [&](std::size_t rank) {
        std::vector<double> records(lengths[rank]);
        for (std::size_t i = 0; i < records.size(); ++i) records[i] = static_cast<double>(1000 * rank + i) + 0.25;
        return records;
      };
      std::vector<double> expected;
      for (std::size_t rank = 0; rank < 3; ++rank)
        for (const double record : records_of(rank)) expected.push_back(record);
      EXPECT_EQ(gather_records(context, records_of(static_cast<std::size_t>(context.rank()))), expected);
    });
}

TEST(Gather, bytesOfDifferentLengthsReachTheRootOnly) {
  test::on_threads(3, [](Context& context) {
    const std::vector<std::byte> mine(static_cast<std::size_t>(context.rank() * 5), std::byte{7});
    const auto all = gather_at_root(context, mine);
    ASSERT_EQ(all.size(), context.rank() == 0 ? 3u : 0u);
    if (context.rank() != 0) return;
    for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(all[rank], std::vector<std::byte>(rank * 5, std::byte{7}));
  });
}

TEST(Gather, aTextOfRankZeroIsTheTextOfAll) {
  for (const std::string text : {"", "found nothing"})
    test::on_threads(3, [&](Context& context) {
      EXPECT_EQ(broadcast_text(context, context.rank() == 0 ? text : "something else"), text);
    });
}

TEST(Agreement, passesWhenAllSayTheSame) {
  test::on_threads(4, [](Context& context) { check_agreement(context, {{"parameters", "1000"}, {"seed", "1"}}); });
}

TEST(Agreement, namesTheValueAndEveryRankThatDiffersOnEveryWorker) {
  std::atomic<int> informed{0};
  test::on_threads(5, [&](Context& context) {
    const bool odd_one = context.rank() == 2 || context.rank() == 4;
    try {
      check_agreement(context, {{"parameters", odd_one ? "999" : "1000"}, {"seed", "1"}});
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_STREQ(error.what(),
                   "workers 2, 4 have parameters 999 where worker 0 has 1000: all workers must be started alike");
      ++informed;
    }
  });
  EXPECT_EQ(informed, 5);
}

TEST(Agreement, looksForDifferencesInTheOrderOfTheNamesAndKnowsDefaults) {
  const auto sentence_of = [](const Agreed& first, const Agreed& second) {
    std::string sentence;
    test::on_threads(2, [&](Context& context) {
      try {
        check_agreement(context, context.rank() == 0 ? first : second);
      } catch (const Error& error) {
        if (context.rank() == 1) sentence = error.what();
      }
    });
    return sentence.substr(0, sentence.find(':'));
  };
  EXPECT_EQ(sentence_of({{"z", "1"}, {"a", "2"}}, {{"z", "3"}, {"a", "4"}}), "worker 1 has z 3 where worker 0 has 1");
  EXPECT_EQ(sentence_of({{"a", "2"}}, {}), "worker 1 has a at its default where worker 0 has 2");
  EXPECT_EQ(sentence_of({{"a", "2"}}, {{"a", "2"}, {"b", "3"}}),
            "worker 1 has b 3 where worker 0 has it at its default");
}

}  // namespace
}  // namespace flockstep::runtime
