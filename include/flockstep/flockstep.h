// The C++ interface for a program without torch: start workers, and let an algorithm keep their spans of floats in
// step.
//
//   flockstep::launch({.engine = "threads", .workers = 4}, [](flockstep::Worker& worker) {
//     flockstep::Synchronizer synchronizer(worker, "mean", model.size());
//     ...
//     synchronizer.after_backward(gradient);   // now the mean over all workers, the same bits everywhere
//     ...                                      // any local update of the model
//     synchronizer.after_update(model);        // for algorithms that average models instead
//     ...
//     if (synchronizer.drain(gradient)) ...    // once, at the end: one more update with gradients that were under way
//     synchronizer.consolidate(model);         // one model, everywhere
//   });
//
// Every call that waits for others throws flockstep::Error once it has waited too long or a worker is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flockstep/error.h"
#include "flockstep/version.h"

namespace flockstep {

// Where the workers of launch() run, and how many.
struct LaunchSettings {
  // mesh under `flockstep launch`, mpi under mpirun, else threads; `flockstep engines` lists them
  std::string engine = "auto";
  int workers = 1;         // ignored by mpi and mesh, where the launcher has decided
  double deadline_s = 60;  // of every single wait: above 0, at most 1e9
  // threads only (sim always is): one worker at a time, in an order drawn from `seed`, so that a run repeats bit for
  // bit.
  bool deterministic = false;
  std::uint64_t seed = 1;  // of that order
};

// One worker: made by launch() and valid while its function runs, or part of an MpiWorker (mpi.h).
class Worker {
 public:
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int rank() const;  // 0 to size() - 1
  int size() const;  // of those that a run begins with
  // Which life of this rank it is, from 1: a worker that was lost and started again, or that the others went on
  // without, has a higher one. Always 1 but on an engine that outlives its workers ("mesh").
  int incarnation() const;

 private:
  friend class DataParallel;
  friend class MpiWorker;
  friend class Synchronizer;
  friend void launch(const LaunchSettings&, const std::function<void(Worker&)>&);
  class Implementation;
  explicit Worker(Implementation& implementation) : implementation_(implementation) {}

  Implementation& implementation_;
};

// Runs `body` once per worker of this process and returns when all are done. Throws what the first failing one threw.
void launch(const LaunchSettings& settings, const std::function<void(Worker&)>& body);

// What the last gradient step told about the workers, with transfer = sketch the one before it; the same on all of
// them. Lists have one number per worker. Norms and agreement are empty, and no event is seen, where the rule had no
// need to look at gradients (option watch = always makes it look). Agreement is known in the steps that are watched, up
// to 64 workers, or with a rule that needs it.
struct StepReport {
  std::vector<double> coefficients;  // what each gradient was multiplied by
  std::vector<double> norms;         // Euclidean, of each gradient
  std::vector<double> agreement;     // mean cosine with the other workers' gradients, from -1 to 1; NaN where unknown
  std::string event;                 // "non_finite", "all_zero" or "unsafe", where the step met one; else "none"
  // How many steps, or rounds of an eager sum, have met each of them so far; "clipped": the steps in which a gradient
  // was far above the median worker's, and was cut, or would have been.
  std::map<std::string, std::int64_t> guards;
};

// How this worker's models have met those of others, where models are averaged without waiting for everybody; all zero
// where workers meet in lockstep. Every step is one of the first four.
struct Meetings {
  std::int64_t fresh = 0;               // its model was in the average that it was merged with
  std::int64_t stale = 0;               // it was not: the average had been taken without it
  std::int64_t alone = 0;               // there was no new average to merge with
  std::int64_t synchronised = 0;        // it waited for everybody
  std::vector<std::int64_t> staleness;  // [k]: contributions that were k iterations old when a round took them
  double round_s = 0;                   // rounds under way, from the contribution to the result, added up
};

// What is not an option of the algorithm.
struct SynchronizerSettings {
  // Running statistics and the like, which have no gradient: so many numbers at the end of every model's span, which is
  // so much longer than a gradient's. Algorithms that average models average them, too; gradient rules leave them.
  std::size_t buffers = 0;
  std::uint64_t seed = 1;  // of whatever an algorithm draws
};

// An algorithm's two hooks around a local optimizer. Collective: all workers make the same calls in the same order.
//
// A worker may have several Synchronizers, made in the same order everywhere. If workers then call them in different
// orders, their exchanges throw Error{mismatch} and mix no data. dpsgd and sgp exchange messages, which mix no data
// either: there the workers wait until the deadline.
//
// Spans are used in place. Declare what you pass before the Synchronizer, so that it outlives it: an exception may
// leave transfers behind that only the Synchronizer's end withdraws. MPI cannot withdraw: there, after an Error, spans
// have to live until MPI_Abort.
//
// A span may lie in the memory of a CUDA device, in any call, gradient and model each by itself. As with a CUDA-aware
// MPI, its numbers have to be there when the call is made (synchronise your stream first), and the results are there
// when it returns. They travel through a mirror in pinned memory, as long as the span; a CUDA-aware MPI is not made use
// of. Throws Error{unavailable} where there is no memory for the mirror or the device cannot be used, Error{bad_input}
// on sim.
class Synchronizer {
 public:
  struct Implementation;  // not for users

