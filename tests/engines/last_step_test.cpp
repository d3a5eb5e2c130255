#include "engines/last_step_talk.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/random.h"

namespace flockstep::engines {
namespace {

using Kind = LastStepWord::Kind;

// Workers that take steps in any order, with words under way that keep their order between two workers.
class Fleet {
 public:
  Fleet(int workers, std::uint64_t seed)
      : root_(workers),
        members_(static_cast<std::size_t>(workers)),
        steps_(members_.size()),
        is_over_(members_.size()),
        up_(members_.size()),
        down_(members_.size()),
        draws_(seed, base::Purpose::test, 0, 0) {}

  // Returns the number of actions taken until all workers have heard that all have ended.
  void run(std::int64_t asked_at, std::int64_t most_steps) {
    for (std::int64_t action = 0; !all_have_ended(); ++action) {
      ASSERT_LT(action, 100000) << "they do not come to an end";
      const auto worker = static_cast<std::size_t>(draws_.below(static_cast<std::uint32_t>(members_.size())));
      LastStepMember& member = members_[worker];
      if (action == asked_at) tell_root(worker, member.request());
      switch (draws_.below(3)) {
        case 0: step(worker, most_steps); break;
        case 1:
          if (up_[worker].empty()) break;
          for (const LastStepWord& told : root_.take(static_cast<int>(worker), take_first(up_[worker])))
            for (auto& line : down_) line.push_back(told);
          break;
        default:
          if (!down_[worker].empty()) tell_root(worker, member.take(take_first(down_[worker])));
      }
      ASSERT_TRUE(root_.expects(static_cast<int>(worker)) || up_[worker].empty()) << "a word that is not received";
    }
  }

  const std::vector<std::int64_t>& steps() const { return steps_; }

 private:
  bool all_have_ended() const { return std::ranges::all_of(members_, &LastStepMember::all_have_ended); }
  static LastStepWord take_first(std::deque<LastStepWord>& line) {
    const LastStepWord word = line.front();
    line.pop_front();
    return word;
  }
  void tell_root(std::size_t worker, const std::optional<LastStepWord>& word) {
    if (word) up_[worker].push_back(*word);
  }
  void step(std::size_t worker, std::int64_t most_steps) {
    LastStepMember& member = members_[worker];
    if (is_over_[worker] || member.is_frozen()) return;
    if (steps_[worker] < most_steps && member.may_take(steps_[worker] + 1)) {
      ++steps_[worker];
    } else {
      is_over_[worker] = true;
      tell_root(worker, member.end());
    }
  }

  LastStepRoot root_;
  std::vector<LastStepMember> members_;
  std::vector<std::int64_t> steps_;
  std::vector<bool> is_over_;
  std::vector<std::deque<LastStepWord>> up_, down_;
  base::Random draws_;
};

TEST(LastStepTalk, endsAllWorkersAfterOneStepInEveryOrderOfWords) {
  int early = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed)
    for (const int workers : {1, 2, 5}) {
      Fleet fleet(workers, seed);
      fleet.run(static_cast<std::int64_t>(seed % 120), 40);
      ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << ", workers " << workers;
      for (const std::int64_t steps : fleet.steps()) ASSERT_EQ(steps, fleet.steps()[0]) << "seed " << seed;
      early += fleet.steps()[0] < 40;
    }
  EXPECT_GT(early, 500) << "most are asked before they have taken all steps";
}

TEST(LastStepTalk, ofWorkersThatAreNotAskedFreezesNone) {
  Fleet fleet(3, 1);
  fleet.run(-1, 10);
  EXPECT_EQ(fleet.steps(), (std::vector<std::int64_t>{10, 10, 10}));
}

}  // namespace
}  // namespace flockstep::engines
