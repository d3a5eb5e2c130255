#include "train/loop.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/hash.h"
#include "engines/all_reduce.h"
#include "kernels/kernels.h"
#include "runtime/gather.h"
#include "runtime/one_pass.h"
#include "runtime/ready_buckets.h"
#include "train/checkpoint.h"
#include "train/measurements.h"
#include "train/metrics_file.h"
#include "train/telemetry.h"
#include "train/trace_file.h"

namespace flockstep::train {
namespace {

using base::Duration;
using base::Time;

constexpr double kForwardShare = 1.0 / 3;  // of slept compute; the rest is backward, bucket by bucket

// A request to stop is heard, and what was measured is written, at least this often.
constexpr std::int64_t kFlushEvery = 250;

// Enough for a few hundred steps per worker, bounded over all of them.
std::size_t trace_capacity(const TrainOptions& options, int workers) {
  if (options.out.empty()) return 0;
  return std::max<std::size_t>(500, 200000 / static_cast<std::size_t>(workers));
}

class Loop {
 public:
  Loop(engines::Engine& engine, const TrainOptions& options, const MakeTask& make_task, const Observer& observer);
  Summary run();

 private:
  void resume_or_begin();
  void resume(const base::Archive& archive, int workers);  // of the run that wrote it
  void require_same_run(const nlohmann::json& saved) const;
  bool take_step(std::int64_t step);  // false when a guard skipped the update
  double compute_gradient(std::int64_t step);
  void observe(std::int64_t step, const algorithms::GradientReport& report, bool finite);
  // These three return true when somebody asked to stop.
  bool flush();  // adds up what the workers have measured, and writes a line per step since the last time
  bool evaluate();
  bool checkpoint();
  void write_step_lines();
  Summary finish(bool interrupted);
  bool writes() const { return metrics_ != nullptr; }

  const TrainOptions& options_;
  const Observer& observer_;
  runtime::Context context_;
  std::unique_ptr<Task> task_;
  runtime::Layout layout_;
  std::unique_ptr<algorithms::Algorithm> algorithm_;
  std::unique_ptr<Optimizer> optimizer_;
  Pace pace_;
  Faults faults_;
  base::Buffer<float> model_, gradient_, averaged_;
  runtime::ReadyBuckets ready_;
  std::unique_ptr<runtime::OnePass> averaging_;  // for evaluations, where replicas differ
  std::unique_ptr<MetricsFile> metrics_;         // rank 0 only
  Telemetry telemetry_;                          // rank 0 only

  std::int64_t step_ = 0;        // steps done
  std::int64_t evaluated_ = -1;  // the step that was evaluated last
  Measurements measurements_;
  Summary summary_;
};

Loop::Loop(engines::Engine& engine, const TrainOptions& options, const MakeTask& make_task, const Observer& observer)
    : options_(options),
      observer_(observer),
      context_(engine, options.patience, trace_capacity(options, engine.size()), options.log_level),
      task_(make_task(engine.rank(), engine.size())),
      layout_(task_->tensors(), static_cast<std::size_t>(options.bucket_kib) * 1024 / sizeof(float)),
      pace_(options.pace, options.seed, engine.rank(), engine.size()),
      faults_(options.faults, options.seed, engine.rank(), engine.size()),
      ready_(layout_) {
  runtime::check_agreement(context_, {{"parameters", std::to_string(task_->parameters())},
                                      {"steps", std::to_string(options.steps)},
                                      {"evaluate-every", std::to_string(options.evaluate_every)},
                                      {"checkpoint-every", std::to_string(options.checkpoint_every)},
                                      {"options", identity_of(options, engine.size()).dump()}});
  algorithm_ = algorithms::find_algorithm(options.algorithm).make({context_, layout_, options.algorithm_settings, options.seed});
  optimizer_ = task_->make_optimizer();
  model_ = engine.memory().allocate<float>(layout_.size(), "model");
  gradient_ = engine.memory().allocate<float>(layout_.size(), "gradient");
  if (!algorithm_->replicas_are_equal()) {
    averaged_ = engine.memory().allocate<float>(layout_.size(), "averaged model for evaluation");
    averaging_ = std::make_unique<runtime::OnePass>(context_, layout_, "received shards for evaluation");
  }
}

void Loop::resume_or_begin() {
  std::uint64_t keep = 0;
  std::optional<Checkpoints::Found> found;
  if (options_.resume) found = Checkpoints(context_, options_.out).read_latest();
  if (found) {
    require_same_run(nlohmann::json::parse(found->archive.get_text("identity")));
    keep = found->archive.get_value<std::uint64_t>("metrics bytes");
    resume(found->archive, found->workers);
  } else {
    task_->initialise(model_.span());
  }
  runtime::check_agreement(context_, {{"resumed after step", std::to_string(step_)}});
  if (!options_.out.empty() && context_.rank() == 0) {
    base::make_directory(options_.out);
    metrics_ = std::make_unique<MetricsFile>(options_.out / "metrics.jsonl", keep);
  }
}

void Loop::resume(const base::Archive& archive, int workers) {
  step_ = archive.get_value<std::int64_t>("step");
  evaluated_ = archive.get_value<std::int64_t>("evaluated");
  summary_.train_loss = archive.get_value<double>("train loss");
  measurements_.restore(archive, context_, workers);
  archive.get("model", model_.span());
  if (context_.rank() == 0) telemetry_.resume(findings_from_json(nlohmann::json::parse(archive.get_text("findings"))));
  const std::string remade = algorithm_->restore(archive);
  optimizer_->restore(archive);
  context_.log().info("resumed after step {}", step_);
  if (workers == context_.size()) return;
  summary_.notes.push_back(fmt::format("resumed after step {} with {} workers where there had been {}{}", step_,
                                       context_.size(), workers, remade.empty() ? "" : "; " + remade));
}

// All that defines the run must be as it was, but for the number of workers where all of them hold the same state.
void Loop::require_same_run(const nlohmann::json& saved) const {
  const nlohmann::json mine = identity_of(options_, context_.size());
  for (const auto& [name, value] : mine.items()) {
    if (saved.contains(name) && saved[name] == value) continue;
    if (name == "workers" && algorithm_->replicas_are_equal()) continue;
    const std::string before = saved.value(name, nlohmann::json()).dump();
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{} holds a run with {} {}, which one with {} cannot continue: {}", options_.out.string(), name,
                    before, value.dump(), name == "batch" ? "add --batch " + before : "start it like the first"));
  }
}

