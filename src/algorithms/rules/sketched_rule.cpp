#include "algorithms/rules/sketched_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "runtime/gather.h"

namespace flockstep::algorithms {
namespace {

constexpr const char *kShards = "received gradient shards", *kRecords = "sketches of all workers";

math::SketchedShape shape_of(const runtime::Layout& layout, std::size_t workers, runtime::Granularity granularity) {
  math::SketchedShape shape{.workers = workers, .buckets = {}};
  for (const runtime::Range& bucket : layout.buckets()) shape.buckets.push_back(bucket.size);
  shape.section_per_bucket = granularity == runtime::Granularity::bucket;
  return shape;
}

std::size_t sections_of(const runtime::Layout& layout, runtime::Granularity granularity) {
  return granularity == runtime::Granularity::bucket ? layout.buckets().size() : 1;
}

}  // namespace

SketchedRule::SketchedRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice, Guarding guarding)
    : context_(inputs.context),
      layout_(inputs.layout),
      choice_(choice),
      seed_(inputs.seed),
      workers_(static_cast<std::size_t>(inputs.context.size())),
      rank_(static_cast<std::size_t>(inputs.context.rank())),
      period_(watch_period(choice.common.watch, choice.common.transfer == Transfer::sketch, workers_)),
      pass_(context_, layout_, kShards, {choice.common.wire, choice.common.granularity}),
      present_(workers_, true),
      sketched_(choice.rule, choice.common.aggregate, shape_of(layout_, workers_, choice.common.granularity)) {
  if (choice.common.transfer == Transfer::sketch || period_ > 0)
    length_ = sketch_length_for(choice.common, layout_.size(), workers_);
  if (guarding == Guarding::leaves_out) {
    base::check(length_ == 0 && sections_of(layout_, choice.common.granularity) == 1, "sketches for the guard alone");
    against_.emplace(rank_, workers_);
    length_ = AgainstOthers::sketch_length(layout_.size());
  }
  std::uint32_t chunk = 0;
  for (const runtime::Range& bucket : layout_.buckets()) {
    first_chunk_.push_back(chunk);
    chunk += kernels::sketch_chunks(bucket.size);
  }
  std::size_t numbers = length_ * sections_of(layout_, choice.common.granularity);
  numbers += numbers % 2;  // so that the next record's doubles lie where doubles may
  told_ = context_.engine().memory().allocate<std::byte>(workers_ * (head() * sizeof(double) + numbers * sizeof(float)),
                                                         kRecords);
}

// Everybody has told what it had to: what is under way arrives, unless a peer is lost.
SketchedRule::~SketchedRule() {
  if (!telling_ || std::uncaught_exceptions() > 0) return;
  try {
    context_.wait(*telling_, "sketches", told_at_);
  } catch (const std::exception&) {  // whoever goes on with this engine meets the same error
  }
}

std::span<double> SketchedRule::head_of(std::size_t worker) const {
  const std::size_t record = told_.size() / workers_;
  return {reinterpret_cast<double*>(told_.data() + worker * record), head()};
}

std::span<float> SketchedRule::sketch_of(std::size_t worker) const {
  const std::size_t record = told_.size() / workers_, begin = head() * sizeof(double);
  return {reinterpret_cast<float*>(told_.data() + worker * record + begin), (record - begin) / sizeof(float)};
}

void SketchedRule::attend(const std::vector<bool>& present) {
  present_ = present.empty() ? std::vector<bool>(workers_, true) : present;
}

// A rule that looks at gradients always needs them; whoever only watches, now and then.
bool SketchedRule::is_watched(std::int64_t step) const {
  return length_ > 0 && (!sketched_.is_blind() || is_due(period_, step));
}

void SketchedRule::begin_step() {
  if (has_begun_) return;
  settle();
  has_begun_ = true;
  is_excluded_ = is_left_out_ = false;
  weights_.assign(present_.begin(), present_.end());
  context_.uncharged().fill(sketch_of(rank_), 0);
}

// Who is left out does not count in this step, even if it is finite again: nobody else knows that yet.
std::vector<double> SketchedRule::shares_of_weights() const {
  std::vector<double> shares = weights_;
  double sum = 0;
  for (std::size_t i = 0; i < workers_; ++i) {
    if (sketched_.leaves_out(i)) shares[i] = 0;
    sum += shares[i];
  }
  for (double& share : shares) share = sum > 0 ? share / sum : 0;
  return shares;
}

