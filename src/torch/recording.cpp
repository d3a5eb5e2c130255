#include "torch/recording.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/split.h"
#include "telemetry/trace_file.h"

namespace flockstep::torch_front {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kCosinesEvery = 100;  // steps, and at evaluations
constexpr base::Duration kFlushEvery{1};

// As much as the command has.
std::size_t trace_capacity(int workers) {
  return std::max<std::size_t>(500, 200000 / static_cast<std::size_t>(workers));
}

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// How many bytes of an earlier run's metrics are about the steps before this one, which is about to be written.
std::uint64_t bytes_before(const std::filesystem::path& path, std::int64_t step) {
  if (!std::filesystem::exists(path)) return 0;
  std::vector<std::string> lines = base::split(base::read_text(path), '\n');
  lines.pop_back();  // what no newline ends is not whole
  std::uint64_t bytes = 0;
  for (const std::string& text : lines) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || line.value("step", step) >= step) break;
    bytes += text.size() + 1;
  }
  return bytes;
}

}  // namespace

Recording::Recording(runtime::Context& context, RecordingSettings settings)
    : context_(context),
      settings_(std::move(settings)),
      epoch_s_(unix_time_s() - context.engine().now().time_since_epoch().count()),
      has_files_(!settings_.folder.empty()),
      began_(context.engine().now()),
      flushed_(began_),
      waited_s_(context.waited().count()),
      transferred_s_(context.transferred().count()),
      sent_before_(context.engine().bytes_sent()) {
  summary_.quality = summary_.train_loss = kUnknown;
  if (!has_files_) return;
  base::make_directory(settings_.folder);
  context.trace().set_capacity(trace_capacity(context.size()));
}

std::filesystem::path Recording::metrics_path() const {
  const int rank = context_.rank();
  return settings_.folder / (rank == 0 ? "metrics.jsonl" : "metrics-" + std::to_string(rank) + ".jsonl");
}

// What a full disk breaks is the recording, not the training.
template <typename Body>
void Recording::with_file(const Body& body) {
  if (!has_files_) return;
  try {
    body();
  } catch (...) {
    broken_ = std::current_exception();
    has_files_ = false;
    metrics_.reset();
  }
}

void Recording::open(std::int64_t step) {
  const auto path = metrics_path();
  metrics_.emplace(path, bytes_before(path, step));
  std::filesystem::remove(settings_.folder / ("trace-" + std::to_string(context_.rank()) + ".part"));
  if (context_.rank() != 0) return;
  std::filesystem::remove(settings_.folder / "summary.json");
  std::filesystem::remove(settings_.folder / "trace.json");
  // An earlier run here may have had more workers.
  for (const auto& entry : std::filesystem::directory_iterator(settings_.folder)) {
    const std::string stem = entry.path().stem();
    const std::size_t dash = stem.find('-');
    if (dash == std::string::npos || (stem.substr(0, dash) != "metrics" && stem.substr(0, dash) != "trace")) continue;
    if (std::atoi(stem.c_str() + dash + 1) >= context_.size()) std::filesystem::remove(entry.path());
  }
}

void Recording::add(std::int64_t step, base::Time computed, const algorithms::GradientReport* report,
                    const algorithms::MeetingReport* meetings, const session::Steps* watched) {
  const std::lock_guard lock(mutex_);
  const base::Time now = context_.engine().now();
  context_.trace().record(base::Track::compute, "gradient", std::min(began_, computed), computed);
  with_file([&] {
    if (!metrics_) open(step);
    write_step();
    if (now - flushed_ < kFlushEvery) return;
    metrics_->flush();
    flushed_ = now;
  });

  const double waited_s = context_.waited().count(), transferred_s = context_.transferred().count();
  step_ = {kUnknown, (now - began_).count(), waited_s - waited_s_, transferred_s - transferred_s_};
  is_written_ = false;
  began_ = now;
  waited_s_ = waited_s;
  transferred_s_ = transferred_s;
  waited_in_steps_s_ += step_.waited_s;
  ++steps_;
  summary_.steps = step;
  summary_.time_s += step_.seconds;
  summary_.wait_share = summary_.time_s > 0 ? waited_in_steps_s_ / summary_.time_s : 0;
  summary_.bytes_sent_per_step =
      static_cast<double>(context_.engine().bytes_sent() - sent_before_) / static_cast<double>(steps_);
  if (meetings) {
    telemetry::MeetingTotals totals;
    totals.add(*meetings);
    summary_.meetings = totals.figures();
  }
  if (!report) return;
  coefficients_ = report->coefficients;
  agreement_ = math::agreement(report->statistics);
  norms_.assign(report->statistics.q.begin(), report->statistics.q.end());
  for (double& norm : norms_) norm = std::sqrt(norm);
  summary_.guards.non_finite += report->event == math::Event::non_finite;
  summary_.guards.all_zero += report->event == math::Event::all_zero;
  summary_.guards.unsafe += report->event == math::Event::unsafe;
  summary_.guards.clipped += report->any_clipped();
  if (watched) summary_.findings = watched->findings();
  if (context_.rank() == 0)
    telemetry_.observe(step, *report, report->event, watched ? watched->raised() : std::vector<math::Finding>());
}

