// What stands behind an averager of the Python package: tensors as one flat model, an algorithm that averages models,
// and who takes part in it. Knows nothing of Python.
//
//   constructor   as a rule everybody has worker 0's parameters and buffers then                        collective
//   begin         before every update; the first time the algorithm starts from the tensors as they are
//                 then, so that a state can be restored, and a model loaded, before                     collective
//   after_update  the algorithm's model hook
//   consolidate   everybody has the same model                                                          collective
//
// Workers need not all have the same number of batches. Where nobody waits for anybody, one that has no more leaves,
// and comes back when models are consolidated. Where workers meet in lockstep they ask each other who is there, and one
// that has no more batches shadows the others' meetings.
//
// Where workers come and go (`elastic`) nothing is collective: the constructor joins those that are there, from whom
// the tensors are then, and consolidate is over those who live.
//
// A model on a device goes through a pinned mirror where it meets others, or stays there: see device_merges.h.
#pragma once

#include <map>

#include "api/public_reports.h"
#include "session/session.h"
#include "torch/device_merges.h"
#include "torch/flat_module.h"
#include "torch/recording.h"

namespace flockstep::torch_front {

struct ModelAveragerSettings {
  std::string algorithm;
  std::map<std::string, std::string> options = {};  // as in `flockstep algorithms`
  std::string holder = "averager";                  // what sentences say to make anew
  bool averages_gradients = false;                  // post_local_sgd: here, because nobody else does
  bool starts_anew = true;                          // else a restore() follows, and the tensors stay as they are
  std::size_t bucket_kib = 4096;
  std::uint64_t seed = 1;  // of whatever the algorithm draws
  bool elastic = false;    // workers come and go; throws Error{bad_input} where the algorithm cannot
  std::int64_t steps = 0;  // elastic: that the tensors come from, where no worker is there to join
  // Elastic: then fills the tensors and returns their steps. Called by another thread while this one waits.
  std::function<std::int64_t()> load = {};
};

class ModelAverager {
 public:
  using MakeAlgorithm = std::function<std::unique_ptr<algorithms::Algorithm>(const algorithms::AlgorithmInputs&)>;

  // Throws Error{mismatch} naming what differs between workers, and Error{bad_input} for options and tensors that will
  // not do.
  // `recording`, if any, is told of every step.
  ModelAverager(runtime::Context& context, NamedTensors tensors, const ModelAveragerSettings& settings,
                Recording* recording = nullptr);
  // The same with a device and an algorithm of one's own, for tests.
  ModelAverager(runtime::Context& context, NamedTensors tensors, const ModelAveragerSettings& settings,
                Recording* recording, const PlaceOfMerges& place, const MakeAlgorithm& make);
  // Not collective: the tensors have memory of their own again.
  ~ModelAverager() = default;
  ModelAverager(const ModelAverager&) = delete;
  ModelAverager& operator=(const ModelAverager&) = delete;

  // Whether workers wait for each other where they meet.
  bool meets_in_lockstep() const { return !session_.can_leave(); }
  // Local updates so far, those of a restored state included, and those of others while this worker was away.
  std::int64_t steps() const { return session_.updates(); }

  // Before a local update. Collective the first time, and after a restore().
  void begin();
  bool is_elastic() const { return session_.is_elastic(); }
  // Whether the next update is to be made with gradients that are averaged over all workers.
  bool gradients_are_due() const { return session_.algorithm().gradients_are_equal(); }
  // Does so, in the tensors; who has no batch takes the others' gradients. False where the result is not finite.
  bool average_gradients(bool has_batch = true);
  // After the local update, which may have been left out: a step that had none counts and takes part all the same.
  void after_update();
  // Where nobody waits, whoever comes here first leaves until the last one does, so that nobody waits in its steps for
  // one that waits here.
  void consolidate();

  // Whether workers may run out of batches one by one, so that those in lockstep have to ask at every meeting.
  void set_joining(bool joining) { joining_ = joining; }
  // In lockstep: takes part in one step of those who still have batches, without one; in place of after_update().
  void shadow();
  // Where nobody waits: the others go on without this worker until it comes back, which consolidate() does too. In
  // lockstep they would wait, and do.
  void leave();
  void come_back();
  bool is_away() const { return session_.is_away(); }
  // What this worker's guard has found or heard of, a sentence each.
  std::vector<std::string> findings() { return api::sentences(session_.findings()); }

  // What goes on, beyond the model and the optimizer; waits for nobody.
  std::vector<std::byte> save() const;
  // The next step begins anew, together with all workers, from this and from the tensors as they are then: in lockstep
  // from each worker's own, else from worker 0's.
  // Returns what had to be re-made because another number of workers had saved, in one sentence; else nothing.
  std::string restore(std::span<const std::byte> state);

 private:
  struct Whereabouts {
    bool is_present = true, consolidates = false;
  };
  // By worker, who is present; throws Error{mismatch}, everywhere alike, where they are not at the same point.
  std::vector<bool> ask(const Whereabouts& whereabouts);
  // Where they have to ask: says whether this worker is there, and tells the algorithm who is.
  void attend(bool present);
  // Of this worker, which has had a batch or has not.
  void update(bool present);
  void start();
  bool average(bool has_batch);
  // What goes wrong in it says in which step.
  template <typename F>
  auto naming_the_step(const F& action);
  void broadcast();
  void join();
  // With the model where the algorithm takes it, and back in the tensors afterwards.
  template <typename F>
  void with_model(const F& action);

  runtime::Context& context_;
  const ModelAveragerSettings settings_;
  Recording* const recording_;
  FlatModule flat_;
  const runtime::Layout layout_;
  base::Buffer<float> model_, gradient_;  // no model where it stays on a device
  const std::unique_ptr<DeviceMerges> merges_;
  bool joining_ = false;
  session::Session session_;  // last: it uses the others
};

}  // namespace flockstep::torch_front
