#include "train/loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "engines/run_record.h"
#include "runtime/gather.h"
#include "session/checkpoints.h"
#include "train/backward.h"
#include "train/clock.h"
#include "train/run_record.h"

namespace flockstep::train {
namespace {

using base::Duration;
using base::Time;

// What was measured is written at least this often.
constexpr std::int64_t kFlushEvery = 250;
// The same where workers do not go in lockstep. Some algorithms set no bound to how far a slow worker falls behind.
constexpr std::int64_t kHaltEvery = 50;

// Enough for a few hundred steps per worker, bounded over all of them.
std::size_t trace_capacity(const TrainOptions& options, int workers) {
  if (options.out.empty()) return 0;
  return std::max<std::size_t>(500, 200000 / static_cast<std::size_t>(workers));
}

std::size_t bucket_floats(const TrainOptions& options, std::size_t parameters) {
  if (options.buckets == 0) return static_cast<std::size_t>(options.bucket_kib) * 1024 / sizeof(float);
  const auto buckets = static_cast<std::size_t>(options.buckets);
  return std::max<std::size_t>(1, (parameters + buckets - 1) / buckets);
}

runtime::Agreed agreed_with_task(const TrainOptions& options, const Task& task) {
  runtime::Agreed agreed = agreed_of(options);
  agreed.emplace_back("parameters", std::to_string(task.parameters()));
  agreed.emplace_back("buffers", std::to_string(task.buffers()));
  return agreed;
}

// Whether anybody but the optimizer looks at gradients.
bool needs_gradients(const session::Session& session, const TrainOptions& options) {
  return session.row().family != algorithms::Family::model || session.facts().averages_gradients ||
         !options.faults.faulty.empty();
}

// Not on sim, where an agent that looks at a device again and again would make virtual time pass.
bool merges_on_device(const engines::Engine& engine, const algorithms::AlgorithmRow& row, const TrainOptions& options) {
  return engine.name() != "sim" &&
         algorithms::facts_of(row, options.algorithm_settings, engine.size()).merges_on_device;
}

class Loop {
 public:
  Loop(engines::Engine& engine, const TrainOptions& options, const algorithms::AlgorithmRow& algorithm,
       const MakeTask& make_task, const Observer& observer);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  telemetry::Summary run();

 private:
  void log_options();
  void resume_or_begin();
  void resume(const base::Archive& archive, int workers);  // of the run that wrote it
  std::int64_t steps_done() const { return session_.updates(); }
  void take_step();
  void update();  // unless the gradient is not finite
  bool accepts_gradient();
  void after_update();
  void consolidate();
  // Where the model is on a device: see OnDevice. Nothing elsewhere.
  void fetch_model() { device_ ? device_->fetch_model() : void(); }
  void put_model() { device_ ? device_->put_model() : void(); }
  // What the algorithm is given: no span where it knows the device's.
  std::span<float> model_of_session() { return merges_on_device_ ? std::span<float>() : model_.span(); }
  void meet();
  void drain();
  void pause();  // what is due after a step beside training
  void evaluate();
  void flush();
  void checkpoint();
  telemetry::Summary end_early();
  telemetry::Summary finish();

