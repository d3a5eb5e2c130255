#include "algorithms/rules/gradient_rule.h"

#include <algorithm>

#include "base/check.h"
#include "runtime/gather.h"

namespace flockstep::algorithms {

using math::Need;
using math::Statistics;
using runtime::OnePass;

GradientRule::GradientRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice)
    : context_(inputs.context),
      layout_(inputs.layout),
      workers_(static_cast<std::size_t>(inputs.context.size())),
      decider_(choice, workers_, runtime::Sections(layout_, choice.common.granularity).sizes()),
      pass_(context_, layout_, kPurpose, pass_options()),
      present_(workers_, true) {}

void GradientRule::attend(const std::vector<bool>& present) {
  present_ = present.empty() ? std::vector<bool>(workers_, true) : present;
}

bool GradientRule::is_known_early() const {
  return decider_.need() == Need::nothing && !uses_weights() && decider_.blindly({present_.begin(), present_.end()});
}

void GradientRule::bucket_ready(std::size_t bucket, std::span<float> gradient) {
  if (!is_known_early()) return pass_.start(bucket, gradient);
  pass_.start_known(bucket, gradient, *decider_.blindly({present_.begin(), present_.end()}));
}

void GradientRule::finish_gradient(std::span<float> gradient, double weight) {
  aggregate(pass_, gradient, {weights_of_all(pass_, weight)}, OnePass::Target::everywhere);
}

void GradientRule::finish(runtime::Whole gradient, const Step& step) {
  base::check(pass_.any_started(), "a pass that has started");
  check(step.weights, pass_);
  aggregate(pass_, gradient, step, OnePass::Target::everywhere);
}

// For what the next step needs.
void GradientRule::look_on() {
  pass_.look_for(decider_.need());
  if (scattering_) scattering_->look_for(decider_.need());
}

void GradientRule::count_on(const ExactDecider& other) {
  decider_.count_on(other);
  look_on();
}

// Everybody sees the same weights and throws alike, after what is under way has ended: the next step can begin.
std::vector<double> GradientRule::weights_of_all(OnePass& pass, double weight) {
  if (!uses_weights()) return {present_.begin(), present_.end()};
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

void GradientRule::aggregate_blindly(OnePass& pass, runtime::Whole gradient, const Step& step, OnePass::Target target,
                                     const std::vector<double>& coefficients) {
  decider_.take_blindly(coefficients, step.weights);
  look_on();
  if (pass.is_known()) return pass.finish_known(gradient, step.arrived);
  const std::vector<float> floats(coefficients.begin(), coefficients.end());
  if (!pass.any_started() && target == OnePass::Target::everywhere) return pass.run(gradient, floats);
  if (!pass.any_started()) pass.start_all(gradient);
  pass.finish(gradient, runtime::Coefficients(pass.sections().count(), coefficients), target, {}, step.arrived);
}

void GradientRule::aggregate(OnePass& pass, runtime::Whole gradient, const Step& step, OnePass::Target target) {
  const std::vector<double>& weights = step.weights;
  if (decider_.need() == Need::nothing)
    if (auto blind = decider_.blindly(weights)) {
      for (double& value : *blind) value *= step.scale;
      return aggregate_blindly(pass, gradient, step, target, *blind);
    }
  decider_.drop_matrix();
  auto sections = decider_.need() == Need::nothing
                      ? pass.row_sums_of(gradient, weights, math::attending_workers(weights))
                      : pass.statistics(gradient, weights);
  const ExactDecider::Attendance attendance = decider_.attend(sections, weights);
  // A sum over all is spoilt by one: who is left out has to be left out of the sums.
  if (!attendance.all_live() && !sections[0].has_matrix())
    sections = pass.row_sums_of(gradient, weights, attendance.living);
  const ExactOutcome outcome = decider_.decide(std::move(sections), weights, attendance, step.scale);
  look_on();
  if (outcome.everywhere) {
    pass.drop();
    for (const runtime::Range& bucket : layout_.buckets()) std::ranges::fill(gradient.of(bucket), *outcome.everywhere);
    return;
  }
  pass.finish(gradient, outcome.coefficients, target, outcome.norms, step.arrived);
}

std::span<float> GradientRule::reduce_scatter(std::span<float> gradient, double weight) {
  if (!scattering_)
    scattering_ = std::make_unique<OnePass>(context_, layout_, runtime::Shards::by_worker(layout_, workers_), kPurpose,
                                            pass_options());
  aggregate(*scattering_, gradient, {weights_of_all(*scattering_, weight)}, OnePass::Target::own_shard);
  return base::Partition(layout_.size(), workers_).of(gradient, static_cast<std::size_t>(context_.rank()));
}

std::string GradientRule::restore(const base::Archive& archive) {
  std::string remade = decider_.restore(archive);
  look_on();
  return remade;
}

}  // namespace flockstep::algorithms
