// Ways of breaking the protocol.

#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/member.h"
#include "protocol/ranks.h"
#include "simulation/sabotage.h"

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

// Stands between the two as well, and tells the member things that have not happened.
class Misled : public Participant {
 public:
  Misled(const Options& options, int rank) : member_(options, rank) {}

  Actions step(base::Time now, const Event& event) override {
    if (!hears(event)) return {};
    Actions all;
    std::vector<Event> events{event};
    for (std::size_t i = 0; i < events.size(); ++i)
      for (const Action& action : member_.step(now, Event(events[i])))
        if (says(action, events)) all.push_back(action);
    return all;
  }

 protected:
  virtual bool hears(const Event&) { return true; }
  // It hears these events, too.
  virtual bool says(const Action&, std::vector<Event>&) { return true; }

 private:
  Member member_;
};

// Takes every part to be off as soon as it is given away.
struct Hasty final : Misled {
  using Misled::Misled;
  bool hears(const Event& event) override { return !std::holds_alternative<PartSent>(event); }
  bool says(const Action& action, std::vector<Event>& events) override {
    if (const auto* part = std::get_if<SendPart>(&action)) events.emplace_back(PartSent{part->peer, part->part});
    return true;
  }
};

// Never hears that anybody is lost.
struct Deaf final : Misled {
  using Misled::Misled;
  bool hears(const Event& event) override { return !std::holds_alternative<PeerLost>(event); }
};

// Comes back with the model that it left with.
struct Stubborn final : Misled {
  using Misled::Misled;
  bool says(const Action& action, std::vector<Event>& events) override {
    const auto* send = std::get_if<Send>(&action);
    const auto* adopt = std::get_if<Adopt>(&action);
    if (adopt) events.emplace_back(Adopted{adopt->peer});
    return !adopt && !(send && send->message.kind == Message::Kind::wanted);
  }
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

// What is said with this kind of message is changed.
MakeParticipant saying(Message::Kind kind, const std::function<void(Send&)>& change) {
  return each<Send>([=](Send& send) {
    if (is(send, kind)) change(send);
  });
}

Sabotage breaking(std::string_view name, std::string_view property, const MakeParticipant& make) {
  return {name, property, Kind::members, {.make = make}};
}

Sabotage breaking(std::string_view name, std::string_view property, Activation where, const MakeParticipant& make) {
  return {name, property, Kind::members, {.make = make}, [where](const ElasticScenario& scenario) {
            return scenario.base.options.activation == where;
          }};
}

}  // namespace

std::vector<Sabotage> member_sabotages() {
  using namespace property;
  using Word = Message::Kind;
  constexpr Iteration kEver = std::numeric_limits<Iteration>::max();
  const auto not_handed_on = without<Send>(
      [](int rank, const Options&, const Send& send) { return is(send, Word::activate) && send.message.root != rank; });
  return {
      // rounds
      breaking("a round ends twice", kOnceInOrder, twice<Complete>()),
      breaking("a round is left out", kOnceInOrder, each<Freeze>([](Freeze& freeze) { ++freeze.round; })),
      breaking("a newer model is said to be taken", kWholeSum, each<Freeze>([](Freeze& freeze) {
                 if (freeze.version < freeze.round) ++freeze.version;
               })),
      breaking("a part is summed twice", kWholeSum, twice<Sum>()),
      alone(breaking("a row is not added up", kWholeSum,
                     without<AddRow>([](int, const Options&, const AddRow&) { return true; }))),
      breaking("a living member is left out", kWholeSum, edited([](int rank, const Options&, Actions& actions) {
                 for (Action& action : actions)
                   if (auto* freeze = std::get_if<Freeze>(&action); freeze && freeze->members.back() != rank)
                     freeze->members.pop_back();
               })),
      breaking("the last chunk is not placed", kWholeSum,
               without<Place>(
                   [](int, const Options& options, const Place& place) { return place.chunk == options.chunks - 1; })),
      breaking("the divisor counts the lost", kWholeSum, edited([](int, const Options& options, Actions& actions) {
                 for (Action& action : actions)
                   if (auto* complete = std::get_if<Complete>(&action); complete && complete->is_synchronisation)
                     complete->members = options.workers;
               })),
      breaking("parts are taken to be off at once", kUntouched, make<Hasty>()),
      breaking("averages are received before contributions are summed", kUntouched,
               edited([](int, const Options&, Actions& actions) { actions = with_early_gathers(actions); })),
      breaking("an average is merged again", kHonestOutcome, each<Merge>([](Merge& merge) {
                 if (merge.outcome == Outcome::alone) merge.outcome = Outcome::stale_behind;
               })),
      breaking("a part is expected twice", kNothingLeft, twice<ExpectPart>()),
      // waiting
      breaking("the first arrival is enough for a quorum", kPolicy, Activation::quorum,
               with_options([](Options& options) { options.activation = Activation::first; })),
      breaking("a fixed deadline is halved", kPolicy, Activation::deadline,
               with_options([](Options& options) { options.deadline /= 2; })),
      breaking("the word of the first arrival is not handed on", kNoWait, Activation::first, not_handed_on),
      breaking("a quorum waits for everybody", kNoWait, Activation::quorum,
               with_options([](Options& options) { options.quorum = options.workers; })),
      breaking("a worker that may go on waits for another event", kPrompt, make<Sluggish>()),
      alone(breaking("a whole run is said to be finished", kStaleness,
                     saying(Word::finished, [](Send& send) { send.message.number += 100; }))),
      breaking("a deadline is asked for when it is over", kTimers,
               each<WakeAt>([](WakeAt& wake) { wake.time -= base::Duration(1000); })),
      breaking("nobody is told of a loss", kEnds, make<Deaf>()),
      // away and back
      breaking("some are told of a return a round later", kWholeSum,
               saying(Word::back,
                      [](Send& send) {
                        if (send.peer % 2 == 1) ++send.message.number;
                      })),
      breaking("who comes back is not counted first", kBound,
               saying(Word::count_me, [](Send& send) { send.message.number = kEver; })),
      breaking("nobody hears that one leaves", kEnds,
               without<Send>([](int, const Options&, const Send& send) { return is(send, Word::leaving); })),
      breaking("who comes back goes on with its own model", kCurrentModel, make<Stubborn>()),
  };
}

}  // namespace flockstep::simulation
