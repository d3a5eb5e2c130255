#include "algorithms/rules/gradient_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "runtime/gather.h"

namespace flockstep::algorithms {
namespace {

using math::Decision;
using math::Event;
using math::Need;
using math::Statistics;
using runtime::OnePass;

// What the norm of a weighted sum may be by rounding alone, where gradients cancel.
double rounding_of(const std::vector<double>& c, const Statistics& statistics) {
  double sum = 0;
  for (std::size_t i = 0; i < c.size(); ++i)
    if (c[i] != 0) sum += std::abs(c[i]) * std::sqrt(statistics.q[i]);
  return 1e-6 * sum;
}

}  // namespace

GradientRule::GradientRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice)
    : context_(inputs.context),
      layout_(inputs.layout),
      rule_(choice.rule),
      options_(choice.common),
      workers_(static_cast<std::size_t>(inputs.context.size())),
      need_(swept(rule_, options_, workers_, 0)),
      pass_(context_, layout_, kPurpose, pass_options()),
      present_(workers_, true),
      memory_(pass_.sections().count()),
      runs_(workers_, options_.aggregate.patience) {}

void GradientRule::attend(const std::vector<bool>& present) {
  present_ = present.empty() ? std::vector<bool>(workers_, true) : present;
}

bool GradientRule::is_known_early() const {
  return need_ == Need::nothing && !rule_.uses_weights && !is_suspicious_ &&
         math::needed(rule_, options_.aggregate) == Need::nothing;
}

void GradientRule::bucket_ready(std::size_t bucket, std::span<float> gradient) {
  if (!is_known_early()) return pass_.start(bucket, gradient);
  pass_.start_known(bucket, gradient, *blindly({present_.begin(), present_.end()}));
}

void GradientRule::finish_gradient(std::span<float> gradient, double weight) {
  aggregate(pass_, gradient, {weights_of_all(pass_, weight)}, OnePass::Target::everywhere);
}

void GradientRule::finish(runtime::Whole gradient, const Step& step) {
  base::check(pass_.any_started(), "a pass that has started");
  check(step.weights, pass_);
  aggregate(pass_, gradient, step, OnePass::Target::everywhere);
}

void GradientRule::remember(std::vector<std::vector<double>> memory) {
  base::check(memory.size() == memory_.size(), "a memory for every section");
  memory_ = std::move(memory);
}

void GradientRule::begin_next() {
  need_ = swept(rule_, options_, workers_, ++steps_);
  pass_.look_for(need_);
  if (scattering_) scattering_->look_for(need_);
}

void GradientRule::count_on(const GradientRule& other) {
  steps_ = other.steps_ - 1;
  begin_next();
  guards_ = other.guards_;
  report_ = other.report_;
  runs_.set(other.runs_.runs());
  is_suspicious_ = other.is_suspicious_;
}

// Everybody sees the same weights and throws alike, after what is under way has ended: the next step can begin.
std::vector<double> GradientRule::weights_of_all(OnePass& pass, double weight) {
  if (!rule_.uses_weights) return {present_.begin(), present_.end()};
  auto weights = runtime::gather_doubles(context_, {&weight, 1});
  for (std::size_t i = 0; i < workers_; ++i)
    if (!present_[i]) weights[i] = 0;
  check(weights, pass);
  return weights;
}

void GradientRule::check(const std::vector<double>& weights, OnePass& pass) {
  try {
    check_weights(weights);
  } catch (const Error&) {
    if (pass.any_started()) pass.wait_for_all();
    pass.drop();
    throw;
  }
}

std::optional<std::vector<double>> GradientRule::blindly(const std::vector<double>& weights) const {
  if (is_suspicious_ || math::needed(rule_, options_.aggregate) != Need::nothing) return std::nullopt;
  Decision decision = math::decide(rule_, options_.aggregate, Statistics::none(weights), {});
  return decision.event == Event::none ? std::optional(std::move(decision.c)) : std::nullopt;
}

