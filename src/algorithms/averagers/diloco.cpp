// `diloco(H)`: H local steps, then an outer optimizer steps the model that all share along the workers' combined update
// (arXiv 2311.08105; ALGORITHMS.md, section 7). In fragments, it steps one after the other, each in its turn, and with
// a delay what they send travels under local steps (arXiv 2501.18512). Running statistics are averaged and nothing
// else: there is no step along them.
#include "algorithms/averagers/diloco.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/local_sgd.h"
#include "algorithms/averagers/outer_fragment.h"
#include "algorithms/averagers/presence.h"
#include "algorithms/rules/rules.h"
#include "base/partition.h"
#include "math/fragments.h"
#include "math/groups.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 10> kDilocoOptions{{
    {"period", "64", "local steps between two outer steps (H)"},
    {"rate", "0.7", "learning rate of the outer optimizer"},
    {"momentum", "0.9", "Nesterov momentum of the outer optimizer; with 0 and rate 1 this is local_sgd"},
    {"rule", "mean",
     "the rule that combines the workers' updates: mean, normalized_mean, adacons, adasum, direction_consensus or "
     "geometric_median"},
    {"fragments", "1", "fragments of the model, which take turns within a period, so that less is sent at a time"},
    {"delay", "0", "local steps during which a fragment's update travels; less than period / fragments"},
    {"alpha", "1", "share of the outer model in the model that a worker continues with; the rest is its own model"},
    {"wire", "float32",
     "format in which updates travel: float32, bfloat16 or int8 (a quarter of the bytes); the rounding error of one is "
     "added to the next"},
    {"wait", "on",
     "on: an outer step waits for all workers; off: groups of workers average after each period without waiting, as in "
     "flock, and each worker has its own outer momentum"},
    kGuardOption,
}};
constexpr std::int64_t kRoundsToOneOverAll = 10;  // of those who do not wait, as in flock

using Row = AlgorithmRow (*)();
constexpr std::array<base::Choice<Row>, 6> kRules{{{"mean", mean_row},
                                                   {"normalized_mean", normalized_mean_row},
                                                   {"adacons", adacons_row},
                                                   {"adasum", adasum_row},
                                                   {"direction_consensus", direction_consensus_row},
                                                   {"geometric_median", geometric_median_row}}};
constexpr std::array<base::Choice<bool>, 2> kWaits{{{"off", false}, {"on", true}}};
constexpr std::array<base::Choice<runtime::Wire>, 3> kWires{
    {{"float32", runtime::Wire::float32}, {"bfloat16", runtime::Wire::bfloat16}, {"int8", runtime::Wire::int8}}};

class Diloco final : public Algorithm {
 public:
  Diloco(const AlgorithmInputs& inputs, const DilocoOptions& options)
      : context_(inputs.context),
        options_(options),
        models_(inputs.models()),
        parameters_(inputs.layout.size()),
        presence_(context_),
        guarded_(context_, 0, 0, options.guard, static_cast<std::size_t>(context_.size() - 1)) {
    const base::Partition parts(parameters_, options.fragments);
    for (std::size_t part = 0; part < options.fragments; ++part)
      fragments_.emplace_back(inputs, options, runtime::Range{parts.begin(part), parts.size(part)});
    base::Memory& memory = context_.engine().memory();
    if (!options.is_in_place()) update_ = memory.allocate<float>(parts.size(0), "update under way");
    if (options.delay > 0) snapshot_ = memory.allocate<float>(parts.size(0), "model at the update");
  }

