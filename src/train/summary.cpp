#include "train/loop.h"

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

Summary summary_from_json(const nlohmann::json& json) {
  Summary summary;
  json.at("steps").get_to(summary.steps);
  json.at("interrupted").get_to(summary.interrupted);
  json.at("metric").get_to(summary.metric);
  json.at("lower_is_better").get_to(summary.lower_is_better);
  json.at("quality").get_to(summary.quality);
  json.at("train_loss").get_to(summary.train_loss);
  json.at("time_s").get_to(summary.time_s);
  json.at("samples_per_s").get_to(summary.samples_per_s);
  json.at("wait_share").get_to(summary.wait_share);
  json.at("bytes_sent_per_step").get_to(summary.bytes_sent_per_step);
  json.at("guards").at("skipped_steps").get_to(summary.skipped_steps);
  json.at("model_hash").get_to(summary.model_hash);
  json.at("replicas_equal").get_to(summary.replicas_equal);
  json.at("memory_bytes").get_to(summary.memory);
  return summary;
}

}  // namespace flockstep::train
