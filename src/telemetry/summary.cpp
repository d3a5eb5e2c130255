#include "telemetry/summary.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/schema.h"
#include "telemetry/telemetry.h"

namespace flockstep::telemetry {
namespace {

nlohmann::json guards_json(const Summary& summary) {
  return {{"skipped_steps", summary.skipped_steps},
          {"non_finite", summary.guards.non_finite},
          {"all_zero", summary.guards.all_zero},
          {"unsafe", summary.guards.unsafe},
          {"clipped", summary.guards.clipped}};
}

nlohmann::json figures_json(const std::vector<Figure>& figures) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : figures) json[name] = value;
  return json;
}

nlohmann::json evaluations_json(const std::vector<Evaluation>& evaluations) {
  nlohmann::json json = nlohmann::json::array();
  for (const Evaluation& each : evaluations)
    json.push_back({{"step", each.step}, {"time_s", each.time_s}, {"quality", each.quality}});
  return json;
}

nlohmann::json json_of(const std::optional<double>& value) { return value ? nlohmann::json(*value) : nlohmann::json(); }

nlohmann::json quality_json(const Summary& summary) {
  return {{"metric", summary.metric},
          {"lower_is_better", summary.lower_is_better},
          {"quality", summary.quality},
          {"figures", figures_json(summary.figures)},
          {"validation", json_of(summary.validation)},
          {"evaluations", evaluations_json(summary.evaluations)},
          {"train_loss", summary.train_loss}};
}

// JSON has no NaN: a diverged run's numbers come back as null.
double number_in(const nlohmann::json& json, const char* name) {
  return json.at(name).is_null() ? std::numeric_limits<double>::quiet_NaN() : json.at(name).get<double>();
}

void read_quality(const nlohmann::json& json, Summary& summary) {
  json.at("metric").get_to(summary.metric);
  json.at("lower_is_better").get_to(summary.lower_is_better);
  summary.quality = number_in(json, "quality");
  for (const auto& [name, value] : json.at("figures").items())
    summary.figures.push_back({name, number_in(json.at("figures"), name.c_str())});
  if (!json.at("validation").is_null()) summary.validation = json.at("validation").get<double>();
  for (const nlohmann::json& each : json.at("evaluations"))
    summary.evaluations.push_back({each.at("step"), number_in(each, "time_s"), number_in(each, "quality")});
  summary.train_loss = number_in(json, "train_loss");
}

}  // namespace

nlohmann::json to_json(const Summary& summary) {
  nlohmann::json json{
      {"schema", base::kSchema},
      {"steps", summary.steps},
      {"interrupted", summary.interrupted},
      {"time_s", summary.time_s},
      {"samples_per_s", summary.samples_per_s},
      {"wait_share", summary.wait_share},
      {"share_of_ideal", json_of(summary.share_of_ideal)},
      {"bytes_sent_per_step", summary.bytes_sent_per_step},
      {"step_times", step_times_json(summary.step_times)},
      {"guards", guards_json(summary)},
      {"findings", findings_json(summary.findings)},
      {"notes", summary.notes},
      {"model_hash", summary.model_hash},
      {"replicas_equal", summary.replicas_equal},
      {"memory_bytes", summary.memory},
  };
  json.update(meetings_json(summary.meetings));
  if (summary.has_quality()) json.update(quality_json(summary));
  return json;
}

nlohmann::json evaluation_line(const Summary& summary, std::int64_t step) {
  nlohmann::json line{{"kind", "evaluation"},
                      {"step", step},
                      {"time_s", summary.time_s},
                      {"metric", summary.metric},
                      {"quality", summary.quality},
                      {"figures", figures_json(summary.figures)},
                      {"samples_per_s", summary.samples_per_s},
                      {"wait_share", summary.wait_share},
                      {"bytes_sent_per_step", summary.bytes_sent_per_step},
                      {"guards", guards_json(summary)}};
  line.update(meetings_json(summary.meetings));
  return line;
}

Summary summary_from_json(const nlohmann::json& json) {
  const auto number = [&](const char* name) { return number_in(json, name); };
  Summary summary;
  json.at("steps").get_to(summary.steps);
  json.at("interrupted").get_to(summary.interrupted);
  if (json.contains("metric")) read_quality(json, summary);
  summary.time_s = number("time_s");
  summary.samples_per_s = number("samples_per_s");
  summary.wait_share = number("wait_share");
  if (!json.at("share_of_ideal").is_null()) summary.share_of_ideal = json.at("share_of_ideal").get<double>();
  summary.bytes_sent_per_step = number("bytes_sent_per_step");
  summary.step_times = step_times_from_json(json.at("step_times"));
  summary.meetings = meetings_from_json(json);
  const nlohmann::json& guards = json.at("guards");
  guards.at("skipped_steps").get_to(summary.skipped_steps);
  guards.at("non_finite").get_to(summary.guards.non_finite);
  guards.at("all_zero").get_to(summary.guards.all_zero);
  guards.at("unsafe").get_to(summary.guards.unsafe);
  summary.guards.clipped = guards.value("clipped", std::int64_t{0});  // older files have none
  summary.findings = findings_from_json(json.at("findings"));
  json.at("notes").get_to(summary.notes);
  json.at("model_hash").get_to(summary.model_hash);
  json.at("replicas_equal").get_to(summary.replicas_equal);
  json.at("memory_bytes").get_to(summary.memory);
  return summary;
}

}  // namespace flockstep::telemetry