  void attend(const std::vector<bool>& present) override { presence_.attend(present); }
  // A restored run has an outer model, which the workers' own have left since.
  void begin(std::int64_t /*step*/, std::span<const float> model) override {
    if (has_begun_) return;
    for (OuterFragment& fragment : fragments_) fragment.set(fragment.range().of(model));
    has_begun_ = true;
  }
  void after_update(std::int64_t step, std::span<float> model) override {
    presence_.end_step();
    guarded_.count_step();
    ++steps_since_;
    if (travelling_ && step == lands_after_)
      land(model);
    else if (travelling_ && step == decides_after_)
      fragments_[*travelling_].decide(update_of(model));
    else if (travelling_)
      fragments_[*travelling_].go_on(update_of(model));
    if (const auto fragment = math::fragment_after(step, options_.period, options_.fragments)) {
      set_out(*fragment, model);
      decides_after_ = step + options_.delay / 2;  // one half of the way for either transfer
      lands_after_ = step + options_.delay;
      if (travelling_ && options_.delay == 0) land(model);
    }
  }
  bool meets_after(std::int64_t step) const override {
    return math::fragment_after(step, options_.period, options_.fragments) ||
           (travelling_ && (step == decides_after_ || step == lands_after_));
  }
  // The outer model stays: local steps go on from the average until its next step.
  void consolidate(std::span<float> model) override {
    if (travelling_) land(model);
    if (is_always_equal()) return;
    average_over_all(context_, models_, model, presence_.recent(steps_since_));
    begin_again();
  }
  std::vector<math::Finding> findings() override { return guarded_.findings(); }
  void guard(std::span<float> copy) const override {
    for (const OuterFragment& fragment : fragments_) guarded_.cut_copy(fragment.range().of(copy), fragment.model());
  }
  GuardCounts guards() const override;

  void save(base::Archive& archive) const override {
    archive.put_value("diloco fragments", static_cast<std::uint64_t>(fragments_.size()));
    archive.put_value("diloco steps", steps_since_);
    guarded_.save(archive);
    for (std::size_t part = 0; part < fragments_.size(); ++part) {
      base::Archive own;
      fragments_[part].save(own);
      const std::vector<std::byte> bytes = own.to_bytes();
      archive.put(name_of(part), std::span(bytes));
    }
  }
  std::string restore(const base::Archive& archive) override;

 private:
  static std::string name_of(std::size_t part) { return fmt::format("diloco fragment {}", part); }
  bool is_always_equal() const { return options_.period == 1 && options_.is_in_place(); }
  void begin_again() {
    presence_.begin_again();
    steps_since_ = 0;
  }
  // Of the fragment that is under way.
  std::span<float> update_of(std::span<float> model) const {
    const runtime::Range range = fragments_[*travelling_].range();
    return options_.is_in_place() ? range.of(model) : update_.span().first(range.size);
  }
  void set_out(std::size_t part, std::span<float> model);
  void land(std::span<float> model);
  void go_on_from(std::span<const float> outer, std::span<float> own);

  runtime::Context& context_;
  DilocoOptions options_;
  runtime::Layout models_;
  std::size_t parameters_;
  Presence presence_;
  GuardedUpdates guarded_;
  std::deque<OuterFragment> fragments_;
  bool has_begun_ = false;
  std::int64_t steps_since_ = 0;  // the last outer step of any fragment

  std::optional<std::size_t> travelling_;  // the fragment whose update is under way
  std::int64_t decides_after_ = 0, lands_after_ = 0;
  std::vector<bool> counted_;              // whose updates these are
  bool is_replaced_ = false;               // this worker's numbers count nothing: it takes the outer model
  base::Buffer<float> update_, snapshot_;  // of the fragment, the latter this worker's own when it set out
};

void Diloco::set_out(std::size_t part, std::span<float> model) {
  OuterFragment& fragment = fragments_[part];
  const std::span<float> own = fragment.range().of(model);
  if (options_.delay == 0) {
    counted_ = guarded_.cut_together(own, fragment.model(), presence_.mask());
  } else {  // without waiting for anybody: by what was heard of the last updates
    guarded_.cut(own, fragment.model());
    counted_ = presence_.mask();
  }
  if (std::ranges::find(counted_, true) == counted_.end())  // nothing to go by: all go on from the outer model
    return context_.queue().copy(own.data(), fragment.model().data(), own.size_bytes());
  travelling_ = part;
  const std::span<float> update = update_of(model);
  if (options_.delay > 0) context_.queue().copy(snapshot_.data(), own.data(), own.size_bytes());
  const std::array<const void*, 2> rows{fragment.model().data(), own.data()};
  const std::array<double, 2> difference{1, -1};
  context_.queue().weighted_sum({rows, update.size()}, difference.data(), update);
  const bool counts = counted_[static_cast<std::size_t>(context_.rank())];
  is_replaced_ = !counts;
  if (is_replaced_) {
    context_.queue().fill(update, 0);
  } else if (!options_.is_in_place()) {
    std::uint32_t is_not_finite = 0;
    context_.queue().find_non_finite(std::span<const float>(update), &is_not_finite);
    is_replaced_ = is_not_finite != 0;
  }
  fragment.start(update, {counted_, counts}, options_.delay > 0);
}

