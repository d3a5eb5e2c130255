#include "session/session.h"

#include <gtest/gtest.h>

#include "flockstep/error.h"

namespace flockstep::session {
namespace {

using algorithms::Algorithm;
using algorithms::MeetingReport;

// Remembers what it was told.
class Fake final : public Algorithm, private algorithms::Departures {
 public:
  Fake(bool departs, MeetingReport meetings) : departs_(departs), meetings_(std::move(meetings)) {}
  void begin(std::int64_t step, std::span<const float> model) override {
    if (refuses) throw Error(ErrorCode::bad_input, "not now");
    began_after = step;
    began_with = model[0];
  }
  void after_update(std::int64_t step, std::span<float>) override { updated.push_back(step); }
  const MeetingReport* meetings() const override { return &meetings_; }
  Departures* departures() override { return departs_ ? this : nullptr; }
  void leave() override { calls += "leave "; }
  void come_back(std::span<float>) override { calls += "come_back "; }
  void consolidate(std::span<float>) override { calls += "consolidate "; }
  std::int64_t next_step(std::int64_t counted) const override { return counted + skipped; }

  std::string calls;
  std::int64_t skipped = 0;
  bool refuses = false;
  std::int64_t began_after = -1;
  float began_with = 0;
  std::vector<std::int64_t> updated;

 private:
  bool departs_;
  MeetingReport meetings_;
};

struct Case {
  explicit Case(bool needs_begin, MeetingReport meetings = {}) {
    auto made = std::make_unique<Fake>(needs_begin, std::move(meetings));
    fake = made.get();
    session = std::make_unique<Session>(std::move(made), algorithms::Facts{.needs_begin = needs_begin});
  }
  std::unique_ptr<Session> session;
  Fake* fake;
};

std::string sentence_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Session, whoIsAwayTakesNoStepBeforeItIsBackAndGoesOnWhereTheOthersAre) {
  Case made(true);
  Session& session = *made.session;
  std::vector<float> model{3};
  EXPECT_NE(sentence_of([&] { session.leave(); }).find("call begin(model)"), std::string::npos);
  session.begin(model);
  session.after_update(model);
  EXPECT_EQ(sentence_of([&] { session.come_back(model); }), "this worker is not away: leave before coming back");
  session.leave();
  EXPECT_TRUE(session.is_away());
  EXPECT_EQ(sentence_of([&] { session.after_update(model); }),
            "this worker has left: it takes no step before it has come back, by come_back or consolidate");
  EXPECT_EQ(sentence_of([&] { session.leave(); }), "this worker has left already: come back before leaving again");
  made.fake->skipped = 9;
  session.come_back(model);
  EXPECT_FALSE(session.is_away());
  session.after_update(model);
  session.leave();
  session.consolidate(model);
  EXPECT_FALSE(session.is_away());
  session.after_update(model);
  EXPECT_EQ(made.fake->updated, (std::vector<std::int64_t>{0, 10, 20}));
  EXPECT_EQ(session.updates(), 21);
  EXPECT_EQ(made.fake->calls, "leave come_back leave consolidate ");
}

TEST(Session, workersThatWaitForEachOtherCannotLeaveByThemselves) {
  Case lockstep(false);
  EXPECT_EQ(sentence_of([&] { lockstep.session->leave(); }),
            "the workers of this algorithm wait for each other, so that none can be away by itself: say who is there "
            "with attend, or use wagma, flock, adpsgd or swarm");
  EXPECT_FALSE(lockstep.session->is_away());
}

TEST(Session, anAlgorithmThatNeedsABeginningRefusesToStepWithoutOne) {
  Case needs(true);
  std::vector<float> model{3};
  EXPECT_EQ(sentence_of([&] { needs.session->after_update(model); }),
            "this algorithm averages without waiting, so it has to know the model that all workers start from: call "
            "begin(model) before the first step");
  EXPECT_TRUE(needs.fake->updated.empty());
  needs.session->begin(model);
  needs.session->after_update(model);
  EXPECT_EQ(needs.fake->began_after, 0);
  EXPECT_EQ(needs.fake->began_with, 3);
  EXPECT_EQ(needs.fake->updated, std::vector<std::int64_t>{0});
}

TEST(Session, aBeginningThatIsNotNeededMayBeLeftOutButNeverRepeated) {
  Case free(false);
  std::vector<float> model{3};
  free.session->after_update(model);
  Case twice(false);
  twice.session->begin(model);
  EXPECT_EQ(sentence_of([&] { twice.session->begin(model); }),
            "begin was called twice: make another Synchronizer to start again");
}

TEST(Session, aBeginningThatFailsIsNone) {
  Case needs(true);
  std::vector<float> model{3};
  needs.fake->refuses = true;
  EXPECT_EQ(sentence_of([&] { needs.session->begin(model); }), "not now");
  EXPECT_NE(sentence_of([&] { needs.session->after_update(model); }), "nothing was thrown");
  needs.fake->refuses = false;
  needs.session->begin(model);
  needs.session->after_update(model);
}

TEST(Session, aRestoreAfterTheBeginningIsRefusedAndChangesNothing) {
  std::vector<float> model{3};
  Case first(true), second(true);
  first.session->begin(model);
  first.session->after_update(model);
  base::Archive archive;
  first.session->save(archive);
  second.session->begin(model);
  EXPECT_EQ(sentence_of([&] { second.session->restore(archive); }),
            "restore was called after begin: make another Synchronizer, restore, then begin with the model that goes "
            "on");
  second.session->after_update(model);
  EXPECT_EQ(second.fake->updated, std::vector<std::int64_t>{0});
}

TEST(Session, continuesTheCountsOfTheOneThatWasSaved) {
  std::vector<float> model{3};
  Case first(true, {1, 2, 3, 4, {5, 6}, 0.5}), second(true, {10, 20, 30, 40, {50, 60, 70}, 0.25});
  first.session->begin(model);
  first.session->after_update(model);
  first.session->after_update(model);
  base::Archive archive;
  first.session->save(archive);

  second.session->restore(archive);
  second.session->begin(model);
  second.session->after_update(model);
  EXPECT_EQ(second.fake->began_after, 2);
  EXPECT_EQ(second.fake->updated, std::vector<std::int64_t>{2});
  const MeetingReport all = second.session->meetings();
  EXPECT_EQ(all.fresh, 11);
  EXPECT_EQ(all.stale, 22);
  EXPECT_EQ(all.alone, 33);
  EXPECT_EQ(all.synchronised, 44);
  EXPECT_EQ(all.staleness, (std::vector<std::int64_t>{55, 66, 70}));
  EXPECT_EQ(all.round_s, 0.75);
}

}  // namespace
}  // namespace flockstep::session