double Loop::compute_gradient(std::int64_t step) {
  engines::Engine& engine = context_.engine();
  const Duration compute = pace_.compute(step);
  const auto pretend = [&](Duration duration) {
    if (duration.count() > 0) engine.sleep(duration);
  };
  pretend(compute * kForwardShare + pace_.delay(step));

  const auto deliver = [&](std::size_t bucket) {
    const double share =
        layout_.size() == 0 ? 0
                            : static_cast<double>(layout_.buckets()[bucket].size) / static_cast<double>(layout_.size());
    pretend(compute * ((1 - kForwardShare) * share));
    algorithm_->bucket_ready(bucket, gradient_.span());
  };
  // An engine that may not be called while backward is on the stack gets the same buckets in the same order afterwards.
  const bool at_once = engine.may_be_called_from_a_hook();
  std::vector<std::size_t> recorded;
  ready_.begin();
  faults_.begin(step);
  const Time begin = engine.now();
  const double loss = task_->gradient(step, model_.span(), gradient_.span(), [&](std::size_t first, std::size_t size) {
    faults_.apply(first, gradient_.span().subspan(first, size));
    for (const std::size_t bucket : ready_.add(first, size)) at_once ? deliver(bucket) : recorded.push_back(bucket);
  });
  for (const std::size_t bucket : recorded) deliver(bucket);
  base::check(ready_.all_ready(), "a task that reports its whole gradient");
  pretend(pace_.jitter_of_measured(step, engine.now() - begin));
  return loss;
}

bool Loop::take_step(std::int64_t step) {
  engines::Engine& engine = context_.engine();
  const Time begin = engine.now();
  const Duration waited_before = context_.waited(), transferred_before = context_.transferred();
  const std::uint64_t sent_before = engine.bytes_sent();

  const double loss = compute_gradient(step);
  context_.trace().record(base::Track::compute, "gradient", begin, engine.now());
  algorithm_->finish_gradient(gradient_.span(), static_cast<double>(task_->samples_per_step()));

  const Time update_begin = engine.now();
  const bool finite = !kernels::has_non_finite(std::span<const float>(gradient_.span()));
  if (const auto* report = algorithm_->report()) observe(step, *report, finite);
  if (finite) optimizer_->update(model_.span(), gradient_.span());
  context_.trace().record(base::Track::compute, "update", update_begin, engine.now());
  algorithm_->after_update(step, model_.span());

  const double seconds = (engine.now() - begin).count(), waited = (context_.waited() - waited_before).count();
  measurements_.add({loss, seconds, waited, (context_.transferred() - transferred_before).count()},
                    task_->samples_per_step(), engine.bytes_sent() - sent_before, !finite);
  return finite;
}

// A rule that does not look at gradients cannot tell that one was not finite; the result does.
void Loop::observe(std::int64_t step, const algorithms::GradientReport& report, bool finite) {
  const bool unseen = !finite && report.event == math::Event::none;
  if (unseen) measurements_.add_unseen_non_finite();
  if (context_.rank() == 0) telemetry_.observe(step + 1, report, unseen ? math::Event::non_finite : report.event);
}