std::vector<Statistics> GradientRule::observe(OnePass& pass, runtime::Whole gradient,
                                              const std::vector<double>& weights) {
  std::vector<bool> living = math::attending_workers(weights);
  auto sections =
      need_ == Need::nothing ? pass.row_sums_of(gradient, weights, living) : pass.statistics(gradient, weights);
  std::vector<bool> finite(workers_, true);
  for (const Statistics& section : sections)
    for (std::size_t i = 0; i < workers_; ++i) finite[i] = finite[i] && std::isfinite(section.q[i]);
  report_.left_out.assign(workers_, false);
  for (std::size_t i = 0; i < workers_; ++i) {
    report_.left_out[i] = weights[i] != 0 && !finite[i] && runs_.leaves_out(i);
    living[i] = living[i] && finite[i];
  }
  runs_.count(weights, finite);
  is_suspicious_ = std::ranges::find(finite, false) != finite.end();
  if (std::ranges::find(living, false) == living.end()) return sections;
  // A sum over all is spoilt by one: who is left out has to be left out of the sums.
  if (!sections[0].has_matrix()) sections = pass.row_sums_of(gradient, weights, living);
  for (Statistics& section : sections)
    for (std::size_t i = 0; i < workers_; ++i) {
      if (!finite[i]) section.q[i] = std::numeric_limits<double>::quiet_NaN();
      if (report_.left_out[i]) section.weights[i] = 0;
    }
  return sections;
}

Decision GradientRule::nothing_to_decide(const std::vector<double>& memory) const {
  Decision decision;
  decision.c.resize(workers_);
  decision.memory = memory;
  return decision;
}

// With this step's norms, so that nothing has to be known of earlier ones. A rule on directions needs none: whatever a
// worker's norm, its part is its share.
void GradientRule::guard(const Statistics& section, Decision& decision) {
  if (options_.aggregate.guard == 0 || workers_ == 1 || decision.propagates) return;
  if (rule_.shares == math::Shares::of_directions || options_.aggregate.magnitude == math::Magnitude::matched) return;
  std::vector<double> parts(workers_);
  for (std::size_t i = 0; i < workers_; ++i)
    if (decision.c[i] != 0) parts[i] = std::abs(decision.c[i]) * std::sqrt(section.q[i]);
  const double reference = math::reference_of(parts);
  for (std::size_t i = 0; i < workers_; ++i) {
    const double factor = math::guard_factor(options_.aggregate.guard, reference, parts[i]);
    if (factor >= 1) continue;
    report_.clipped[i] = true;
    if (options_.aggregate.guard_clips) decision.c[i] *= factor;
  }
}

void GradientRule::aggregate(OnePass& pass, runtime::Whole gradient, const Step& step, OnePass::Target target) {
  const std::vector<double>& weights = step.weights;
  auto blind = blindly(weights);
  if (blind)
    for (double& value : *blind) value *= step.scale;
  if (blind && need_ == Need::nothing) {
    report_ = {Event::none, *blind, Statistics::none(weights), {}, {}};
    begin_next();
    if (pass.is_known()) return pass.finish_known(gradient, step.arrived);
    const std::vector<float> coefficients(blind->begin(), blind->end());
    if (!pass.any_started() && target == OnePass::Target::everywhere) return pass.run(gradient, coefficients);
    if (!pass.any_started()) pass.start_all(gradient);
    return pass.finish(gradient, runtime::Coefficients(pass.sections().count(), *blind), target, {}, step.arrived);
  }

  const std::vector<Statistics> sections = observe(pass, gradient, weights);
  report_.clipped.assign(workers_, false);
  std::vector<Decision> decisions;
  runtime::Coefficients coefficients;
  std::vector<runtime::Norm> norms;
  for (std::size_t section = 0; section < sections.size(); ++section) {
    const bool is_empty = pass.sections().size(section) == 0;
    decisions.push_back(is_empty ? nothing_to_decide(memory_[section])
                                 : math::decide(rule_, options_.aggregate, sections[section], memory_[section]));
    Decision& decision = decisions.back();
    for (double& value : decision.c) value *= step.scale;
    if (decision.norm) *decision.norm *= step.scale;
    if (blind) decision.c = *blind;  // looking on must not change what is seen
    if (!is_empty) guard(sections[section], decision);
    coefficients.push_back(decision.c);
    norms.push_back(decision.norm ? runtime::Norm{*decision.norm, rounding_of(decision.c, sections[section])}
                                  : runtime::Norm{0, std::numeric_limits<double>::infinity()});
  }
  take_down(sections, decisions);
  report_.statistics.weights = weights;  // who is left out is there all the same
  begin_next();
  if (!blind) {
    // Everybody knows the same, so nobody has to be told of a result that is nothing or not a number.
    const auto fill = [&](float value) {
      pass.drop();
      for (const runtime::Range& bucket : layout_.buckets()) std::ranges::fill(gradient.of(bucket), value);
    };
    if (std::ranges::any_of(decisions, &Decision::propagates)) return fill(std::numeric_limits<float>::quiet_NaN());
    if (std::ranges::all_of(decisions, [](const Decision& decision) { return decision.event == Event::all_zero; }))
      return fill(0.0f);
  }
  for (std::size_t section = 0; section < sections.size(); ++section) memory_[section] = decisions[section].memory;
  const bool any_norm =
      std::ranges::any_of(decisions, [](const Decision& decision) { return decision.norm.has_value(); });
  pass.finish(gradient, coefficients, target, any_norm ? norms : std::vector<runtime::Norm>(), step.arrived);
}

