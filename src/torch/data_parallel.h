// What stands behind the public DataParallel: a flat module, an algorithm, and the path of a gradient between them.
//
//   backward's hook     collect_gradient, BucketQueue, GradientHook::bucket_ready; where a device's numbers go through
//                       main memory the last in finish_backward, since backward has a thread of its own there, which
//                       engines do not know
//   finish_backward     what had no gradient, Session::finish_gradient, who is unused everywhere, buffers
//   after_update        Session::after_update, where models are averaged
//
// Whatever is exchanged beside the algorithm's own messages is exchanged only where the algorithm waits for everybody
// anyway.
#pragma once

#include <optional>

#include "algorithms/registry.h"
#include "flockstep/torch.h"
#include "runtime/gradient/one_pass.h"
#include "session/session.h"
#include "torch/bucket_queue.h"
#include "torch/device_gradients.h"
#include "torch/device_merges.h"
#include "torch/device_way.h"
#include "torch/flat_module.h"
#include "torch/own_random.h"

namespace flockstep {

namespace torch_front {

// Who has a batch in which step of an epoch, as all workers have told each other beforehand.
struct EpochSteps {
  std::vector<double> steps;  // per worker; empty: everybody has one, always
  std::int64_t step = 0;      // in this epoch

  std::int64_t most() const;
  // Empty: everybody.
  std::vector<bool> present() const;
  void advance();
};

}  // namespace torch_front

struct DataParallel::Implementation {
  // `alive` counts those of this worker.
  Implementation(runtime::Context& context, int& alive, torch::nn::Module& module,
                 const DataParallelSettings& settings);
  // The same where gradients stay in such a place; null: in main memory, or through it.
  Implementation(runtime::Context& context, int& alive, torch::nn::Module& module, const DataParallelSettings& settings,
                 const std::function<torch_front::MakePlace(const Implementation&)>& way,
                 const torch_front::PlaceOfMerges& place_of_merges = torch_front::place_of_merges);

  void finish_backward(double weight);
  void after_update();
  void update(torch::optim::Optimizer& optimizer);  // unless the gradient is not finite
  bool drain();
  void consolidate();
  void broadcast();
  void save(const std::string& folder, const torch::optim::Optimizer& optimizer);
  std::string restore(const std::string& folder, torch::optim::Optimizer& optimizer);
  StepReport report();
  std::vector<std::string> findings();

  // Around every public call that may wait. Nobody may wait inside random(), where this worker holds up others of its
  // process; nor, but in what ends a backward pass, while buckets of one may be under way, which collectives would be
  // taken for. And on sim all workers share a thread, and with it torch's mode for gradients: it is the usual one while
  // others run, whatever this worker's is.
  struct Call {
    enum class Kind { other, ends_backward };
    explicit Call(const Implementation& implementation, Kind kind = Kind::other);
    const torch::AutoGradMode mode{true};
  };

  algorithms::Algorithm& algorithm() { return session->algorithm(); }
  bool combines_gradients() const { return row.rule != nullptr; }
  // Null where gradients do not stay on their device.
  torch_front::DeviceGradients* on_device() {
    return make_place ? &static_cast<torch_front::DeviceGradients&>(algorithm()) : nullptr;
  }

  runtime::Context& context;
  torch::nn::Module& module;
  const DataParallelSettings settings;
  const algorithms::AlgorithmRow& row;
  base::Settings options;
  base::Buffer<float> model, gradient;  // each only where it does not stay on a device
  torch_front::FlatModule flat;
  const torch_front::MakePlace make_place;
  const std::unique_ptr<torch_front::DeviceMerges> merges;  // where models stay on their device
  runtime::Layout layout;
  torch_front::BucketQueue queue;
  torch_front::OwnRandom random;
  torch_front::EpochSteps epoch;
  int accumulating = 0;  // NoSync objects alive

 private:
  void take(std::size_t index);  // the hook
  void mark(std::size_t index);
  void start_ready();
  void begin_pass();  // nothing of the next backward pass is there yet
  // Whether buckets may start in backward's hooks. Not inside random(), where this worker holds up others of its
  // process, who may have to come first. Nor beside another DataParallel: one backward pass may go through both, and
  // completes their buckets in an order of each worker's own.
  bool starts_in_hooks();
  void spread_gradients(const std::vector<bool>& unused, bool everybody_knows);
  void broadcast_model();
  bool may_be_reordered() { return !on_device() || on_device()->may_be_reordered(); }
  void learn_order(const std::vector<bool>& present);
  void exchange_buffers(const std::vector<bool>& present);

  base::Archive own_state() const;
  std::vector<std::byte> serialized(const base::Archive& state, const torch::optim::Optimizer& optimizer) const;
  base::Archive load(std::span<const std::byte> bytes, const std::string& path, int workers,
                     torch::optim::Optimizer& optimizer);

  struct Alive {
    explicit Alive(int& count) : count(count) { ++count; }
    ~Alive() { --count; }
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;
    int& count;
  };
  const Alive alive_;

  std::vector<bool> fired_;  // parameters whose gradient this pass has made
  bool any_fired_ = false;
  bool accumulated_ = false;  // a pass of this step was under a NoSync
  bool knows_order_ = false;
  std::optional<runtime::Layout> buffers_layout_;
  std::unique_ptr<runtime::OnePass> buffers_pass_;  // uses it

 public:
  std::optional<session::Session> session;  // last: it uses the others
};

}  // namespace flockstep
