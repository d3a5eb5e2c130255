// What the conformance suite needs to run one body on every worker of whichever engine the command line names:
//   engines_test --engine threads --workers 3
#pragma once

#include <gtest/gtest.h>

#include "engines/backend.h"
#include "engines/wait.h"

namespace flockstep::engines::conformance {

struct Subject {
  std::string engine = "threads";
  int workers = 1;
  bool deterministic = false;
  std::uint64_t seed = 1;  // of the order in deterministic mode
  // The others are other processes, in which the same test runs.
  bool is_a_process() const { return engine == "mpi" || engine == "c10d" || engine == "mesh"; }
};

// Set once, before any test.
Subject& subject();

// Runs `body` on every worker of this process and returns when all are done. Rethrows.
void on_every_worker(const WorkerMain& body);
void on_lanes(const WorkerMain& body);
void on_mesh(const WorkerMain& body);
// Calls body(rank) on a thread for each worker and returns when all are done. Rethrows.
void on_a_thread_each(const std::function<void(int rank)>& body);

// Long enough never to pass in a test that works, short enough to end one that hangs.
inline base::Time in_good_time(const Engine& engine) { return engine.now() + base::Duration(600); }

inline void finish(Engine& engine, Operation& operation) {
  wait(engine, operation, in_good_time(engine), "a test's operation");
}
inline void finish(Engine& engine, const Pending& operation) { finish(engine, *operation); }

inline void finish_all(Engine& engine, std::vector<Pending>& operations) {
  for (const Pending& operation : operations) finish(engine, operation);
}

// A control message from any peer, others left out, or nothing once the deadline has passed.
inline std::optional<Control> wait_for_control(Engine& engine, base::Time deadline) {
  std::optional<Control> taken;
  const auto is_message = [&] {
    while ((taken = engine.take_control()))
      if (taken->what == Control::What::message) return true;
    return false;
  };
  engine.wait_until(is_message, deadline);
  return taken;
}

// True when the signal was raised and is now taken, false once the deadline has passed.
inline bool wait_for_signal(Engine& engine, Signal& signal, base::Time deadline) {
  return engine.wait_until([&] { return signal.take(); }, deadline);
}

// The number that worker `from` sends to worker `to` at `position`, in the `round`th exchange.
inline std::uint32_t content(int round, int from, int to, std::size_t position) {
  std::uint32_t mixed =
      static_cast<std::uint32_t>(round) * 0x9E3779B9u + static_cast<std::uint32_t>(from) * 0x85EBCA6Bu;
  mixed = (mixed ^ (mixed >> 15)) + static_cast<std::uint32_t>(to) * 0xC2B2AE35u + static_cast<std::uint32_t>(position);
  return mixed * 0x27D4EB2Fu;
}

using Words = std::vector<std::uint32_t>;

inline Words words(int round, int from, int to, std::size_t size) {
  Words filled(size);
  for (std::size_t i = 0; i < size; ++i) filled[i] = content(round, from, to, i);
  return filled;
}

inline Bytes bytes(Words& values) { return bytes_of(std::span(values)); }
inline ConstBytes bytes(const Words& values) { return const_bytes_of(std::span(values)); }

// A place for so many words of every worker.
struct Blocks {
  Blocks(const Engine& engine, std::size_t size) : words(static_cast<std::size_t>(engine.size()), Words(size)) {}
  Words& operator[](int rank) { return words[static_cast<std::size_t>(rank)]; }
  std::vector<Bytes> places() {
    std::vector<Bytes> places;
    for (Words& each : words) places.push_back(bytes(each));
    return places;
  }
  std::vector<Words> words;
};

// The workers form a ring.
inline int next_of(const Engine& engine) { return (engine.rank() + 1) % engine.size(); }
inline int previous_of(const Engine& engine) { return (engine.rank() + engine.size() - 1) % engine.size(); }

// One all-to-all whose blocks all differ in size and content, checked against the formula on arrival.
class CheckedAllToAll {
 public:
  CheckedAllToAll(Engine& engine, int round, std::size_t base_size);
  void finish_and_check(Engine& engine);

 private:
  std::size_t block_size(int from, int to) const;
  int round_;
  std::size_t base_size_;
  std::vector<Words> send_, receive_;
  Pending operation_;  // last: dropped before the blocks it uses
};

}  // namespace flockstep::engines::conformance
