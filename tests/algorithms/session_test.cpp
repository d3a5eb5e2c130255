#include "session/session.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/on_threads.h"
#include "support/refusal.h"

namespace flockstep::session {
namespace {

using algorithms::Algorithm;
using algorithms::MeetingReport;

class Fake;
thread_local Fake* made_last = nullptr;  // on this worker

// Remembers what it was told.
class Fake final : public Algorithm, private algorithms::Departures {
 public:
  explicit Fake(bool departs) : departs_(departs) { made_last = this; }
  ~Fake() override { ended += calls; }
  void begin(std::int64_t step, std::span<const float> model) override {
    if (refuses) throw Error(ErrorCode::bad_input, "not now");
    began_after = step;
    began_with = model[0];
  }
  void attend(const std::vector<bool>& present) override { attended.push_back(present); }
  void finish_gradient(std::span<float> gradient, double) override { gradient[0] *= 2; }
  const algorithms::GradientReport* report() const override { return reports ? &told : nullptr; }
  void after_update(std::int64_t step, std::span<float>) override { updated.push_back(step); }
  const MeetingReport* meetings() const override { return &met; }
  Departures* departures() override { return departs_ ? this : nullptr; }
  void leave() override { calls += "leave "; }
  void come_back(std::span<float>) override { calls += "come_back "; }
  void consolidate(std::span<float>) override { calls += "consolidate "; }
  std::int64_t next_step(std::int64_t counted) const override { return counted + skipped; }

  std::string calls;
  static thread_local std::string ended;  // the calls of those that are gone
  std::int64_t skipped = 0;
  bool refuses = false, reports = false;
  std::int64_t began_after = -1;
  float began_with = 0;
  std::vector<std::int64_t> updated;
  std::vector<std::vector<bool>> attended;
  algorithms::GradientReport told;
  MeetingReport met;

