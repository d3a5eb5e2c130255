// `dpsgd`: decentralised SGD on a ring, in lockstep with one's neighbours. The local update, then
// W_i <- (W_{i-1} + W_i + W_{i+1})/3: adapt, then combine (the paper, arXiv 1705.09056, mixes first). Two workers
// average the pair. The mixing is doubly stochastic, so the mean of all models moves by the mean of all updates; what
// sets a worker apart shrinks by (1 + 2 cos(2 pi/P))/3 a step or faster.
#include "algorithms/dpsgd.h"

#include "algorithms/alone.h"
#include "algorithms/average_over_all.h"
#include "runtime/neighbours.h"

namespace flockstep::algorithms {
namespace {

std::vector<int> ring_neighbours(int rank, int workers) {
  if (workers == 1) return {};
  if (workers == 2) return {1 - rank};
  return {(rank + workers - 1) % workers, (rank + 1) % workers};
}

class Dpsgd final : public Algorithm {
 public:
  explicit Dpsgd(const AlgorithmInputs& inputs)
      : context_(inputs.context),
        models_(inputs.models()),
        ring_(ring_neighbours(context_.rank(), context_.size())),
        neighbours_(context_, models_, ring_.size(), "received models of neighbours") {}

  void after_update(std::int64_t /*step*/, std::span<float> model) override {
    neighbours_.mix(model, ring_, ring_, 1.0f / static_cast<float>(ring_.size() + 1));
  }
  bool replicas_are_equal() const override { return false; }
  bool resumes_apart() const override { return true; }
  void consolidate(std::span<float> model) override { average_over_all(context_, models_, model); }

 private:
  runtime::Context& context_;
  const runtime::Layout models_;
  std::vector<int> ring_;
  runtime::Neighbours neighbours_;
};

}  // namespace

AlgorithmRow dpsgd_row() {
  return {
      .name = "dpsgd",
      .family = Family::model,
      .description = "average one's model with those of the two neighbours in a ring, every step",
      .bytes_text = "8 D",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings&) {
            return 4 * parameters * static_cast<double>(ring_neighbours(0, workers).size());
          },
      .options = {},
      .make = [](const AlgorithmInputs& inputs) { return make_averager<Dpsgd>(inputs, Checkpoint::apart); },
      .check = [](const base::Settings& settings, int) { base::SettingsReader("dpsgd", {}, settings); },
  };
}

}  // namespace flockstep::algorithms