void Loop::write_step_lines() {
  std::int64_t step = step_ - static_cast<std::int64_t>(measurements_.records().size());
  for (const StepRecord& record : measurements_.records()) {
    nlohmann::json line{{"kind", "step"},
                        {"step", ++step},
                        {"loss", record.loss},
                        {"seconds", record.seconds},
                        {"wait_s", record.waited_s},
                        {"transfer_s", record.transferred_s}};
    telemetry_.describe(step, line);
    metrics_->append(line);
  }
  for (const auto& line : telemetry_.new_findings(step_)) metrics_->append(line);
}

bool Loop::flush() {
  summary_.guards = algorithm_->guards();
  const bool stop = measurements_.add_up(context_, step_, observer_.stop_requested(), summary_);
  if (writes()) write_step_lines();
  measurements_.forget();
  telemetry_.forget();
  return stop;
}

bool Loop::evaluate() {
  const bool stop = flush();
  std::span<float> model = model_.span();
  if (averaging_) {
    std::ranges::copy(model, averaged_.span().begin());
    model = averaged_.span();
    averaging_->average(model);
  }
  auto sums = task_->evaluate(model);
  engines::all_reduce(context_.engine(), sums, context_.deadline());
  summary_.quality = task_->quality(sums);
  const bool is_new = evaluated_ != step_;  // a resumed run starts where an evaluation may already stand in the file
  evaluated_ = step_;
  if (writes() && is_new) {
    metrics_->append({{"kind", "evaluation"},
                      {"step", step_},
                      {"time_s", summary_.time_s},
                      {"metric", task_->metric().name},
                      {"quality", summary_.quality},
                      {"samples_per_s", summary_.samples_per_s},
                      {"wait_share", summary_.wait_share},
                      {"bytes_sent_per_step", summary_.bytes_sent_per_step},
                      {"guards", guards_json(summary_)}});
    if (const auto cosines = telemetry_.cosines(step_)) metrics_->append(*cosines);
    metrics_->flush();
  }
  return stop;
}

bool Loop::checkpoint() {
  const bool stop = flush();
  base::Archive archive;
  archive.put_text("identity", identity_of(options_, context_.size()).dump());
  archive.put_value("step", step_);
  archive.put_value("evaluated", evaluated_);
  archive.put_value("train loss", summary_.train_loss);
  measurements_.save(archive);
  archive.put_value("metrics bytes", writes() ? metrics_->flush() : std::uint64_t{0});
  archive.put("model", model_.span());
  archive.put_text("findings", findings_json(telemetry_.findings()).dump());
  algorithm_->save(archive);
  optimizer_->save(archive);
  Checkpoints(context_, options_.out).write(step_, archive);
  context_.log().info("checkpoint after step {}", step_);
  return stop;
}

Summary Loop::run() {
  resume_or_begin();
  bool stop = evaluate();
  while (step_ < options_.steps && !stop) {
    if (!take_step(step_)) context_.log().warn("step {}: non-finite gradient, update skipped", step_);
    ++step_;
    if (context_.rank() == 0) observer_.progress(step_, options_.steps);
    if (step_ % options_.evaluate_every == 0 || step_ == options_.steps)
      stop = evaluate();
    else if (step_ % kFlushEvery == 0 && flush())
      stop = true;
    if (options_.checkpoint_every > 0 && (step_ % options_.checkpoint_every == 0 || stop)) stop = checkpoint() || stop;
  }
  if (evaluated_ != step_) evaluate();
  return finish(step_ < options_.steps);
}

Summary Loop::finish(bool interrupted) {
  algorithm_->consolidate(model_.span());
  const std::uint64_t hash = base::hash_of(std::span<const float>(model_.span()));
  const std::vector<double> halves{static_cast<double>(hash >> 32), static_cast<double>(hash & 0xFFFFFFFFu)};
  const auto all = runtime::gather_doubles(context_, halves);
  for (std::size_t i = 0; i < all.size(); ++i)
    summary_.replicas_equal = summary_.replicas_equal && all[i] == all[i % 2];
  summary_.model_hash =
      fmt::format("{:08x}{:08x}", static_cast<std::uint32_t>(all[0]), static_cast<std::uint32_t>(all[1]));
  summary_.steps = step_;
  summary_.interrupted = interrupted;
  summary_.metric = task_->metric().name;
  summary_.lower_is_better = task_->metric().lower_is_better;
  summary_.memory = context_.engine().memory().held();
  summary_.findings = telemetry_.findings();
  if (!options_.out.empty()) {
    write_trace(context_, options_.out / "trace.json");
    if (context_.rank() == 0)
      base::write_atomically(options_.out / "summary.json",
                             describe(summary_, options_, context_.engine().name(), context_.size()).dump(2) + "\n");
  }
  context_.wait(context_.engine().barrier(), "end");
  return summary_;
}

}  // namespace

Summary train(engines::Engine& engine, const TrainOptions& options, const MakeTask& make_task,
              const Observer& observer) {
  return Loop(engine, options, make_task, observer).run();
}

}  // namespace flockstep::train
