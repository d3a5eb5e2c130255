// What tests of lost workers share: engines that outlive their peers, workers that are lost, and what the others hear.
#pragma once

#include <deque>
#include <map>

#include "conformance.h"

namespace flockstep::engines::conformance {

// Thrown by a worker's function: it is lost. Where it comes back, the function is called again, with another engine.
struct Killed {
  bool comes_back = false;
};

bool subject_outlives_peers();
// As on_every_worker, on an engine that outlives its peers. In their first lives workers begin when they have met all.
void on_mortal_workers(const WorkerMain& body);

// Waits until the engine has met so many peers.
inline void meet(Engine& engine, int peers) {
  const auto are_met = [&] {
    while (peers > 0) {
      const auto control = engine.take_control();
      if (!control) return false;
      EXPECT_EQ(control->what, Control::What::met) << "worker " << control->peer << " was lost at the start";
      --peers;
    }
    return true;
  };
  ASSERT_TRUE(engine.wait_until(are_met, in_good_time(engine)));
}

// The next control of this kind from this peer; what comes before it is thrown away.
inline std::optional<Control> wait_for(Engine& engine, Control::What what, int peer,
                                       base::Duration patience = base::Duration(60)) {
  std::optional<Control> taken;
  const auto is_it = [&] {
    while ((taken = engine.take_control()))
      if (taken->what == what && taken->peer == peer) return true;
    return false;
  };
  engine.wait_until(is_it, engine.now() + patience);
  return taken;
}

inline bool settles(Engine& engine, Operation& operation, base::Duration patience = base::Duration(60)) {
  return engine.wait_until([&] { return operation.done() || operation.gone(); }, engine.now() + patience);
}

// Words from one engine of this process arrive at another one.
inline void expect_transfer(Engine& from, Engine& to, Tag tag, std::size_t size = 50000) {
  const Words sent = words(3, from.rank(), to.rank(), size);
  Words data(size);
  const Pending receive = to.receive(from.rank(), tag, bytes(data)), send = from.send(to.rank(), tag, bytes(sent));
  ASSERT_TRUE(settles(to, *receive) && settles(from, *send));
  EXPECT_TRUE(receive->done() && send->done());
  EXPECT_EQ(data, sent);
}

inline std::string text_of(const Control& control) {
  std::string text;
  for (const std::byte each : control.payload) text += static_cast<char>(each);
  return text;
}

// What each peer says, one after the other, whatever the others say meanwhile.
class Hearing {
 public:
  explicit Hearing(Engine& engine) : engine_(engine) {}

  Control next(int peer) {
    auto& heard = heard_[peer];
    const auto is_heard = [&] {
      while (heard.empty()) {
        auto control = engine_.take_control();
        if (!control) return false;
        heard_[control->peer].push_back(std::move(*control));
      }
      return true;
    };
    if (!engine_.wait_until(is_heard, in_good_time(engine_)))
      throw std::runtime_error("worker " + std::to_string(peer) + " says nothing");
    Control first = std::move(heard.front());
    heard.pop_front();
    return first;
  }
  void expect(int peer, Control::What what, Incarnation incarnation) {
    const Control control = next(peer);
    EXPECT_EQ(control.what, what) << "of worker " << peer;
    EXPECT_EQ(control.incarnation, incarnation) << "of worker " << peer;
  }
  void expect_word(int peer, std::uint32_t word) {
    const Control control = next(peer);
    EXPECT_EQ(control.what, Control::What::message) << "of worker " << peer;
    EXPECT_TRUE(std::ranges::equal(control.payload, bytes(Words{word}))) << word << " of worker " << peer;
  }

 private:
  Engine& engine_;
  std::map<int, std::deque<Control>> heard_;
};

}  // namespace flockstep::engines::conformance
