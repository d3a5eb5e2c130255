#include "simulation/history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace flockstep::simulation {
namespace {

using namespace protocol;

template <typename... F>
struct Cases : F... {
  using F::operator()...;
};
template <typename... F>
Cases(F...) -> Cases<F...>;

std::string list(const Ranks& ranks) { return fmt::format("{{{}}}", fmt::join(ranks, ",")); }

std::string words(const Message& message) {
  static constexpr std::string_view kKinds[] = {
      "arrived",   "activate", "absent",   "finished", "minimum",  "leaving",   "returning", "newest", "away from",
      "back from", "wanted",   "count me", "counted",  "greeting", "completed", "asking",    "grown"};
  std::string text = fmt::format("{} {}", kKinds[static_cast<std::size_t>(message.kind)], message.number);
  if (message.kind == Message::Kind::activate) text += fmt::format(" of root {}", message.root);
  if (message.kind == Message::Kind::absent) text += " " + list(message.ranks);
  if (!message.roster.empty()) text += fmt::format(", roster {}", fmt::join(message.roster, ","));
  return text;
}

std::string words(const Part& part) {
  const std::string absent = part.absent.empty() ? "" : ", without " + list(part.absent);
  return fmt::format("{} of chunk {} of round {}{}", part.phase == Phase::reduce ? "contribution" : "average",
                     part.chunk, part.round, absent);
}

std::string words(const Event& event) {
  return std::visit(
      Cases{[](const Arrived& e) { return fmt::format("arrives at {}", e.iteration); },
            [](const Received& e) { return fmt::format("hears from {}: {}", e.peer, words(e.message)); },
            [](const PartReceived& e) { return fmt::format("receives from {}: {}", e.peer, words(e.part)); },
            [](const PartSent& e) { return fmt::format("has sent to {}: {}", e.peer, words(e.part)); },
            [](const Tick&) { return std::string("wakes up"); },
            [](const PeerLost& e) { return fmt::format("is told that {} is lost", e.peer); },
            [](const Leaves&) { return std::string("leaves"); },
            [](const ComesBack&) { return std::string("wants to come back"); },
            [](const Adopted& e) { return fmt::format("has received the model of {}", e.peer); },
            [](const Forgone&) { return std::string("expects no model any more"); },
            [](const Met& e) { return fmt::format("meets {}, incarnation {}", e.peer, e.incarnation); },
            [](const Withdrawn&) { return std::string("has withdrawn its round"); },
            [](const MayBegin& e) { return fmt::format("may begin with iteration {}", e.first); }},
      event);
}

std::string words(const Action& action) {
  return std::visit(
      Cases{[](const Send& a) { return fmt::format("tells {}: {}", a.peer, words(a.message)); },
            [](const Freeze& a) {
              return fmt::format("begins {} {} with model {}, members {}",
                                 a.is_synchronisation ? "synchronisation" : "round", a.round, a.version,
                                 list(a.members));
            },
            [](const Withdraw& a) { return fmt::format("withdraws round {}", a.round); },
            [](const SendPart& a) { return fmt::format("sends to {}: {}", a.peer, words(a.part)); },
            [](const ExpectPart& a) { return fmt::format("expects from {}: {}", a.peer, words(a.part)); },
            [](const AddRow& a) { return fmt::format("adds up its row for chunk {}", a.chunk); },
            [](const Sum& a) { return fmt::format("averages its piece of chunk {}", a.chunk); },
            [](const Place& a) { return fmt::format("places the average by {} of chunk {}", a.peer, a.chunk); },
            [](const Complete& a) { return fmt::format("completes round {} of {} members", a.round, a.members); },
            [](const Merge& a) {
              return fmt::format("merges iteration {} with round {}: {}", a.iteration, a.round, to_string(a.outcome));
            },
            [](const Proceed& a) { return fmt::format("proceeds to iteration {}", a.iteration); },
            [](const WakeAt& a) { return fmt::format("wants to wake at {:.6f}", a.time.time_since_epoch().count()); },
            [](const Adopt& a) { return fmt::format("wants the model of {}", a.peer); },
            [](const Forgo&) { return std::string("wants no model any more"); },
            [](const Give& a) { return fmt::format("gives its model to {}", a.peer); },
            [](const Rejoin& a) { return fmt::format("is back with iteration {}", a.iteration); },
            [](const Expelled& a) { return fmt::format("is expelled by {}", a.by); },
            [](const WaitsFor& a) { return fmt::format("waits to join for {}, known to {}", a.peer, a.by); },
            [](const AskToBegin&) { return std::string("asks to begin alone"); },
            [](const Refused& a) { return fmt::format("is refused by {}", a.by); }},
      action);
}

class History final : public Checker {
 public:
  History(const Truth& truth, std::FILE* out) : Checker(truth, "history"), out_(out) {}

  bool watches_parts() const override { return true; }

  void before(int rank, const Event& event) override {
    fmt::print(out_, "{:12.6f} {:3} {}\n", truth_.now, rank, words(event));
  }
  void after(int rank, const Action& action) override {
    fmt::print(out_, "{:12} {:3}   {}\n", "", rank, words(action));
  }
  void crashed(int rank) override { fmt::print(out_, "{:12.6f} {:3} crashes\n", truth_.now, rank); }

 private:
  std::FILE* out_;
};

}  // namespace

std::string describe(const Message& message) { return words(message); }

std::unique_ptr<Checker> make_history(const Truth& truth, std::FILE* out) {
  return std::make_unique<History>(truth, out);
}

}  // namespace flockstep::simulation
