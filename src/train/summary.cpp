#include "train/loop.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace flockstep::train {

nlohmann::json to_json(const Summary& summary) {
  return {
      {"steps", summary.steps},
      {"interrupted", summary.interrupted},
      {"metric", summary.metric},
      {"lower_is_better", summary.lower_is_better},
      {"quality", summary.quality},
      {"train_loss", summary.train_loss},
      {"time_s", summary.time_s},
      {"samples_per_s", summary.samples_per_s},
      {"wait_share", summary.wait_share},
      {"bytes_sent_per_step", summary.bytes_sent_per_step},
      {"guards", {{"skipped_steps", summary.skipped_steps}}},
      {"model_hash", summary.model_hash},
      {"replicas_equal", summary.replicas_equal},
      {"memory_bytes", summary.memory},
  };
}

nlohmann::json describe(const Summary& summary, const TrainOptions& options, std::string_view engine, int workers) {
  nlohmann::json described = identity_of(options, workers);
  described["engine"] = engine;
  described["requested_steps"] = options.steps;
  described["pace"] = pace_of(options);
  described.update(to_json(summary));
  return described;
}

Summary summary_from_json(const nlohmann::json& json) {
  // JSON has no NaN: a diverged run's numbers come back as null.
  const auto number = [&](const char* name) {
    return json.at(name).is_null() ? std::numeric_limits<double>::quiet_NaN() : json.at(name).get<double>();
  };
  Summary summary;
  json.at("steps").get_to(summary.steps);
  json.at("interrupted").get_to(summary.interrupted);
  json.at("metric").get_to(summary.metric);
  json.at("lower_is_better").get_to(summary.lower_is_better);
  summary.quality = number("quality");
  summary.train_loss = number("train_loss");
  summary.time_s = number("time_s");
  summary.samples_per_s = number("samples_per_s");
  summary.wait_share = number("wait_share");
  summary.bytes_sent_per_step = number("bytes_sent_per_step");
  json.at("guards").at("skipped_steps").get_to(summary.skipped_steps);
  json.at("model_hash").get_to(summary.model_hash);
  json.at("replicas_equal").get_to(summary.replicas_equal);
  json.at("memory_bytes").get_to(summary.memory);
  return summary;
}

}  // namespace flockstep::train