std::span<float> GradientRule::reduce_scatter(std::span<float> gradient, double weight) {
  if (!scattering_)
    scattering_ = std::make_unique<OnePass>(context_, layout_, runtime::Shards::by_worker(layout_, workers_), kPurpose,
                                            pass_options());
  aggregate(*scattering_, gradient, {weights_of_all(*scattering_, weight)}, OnePass::Target::own_shard);
  return base::Partition(layout_.size(), workers_).of(gradient, static_cast<std::size_t>(context_.rank()));
}

// Gram matrices add up over sections, so the whole gradient's is known whatever was weighted as one.
void GradientRule::take_down(const std::vector<Statistics>& sections, const std::vector<Decision>& decisions) {
  report_.event = Event::none;
  report_.coefficients.assign(workers_, 0.0);
  report_.statistics = sections[0];
  bool fired[4] = {};
  for (std::size_t section = 0; section < sections.size(); ++section) {
    const double share =
        layout_.size() == 0 ? 1.0 / static_cast<double>(sections.size())
                            : static_cast<double>(pass_.sections().size(section)) / static_cast<double>(layout_.size());
    for (std::size_t i = 0; i < workers_; ++i) report_.coefficients[i] += share * decisions[section].c[i];
    const Event event = decisions[section].event;
    fired[static_cast<std::size_t>(event)] = true;
    if (event != Event::none && (report_.event == Event::none || event == Event::non_finite)) report_.event = event;
    if (section > 0) report_.statistics += sections[section];
  }
  guards_.non_finite += fired[static_cast<std::size_t>(Event::non_finite)];
  guards_.all_zero += fired[static_cast<std::size_t>(Event::all_zero)];
  guards_.unsafe += fired[static_cast<std::size_t>(Event::unsafe)];
  guards_.clipped += report_.any_clipped();
}

void GradientRule::save(base::Archive& archive) const {
  archive.put_value("rule steps", steps_);
  archive.put_value("rule guards", guards_);
  archive.put_value("rule workers", static_cast<std::uint64_t>(workers_));
  archive.put("rule non-finite runs", std::span(runs_.runs()));
  archive.put_value("rule sections", static_cast<std::uint64_t>(memory_.size()));
  for (std::size_t section = 0; section < memory_.size(); ++section)
    archive.put(fmt::format("rule memory {}", section), std::span<const double>(memory_[section]));
}

std::string GradientRule::restore(const base::Archive& archive) {
  steps_ = archive.get_value<std::int64_t>("rule steps") - 1;
  begin_next();
  guards_ = archive.get_value<GuardCounts>("rule guards");
  const auto workers = archive.get_value<std::uint64_t>("rule workers"),
             sections = archive.get_value<std::uint64_t>("rule sections");
  if (workers == workers_) {
    std::vector<std::int64_t> runs(workers_);
    archive.get("rule non-finite runs", std::span(runs));
    is_suspicious_ = std::ranges::any_of(runs, [](std::int64_t run) { return run > 0; });
    runs_.set(std::move(runs));
  }
  if (sections != memory_.size())
    throw Error(ErrorCode::bad_file, fmt::format("the checkpoint has memory for {} sections where this run has {}",
                                                 sections, memory_.size()));
  bool had_memory = false;
  for (std::size_t section = 0; section < memory_.size(); ++section) {
    memory_[section] = archive.get_vector<double>(fmt::format("rule memory {}", section));
    had_memory = had_memory || !memory_[section].empty();
    if (workers != workers_) memory_[section] = math::resample(memory_[section], rule_.belonging, workers_);
  }
  if (workers == workers_ || !had_memory) return "";
  return rule_.belonging == math::Belonging::position ? fmt::format("the sorted momentum of {} was re-sampled for {}",
                                                                    base::counted(workers, "worker"), workers_)
                                                      : fmt::format("the memory of {} does not fit {}: it starts anew",
                                                                    base::counted(workers, "worker"), workers_);
}

}  // namespace flockstep::algorithms
