#include "train/loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "engines/missing.h"
#include "engines/run_record.h"
#include "runtime/gather.h"
#include "session/checkpoints.h"
#include "session/session.h"
#include "telemetry/metrics_file.h"
#include "telemetry/telemetry.h"
#include "telemetry/trace_file.h"
#include "train/backward.h"
#include "train/evaluator.h"
#include "train/measurements.h"

namespace flockstep::train {
namespace {

using base::Duration;
using base::Time;

// A request to stop is heard, and what was measured is written, at least this often.
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

// What a worker hands to a later evaluation, instead of waiting for the other workers.
struct Snapshot {
  std::int64_t step;
  std::span<float> model;
  Measurements measurements;
  std::optional<algorithms::MeetingReport> meetings;
  algorithms::GuardCounts guards;
};

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
  void require_same_run(const nlohmann::json& saved, bool saved_apart) const;
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
  Duration wait_for_all(std::string_view name);  // returns how long it took
  void meet();
  void halt();
  void set_out();
  void drain();
  // These four return true when somebody asked to stop.
  bool pause();  // what is due after a step beside training
  bool flush();  // adds up what the workers have measured, and writes a line per step since the last time
  bool evaluate();
  bool checkpoint();
  void write_step_lines();
  std::uint64_t sent_in_messages();
  void count_messages();
  void take_snapshot();
  void evaluate_snapshots();
  void tell_quality(std::int64_t step);
  telemetry::Summary end_early();
  telemetry::Summary finish(bool interrupted);
  bool writes() const { return metrics_ != nullptr; }

  const TrainOptions& options_;
  const Observer& observer_;
  runtime::Context context_;
  engines::RunRecord* const record_;      // null where the engine has none
  base::Buffer<float> model_, gradient_;  // before those who have views of them, or transfers under way in them
  std::unique_ptr<Task> task_;
  OnDevice* const device_;       // null in main memory
  const bool merges_on_device_;  // the algorithm does, without a model in main memory
  runtime::Layout layout_;
  Backward backward_;
  session::Session session_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<Evaluator> evaluator_;  // where there are gradients
  std::vector<Snapshot> snapshots_;     // not evaluated yet; the same steps on all workers
  session::Checkpoints checkpoints_;
  std::unique_ptr<telemetry::MetricsFile> metrics_;  // rank 0 only
  telemetry::Telemetry telemetry_;                   // rank 0 only

  std::int64_t evaluated_ = -1;  // the last step that was evaluated, or has a snapshot to evaluate
  std::int64_t saved_ = -1;      // the step of the newest checkpoint
  bool met_ = true;              // since the last step: the clock stands still
  Duration behind_{0};           // how much later than the first worker this one arrived, where the clock stood still
  Measurements measurements_;
  std::uint64_t counted_messages_ = 0;  // bytes of theirs that measurements_ knows
  telemetry::Summary summary_;
};

Loop::Loop(engines::Engine& engine, const TrainOptions& options, const algorithms::AlgorithmRow& algorithm,
           const MakeTask& make_task, const Observer& observer)
    : options_(options),
      observer_(observer),
      context_(engine, options.patience, trace_capacity(options, engine.size()), options.log_level),
      record_(dynamic_cast<engines::RunRecord*>(&engine)),
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
      checkpoints_(context_, checkpoints_in(options.out), ".bin") {
  const auto allocate = [&](std::size_t size, const char* purpose) {
    return device_ ? device_->pinned(engine.memory(), size, purpose) : engine.memory().allocate<float>(size, purpose);
  };
  model_ = allocate(layout_.size() + task_->buffers(), "model");
  if (!device_ || needs_gradients(session_, options)) gradient_ = allocate(layout_.size(), "gradient");
  if (device_) device_->attach(model_.span(), gradient_.span());
  if (!options.gradients) return;
  evaluator_.emplace(context_, *task_, layout_, session_.facts().replicas_are_equal);
  summary_.metric = task_->metric().name;
  summary_.lower_is_better = task_->metric().lower_is_better;
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
      summary_.notes.push_back(found->warning);
      if (context_.rank() == 0) observer_.warn(found->warning);
    }
    require_same_run(nlohmann::json::parse(archive.get_text("identity")), archive.get_value<bool>("apart"));
    keep = archive.get_value<std::uint64_t>("metrics bytes");
    resume(archive, found->workers);
  } else {
    task_->initialise(model_.span());
  }
  runtime::check_agreement(context_, {{"resumed after step", std::to_string(steps_done())}});
  if (!options_.out.empty() && context_.rank() == 0) {
    base::make_directory(options_.out);
    metrics_ = std::make_unique<telemetry::MetricsFile>(options_.out / "metrics.jsonl", keep);
  }
  session_.begin(model_of_session());
}

