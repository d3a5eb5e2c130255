// `dpsgd`: decentralised SGD on a ring, in lockstep with one's neighbours. With u_i, the local update at W_i:
//
//   adapt_first      W_i <- (W'_{i-1} + W'_i + W'_{i+1})/3, W'_j = W_j + u_j
//   combine_first    W_i <- (W_{i-1} + W_i + W_{i+1})/3 + u_i, as the paper has it (arXiv 1705.09056)
//
// Two workers average the pair. The mixing is doubly stochastic, so the mean of all models moves by the mean of all
// updates; what sets a worker apart shrinks by (1 + 2 cos(2 pi/P))/3 a step or faster.
#include "algorithms/averagers/dpsgd.h"

#include <array>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/presence.h"
#include "runtime/pairs/neighbours.h"

namespace flockstep::algorithms {
namespace {

enum class Order { adapt_first, combine_first };
constexpr std::array<base::Choice<Order>, 2> kOrders{
    {{"adapt_first", Order::adapt_first}, {"combine_first", Order::combine_first}}};

constexpr std::array<base::OptionSpec, 2> kDpsgdOptions{{
    {"order", "adapt_first",
     "adapt_first: neighbours average models after the update; combine_first: before the update, which is then added, "
     "as published"},
    kGuardOption,
}};

struct DpsgdOptions {
  Order order;
  bool guard;

  bool combines_first() const { return order == Order::combine_first; }
  bool keeps_a_model() const { return guard || combines_first(); }
};

DpsgdOptions dpsgd_options(const base::Settings& settings) {
  const base::SettingsReader reader("dpsgd", kDpsgdOptions, settings);
  return {.order = reader.choice("order", kOrders), .guard = guard_of(reader)};
}

// In a ring of so many, by the places in it.
std::vector<int> ring_neighbours(int place, int workers) {
  if (workers == 1) return {};
  if (workers == 2) return {1 - place};
  return {(place + workers - 1) % workers, (place + 1) % workers};
}

class Dpsgd final : public Algorithm {
 public:
  Dpsgd(const AlgorithmInputs& inputs, const DpsgdOptions& options)
      : context_(inputs.context),
        combines_first_(options.combines_first()),
        parameters_(inputs.layout.size()),
        models_(inputs.models()),
        presence_(context_),
        updates_(context_, combines_first_ ? 0 : models_.size(), inputs.buffers, options.guard,
                 remembered_of_all(context_.size())),
        neighbours_(context_, models_, ring_neighbours(0, context_.size()).size(), "received models of neighbours",
                    updates_.guard()) {
    if (combines_first_)
      before_ = context_.engine().memory().allocate<float>(models_.size(), "model before the update");
  }

  void begin(std::int64_t /*step*/, std::span<const float> model) override { go_on_from(model); }

  // The ring closes over those who are there.
  void attend(const std::vector<bool>& present) override { presence_.attend(present); }
  void after_update(std::int64_t /*step*/, std::span<float> model) override {
    updates_.count_step();
    if (presence_.is_here()) cut(model);
    for (const std::span<float> each : {model, before_.span()})
      if (!each.empty()) neighbours_.copy(each, presence_.receivers(), presence_.donor());
    if (presence_.is_here()) combines_first_ ? add_to_the_mean(model) : mix(model);
    go_on_from(model);
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
    go_on_from(model);
    presence_.begin_again();
  }

 private:
  void go_on_from(std::span<const float> model) {
    if (combines_first_)
      context_.queue().copy(before_.data(), model.data(), model.size_bytes());
    else
      updates_.begin(model);
  }
  void cut(std::span<float> model) { combines_first_ ? updates_.cut(model, before_.span()) : updates_.cut(model); }

  void mix(std::span<float> models) {
    const std::vector<int> ring = presence_.others(ring_neighbours);
    neighbours_.mix(models, ring, ring, 1.0f / static_cast<float>(ring.size() + 1));
  }

  // Running statistics, at the end of models, have no update that could be added: they are averaged as they are.
  void add_to_the_mean(std::span<float> model) {
    const std::span<float> update = model.first(parameters_), statistics = model.subspan(parameters_);
    const std::span<float> mean = before_.span().first(parameters_), their_mean = before_.span().subspan(parameters_);
    context_.queue().axpy(-1, mean, update);
    context_.queue().copy(their_mean.data(), statistics.data(), statistics.size_bytes());
    mix(before_.span());
    context_.queue().axpy(1, mean, update);
    context_.queue().copy(statistics.data(), their_mean.data(), statistics.size_bytes());
  }

  runtime::Context& context_;
  const bool combines_first_;
  const std::size_t parameters_;
  const runtime::Layout models_;
  Presence presence_;
  GuardedUpdates updates_;
  runtime::Neighbours neighbours_;
  base::Buffer<float> before_;  // where they combine first
};

}  // namespace

AlgorithmRow dpsgd_row() {
  return {
      .name = "dpsgd",
      .family = Family::model,
      .description = "average the model with those of the two neighbours in a ring, every step",
      .bytes_text = "8 D",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings&) {
            return 4 * parameters * static_cast<double>(ring_neighbours(0, workers).size());
          },
      .models_held =
          [](int workers, const base::Settings& settings) {
            return workers > 1 && dpsgd_options(settings).keeps_a_model() ? 1.0 : 0.0;
          },
      .options = kDpsgdOptions,
      .make =
          [](const AlgorithmInputs& inputs) { return make_averager<Dpsgd>(inputs, dpsgd_options(inputs.settings)); },
      .check = [](const base::Settings& settings, int) { dpsgd_options(settings); },
      .facts =
          [](const base::Settings& settings) {
            return Facts{.resumes_apart = true, .needs_begin = dpsgd_options(settings).combines_first()};
          },
  };
}

}  // namespace flockstep::algorithms