std::vector<double> SketchedRule::coefficients_of(std::size_t bucket, double norm) {
  if (sketched_.is_blind()) return shares_of_weights();
  if (sketched_.knows(bucket)) return sketched_.coefficients(bucket);
  return math::Sketched::first_coefficients(runtime::gather_doubles(context_, {&norm, 1}));
}

double SketchedRule::guard_factor(std::size_t bucket, double c, double norm) {
  const double factor = sketched_.guard_factor(bucket, c, norm);
  if (factor == 1 || !against_ || !against_->holds()) return factor;
  is_left_out_ = true;
  return 0;
}

std::vector<double> SketchedRule::prepare(std::size_t bucket, std::span<float> numbers) {
  if (weights_[rank_] == 0)
    context_.uncharged().fill(numbers, 0);  // whatever is there, such as the mean over no samples
  double square = 0;
  if (is_sketched(sketched_.steps())) {
    const std::size_t section = sections_of(layout_, choice_.common.granularity) > 1 ? bucket : 0;
    context_.queue().add_sketch(kernels::Numbers(numbers),
                                kernels::sketch_key(seed_, static_cast<std::uint32_t>(sketched_.steps())),
                                first_chunk_[bucket], sketch_of(rank_).subspan(section * length_, length_), &square);
  } else {
    context_.queue().add_square(kernels::Numbers(numbers), &square);
  }
  const double norm = std::sqrt(square);
  head_of(rank_)[1 + bucket] = norm;

  std::vector<double> c = coefficients_of(bucket, norm);
  const bool is_finite = std::isfinite(norm);
  const bool excludes = choice_.common.aggregate.non_finite == math::NonFinite::exclude && !sketched_.all_broken();
  is_excluded_ = is_excluded_ || (!is_finite && (excludes || sketched_.leaves_out(rank_)));
  if (is_excluded_) {
    context_.uncharged().fill(numbers, 0);
  } else if (!is_finite) {  // all of it, so that it shows also where this worker does not count
    context_.uncharged().fill(numbers, std::numeric_limits<float>::quiet_NaN());
  } else {
    const double factor = guard_factor(bucket, c[rank_], norm);
    if (factor < 1) context_.uncharged().scale(numbers, &factor);
  }
  return c;
}

// Weights of samples are known at the end of a step only, so that such a rule's buckets wait for it.
void SketchedRule::bucket_ready(std::size_t bucket, std::span<float> gradient) {
  if (choice_.rule.uses_weights) return;
  begin_step();
  pass_.start_known(bucket, gradient, prepare(bucket, layout_.buckets()[bucket].of(gradient)), true);
}

void SketchedRule::gather_weights(double weight) {
  if (!choice_.rule.uses_weights) return;
  weights_ = runtime::gather_doubles(context_, {&weight, 1});
  for (std::size_t i = 0; i < workers_; ++i)
    if (!present_[i]) weights_[i] = 0;
  has_begun_ = false;  // should they be none
  check_weights(weights_);
  has_begun_ = true;
}

void SketchedRule::finish_gradient(std::span<float> gradient, double weight) {
  begin_step();
  gather_weights(weight);
  if (!pass_.any_started())
    for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket)
      pass_.start_known(bucket, gradient, prepare(bucket, layout_.buckets()[bucket].of(gradient)), true);
  pass_.finish_known(gradient);
  tell(weights_[rank_]);
}

// Every worker scales its own gradient, since coefficients may differ by bucket and shards lie across buckets.
std::span<float> SketchedRule::reduce_scatter(std::span<float> gradient, double weight) {
  begin_step();
  gather_weights(weight);
  if (!scattering_)
    scattering_ = std::make_unique<runtime::OnePass>(context_, layout_, runtime::Shards::by_worker(layout_, workers_),
                                                     kShards, runtime::OnePassOptions{choice_.common.wire});
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) {
    const std::span<float> numbers = layout_.buckets()[bucket].of(gradient);
    const double c = prepare(bucket, numbers)[rank_];
    // A worker that does not count still tells that it is not finite.
    if (std::isfinite(head_of(rank_)[1 + bucket]) || is_excluded_) context_.uncharged().scale(numbers, &c);
  }
  scattering_->start_all(gradient);
  scattering_->finish(gradient, {std::vector<double>(workers_, 1)}, runtime::OnePass::Target::own_shard);
  tell(weights_[rank_]);
  return base::Partition(gradient.size(), workers_).of(gradient, rank_);
}

