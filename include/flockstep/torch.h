// Data parallel training of a libtorch module: the stock training loop and a few lines of ours.
//
//   flockstep::launch({.engine = "mpi"}, [&](flockstep::Worker& worker) {
//     Net net;
//     flockstep::DataParallel parallel(worker, *net, {.algorithm = "adacons"});
//     torch::optim::SGD optimizer(net->parameters(), 0.1);
//     for (auto& batch : *loader_of(worker.rank(), worker.size())) {
//       optimizer.zero_grad();
//       torch::nll_loss(net->forward(batch.data), batch.target).backward();   // communication starts in here
//       parallel.step(optimizer);
//     }
//   });
//
// Any module of float or bfloat16 parameters, any torch::optim optimizer, any algorithm, any engine. Parameters and
// gradients become views of contiguous memory; tensors keep their identity and strides, so an optimizer may be made
// before or after.
//
// The module is in main memory or on one device, such as this worker's GPU. On GPUs gradients take one of two ways.
//
// Over NCCL: gradient rules with transfer exact or auto, on the engine mpi, where every process has its own GPU and
// finds NCCL. Gradients stay on the GPU. Buckets are exchanged on a CUDA stream during backward, or after it for
// weighted_mean. The host does not wait for them, except in the first two steps, and in step(), report() and
// findings(), which read results. A guard of `mean` and `weighted_mean` measures by the norms of this step; in main
// memory, by default, by those of the step before.
//
// Through host memory: everything else. Gradients are copied to pinned memory once backward has finished, and models
// when they are averaged.
//
// flock, wagma with merge = additive, and local_sgd with overlap = on merge models on the GPU. Gradients stay there,
// too, and the host waits for neither in finish_backward(), nor with overlap in after_update(); step() waits to see
// whether the gradient is finite. Other models, buffers and checkpoints go through host memory. A checkpoint of a
// training on a GPU can be restored for a module in main memory and the other way round. On the engine sim the module
// has to be in main memory.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flockstep/flockstep.h"

namespace flockstep {

// What becomes of buffers, such as the running statistics of batch normalisation, where gradients are combined.
// Algorithms that average models always average them with the model; eager_solo and eager_majority, which wait for
// nobody, in consolidate() only. Counters and other buffers that are not float are each worker's own until then.
enum class Buffers {
  average,    // over the workers, in every step
  broadcast,  // from worker 0, in every step
  leave,      // every worker keeps its own until consolidate()
};

// How DataParallel trains.
struct DataParallelSettings {
  std::string algorithm = "mean";  // see `flockstep algorithms`
  // As in `flockstep algorithms --json`, but `magnitude` defaults to matched (normalized_mean, adacons,
  // direction_consensus, geometric_median) or mean_norm (adasum): a tuned learning rate and gradient clipping keep
  // their meaning. And `guard` defaults to 3 for the former four, and to count for adasum, mean and weighted_mean.
  std::map<std::string, std::string> options = {};
  Buffers buffers = Buffers::average;  // of gradient rules
  std::size_t bucket_kib = 4096;       // size of the parts in which gradients travel
  std::uint64_t seed = 1;  // of whatever an algorithm draws, and of this worker's random numbers (see random())
};

// Collective: all workers make it, and call it, in the same order. The module must outlive it; after its end the
// module's tensors have memory of their own again. A worker may have several, and one backward pass may go through
// them; communication then starts in finish_backward() only, because nobody knows whose gradients come first.
class DataParallel {
 public:
  struct Implementation;  // not for users

  // Everybody starts from worker 0's parameters and buffers. Throws Error{mismatch} naming the first tensor whose name,
  // shape or type differs between workers.
  DataParallel(Worker& worker, torch::nn::Module& module, const DataParallelSettings& settings = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // finish_backward(), optimizer.step() unless the gradient is not finite, after_update(). `weight` is the number of
  // samples behind this worker's gradient, for weighted_mean; other algorithms refuse one with Error{bad_input}, since
  // it would have no effect. A worker without a batch (see join) calls it all the same.
  //
  // Nothing else that is collective may come between backward and it: workers match what they exchange by its order,
  // and gradients are under way already. Calls of this class are refused there with Error{bad_input}; a Synchronizer's,
  // or those of another DataParallel that is just being made, cannot be.
  void step(torch::optim::Optimizer& optimizer, double weight = 1);
  // The same in two halves, for what belongs between them: clipping, a scheduler, a closure, and what is collective.
  void finish_backward(double weight = 1);
  // The second half: after the optimizer's step.
  void after_update();

  // While it lives, backward only accumulates: for all but the last of several batches behind one step.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DataParallel& parallel);  // which must outlive it
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& parallel_;
  };
  // Such as `auto guard = parallel.no_sync();` in the scope of those batches.
  NoSync no_sync() { return NoSync(*this); }

  // For workers with different numbers of batches: before an epoch everybody says how many steps it has a batch for,
  // and learns the largest such number. In the steps beyond its own a worker has no backward pass and just calls
  // step(): it is left out of what gradients are combined to, and of averages of models that all wait for; where
  // models are averaged without waiting it makes no update of its own. What was said here is not in a checkpoint: save
  // between epochs, or call join again after restore.
  std::int64_t join(std::int64_t my_steps);
  // After its last batch: those steps.
  void finish_epoch(torch::optim::Optimizer& optimizer);

  // Draws what `body` draws from torch's default generator, such as dropout, from numbers of this worker's own, so that
  // workers that share a process do not share numbers, and a run repeats. Workers of one process take turns in it.
  // Every draw of workers that share a process belongs in it: one outside takes the process's numbers, in an order that
  // nobody knows. So does initialisation, which comes before there is a DataParallel: draw it again in here, then
  // broadcast(). What a device draws is not part of it.
  void random(const std::function<void()>& body);

  // Makes the models of all workers equal, buffers included: before an evaluation where workers average models. Steps
  // may follow. Throws Error{bad_input} while gradients are under way (eager_solo, eager_majority): call finish().
  void consolidate();
  // At the end: one more update where gradients are still under way (eager_solo, eager_majority), then consolidate().
  // Steps may follow.
  void finish(torch::optim::Optimizer& optimizer);
  // Everybody takes worker 0's parameters and buffers: after only one worker has loaded some.
  void broadcast();

  // One file per worker, which torch::serialize reads: module, optimizer, this worker's random numbers and the
  // algorithm's state. Collective; algorithms that average models without waiting consolidate first. `folder`, which
  // all workers share, keeps the last two generations that are complete. Whoever goes on from it ends on the bits of
  // an uninterrupted run, unless results depend on who came first.
  void save(const std::string& folder, const torch::optim::Optimizer& optimizer);
  // Before the first step. Where a file of the last generation is bad, everybody goes on from the one before it.
  // Returns why that was, and what had to be re-made where another number of workers has saved, in one sentence; else
  // nothing. Throws Error{bad_file}.
  std::string restore(const std::string& folder, torch::optim::Optimizer& optimizer);

  // What the last gradient step told about the workers. Over NCCL it waits for the GPU. An error of a step over NCCL,
  // such as a weight that is not a number of samples, is thrown by the next finish_backward(), on all workers, and the
  // training cannot go on.
  StepReport report() const;
  // What is suspicious about the workers so far, a sentence each. Over NCCL it waits for the GPU.
  std::vector<std::string> findings() const;
  Meetings meetings() const;  // how often this worker was in time, so far

 private:
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace flockstep