void Loop::resume(const base::Archive& archive, int workers) {
  saved_ = archive.get_value<std::int64_t>("step");
  evaluated_ = archive.get_value<std::int64_t>("evaluated");
  summary_.evaluations = archive.get_vector<telemetry::Evaluation>("evaluations");
  summary_.train_loss = archive.get_value<double>("train loss");
  measurements_.restore(archive, context_, workers);
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
  summary_.notes.push_back(
      fmt::format("resumed after step {} with {} where there had been {}{}{}", steps_done(),
                  base::counted(context_.size(), "worker"), workers, remade.empty() ? "" : "; " + remade,
                  session_.facts().replicas_are_equal ? "" : "; every optimizer continues from worker 0's state"));
}

// All that defines the run must be as it was, but for the number of workers where the checkpoint holds one model. What
// this run would write does not tell: one worker alone may not call its only model apart.
void Loop::require_same_run(const nlohmann::json& saved, bool saved_apart) const {
  nlohmann::json mine = identity_of(options_, context_.size());
  const nlohmann::json machine = machine_of(options_);
  for (const auto& [name, value] : machine.items())  // on another engine it may go on
    if (saved.contains(name)) mine[name] = value;
  for (const auto& [name, value] : mine.items()) {
    if (saved.contains(name) && saved[name] == value) continue;
    if (name == "workers" && !saved_apart && !session_.facts().resumes_apart) continue;
    const std::string before = saved.value(name, nlohmann::json()).dump();
    throw Error(
        ErrorCode::bad_input,
        fmt::format("{} holds a run with {} {}, which one with {} cannot continue: {}", options_.out.string(), name,
                    before, value.dump(), name == "batch" ? "add --batch " + before : "start it like the first"));
  }
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
  const auto* const report = session_.algorithm().report();
  if (report && options_.gradients && context_.rank() == 0)
    telemetry_.observe(step + 1, *report, session_.steps().event(), session_.steps().raised());
  context_.trace().record(base::Track::compute, "update", update_begin, engine.now());
  after_update();

  const double seconds = (engine.now() - begin).count(), waited = (context_.waited() - waited_before).count();
  context_.log().debug("step {}: loss {:.6g}, {:.3g} s, of which {:.3g} s waiting", step + 1, loss, seconds, waited);
  measurements_.add({loss, seconds, waited, (context_.transferred() - transferred_before).count()},
                    task_->samples_per_step());
  measurements_.add_sent(engine.bytes_sent_in_collectives() - sent_before);
  measurements_.add_pretended(pretended.count());
  if (record_) record_->tell_progress();
  met_ = false;
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
    measurements_.add_skipped();
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

Duration Loop::wait_for_all(std::string_view name) {
  const Duration before = context_.waited();
  const engines::Pending barrier = context_.engine().barrier();
  const base::Time deadline = context_.deadline();
  context_.wait_for([&] { return barrier->done() || context_.engine().now() >= deadline; }, name);
  if (!barrier->done())
    context_.engine().fail(Error(
        ErrorCode::deadline,
        engines::late_sentence(barrier->missing(), fmt::format("the {}", name), context_.rank(), context_.patience()),
        std::string(context_.engine().name())));
  return context_.waited() - before;
}

// All workers wait here, with any algorithm, and the clock runs on: each worker's time becomes that of the slowest.
void Loop::meet() {
  if (met_) return;
  measurements_.add_meeting(wait_for_all("meeting of all workers").count());
  met_ = true;
}

// Stops the clock of each worker where it arrives: the wait is no part of any step. Each worker sets out again as far
// behind the first as it has arrived, so that a halt neither makes up for a delay nor adds to it. A worker that is ever
// further behind makes up for a part: else the wait for it would outlast every deadline.
void Loop::halt() {
  if (met_) return;
  const double waited = wait_for_all("halt of all workers").count();
  const auto all = runtime::gather_doubles(context_, std::span(&waited, 1));
  behind_ = std::min(Duration(std::ranges::max(all) - waited), context_.patience() / 4);
  met_ = true;
}

// Rank 0 writes where others have nothing to do; who sets out before it would wait for it later, on the clock.
void Loop::set_out() {
  const engines::Pending barrier = context_.engine().barrier();
  engines::wait(context_.engine(), *barrier, context_.deadline(), "the setting out of all workers");
  if (behind_.count() > 0) context_.engine().sleep(std::exchange(behind_, Duration(0)));
}

void Loop::drain() {
  meet();
  if (session_.drain(gradient_.span())) update();
}

void Loop::write_step_lines() {
  std::int64_t step = steps_done() - static_cast<std::int64_t>(measurements_.records().size());
  for (const telemetry::StepRecord& record : measurements_.records()) {
    nlohmann::json line = telemetry::line_of(++step, record);
    telemetry_.describe(step, line);
    metrics_->append(line);
  }
  for (const auto& line : telemetry_.new_findings(steps_done())) metrics_->append(line);
}

// Outside of steps, evaluations and the like use collectives; messages are those of algorithms and their agents, who
// send them at any time.
std::uint64_t Loop::sent_in_messages() {
  return context_.engine().bytes_sent() - context_.engine().bytes_sent_in_collectives();
}

void Loop::count_messages() {
  const std::uint64_t messages = sent_in_messages();
  measurements_.add_sent(messages - std::exchange(counted_messages_, messages));
}

void Loop::take_snapshot() {
  fetch_model();
  count_messages();
  const auto* const meetings = session_.algorithm().meetings();
  snapshots_.push_back({steps_done(), evaluator_->copy(model_.span(), session_.algorithm()),
                        measurements_.with_last_record(), meetings ? std::optional(*meetings) : std::nullopt,
                        session_.guards()});
  evaluated_ = steps_done();
}

// Collective: does for each what evaluate() would have done after its step.
void Loop::evaluate_snapshots() {
  for (Snapshot& each : std::exchange(snapshots_, {})) {
    summary_.guards = each.guards;
    each.measurements.add_up(context_, each.step, false, each.meetings ? &*each.meetings : nullptr, summary_);
    evaluator_->evaluate_copy(each.step, each.model, options_, summary_);
    tell_quality(each.step);
    if (writes()) metrics_->append(telemetry::evaluation_line(summary_, each.step));
  }
  if (evaluator_) evaluator_->forget_copies();
}

void Loop::tell_quality(std::int64_t step) {
  if (context_.rank() == 0)
    context_.log().info("step {}: {} {:.6g}, train loss {:.6g}", step, summary_.metric, summary_.quality,
                        summary_.train_loss);
}

bool Loop::flush() {
  meet();
  evaluate_snapshots();
  count_messages();
  summary_.guards = session_.guards();
  const bool stop = measurements_.add_up(context_, steps_done(), observer_.stop_requested(),
                                         session_.algorithm().meetings(), summary_);
  if (writes()) write_step_lines();
  measurements_.forget();
  telemetry_.forget();
  return stop;
}

bool Loop::evaluate() {
  const bool stop = flush();
  fetch_model();
  if (evaluator_) evaluator_->evaluate(steps_done(), model_.span(), session_.algorithm(), options_, summary_);
  if (evaluator_) tell_quality(steps_done());
  const bool is_new =
      evaluated_ != steps_done();  // a resumed run starts where an evaluation may already stand in the file
  evaluated_ = steps_done();
  if (writes() && is_new) {
    if (evaluator_) metrics_->append(telemetry::evaluation_line(summary_, steps_done()));
    if (const auto cosines = telemetry_.cosines(steps_done())) metrics_->append(*cosines);
    metrics_->flush();
  }
  return stop;
}

bool Loop::checkpoint() {
  meet();
  if (!session_.facts().resumes_apart) consolidate();
  fetch_model();
  const bool stop = flush();
  base::Archive archive;
  nlohmann::json identity = identity_of(options_, context_.size());
  identity.update(machine_of(options_));
  archive.put_text("identity", identity.dump());
  archive.put_value("apart", session_.facts().resumes_apart);
  archive.put_value("step", steps_done());
  archive.put_value("evaluated", evaluated_);
  archive.put("evaluations", std::span<const telemetry::Evaluation>(summary_.evaluations));
  archive.put_value("train loss", summary_.train_loss);
  measurements_.save(archive);
  archive.put_value("metrics bytes", writes() ? metrics_->flush() : std::uint64_t{0});
  archive.put("model", model_.span());
  archive.put_text("findings", telemetry::findings_json(session_.steps().findings()).dump());
  session_.save(archive);
  optimizer_->save(archive);
  task_->save(archive);
  if (std::exchange(saved_, steps_done()) != steps_done())  // else both generations would be of one step
    checkpoints_.write(steps_done(), [&] { return archive.to_bytes(); });
  context_.log().info("checkpoint after step {}", steps_done());
  return stop;
}

telemetry::Summary Loop::run() {
  counted_messages_ = sent_in_messages();
  log_options();
  resume_or_begin();
  bool stop = evaluate();
  set_out();
  while (steps_done() < options_.steps && !stop) {
    if (!observer_.may_take_step(steps_done() + 1)) return end_early();
    take_step();
    if (context_.rank() == 0) observer_.progress(steps_done(), options_.steps);
    if (steps_done() == options_.steps) drain();
    stop = pause();
    if (met_) set_out();
  }
  const bool interrupted = steps_done() < options_.steps;
  if (interrupted) drain();
  if (evaluated_ != steps_done() || (interrupted && evaluator_ && evaluator_->averages()))
    evaluate();  // what was drained changes models that differ
  return finish(interrupted);
}

// The checkpoint comes first: there may be little time. The rest brings agents to an end that others still talk to.
telemetry::Summary Loop::end_early() {
  meet();
  if (!options_.out.empty()) checkpoint();
  drain();
  consolidate();
  summary_.steps = steps_done();
  summary_.interrupted = true;
  context_.wait(context_.engine().barrier(), "end");
  return summary_;
}

bool Loop::pause() {
  const bool in_lockstep = session_.facts().replicas_are_equal,
             is_due = evaluator_ && steps_done() % options_.evaluate_every == 0;
  bool stop = false;
  if (steps_done() == options_.steps || (is_due && in_lockstep)) {
    stop = evaluate();
  } else {
    if (is_due) take_snapshot();
    if (steps_done() % (in_lockstep ? kFlushEvery : kHaltEvery) == 0 ||
        snapshots_.size() >= most_snapshots(model_.size(), context_.size())) {
      if (!in_lockstep) halt();
      stop = flush();
    }
  }
  if (options_.checkpoint_every > 0 && (steps_done() % options_.checkpoint_every == 0 || stop))
    stop = checkpoint() || stop;
  return stop;
}

telemetry::Summary Loop::finish(bool interrupted) {
  consolidate();
  fetch_model();
  if (evaluator_) evaluator_->average_buffers(model_.span());
  flush();  // agents have come to rest: only now is known what the last steps had them send
  const std::uint64_t hash = base::hash_of(std::span<const float>(model_.span()));
  const std::vector<double> halves{static_cast<double>(hash >> 32), static_cast<double>(hash & 0xFFFFFFFFu)};
  const auto all = runtime::gather_doubles(context_, halves);
  for (std::size_t i = 0; i < all.size(); ++i)
    summary_.replicas_equal = summary_.replicas_equal && all[i] == all[i % 2];
  summary_.model_hash =
      fmt::format("{:08x}{:08x}", static_cast<std::uint32_t>(all[0]), static_cast<std::uint32_t>(all[1]));
  summary_.steps = steps_done();
  summary_.interrupted = interrupted;
  summary_.memory = context_.engine().memory().held();
  summary_.findings = session_.steps().findings();
  if (evaluator_) {
    // Each worker's own count is the newest: what others have heard of it is left out.
    std::vector<math::Finding> mine = session_.algorithm().findings();
    std::erase_if(mine, [&](const math::Finding& finding) { return finding.workers.front() != context_.rank(); });
    for (const std::string& found : runtime::gather_texts(context_, telemetry::findings_json(mine).dump()))
      std::ranges::move(telemetry::findings_from_json(nlohmann::json::parse(found)),
                        std::back_inserter(summary_.findings));
  }
  if (!options_.out.empty()) {
    telemetry::write_trace(context_, options_.out / "trace.json");
    if (context_.rank() == 0)
      base::write_atomically(options_.out / "summary.json",
                             describe(summary_, options_, context_.engine().name(), context_.size()).dump(2) + "\n");
    context_.log().info("metrics, trace and summary are in {}", options_.out.string());
  }
  context_.wait(context_.engine().barrier(), "end");
  if (record_ && !interrupted) record_->tell_end();
  return summary_;
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
