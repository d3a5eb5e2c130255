// `dpsgd`: decentralised SGD on a ring, in lockstep with one's neighbours. The local update, then
// W_i <- (W_{i-1} + W_i + W_{i+1})/3: adapt, then combine (the paper, arXiv 1705.09056, mixes first). Two workers
// average the pair. The mixing is doubly stochastic, so the mean of all models moves by the mean of all updates; what
// sets a worker apart shrinks by (1 + 2 cos(2 pi/P))/3 a step or faster.
#include "algorithms/averagers/dpsgd.h"

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/presence.h"
#include "runtime/pairs/neighbours.h"

namespace flockstep::algorithms {
namespace {

// In a ring of so many, by the places in it.
std::vector<int> ring_neighbours(int place, int workers) {
  if (workers == 1) return {};
  if (workers == 2) return {1 - place};
  return {(place + workers - 1) % workers, (place + 1) % workers};
}

class Dpsgd final : public Algorithm {
 public:
  explicit Dpsgd(const AlgorithmInputs& inputs)
      : context_(inputs.context),
        models_(inputs.models()),
        presence_(context_),
        updates_(context_, models_.size(), inputs.buffers, guard_alone_of("dpsgd", inputs.settings),
                 remembered_of_all(context_.size())),
        neighbours_(context_, models_, ring_neighbours(0, context_.size()).size(), "received models of neighbours",
                    updates_.guard()) {}

  void begin(std::int64_t /*step*/, std::span<const float> model) override { updates_.begin(model); }

  // The ring closes over those who are there.
  void attend(const std::vector<bool>& present) override { presence_.attend(present); }
  void after_update(std::int64_t /*step*/, std::span<float> model) override {
    updates_.count_step();
    if (presence_.is_here()) updates_.cut(model);
    neighbours_.copy(model, presence_.receivers(), presence_.donor());
    if (presence_.is_here()) {
      const std::vector<int> ring = presence_.others(ring_neighbours);
      neighbours_.mix(model, ring, ring, 1.0f / static_cast<float>(ring.size() + 1));
    }
    updates_.begin(model);
    presence_.end_step();
  }
  std::vector<math::Finding> findings() override { return updates_.findings(); }
  void save(base::Archive& archive) const override {
    updates_.save(archive);
    neighbours_.save(archive);
  }
  std::string restore(const base::Archive& archive) override {
    updates_.restore(archive);
    neighbours_.restore(archive);
    return "";
  }
  void consolidate(std::span<float> model) override {
    average_over_all(context_, models_, model, presence_.recent(kRecentSteps));
    updates_.begin(model);
    presence_.begin_again();
  }

 private:
  runtime::Context& context_;
  const runtime::Layout models_;
  Presence presence_;
  GuardedUpdates updates_;
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
      .models_held =
          [](int workers, const base::Settings& settings) {
            return workers > 1 && guard_alone_of("dpsgd", settings) ? 1.0 : 0.0;
          },
      .options = kGuardAlone,
      .make = [](const AlgorithmInputs& inputs) { return make_averager<Dpsgd>(inputs); },
      .check = [](const base::Settings& settings, int) { guard_alone_of("dpsgd", settings); },
      .facts = [](const base::Settings&) { return Facts{.resumes_apart = true}; },
  };
}

}  // namespace flockstep::algorithms