  const TrainOptions& options_;
  const Observer& observer_;
  runtime::Context context_;
  engines::RunRecord* const launched_run_;  // null if the engine has none
  base::Buffer<float> model_, gradient_;    // before those who have views of them, or transfers under way in them
  std::unique_ptr<Task> task_;
  OnDevice* const device_;       // null in main memory
  const bool merges_on_device_;  // the algorithm does, without a model in main memory
  runtime::Layout layout_;
  Backward backward_;
  session::Session session_;
  std::unique_ptr<Optimizer> optimizer_;
  session::Checkpoints checkpoints_;
  Clock clock_;
  RunRecord record_;
  std::int64_t saved_ = -1;  // the step of the newest checkpoint
};

Loop::Loop(engines::Engine& engine, const TrainOptions& options, const algorithms::AlgorithmRow& algorithm,
           const MakeTask& make_task, const Observer& observer)
    : options_(options),
      observer_(observer),
      context_(engine, options.patience, trace_capacity(options, engine.size()), options.log_level),
      launched_run_(dynamic_cast<engines::RunRecord*>(&engine)),
      task_(make_task(engine.rank(), engine.size())),
      device_(task_->on_device()),
      merges_on_device_(device_ && merges_on_device(engine, algorithm, options) && device_->device_model()),
      layout_(task_->tensors(), bucket_floats(options, task_->parameters())),
      backward_(engine, layout_, options.pace, options.faults, options.seed),
      session_(context_, layout_,
               {.row = algorithm,
                .options = options.algorithm_settings,
                .seed = options.seed,
                .buffers = task_->buffers(),
                .watches = options.gradients && engine.rank() == 0,
                .device_model = merges_on_device_ ? device_->device_model() : nullptr},
               agreed_with_task(options, *task_)),
      optimizer_(task_->make_optimizer()),
      checkpoints_(context_, checkpoints_in(options.out), ".bin"),
      clock_(context_),
      record_(context_, options, session_, *task_, layout_) {
  const auto allocate = [&](std::size_t size, const char* purpose) {
    return device_ ? device_->pinned(engine.memory(), size, purpose) : engine.memory().allocate<float>(size, purpose);
  };
  model_ = allocate(layout_.size() + task_->buffers(), "model");
  if (!device_ || needs_gradients(session_, options)) gradient_ = allocate(layout_.size(), "gradient");
  if (device_) device_->attach(model_.span(), gradient_.span());
}

// Once for all, as they agree in them.
void Loop::log_options() {
  if (context_.rank() != 0) return;
  std::vector<std::string> given;
  for (const auto& [name, value] : agreed_of(options_))
    if (!value.empty()) given.push_back(fmt::format("{} {}", name, value));
  if (options_.device == "cpu") given.emplace_back("device cpu");  // the default, which agreed_of() leaves out
  context_.log().info("{} on {}: {}", base::counted(context_.size(), "worker"), context_.engine().name(),
                      fmt::join(given, ", "));
}

void Loop::resume_or_begin() {
  std::uint64_t keep = 0;
  std::optional<session::Checkpoints::Found> found;
  if (options_.resume) found = checkpoints_.read();
  if (found) {
    const base::Archive archive = base::Archive::from_bytes(found->bytes, found->path);
    if (!found->warning.empty()) {
      record_.summary().notes.push_back(found->warning);
      if (context_.rank() == 0) observer_.warn(found->warning);
    }
    // What this run would write does not tell: one worker alone may not call its only model apart.
    const bool are_apart = archive.get_value<bool>("apart") || session_.facts().resumes_apart;
    require_same_run(options_, context_.size(), nlohmann::json::parse(archive.get_text("identity")), are_apart);
    keep = archive.get_value<std::uint64_t>("metrics bytes");
    resume(archive, found->workers);
  } else {
    task_->initialise(model_.span());
  }
  runtime::check_agreement(context_, {{"resumed after step", std::to_string(steps_done())}});
  record_.open(keep);
  session_.begin(model_of_session());
}

void Loop::resume(const base::Archive& archive, int workers) {
  saved_ = archive.get_value<std::int64_t>("step");
  record_.restore(archive, workers);
  archive.get("model", model_.span());
  put_model();
  if (context_.rank() == 0)
    session_.steps().go_on_from(telemetry::findings_from_json(nlohmann::json::parse(archive.get_text("findings"))));
  const std::string remade = session_.restore(archive);
  optimizer_->restore(archive);
  context_.log().info("resumed after step {}", steps_done());
  if (workers == context_.size()) {
    task_->restore(archive);
    return;
  }
  record_.summary().notes.push_back(
      fmt::format("resumed after step {} with {} where there had been {}{}{}", steps_done(),
                  base::counted(context_.size(), "worker"), workers, remade.empty() ? "" : "; " + remade,
                  session_.facts().replicas_are_equal ? "" : "; every optimizer continues from worker 0's state"));
}

void Loop::take_step() {
  const std::int64_t step = steps_done();
  engines::Engine& engine = context_.engine();
  const Time begin = engine.now();
  const Duration waited_before = context_.waited(), transferred_before = context_.transferred();
  const std::uint64_t sent_before = engine.bytes_sent_in_collectives();

  const auto [loss, pretended] = backward_.run(step, *task_, model_.span(), gradient_.span(), session_.algorithm());
  context_.trace().record(base::Track::compute, "gradient", begin, engine.now());
  session_.finish_gradient(gradient_.span(), static_cast<double>(task_->samples_per_step()));

  const Time update_begin = engine.now();
  update();
  record_.observe_gradients();
  context_.trace().record(base::Track::compute, "update", update_begin, engine.now());
  after_update();

  const double seconds = (engine.now() - begin).count(), waited = (context_.waited() - waited_before).count();
  context_.log().debug("step {}: loss {:.6g}, {:.3g} s, of which {:.3g} s waiting", step + 1, loss, seconds, waited);
  Measurements& measurements = record_.measurements();
  measurements.add({loss, seconds, waited, (context_.transferred() - transferred_before).count()},
                   task_->samples_per_step());
  measurements.add_sent(engine.bytes_sent_in_collectives() - sent_before);
  measurements.add_pretended(pretended.count());
  clock_.took_step();
  if (launched_run_) launched_run_->tell_progress();
}

bool Loop::accepts_gradient() {
  if (gradient_.size() > 0 || !device_) return session_.accepts(gradient_.span());
  if (device_->gradient_is_finite()) return true;
  session_.refuse(/*is_told=*/false);
  return false;
}

void Loop::update() {
  if (accepts_gradient()) {
    if (device_) device_->put_gradient();
    optimizer_->update(model_.span().first(layout_.size()), gradient_.span());
  } else {
    optimizer_->skip();
    record_.measurements().add_skipped();
    context_.log().warn("step {}: non-finite gradient, update skipped", session_.steps().count());
  }
}

void Loop::after_update() {
  const bool moves = session_.row().family == algorithms::Family::model && !merges_on_device_ &&
                     session_.algorithm().meets_after(steps_done());
  if (moves) fetch_model();
  session_.after_update(model_of_session());
  if (moves) put_model();
}

void Loop::consolidate() {
  if (!merges_on_device_) fetch_model();
  session_.consolidate(model_of_session());
  merges_on_device_ ? fetch_model() : put_model();
}

void Loop::meet() {
  if (!clock_.stands_still()) record_.measurements().add_meeting(clock_.meet().count());
}

void Loop::drain() {
  meet();
  if (session_.drain(gradient_.span())) update();
}

void Loop::flush() {
  meet();
  record_.flush();
}

void Loop::evaluate() {
  meet();
  fetch_model();
  record_.evaluate(model_.span());
}

void Loop::checkpoint() {
  meet();
  if (!session_.facts().resumes_apart) consolidate();
  fetch_model();
  flush();
  base::Archive archive;
  nlohmann::json identity = identity_of(options_, context_.size());
  identity.update(machine_of(options_));
  archive.put_text("identity", identity.dump());
  archive.put_value("apart", session_.facts().resumes_apart);
  archive.put_value("step", steps_done());
  record_.save(archive);
  archive.put("model", model_.span());
  archive.put_text("findings", telemetry::findings_json(session_.steps().findings()).dump());
  session_.save(archive);
  optimizer_->save(archive);
  task_->save(archive);
  if (std::exchange(saved_, steps_done()) != steps_done())  // else both generations would be of one step
    checkpoints_.write(steps_done(), [&] { return archive.to_bytes(); });
  context_.log().info("checkpoint after step {}", steps_done());
}

telemetry::Summary Loop::run() {
  log_options();
  resume_or_begin();
  evaluate();
  clock_.set_out();
  while (steps_done() < options_.steps) {
    if (!observer_.may_take_step(steps_done() + 1)) return end_early();
    take_step();
    if (context_.rank() == 0) observer_.progress(steps_done(), options_.steps);
    if (steps_done() == options_.steps) drain();
    pause();
    if (clock_.stands_still()) clock_.set_out();
  }
  return finish();
}

// The checkpoint comes first: there may be little time. The rest brings agents to an end that others still talk to.
telemetry::Summary Loop::end_early() {
  meet();
  if (!options_.out.empty()) checkpoint();
  drain();
  consolidate();
  record_.summary().steps = steps_done();
  record_.summary().interrupted = true;
  context_.wait(context_.engine().barrier(), "end");
  return record_.summary();
}

void Loop::pause() {
  const bool in_lockstep = session_.facts().replicas_are_equal,
             is_due = record_.evaluates() && steps_done() % options_.evaluate_every == 0;
  if (steps_done() == options_.steps || (is_due && in_lockstep)) {
    evaluate();
  } else {
    if (is_due) {
      fetch_model();
      record_.take_snapshot(model_.span());
    }
    if (steps_done() % (in_lockstep ? kFlushEvery : kHaltEvery) == 0 ||
        record_.has_no_room_for_snapshots(model_.size())) {
      if (!in_lockstep) clock_.halt();
      flush();
    }
  }
  if (options_.checkpoint_every > 0 && steps_done() % options_.checkpoint_every == 0) checkpoint();
}

telemetry::Summary Loop::finish() {
  consolidate();
  fetch_model();
  record_.finish(model_.span());
  context_.wait(context_.engine().barrier(), "end");
  if (launched_run_) launched_run_->tell_end();
  return record_.summary();
}

}  // namespace

telemetry::Summary train(engines::Engine& engine, const TrainOptions& options, const MakeTask& make_task,
                         const Observer& observer) {
  return train(engine, options, algorithms::find_algorithm(options.algorithm), make_task, observer);
}

telemetry::Summary train(engines::Engine& engine, const TrainOptions& options,
                         const algorithms::AlgorithmRow& algorithm, const MakeTask& make_task,
                         const Observer& observer) {
  return Loop(engine, options, algorithm, make_task, observer).run();
}

}  // namespace flockstep::train