  // `algorithm` and its `options` as in `flockstep algorithms --json`, such as "adacons" with {{"beta", "0.9"}}. Throws
  // Error{mismatch} naming the ranks if workers disagree on any of these or on the number of parameters.
  Synchronizer(Worker& worker, std::string_view algorithm, std::size_t parameters,
               const std::map<std::string, std::string>& options = {}, const SynchronizerSettings& settings = {});
  // The same with the sizes of the tensors that lie one behind the other in the span, for granularity = tensor.
  Synchronizer(Worker& worker, std::string_view algorithm, const std::vector<std::size_t>& tensors,
               const std::map<std::string, std::string>& options = {}, const SynchronizerSettings& settings = {});
  ~Synchronizer();
  Synchronizer(Synchronizer&&) noexcept;  // the other one can only be assigned to or destroyed then
  // As above; what this one was is ended first.
  Synchronizer& operator=(Synchronizer&&) noexcept;

  // Before the first step, and after restore() if there is one: the model that all workers start from. Throws
  // Error{mismatch} on every worker if the models differ, unless the restored algorithm keeps a model per worker.
  // Gradient rules compare parameters alone. Algorithms that average without waiting need this call: forgetting it
  // throws Error{bad_input} at their first step, and so does beginning while another Synchronizer that has begun with
  // such an algorithm lives. For the others it is optional: all workers make the call, or none.
  void begin(std::span<const float> model);

  // In place of begin() on an engine that outlives its workers ("mesh"), for flock and wagma; with another algorithm it
  // throws Error{bad_input} there. On other engines it is begin(). Returns once this worker takes part: `model` and
  // updates() are then those of a present worker; if no worker is present, `model` stays as it is. Waits for the others
  // to agree, not for their steps.
  void join(std::span<float> model);
  // Local updates so far; after join(), and after a step in which a worker has found out that the others went on
  // without it, those of the others.
  std::int64_t updates() const;

  // Optional, for overlap: these numbers of the gradient are final and may start to travel while the rest is computed.
  // In the same order on every worker, every number once; until after_backward returns nobody else may touch them.
  void ready(std::span<float> gradient, std::size_t begin, std::size_t size);
  // Turns the gradients of all workers into the result. `weight`: samples behind this one, for weighted_mean alone.
  void after_backward(std::span<float> gradient, double weight = 1);
  // For sharded training: only this worker's part of the result, a contiguous range of `gradient`, in place; parts
  // differ in size by at most one number. The rest of `gradient` is left unspecified. Gradient rules only.
  std::span<float> reduce_scatter(std::span<float> gradient, double weight = 1);

  // After a local update: algorithms that average models do so here. Gradient rules leave the model as it is.
  void after_update(std::span<float> model);

  // At the end, before consolidate(): gradients that were still under way (eager_solo, eager_majority). True when
  // `gradient` was filled and asks for one more local update, without any hook around it.
  bool drain(std::span<float> gradient);
  // Makes the models of all workers equal: call it at the end and, with an algorithm that averages without waiting,
  // before save(). Steps may follow. Throws Error{bad_input} if gradients are under way that drain() would give.
  // Throws Error{mismatch} that names the workers with another model than worker 0's afterwards, as after different
  // updates of a lockstep algorithm. Gradient rules leave buffers to the workers, and do not compare them.
  // Algorithms that average without waiting throw Error{mismatch}, here and in drain(), if workers have not done the
  // same number of steps. So does a step that would wait for a worker that is here already.
  void consolidate(std::span<float> model);

  // What a resumed run needs beyond the model and the optimizer: momentum, counts of steps and guards.
  std::vector<std::byte> save() const;
  // Goes on from what save() gave. Restoring with another number of workers re-makes what it can and says so in one
  // sentence; else it returns nothing. Before begin() with algorithms that average without waiting; with the others
  // also later, to go back to an earlier state, and begin() may follow again. Findings start anew.
  std::string restore(std::span<const std::byte> state);

  // What the last gradient step told about the workers.
  StepReport report() const;
  Meetings meetings() const;  // how often this worker was in time, so far
  // What is suspicious about the workers so far, a sentence each, such as "worker 2 points against the others ...".
  std::vector<std::string> findings() const;

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace flockstep
