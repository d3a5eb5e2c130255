// The C++ interface for a program without torch: start workers, and let an algorithm keep their spans of floats in
// step.
//
//   flockstep::launch({.engine = "threads", .workers = 4}, [](flockstep::Worker& worker) {
//     flockstep::Synchronizer synchronizer(worker, "mean", model.size());
//     ...
//     synchronizer.after_backward(gradient);   // now the mean over all workers, the same bits everywhere
//     ...                                      // any local update of the model
//     synchronizer.after_update(model);        // for algorithms that average models instead
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

#include "flockstep/error.h"
#include "flockstep/version.h"

namespace flockstep {

struct LaunchSettings {
  std::string engine = "threads";  // `flockstep engines` lists them
  int workers = 1;                 // ignored by mpi, where mpirun has decided
  double deadline_s = 60;          // of every single wait
};

// One worker: made by launch(), valid while its function runs.
class Worker {
 public:
  class Implementation;
  explicit Worker(Implementation& implementation) : implementation_(implementation) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int rank() const;
  int size() const;
  Implementation& implementation() { return implementation_; }

 private:
  Implementation& implementation_;
};

// Runs `body` once per worker of this process and returns when all are done. Throws what the first failing one threw.
void launch(const LaunchSettings& settings, const std::function<void(Worker&)>& body);

// An algorithm's two hooks around a local optimizer. Collective: all workers make the same calls in the same order.
class Synchronizer {
 public:
  // `algorithm` and its `options` as in `flockstep algorithms`, such as "local_sgd" with {{"period", "4"}}. Throws
  // Error{mismatch} naming the ranks if workers disagree on either or on the number of parameters.
  Synchronizer(Worker& worker, std::string_view algorithm, std::size_t parameters,
               const std::map<std::string, std::string>& options = {});
  ~Synchronizer();
  Synchronizer(Synchronizer&&) noexcept;
  Synchronizer& operator=(Synchronizer&&) noexcept;

  void after_backward(std::span<float> gradient);
  void after_update(std::span<float> model);
  // Makes the models of all workers equal: call it at the end.
  void consolidate(std::span<float> model);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace flockstep
