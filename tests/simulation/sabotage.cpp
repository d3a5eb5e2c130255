// Ways of breaking the protocol, and the numbers of the stand-in for its worker.
#include "simulation/sabotage.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/member.h"
#include "protocol/ranks.h"

namespace flockstep::simulation {
namespace {

using namespace protocol;
using Actions = std::vector<Action>;

// Stands between a member and the world, and changes what the member says.
class Edited final : public Participant {
 public:
  using Edit = std::function<void(int rank, const Options&, Actions&)>;
  Edited(const Options& options, int rank, Edit edit)
      : options_(options), rank_(rank), member_(options, rank), edit_(std::move(edit)) {}

  Actions step(base::Time now, const Event& event) override {
    Actions actions = member_.step(now, event);
    edit_(rank_, options_, actions);
    return actions;
  }

 private:
  Options options_;
  int rank_;
  Member member_;
  Edit edit_;
};

MakeParticipant edited(const Edited::Edit& edit) {
  return [edit](const Options& options, int rank) { return std::make_unique<Edited>(options, rank, edit); };
}

template <typename T>
MakeParticipant each(const std::function<void(T&)>& change) {
  return edited([change](int, const Options&, Actions& actions) {
    for (Action& action : actions)
      if (T* its = std::get_if<T>(&action)) change(*its);
  });
}

template <typename T>
MakeParticipant without(const std::function<bool(int rank, const Options&, const T&)>& is_dropped) {
  return edited([is_dropped](int rank, const Options& options, Actions& actions) {
    std::erase_if(actions, [&](const Action& action) {
      const T* its = std::get_if<T>(&action);
      return its && is_dropped(rank, options, *its);
    });
  });
}

template <typename T>
MakeParticipant twice(const std::function<bool(const T&)>& is_doubled = [](const T&) { return true; }) {
  return edited([is_doubled](int, const Options&, Actions& actions) {
    Actions result;
    for (const Action& action : actions) {
      result.push_back(action);
      if (const T* its = std::get_if<T>(&action); its && is_doubled(*its)) result.push_back(action);
    }
    actions = std::move(result);
  });
}

// Takes every part to be off as soon as it is given away.
class Hasty final : public Participant {
 public:
  Hasty(const Options& options, int rank) : member_(options, rank) {}

  Actions step(base::Time now, const Event& event) override {
    if (std::holds_alternative<PartSent>(event)) return {};
    Actions all;
    std::vector<Event> events{event};
    for (std::size_t i = 0; i < events.size(); ++i)
      for (const Action& action : member_.step(now, Event(events[i]))) {
        all.push_back(action);
        if (const auto* part = std::get_if<SendPart>(&action)) events.emplace_back(PartSent{part->peer, part->part});
      }
    return all;
  }

 private:
  Member member_;
};

// Lets its worker go on one event later than the member says.
class Sluggish final : public Participant {
 public:
  Sluggish(const Options& options, int rank) : member_(options, rank) {}

  Actions step(base::Time now, const Event& event) override {
    Actions actions = member_.step(now, event), held = std::exchange(held_, {});
    const auto proceeds = [](const Action& action) { return std::holds_alternative<Proceed>(action); };
    std::ranges::copy_if(actions, std::back_inserter(held_), proceeds);
    std::erase_if(actions, proceeds);
    actions.insert(actions.begin(), held.begin(), held.end());
    return actions;
  }

 private:
  Member member_;
  Actions held_;
};

// Never hears that anybody is lost.
class Deaf final : public Participant {
 public:
  Deaf(const Options& options, int rank) : member_(options, rank) {}

  Actions step(base::Time now, const Event& event) override {
    if (std::holds_alternative<PeerLost>(event)) return {};
    return member_.step(now, event);
  }

 private:
  Member member_;
};

// Comes back with the model that it left with.
class Stubborn final : public Participant {
 public:
  Stubborn(const Options& options, int rank) : member_(options, rank) {}

  Actions step(base::Time now, const Event& event) override {
    Actions all;
    std::vector<Event> events{event};
    for (std::size_t i = 0; i < events.size(); ++i)
      for (const Action& action : member_.step(now, Event(events[i]))) {
        const auto* send = std::get_if<Send>(&action);
        if (const auto* adopt = std::get_if<Adopt>(&action))
          events.emplace_back(Adopted{adopt->peer});
        else if (!send || send->message.kind != Message::Kind::wanted)
          all.push_back(action);
      }
    return all;
  }

