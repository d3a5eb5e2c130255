#include "train/run_record.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "runtime/gather.h"
#include "telemetry/trace_file.h"

namespace flockstep::train {

RunRecord::RunRecord(runtime::Context& context, const TrainOptions& options, session::Session& session, Task& task,
                     const runtime::Layout& layout)
    : context_(context), options_(options), session_(session), counted_messages_(sent_in_messages()) {
  if (!options.gradients) return;
  evaluator_.emplace(context, task, layout, session.facts().replicas_are_equal);
  summary_.metric = task.metric().name;
  summary_.lower_is_better = task.metric().lower_is_better;
}

void RunRecord::open(std::uint64_t keep) {
  if (options_.out.empty() || context_.rank() != 0) return;
  base::make_directory(options_.out);
  metrics_ = std::make_unique<telemetry::MetricsFile>(options_.out / "metrics.jsonl", keep);
}

void RunRecord::observe_gradients() {
  const auto* const report = session_.algorithm().report();
  if (report && options_.gradients && context_.rank() == 0)
    telemetry_.observe(steps_done() + 1, *report, session_.steps().event(), session_.steps().raised());
}

// Outside of steps, evaluations and the like use collectives; messages are those of algorithms and their agents, who
// send them at any time.
std::uint64_t RunRecord::sent_in_messages() const {
  return context_.engine().bytes_sent() - context_.engine().bytes_sent_in_collectives();
}

void RunRecord::count_messages() {
  const std::uint64_t messages = sent_in_messages();
  measurements_.add_sent(messages - std::exchange(counted_messages_, messages));
}

void RunRecord::write_step_lines() {
  std::int64_t step = steps_done() - static_cast<std::int64_t>(measurements_.records().size());
  for (const telemetry::StepRecord& record : measurements_.records()) {
    nlohmann::json line = telemetry::line_of(++step, record);
    telemetry_.describe(step, line);
    metrics_->append(line);
  }
  for (const auto& line : telemetry_.new_findings(steps_done())) metrics_->append(line);
}

void RunRecord::flush() {
  evaluate_snapshots();
  count_messages();
  summary_.guards = session_.guards();
  measurements_.add_up(context_, steps_done(), session_.algorithm().meetings(), summary_);
  if (metrics_) write_step_lines();
  measurements_.forget();
  telemetry_.forget();
}

void RunRecord::evaluate(std::span<const float> model) {
  flush();
  if (evaluator_) {
    evaluator_->evaluate(steps_done(), model, session_.algorithm(), options_, summary_);
    tell_quality(steps_done());
  }
  // A resumed run starts where an evaluation may already stand in the file.
  const bool is_new = std::exchange(evaluated_, steps_done()) != steps_done();
  if (!metrics_ || !is_new) return;
  if (evaluator_) metrics_->append(telemetry::evaluation_line(summary_, steps_done()));
  if (const auto cosines = telemetry_.cosines(steps_done())) metrics_->append(*cosines);
  metrics_->flush();
}

void RunRecord::take_snapshot(std::span<const float> model) {
  count_messages();
  const auto* const meetings = session_.algorithm().meetings();
  snapshots_.push_back({steps_done(), evaluator_->copy(model, session_.algorithm()), measurements_.with_last_record(),
                        meetings ? std::optional(*meetings) : std::nullopt, session_.guards()});
  evaluated_ = steps_done();
}

bool RunRecord::has_no_room_for_snapshots(std::size_t numbers) const {
  return snapshots_.size() >= most_snapshots(numbers, context_.size());
}

// Collective: does for each what evaluate() would have done after its step.
void RunRecord::evaluate_snapshots() {
  for (Snapshot& each : std::exchange(snapshots_, {})) {
    summary_.guards = each.guards;
    each.measurements.add_up(context_, each.step, each.meetings ? &*each.meetings : nullptr, summary_);
    evaluator_->evaluate_copy(each.step, each.model, options_, summary_);
    tell_quality(each.step);
    if (metrics_) metrics_->append(telemetry::evaluation_line(summary_, each.step));
  }
  if (evaluator_) evaluator_->forget_copies();
}

void RunRecord::tell_quality(std::int64_t step) const {
  if (context_.rank() == 0)
    context_.log().info("step {}: {} {:.6g}, train loss {:.6g}", step, summary_.metric, summary_.quality,
                        summary_.train_loss);
}

void RunRecord::save(base::Archive& archive) const {
  archive.put_value("evaluated", evaluated_);
  archive.put("evaluations", std::span<const telemetry::Evaluation>(summary_.evaluations));
  archive.put_value("train loss", summary_.train_loss);
  measurements_.save(archive);
  archive.put_value("metrics bytes", metrics_ ? metrics_->flush() : std::uint64_t{0});
}

void RunRecord::restore(const base::Archive& archive, int workers) {
  evaluated_ = archive.get_value<std::int64_t>("evaluated");
  summary_.evaluations = archive.get_vector<telemetry::Evaluation>("evaluations");
  summary_.train_loss = archive.get_value<double>("train loss");
  measurements_.restore(archive, context_, workers);
}

void RunRecord::compare_models(std::span<const float> model) {
  const std::uint64_t hash = base::hash_of(model);
  const std::vector<double> halves{static_cast<double>(hash >> 32), static_cast<double>(hash & 0xFFFFFFFFu)};
  const auto all = runtime::gather_doubles(context_, halves);
  for (std::size_t i = 0; i < all.size(); ++i)
    summary_.replicas_equal = summary_.replicas_equal && all[i] == all[i % 2];
  summary_.model_hash =
      fmt::format("{:08x}{:08x}", static_cast<std::uint32_t>(all[0]), static_cast<std::uint32_t>(all[1]));
}

void RunRecord::gather_findings() {
  summary_.findings = session_.steps().findings();
  if (!evaluator_) return;
  // Each worker's own count is the newest: what others have heard of it is left out.
  std::vector<math::Finding> mine = session_.algorithm().findings();
  std::erase_if(mine, [&](const math::Finding& finding) { return finding.workers.front() != context_.rank(); });
  for (const std::string& found : runtime::gather_texts(context_, telemetry::findings_json(mine).dump()))
    std::ranges::move(telemetry::findings_from_json(nlohmann::json::parse(found)),
                      std::back_inserter(summary_.findings));
}

void RunRecord::finish(std::span<float> model) {
  if (evaluator_) evaluator_->average_buffers(model);
  flush();  // only now is known what the last steps had agents send
  compare_models(model);
  summary_.steps = steps_done();
  summary_.memory = context_.engine().memory().held();
  gather_findings();
  if (options_.out.empty()) return;
  telemetry::write_trace(context_, options_.out / "trace.json");
  if (context_.rank() == 0)
    base::write_atomically(options_.out / "summary.json",
                           describe(summary_, options_, context_.engine().name(), context_.size()).dump(2) + "\n");
  context_.log().info("metrics, trace and summary are in {}", options_.out.string());
}

}  // namespace flockstep::train