void Recording::write_step() {
  if (std::exchange(is_written_, true)) return;
  nlohmann::json line = telemetry::line_of(summary_.steps, step_);
  telemetry_.describe(summary_.steps, line);
  telemetry_.forget();
  metrics_->append(line);
  for (const nlohmann::json& finding : telemetry_.new_findings(summary_.steps)) metrics_->append(finding);
  if (summary_.steps % kCosinesEvery == 0)
    if (const auto cosines = telemetry_.cosines(summary_.steps)) metrics_->append(*cosines);
}

void Recording::set_loss(double loss) {
  const std::lock_guard lock(mutex_);
  summary_.train_loss = loss;
  step_.loss = loss;
}

void Recording::add_evaluation(const std::string& metric, double quality, bool lower_is_better) {
  const std::lock_guard lock(mutex_);
  began_ = context_.engine().now();
  evaluated_ = true;
  summary_.metric = metric;
  summary_.quality = quality;
  summary_.lower_is_better = lower_is_better;
  if (context_.rank() != 0) return;
  with_file([&] {
    if (!metrics_) return;
    write_step();
    metrics_->append(telemetry::evaluation_line(summary_, summary_.steps));
    if (const auto cosines = telemetry_.cosines(summary_.steps)) metrics_->append(*cosines);
    metrics_->flush();
  });
}

std::map<std::string, double> Recording::figures() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, double> figures{{"step", static_cast<double>(summary_.steps)},
                                        {"loss", step_.loss},
                                        {"seconds", step_.seconds},
                                        {"wait_s", step_.waited_s},
                                        {"transfer_s", step_.transferred_s},
                                        {"time_s", summary_.time_s},
                                        {"wait_share", summary_.wait_share},
                                        {"bytes_sent_per_step", summary_.bytes_sent_per_step}};
  if (evaluated_) figures["quality"] = summary_.quality;
  if (summary_.meetings) {
    figures["fresh_fraction"] = summary_.meetings->fresh_fraction;
    figures["alone_share"] = summary_.meetings->alone_share;
    figures["mean_staleness"] = summary_.meetings->mean_staleness;
    figures["mean_round_s"] = summary_.meetings->mean_round_s;
  }
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    for (std::size_t worker = 0; worker < values.size(); ++worker)
      figures[name + "/" + std::to_string(worker)] = values[worker];
  };
  add("coefficient", coefficients_);
  add("norm", norms_);
  add("agreement", agreement_);
  if (!coefficients_.empty()) {
    figures["guard/non_finite"] = static_cast<double>(summary_.guards.non_finite);
    figures["guard/all_zero"] = static_cast<double>(summary_.guards.all_zero);
    figures["guard/unsafe"] = static_cast<double>(summary_.guards.unsafe);
    figures["guard/clipped"] = static_cast<double>(summary_.guards.clipped);
  }
  std::erase_if(figures, [](const auto& figure) { return std::isnan(figure.second); });
  return figures;
}

void Recording::write_summary() {
  nlohmann::json json = telemetry::to_json(summary_);
  // What nobody has told it, or would have to ask the other workers for.
  for (const char* name : {"validation", "samples_per_s", "model_hash", "replicas_equal", "memory_bytes"})
    json.erase(name);
  if (!evaluated_)
    for (const char* name : {"metric", "lower_is_better", "quality"}) json.erase(name);
  json["task"] = "PyTorch";
  json["algorithm"] = settings_.algorithm;
  json["algorithm_settings"] = settings_.options;
  json["engine"] = context_.engine().name();
  json["workers"] = context_.size();
  base::write_atomically(settings_.folder / "summary.json", json.dump(2) + "\n");
}

void Recording::close() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(closed_, true)) return;
  with_file([&] {
    if (!metrics_) return;
    write_step();
    if (const auto cosines = telemetry_.cosines(summary_.steps)) metrics_->append(*cosines);
    metrics_->flush();
    if (context_.rank() == 0) write_summary();
    telemetry::write_trace_part(context_.rank(), context_.size(), context_.trace(), epoch_s_, settings_.folder);
  });
  if (broken_) std::rethrow_exception(broken_);
}

}  // namespace flockstep::torch_front
