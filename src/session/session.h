// The one driver behind every front (the training loop, Synchronizer, DataParallel, averagers of the PyTorch package):
// an algorithm in the hands of a program that keeps its own loop. A session makes sure that all workers mean the same
// training and make their calls in order; it counts steps and updates, watches the workers, knows who is there, saves
// and restores, and replaces the algorithm where a training goes on from elsewhere. Fronts keep their spans, hooks,
// files and clocks.
//
//   begin -> { attend, finish_gradient, accepts, the local optimizer, after_update } -> drain -> consolidate
//
// What needs no more than the algorithm, such as bucket_ready, fronts ask of algorithm() itself.
#pragma once

#include <functional>
#include <memory>

#include "algorithms/registry.h"
#include "runtime/gather.h"
#include "session/steps.h"

namespace flockstep::session {

struct SessionSettings {
  const algorithms::AlgorithmRow& row;
  base::Settings options = {};  // of the algorithm
  std::uint64_t seed = 1;       // of whatever it draws
  std::size_t buffers = 0;      // numbers without a gradient at the end of every model
  bool watches = true;          // whether findings are of interest on this worker
  // What makes the algorithm in place of the row, for gradients that no span of the host holds.
  std::function<std::unique_ptr<algorithms::Algorithm>(const algorithms::AlgorithmInputs&)> make = {};
  // Only for algorithms that merge on devices; outlives the session.
  const runtime::DeviceModel* device_model = nullptr;
  // Workers may come and go, where engine and algorithm can: then begin with join(), and nothing is collective.
  bool elastic = false;
};

class Session {
 public:
  // Collective: throws Error{bad_input} for options that will not do, and Error{mismatch} where workers differ in the
  // algorithm, its options, the seed or in `more`. Context and layout outlive the session.
  Session(runtime::Context& context, const runtime::Layout& layout, SessionSettings settings,
          const runtime::Agreed& more);
  // In an elastic run the destructor tells the store that the run is over, if consolidate() came last.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  algorithms::Algorithm& algorithm() { return *algorithm_; }
  const algorithms::Algorithm& algorithm() const { return *algorithm_; }
  const algorithms::AlgorithmRow& row() const { return settings_.row; }
  const algorithms::Facts& facts() const { return facts_; }

  // Before the first step that is taken here, and after a restore(): collective where an algorithm has to be given up.
  // Throws Error{bad_input} the second time.
  void begin(std::span<const float> model);
  // The same where workers come and go: `model` becomes that of a worker that is there, and `updates` what it counts.
  // If no worker is there, it goes on from its own model, after `updates` steps or as it was restored. Only on an
  // engine that outlives its peers; throws Error{bad_input} for an algorithm that cannot continue without a lost
  // worker.
  bool is_elastic() const { return is_elastic_; }
  void join(std::span<float> model, std::int64_t updates = 0);
  bool has_begun() const { return begun_; }
  // Throws Error{bad_input} if the algorithm needs a beginning and had none.
  void require_begun() const;
  // Whether the next begin() is with a model of each worker's own, since they were apart when they were saved.
  bool begins_apart() const { return restored_ && facts_.resumes_apart; }
  // Collective, before begin() and after consolidate(), for models that come from outside: throws Error{mismatch} that
  // names the workers with another model than worker 0's. Gradient rules do not compare buffers.
  void require_same_first_model(std::span<const float> model);
  void require_same_last_model(std::span<const float> model);

  // Throws Error{bad_input} for a weight that changes nothing: only some rules weigh workers by what they are given.
  void require_effect_of(double weight) const;

  // By worker, who has a gradient from now on, the same on all of them. Empty: everybody, as at first.
  void attend(const std::vector<bool>& present);
  // Each counts a step.
  void finish_gradient(std::span<float> gradient, double weight);
  std::span<float> reduce_scatter(std::span<float> gradient, double weight);
  // Whether the optimizer may take it: see Steps.
  bool accepts(std::span<const float> gradient);
  // For who has seen elsewhere that the last one is not finite, and whether a guard has told of it.
  void refuse(bool is_told);
  // Counts an update, also where it was left out.
  void after_update(std::span<float> model);

  // Away for a while, and back; `updates` is then what the others count. Throws Error{bad_input} out of order, and
  // unless can_leave().
  bool can_leave() const { return algorithm_->departures() != nullptr; }
  void leave();
  void come_back(std::span<float> model);
  bool is_away() const { return is_away_; }

  // See Algorithm. Whoever is away is back with consolidate().
  bool drain(std::span<float> gradient);
  void consolidate(std::span<float> model);
  // Throws Error{bad_input} on all workers, who all ask, if models lack gradients that drain() would give.
  void require_drained();

  Steps& steps() { return steps_; }
  const Steps& steps() const { return steps_; }
  // Local updates so far, with those that others have taken while this worker was away.
  std::int64_t updates() const { return updates_; }
  // How often guards fired for all workers alike, with the results that no guard has seen.
  algorithms::GuardCounts guards() const;
  // About all workers where gradients are looked at, else what this worker's guard has found.
  std::vector<math::Finding> findings() const;
  // Those of this worker before a restore() included.
  algorithms::MeetingReport meetings() const;

  void save(base::Archive& archive) const;
  // Goes on from there, at the next begin() where the algorithm needs one. Returns what had to be re-made, see
  // Algorithm; whatever it throws, a session that has begun is as it was.
  std::string restore(const base::Archive& archive);
  // Collective: goes on from this model in place of the algorithm's own, which is given up; all else stays.
  void renew(std::span<const float> model);

 private:
  std::unique_ptr<algorithms::Algorithm> make() const;
  void require_same_model(std::span<const float> model, std::string_view verb, std::string_view advice);
  void go_on_together();
  void give_up(algorithms::Algorithm& algorithm, std::span<const float> model);
  void end_given_up();

  runtime::Context& context_;
  const runtime::Layout& layout_;
  const SessionSettings settings_;
  const algorithms::Facts facts_;
  const bool is_elastic_;
  std::uint64_t fingerprint_ = 0;
  Steps steps_;
  std::int64_t updates_ = 0;
  bool begun_ = false, restored_ = false, is_away_ = false, has_result_ = false;
  std::vector<bool> present_;          // empty: everybody
  algorithms::MeetingReport earlier_;  // meetings before a restore()
  // The one given up has agents that others count on until all workers begin together.
  std::unique_ptr<algorithms::Algorithm> algorithm_, given_up_;
};

}  // namespace flockstep::session