void Diloco::land(std::span<float> model) {
  OuterFragment& fragment = fragments_[*travelling_];
  fragment.finish(update_of(model));
  if (options_.delay > 0) guarded_.hear_all();
  go_on_from(fragment.model(), fragment.range().of(model));
  if (*travelling_ + 1 == fragments_.size() && model.size() > parameters_) {
    const std::size_t buffers = model.size() - parameters_;
    average_over_all(context_, runtime::Layout(buffers, models_.bucket_floats()), model.last(buffers), counted_);
  }
  travelling_.reset();
  begin_again();
}

// What a worker has done since its update set out stays: own += alpha (outer - snapshot).
void Diloco::go_on_from(std::span<const float> outer, std::span<float> own) {
  kernels::Queue& queue = context_.queue();
  if (is_replaced_ || options_.is_in_place()) return queue.copy(own.data(), outer.data(), own.size_bytes());
  const double alpha = options_.alpha;
  const std::array<const void*, 3> rows{own.data(), outer.data(), snapshot_.data()};
  const std::array<double, 3> coefficients{options_.delay > 0 ? 1 : 1 - alpha, alpha, -alpha};
  queue.weighted_sum({std::span(rows).first(options_.delay > 0 ? 3 : 2), own.size()}, coefficients.data(), own);
}

GuardCounts Diloco::guards() const {
  GuardCounts all;
  for (const OuterFragment& fragment : fragments_) {
    const GuardCounts each = fragment.guards();
    all.non_finite += each.non_finite;
    all.all_zero += each.all_zero;
    all.unsafe += each.unsafe;
    all.clipped += each.clipped;
  }
  return all;
}

std::string Diloco::restore(const base::Archive& archive) {
  const auto count = archive.get_value<std::uint64_t>("diloco fragments");
  if (count != fragments_.size())
    throw Error(ErrorCode::bad_file, fmt::format("the checkpoint has the model in {} fragments where this run has {}",
                                                 count, fragments_.size()));
  steps_since_ = archive.get_value<std::int64_t>("diloco steps");
  guarded_.restore(archive);
  std::string remade;
  for (std::size_t part = 0; part < fragments_.size(); ++part) {
    const std::vector<std::byte> bytes = archive.get_vector<std::byte>(name_of(part));
    remade = fragments_[part].restore(base::Archive::from_bytes(bytes, name_of(part)));
  }
  has_begun_ = true;
  return remade;
}

}  // namespace

GroupAveragingOptions DilocoOptions::rounds(int workers) const {
  GroupAveragingOptions rounds{.merge = MergeRule::additive, .steps_a_round = period, .guard = guard, .protocol = {}};
  rounds.outer = outer;
  rounds.protocol.workers = workers;
  rounds.protocol.group_size = math::default_group_size(std::max(2, workers));
  rounds.protocol.sync = protocol::Sync::rolling;
  rounds.protocol.activation = protocol::Activation::majority;
  rounds.protocol.period = kRoundsToOneOverAll;
  return rounds;
}

bool DilocoOptions::is_local_sgd() const {
  return waits && is_mean && outer.rate == 1 && outer.momentum == 0 && fragments == 1 && is_in_place() &&
         rule.common.wire == runtime::Wire::float32;
}

