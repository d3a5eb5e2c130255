// `local_sgd(H)`: H local steps, then a global model average. H = 1 averages models every step.
//
// With overlap the steps go on while agents average, and every worker adds (average - what it contributed) when that is
// there: rounds over all workers, each of which waits for everybody to arrive.
#include "algorithms/averagers/local_sgd.h"

#include <array>
#include <limits>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/group_averaging.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/presence.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 3> kLocalSgdOptions{{
    {"period", "8", "local steps between two averages of the models (H)"},
    kOverlapOption,
    kGuardOption,
}};

class LocalSgd final : public Algorithm {
 public:
  LocalSgd(const AlgorithmInputs& inputs, const LocalSgdOptions& options)
      : options_(options),
        presence_(inputs.context),
        updates_(inputs.context, inputs.models().size(), inputs.buffers, options.guard,
                 static_cast<std::size_t>(inputs.context.size() - 1)),
        one_pass_(inputs.context, inputs.models(), "received model shards", {.room = runtime::Room::window}) {}

  void begin(std::int64_t /*step*/, std::span<const float> model) override { updates_.begin(model); }
  void attend(const std::vector<bool>& present) override { presence_.attend(present); }
  void after_update(std::int64_t step, std::span<float> model) override {
    presence_.end_step();
    updates_.count_step();
    ++steps_since_average_;
    if (meets_after(step)) average(model, presence_.mask());
  }
  bool meets_after(std::int64_t step) const override { return (step + 1) % options_.period == 0; }
  std::vector<math::Finding> findings() override { return updates_.findings(); }
  void save(base::Archive& archive) const override { updates_.save(archive); }
  std::string restore(const base::Archive& archive) override {
    updates_.restore(archive);
    return "";
  }
  void guard(std::span<float> copy) const override { updates_.cut_copy(copy); }
  void consolidate(std::span<float> model) override {
    if (options_.period > 1) average(model, presence_.recent(steps_since_average_));
  }

 private:
  // Where nobody's update is finite, there is nothing to average.
  void average(std::span<float> model, std::vector<bool> counted) {
    counted = updates_.cut_together(model, std::move(counted));
    if (counted.empty() || std::ranges::find(counted, true) != counted.end()) one_pass_.average(model, counted);
    updates_.begin(model);
    presence_.begin_again();
    steps_since_average_ = 0;
  }

  LocalSgdOptions options_;
  Presence presence_;
  GuardedUpdates updates_;
  std::int64_t steps_since_average_ = 0;
  runtime::OnePass one_pass_;
};

}  // namespace

LocalSgdOptions local_sgd_options(const base::Settings& settings) {
  const base::SettingsReader reader("local_sgd", kLocalSgdOptions, settings);
  return {.period = reader.integer("period", 1, std::numeric_limits<std::int64_t>::max()),
          .overlap = overlap_of(reader),
          .guard = guard_of(reader)};
}

GroupAveragingOptions overlapped(const LocalSgdOptions& options, int workers) {
  GroupAveragingOptions rounds{.merge = MergeRule::additive,
                               .overlap = true,
                               .steps_a_round = options.period,
                               .guard = options.guard,
                               .protocol = {}};
  rounds.protocol.workers = rounds.protocol.group_size = workers;
  rounds.protocol.sync = protocol::Sync::barrier;
  rounds.protocol.period = 1;
  return rounds;
}

// There is nothing but the models, so nothing is lost by keeping each over a checkpoint.
Facts local_sgd_facts(std::int64_t period) {
  return {.replicas_are_equal = period == 1, .resumes_apart = period > 1, .meets_with_all = true};
}

AlgorithmRow local_sgd_row() {
  return {
      .name = "local_sgd",
      .family = Family::model,
      .description = "take H local steps, then average the models of all workers",
      .bytes_text = "8 D (P-1)/(P H)",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return 8 * parameters * (workers - 1) / workers / static_cast<double>(local_sgd_options(settings).period);
          },
      .models_held =
          [](int workers, const base::Settings& settings) {
            const LocalSgdOptions options = local_sgd_options(settings);
            return workers == 1 ? 0.0 : options.overlap ? 3.0 : options.guard ? 1.0 : 0.0;
          },
      .options = kLocalSgdOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            const LocalSgdOptions options = local_sgd_options(inputs.settings);
            if (options.overlap) return make_group_averaging(inputs, overlapped(options, inputs.context.size()));
            return make_averager<LocalSgd>(inputs, options);
          },
      .check = [](const base::Settings& settings, int) { local_sgd_options(settings); },
      .facts =
          [](const base::Settings& settings) {
            const LocalSgdOptions options = local_sgd_options(settings);
            return options.overlap ? group_averaging_facts(overlapped(options, 2)) : local_sgd_facts(options.period);
          },
  };
}

}  // namespace flockstep::algorithms