void SketchedRule::tell(double weight) {
  const bool sketched = is_sketched(sketched_.steps());
  head_of(rank_)[0] = weight;
  std::vector<engines::Bytes> receive;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    const engines::Bytes record(reinterpret_cast<std::byte*>(head_of(worker).data()), told_.size() / workers_);
    receive.push_back(sketched ? record : record.first(head() * sizeof(double)));
  }
  told_at_ = context_.engine().now();
  telling_ = context_.engine().all_gather(receive[rank_], receive, engines::Traffic::figures);
  has_begun_ = false;
  if (against_) against_->count(is_left_out_);
}

void SketchedRule::settle() const {
  if (!telling_) return;
  context_.wait(*telling_, "sketches", told_at_);
  telling_.reset();
  math::SketchedStep step;
  const bool watched = is_watched(sketched_.steps());
  std::vector<std::span<const float>> sketches;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    const std::span<const double> told = head_of(worker);
    step.weights.push_back(told[0]);
    step.norms.emplace_back(told.begin() + 1, told.end());
    sketches.emplace_back(sketch_of(worker));
  }
  if (watched) step.sketches = sketches;
  step.matrix = workers_ <= kMatrixWorkers && is_due(period_, sketched_.steps());
  math::SketchedOutcome outcome = sketched_.observe(step);
  if (against_) against_->observe(outcome.statistics, sketches);
  context_.engine().charge(static_cast<double>(told_.size()), engines::Traffic::figures);

  // What was not finite for all has been seen by whoever holds the result.
  const bool excludes = choice_.common.aggregate.non_finite == math::NonFinite::exclude;
  if (outcome.event == math::Event::non_finite && !excludes) outcome.event = math::Event::none;
  guards_.non_finite += outcome.event == math::Event::non_finite;
  guards_.all_zero += outcome.event == math::Event::all_zero;
  guards_.unsafe += outcome.event == math::Event::unsafe;
  if (sketched_.is_blind()) {
    double sum = 0;
    for (const double weight : outcome.coefficients) sum += weight;
    for (double& weight : outcome.coefficients) weight = sum > 0 ? weight / sum : 0;
  }
  report_ = {outcome.event,
             std::move(outcome.coefficients),
             std::move(outcome.statistics),
             std::move(outcome.clipped),
             std::move(outcome.left_out),
             std::move(outcome.stuck)};
  guards_.clipped += report_.any_clipped();
}

void SketchedRule::save(base::Archive& archive) const {
  settle();
  const math::Sketched::State state = sketched_.state();
  archive.put_value("rule guards", guards_);
  if (against_) against_->save(archive);
  archive.put_value("rule workers", static_cast<std::uint64_t>(workers_));
  archive.put_value("rule rows", static_cast<std::uint64_t>(state.size()));
  for (std::size_t row = 0; row < state.size(); ++row)
    archive.put(fmt::format("rule row {}", row), std::span<const double>(state[row]));
}

std::string SketchedRule::restore(const base::Archive& archive) {
  settle();
  math::Sketched::State state(archive.get_value<std::uint64_t>("rule rows"));
  for (std::size_t row = 0; row < state.size(); ++row)
    state[row] = archive.get_vector<double>(fmt::format("rule row {}", row));
  if (!sketched_.set_state(state)) throw Error(ErrorCode::bad_file, "the checkpoint's sketched rule is damaged");
  guards_ = archive.get_value<GuardCounts>("rule guards");
  if (against_) against_->restore(archive);
  report_ = {};
  const auto workers = archive.get_value<std::uint64_t>("rule workers");
  if (workers == workers_ || sketched_.is_blind()) return "";
  return fmt::format("the coefficients of {} do not fit {}: they are learnt anew", base::counted(workers, "worker"),
                     workers_);
}

}  // namespace flockstep::algorithms