DilocoOptions diloco_options(const base::Settings& settings) {
  const base::SettingsReader reader("diloco", kDilocoOptions, settings);
  DilocoOptions options;
  options.period = reader.integer("period", 1, std::numeric_limits<std::int64_t>::max());
  options.outer = {.rate = reader.positive("rate"), .momentum = reader.below_one("momentum")};
  const AlgorithmRow row = reader.choice("rule", kRules)();
  // One that is not finite is left out; results are as long as averages are.
  base::Settings of_rule{{"non_finite", "exclude"}, {"watch", "never"}};
  if (!row.magnitude_of_averages.empty()) of_rule["magnitude"] = row.magnitude_of_averages;
  options.rule = row.rule(of_rule);
  options.rule.common.wire = reader.choice("wire", kWires);
  options.is_mean = row.name == mean_row().name;
  constexpr std::int64_t kMostFragments = 1024;
  options.fragments =
      static_cast<std::size_t>(reader.integer("fragments", 1, std::min<std::int64_t>(options.period, kMostFragments)));
  options.delay = reader.integer("delay", 0, options.period / static_cast<std::int64_t>(options.fragments) - 1);
  options.alpha = reader.real("alpha", 0, 1);
  options.guard = guard_of(reader);
  options.waits = reader.choice("wait", kWaits);
  if (!options.waits && (!options.is_mean || options.fragments > 1 || !options.is_in_place() ||
                         options.rule.common.wire != runtime::Wire::float32))
    throw Error(ErrorCode::bad_input,
                "--diloco.wait off takes --diloco.rule mean and --diloco.wire float32, and neither fragments nor delay "
                "nor alpha: its rounds average whole models");
  if (options.alpha == 0)
    throw Error(ErrorCode::bad_input, "--diloco.alpha takes a number above 0 up to 1: with 0 workers would never meet");
  return options;
}

AlgorithmRow diloco_row() {
  return {
      .name = "diloco",
      .family = Family::model,
      .description = "take H local steps, then step the shared model along the combined update with outer momentum",
      .bytes_text = "(2 B D/P + 32) (P-1)/H, B = 4, 2 or 1.02",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            const DilocoOptions options = diloco_options(settings);
            if (!options.waits) return group_averaging_bytes(workers, parameters, options.rounds(workers));
            const auto fragments = static_cast<double>(options.fragments);
            return gradient_rule_bytes(workers, parameters / fragments, options.rule) * fragments /
                   static_cast<double>(options.period);
          },
      .models_held =
          [](int workers, const base::Settings& settings) {
            const DilocoOptions options = diloco_options(settings);
            if (workers == 1) return 0.0;
            if (!options.waits) return 4.0;
            if (options.is_local_sgd()) return options.guard ? 1.0 : 0.0;
            const double part = 1.0 / static_cast<double>(options.fragments);
            const bool has_feedback = options.rule.common.wire != runtime::Wire::float32;
            return 1 + (options.outer.momentum > 0 ? 1 : 0) + (has_feedback ? 1 + 1.0 / workers : 0) +
                   (options.is_in_place() ? 0 : part) + (options.delay > 0 ? part : 0) +
                   gradient_rule_models(workers, options.rule);
          },
      .pair_bytes_held =
          [](int workers, const base::Settings& settings) {
            const DilocoOptions options = diloco_options(settings);
            if (!options.waits) return 0.0;
            return static_cast<double>(options.fragments) * gradient_rule_pair_bytes(workers, options.rule);
          },
      .options = kDilocoOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            const DilocoOptions options = diloco_options(inputs.settings);
            if (!options.waits) return make_group_averaging(inputs, options.rounds(inputs.context.size()));
            if (!options.is_local_sgd()) return make_averager<Diloco>(inputs, options);
            const base::Settings settings{{"period", std::to_string(options.period)},
                                          {"guard", options.guard ? "on" : "off"}};
            return local_sgd_row().make({.context = inputs.context,
                                         .layout = inputs.layout,
                                         .settings = settings,
                                         .seed = inputs.seed,
                                         .buffers = inputs.buffers});
          },
      .check = [](const base::Settings& settings, int) { diloco_options(settings); },
      .facts =
          [](const base::Settings& settings) {
            const DilocoOptions options = diloco_options(settings);
            if (!options.waits) return group_averaging_facts(options.rounds(2));
            if (options.is_local_sgd()) return local_sgd_facts(options.period);
            return Facts{.replicas_are_equal = options.period == 1 && options.is_in_place(),
                         .resumes_apart = options.delay == 0 && !(options.period == 1 && options.is_in_place()),
                         .needs_begin = true,
                         .meets_with_all = true};
          },
  };
}

}  // namespace flockstep::algorithms