 private:
  Member member_;
};

// Takes its column to be whole as soon as the other pieces of it are expected.
class Presumptuous final : public Participant {
 public:
  Presumptuous(const Options& options, int rank) : direct_(options.direct), rank_(rank), member_(options, rank) {}

  Actions step(base::Time now, const Event& event) override {
    const auto* received = std::get_if<PartReceived>(&event);
    if (received && is_piece(received->peer, received->part)) return {};
    Actions all;
    std::vector<Event> events{event};
    for (std::size_t i = 0; i < events.size(); ++i)
      for (const Action& action : member_.step(now, Event(events[i]))) {
        all.push_back(action);
        if (const auto* freeze = std::get_if<Freeze>(&action)) members_ = freeze->members;
        const auto* expected = std::get_if<ExpectPart>(&action);
        if (expected && is_piece(expected->peer, expected->part))
          events.emplace_back(PartReceived{expected->peer, expected->part});
      }
    return all;
  }

 private:
  bool is_piece(int peer, const Part& part) const {
    const Grid grid(static_cast<int>(members_.size()), direct_);
    const auto row = [&](int rank) { return grid.row_of(index_of(members_, rank)); };
    return part.phase == Phase::gather && row(peer) != row(rank_);
  }

  int direct_, rank_;
  Ranks members_;
  Member member_;
};

// Begins to receive averages where contributions may still lie.
Actions with_early_gathers(const Actions& actions) {
  Actions result;
  for (const Action& action : actions) {
    const auto* expected = std::get_if<ExpectPart>(&action);
    if (expected && expected->part.phase == Phase::gather) continue;
    result.push_back(action);
    if (!expected) continue;
    ExpectPart gather = *expected;
    gather.part.phase = Phase::gather;
    result.emplace_back(gather);
  }
  return result;
}

template <typename T>
MakeParticipant make() {
  return [](const Options& options, int rank) { return std::make_unique<T>(options, rank); };
}

MakeParticipant with_options(const std::function<void(Options&)>& change) {
  return [change](const Options& options, int rank) {
    Options changed = options;
    change(changed);
    return make_honest(changed, rank);
  };
}

bool is(const Send& send, Message::Kind kind) { return send.message.kind == kind; }

}  // namespace

std::vector<Sabotage> member_sabotages() {
  using Kind = Message::Kind;
  const auto with = [](Activation activation) {
    return [activation](const Scenario& scenario) { return scenario.options.activation == activation; };
  };
  const auto not_handed_on = without<Send>(
      [](int rank, const Options&, const Send& send) { return is(send, Kind::activate) && send.message.root != rank; });
  return {
      // rounds
      {"a round ends twice", property::kOnceInOrder, twice<Complete>()},
      {"a round is left out", property::kOnceInOrder, each<Freeze>([](Freeze& freeze) { ++freeze.round; })},
      {"a newer model is said to be taken", property::kWholeSum, each<Freeze>([](Freeze& freeze) {
         if (freeze.version < freeze.round) ++freeze.version;
       })},
      {"a part is summed twice", property::kWholeSum, twice<Sum>()},
      {"a member is not summed", property::kWholeSum, make_honest, Flaw::last_member_not_summed},
      {"a row is not summed", property::kWholeSum, make_honest, Flaw::last_row_not_summed},
      {"a row is not added up", property::kWholeSum,
       without<AddRow>([](int, const Options&, const AddRow&) { return true; }), Flaw::none, true},
      {"a column is taken to be whole", property::kWholeSum, make<Presumptuous>()},
      {"a living member is left out", property::kWholeSum, edited([](int rank, const Options&, Actions& actions) {
         for (Action& action : actions)
           if (auto* freeze = std::get_if<Freeze>(&action); freeze && freeze->members.back() != rank)
             freeze->members.pop_back();
       })},
      {"the last chunk is not summed", property::kWholeSum,
       without<Sum>([](int, const Options& options, const Sum& sum) { return sum.chunk == options.chunks - 1; }),
       Flaw::none, true},
      {"the last chunk is not placed", property::kWholeSum,
       without<Place>(
           [](int, const Options& options, const Place& place) { return place.chunk == options.chunks - 1; })},
      {"the divisor counts the lost", property::kWholeSum, edited([](int, const Options& options, Actions& actions) {
         for (Action& action : actions)
           if (auto* complete = std::get_if<Complete>(&action); complete && complete->is_synchronisation)
             complete->members = options.workers;
       })},
      {"parts are taken to be off at once", property::kUntouched, make<Hasty>()},
      {"averages are received before contributions are summed", property::kUntouched,
       edited([](int, const Options&, Actions& actions) { actions = with_early_gathers(actions); })},
      {"a stale merge is called fresh", property::kHonestOutcome, each<Merge>([](Merge& merge) {
         if (merge.outcome == Outcome::stale_in_flight) merge.outcome = Outcome::fresh;
       })},
      {"an average is merged again", property::kHonestOutcome, each<Merge>([](Merge& merge) {
         if (merge.outcome == Outcome::alone) merge.outcome = Outcome::stale_behind;
       })},
      {"a part is expected twice", property::kNothingLeft, twice<ExpectPart>()},
      // waiting
      {"the first arrival is enough for a quorum", property::kPolicy,
       with_options([](Options& options) { options.activation = Activation::first; }), Flaw::none, false,
       with(Activation::quorum)},
      {"a fixed deadline is halved", property::kPolicy, with_options([](Options& options) { options.deadline /= 2; }),
       Flaw::none, false, with(Activation::deadline)},
      {"the word of the first arrival is not handed on", property::kNoWait, not_handed_on, Flaw::none, false,
       with(Activation::first)},
      {"a quorum waits for everybody", property::kNoWait,
       with_options([](Options& options) { options.quorum = options.workers; }), Flaw::none, false,
       with(Activation::quorum)},
      {"the word of the majority is not handed on", property::kEnds, not_handed_on, Flaw::none, true,
       with(Activation::majority)},
      {"a worker that may go on waits for another event", property::kPrompt, make<Sluggish>()},
      {"one iteration too many is said to be finished", property::kBound, each<Send>([](Send& send) {
         if (is(send, Kind::finished)) ++send.message.number;
       })},
      {"a whole run is said to be finished", property::kStaleness, each<Send>([](Send& send) {
         if (is(send, Kind::finished)) send.message.number += 100;
       }),
       Flaw::none, true},
      {"a part is not sent", property::kEnds,
       without<SendPart>([](int, const Options&, const SendPart& part) { return part.part.round % 5 == 3; })},
      {"a deadline is asked for when it is over", property::kTimers,
       each<WakeAt>([](WakeAt& wake) { wake.time -= base::Duration(1000); })},
      {"nobody is told of a loss", property::kEnds, make<Deaf>()},
      // away and back
      {"the newest round is said to be an older one", property::kWholeSum, each<Send>([](Send& send) {
         if (is(send, Kind::newest) && send.message.number >= 0) --send.message.number;
       }),
       Flaw::none, true},
      {"some are told of a return a round later", property::kWholeSum, each<Send>([](Send& send) {
         if (is(send, Kind::back) && send.peer % 2 == 1) ++send.message.number;
       })},
      {"some never hear from which round on one is away", property::kEnds,
       without<Send>([](int, const Options&, const Send& send) { return is(send, Kind::away) && send.peer % 2 == 1; }),
       Flaw::none, true},
      {"who leaves holds the others at the bound", property::kEnds,
       without<Send>([](int, const Options&, const Send& send) {
         return is(send, Kind::finished) && send.message.number == std::numeric_limits<Iteration>::max();
       })},
      {"who comes back is not counted first", property::kBound, edited([](int, const Options&, Actions& actions) {
         for (Action& action : actions)
           if (auto* send = std::get_if<Send>(&action); send && is(*send, Kind::count_me))
             send->message.number = std::numeric_limits<Iteration>::max();
       })},
      {"nobody hears that one leaves", property::kEnds,
       without<Send>([](int, const Options&, const Send& send) { return is(send, Kind::leaving); })},
      {"who comes back goes on with its own model", property::kCurrentModel, make<Stubborn>()},
      // numbers
      {"the synchronised model is not published", property::kEqual, make_honest, Flaw::synchronised_not_published},
      {"the correction is applied twice", property::kConserved, make_honest, Flaw::correction_twice},
  };
}

}  // namespace flockstep::simulation