 private:
  bool departs_;
};
thread_local std::string Fake::ended;

template <bool waits_for_nobody>
const algorithms::AlgorithmRow kFake{
    .name = "fake",
    .family = algorithms::Family::model,
    .description = "for tests",
    .bytes_text = "",
    .bytes_per_step = [](int, double, const base::Settings&) { return 0.0; },
    .models_held = [](int, const base::Settings&) { return 0.0; },
    .options = {},
    .make = [](const algorithms::AlgorithmInputs&) -> std::unique_ptr<Algorithm> {
      return std::make_unique<Fake>(waits_for_nobody);
    },
    .check = [](const base::Settings&, int) {},
    .facts = [](const base::Settings&) { return algorithms::Facts{.needs_begin = waits_for_nobody}; },
};

struct Case {
  Case(runtime::Context& context, bool waits_for_nobody)
      : session(context, layout, {.row = waits_for_nobody ? kFake<true> : kFake<false>}, {}) {
    Fake::ended.clear();
  }
  runtime::Layout layout{1, 1};
  Session session;
  Fake* fake = made_last;  // the first one
};

TEST(Session, whoIsAwayTakesNoStepBeforeItIsBackAndGoesOnWhereTheOthersAre) {
  test::on_threads(2, [](runtime::Context& context) {
    Case made(context, true);
    Session& session = made.session;
    std::vector<float> model{3};
    EXPECT_NE(test::refusal([&] { session.leave(); }), "") << "before begin()";
    session.begin(model);
    session.after_update(model);
    EXPECT_NE(test::refusal([&] { session.come_back(model); }), "");
    session.leave();
    EXPECT_TRUE(session.is_away());
    EXPECT_NE(test::refusal([&] { session.after_update(model); }), "");
    EXPECT_NE(test::refusal([&] { session.leave(); }), "");
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
    Case lockstep(context, false);
    EXPECT_NE(test::refusal([&] { lockstep.session.leave(); }).find("call attend"), std::string::npos);
    EXPECT_FALSE(lockstep.session.is_away());
  });
}

TEST(Session, anAlgorithmThatNeedsABeginningStepsOnlyAfterOneThatSucceeds) {
  test::on_threads(2, [](runtime::Context& context) {
    Case needs(context, true);
    std::vector<float> model{3};
    EXPECT_NE(test::refusal([&] { needs.session.after_update(model); }).find("begin(model)"), std::string::npos);
    needs.fake->refuses = true;
    EXPECT_EQ(test::refusal([&] { needs.session.begin(model); }), "not now");
    EXPECT_NE(test::refusal([&] { needs.session.after_update(model); }), "");
    EXPECT_TRUE(needs.fake->updated.empty());
    needs.fake->refuses = false;
    needs.session.begin(model);
    EXPECT_NE(test::refusal([&] { needs.session.begin(model); }), "") << "a second time";
    needs.session.after_update(model);
    EXPECT_EQ(needs.fake->began_after, 0);
    EXPECT_EQ(needs.fake->began_with, 3);
    EXPECT_EQ(needs.fake->updated, std::vector<std::int64_t>{0});
  });
}

// Its agents are ended where all workers begin together, and not before.
TEST(Session, aRestoreAfterTheBeginningGivesTheAlgorithmUpAtTheNextOne) {
  test::on_threads(2, [](runtime::Context& context) {
    std::vector<float> model{3};
    Case made(context, true);
    Session& session = made.session;
    session.begin(model);
    session.after_update(model);
    base::Archive archive;
    session.save(archive);
    session.after_update(model);
    session.leave();
    session.restore(archive);
    EXPECT_FALSE(session.has_begun());
    EXPECT_FALSE(session.is_away());
    EXPECT_EQ(session.updates(), 1);
    EXPECT_EQ(Fake::ended, "");
    EXPECT_NE(test::refusal([&] { session.after_update(model); }), "");
    model[0] = 5;
    session.begin(model);
    EXPECT_EQ(Fake::ended, "leave consolidate ");
    EXPECT_EQ(made_last->began_after, 1);
    EXPECT_EQ(made_last->began_with, 5);
    EXPECT_EQ(model[0], 5);
  });
}

TEST(Session, renewsItsAlgorithmWithAnotherModelAndTheSameCounts) {
  test::on_threads(2, [](runtime::Context& context) {
    std::vector<float> model{3}, gradient{1};
    for (const bool waits_for_nobody : {true, false}) {
      Case made(context, waits_for_nobody);
      Session& session = made.session;
      session.begin(model);
      session.finish_gradient(gradient, 1);
      session.after_update(model);
      made.fake->met.fresh = 7;
      session.renew(std::vector<float>{4});
      EXPECT_EQ(Fake::ended, "consolidate ");
      EXPECT_EQ(made_last->began_after, 1);
      EXPECT_EQ(made_last->began_with, 4);
      EXPECT_EQ(session.steps().count(), 1);
      EXPECT_EQ(session.meetings().fresh, 7);
      session.after_update(model);
    }
  });
}

TEST(Session, tellsTheAlgorithmWhoIsThereWhenThatChanges) {
  test::on_threads(2, [](runtime::Context& context) {
    Case made(context, false);
    const std::vector<bool> one{true, false};
    for (const auto& present : {std::vector<bool>{}, {true, true}, one, one, {true, true}, {}})
      made.session.attend(present);
    EXPECT_EQ(made.fake->attended, (std::vector<std::vector<bool>>{one, {}}));
  });
}

TEST(Session, countsWhatIsNotFiniteWhereNoGuardHasTold) {
  test::on_threads(2, [](runtime::Context& context) {
    Case made(context, false);
    Session& session = made.session;
    const auto take = [&](float value) {
      std::vector<float> gradient{value};
      session.finish_gradient(gradient, 1);
      return session.accepts(gradient);
    };
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(take(1));
    EXPECT_FALSE(take(infinity));  // this worker's own
    made.fake->reports = true;
    EXPECT_FALSE(take(infinity));  // everybody's, and no guard looked
    EXPECT_EQ(session.steps().event(), math::Event::non_finite);
    made.fake->told.event = math::Event::non_finite;
    EXPECT_FALSE(take(infinity));  // a guard counts it
    EXPECT_EQ(session.steps().count(), 4);
    EXPECT_EQ(session.steps().own_non_finite(), 1);
    EXPECT_EQ(session.steps().unseen_non_finite(), 1);
    EXPECT_EQ(session.guards().non_finite, 1);
    base::Archive archive;
    session.save(archive);
    Case second(context, false);
    second.session.restore(archive);
    EXPECT_EQ(second.session.steps().count(), 4);
    EXPECT_EQ(second.session.guards().non_finite, 1);
  });
}

TEST(Session, watchesWhoMeetsTheGuardAndWhoIsLeftOut) {
  test::on_threads(1, [](runtime::Context& context) {
    Case made(context, false);
    made.fake->reports = true;
    made.fake->told.statistics = {.K = {}, .d = {}, .q = {1, 1, 16}, .weights = {1, 1, 1}};
    made.fake->told.clipped = {false, false, true};
    made.fake->told.left_out = {true, false, false};
    std::vector<float> gradient{1};
    for (int step = 0; step < 40; ++step) made.session.finish_gradient(gradient, 1);
    std::vector<math::FindingKind> kinds;
    for (const math::Finding& finding : made.session.steps().findings()) kinds.push_back(finding.kind);
    using enum math::FindingKind;
    EXPECT_EQ(kinds, (std::vector{non_finite, left_out, clipped}));
  });
}

TEST(Session, continuesTheCountsOfTheOneThatWasSaved) {
  test::on_threads(2, [](runtime::Context& context) {
    std::vector<float> model{3};
    Case first(context, true), second(context, true);
    first.fake->met = {1, 2, 3, 4, {5, 6}, 0.5};
    second.fake->met = {10, 20, 30, 40, {50, 60, 70}, 0.25};
    first.session.begin(model);
    first.session.after_update(model);
    first.session.after_update(model);
    base::Archive archive;
    first.session.save(archive);

    second.session.restore(archive);
    second.session.begin(model);
    second.session.after_update(model);
    EXPECT_EQ(second.fake->began_after, 2);
    EXPECT_EQ(second.fake->updated, std::vector<std::int64_t>{2});
    const MeetingReport all = second.session.meetings();
    EXPECT_EQ(all.fresh, 11);
    EXPECT_EQ(all.stale, 22);
    EXPECT_EQ(all.alone, 33);
    EXPECT_EQ(all.synchronised, 44);
    EXPECT_EQ(all.staleness, (std::vector<std::int64_t>{55, 66, 70}));
    EXPECT_EQ(all.round_s, 0.75);
  });
}

}  // namespace
}  // namespace flockstep::session
