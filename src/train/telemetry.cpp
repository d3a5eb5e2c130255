#include "train/telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace flockstep::train {
namespace {

// Six digits are more than a picture shows, and a third of the file.
nlohmann::json brief(const std::vector<double>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const double value : values)
    list.push_back(std::isfinite(value) ? nlohmann::json(std::stod(fmt::format("{:.6g}", value))) : nlohmann::json());
  return list;
}

}  // namespace

nlohmann::json to_json(const math::Finding& finding) {
  return {
      {"finding", math::to_string(finding.kind)}, {"workers", finding.workers},   {"first_step", finding.first_step},
      {"last_step", finding.last_step},           {"evidence", finding.evidence}, {"sentence", finding.sentence}};
}

math::Finding finding_from_json(const nlohmann::json& json) {
  math::Finding finding{};
  for (const math::FindingKind kind : math::kFindingKinds)
    if (math::to_string(kind) == json.at("finding").get<std::string>()) finding.kind = kind;
  json.at("workers").get_to(finding.workers);
  json.at("first_step").get_to(finding.first_step);
  json.at("last_step").get_to(finding.last_step);
  finding.evidence = json.at("evidence").is_null() ? 0 : json.at("evidence").get<double>();
  json.at("sentence").get_to(finding.sentence);
  return finding;
}

void Telemetry::observe(std::int64_t step, const algorithms::GradientReport& report) {
  Seen seen{step, report.event, report.coefficients, {}, {}};
  const math::Statistics& statistics = report.statistics;
  for (const double square : statistics.q) seen.norms.push_back(std::sqrt(square));
  seen.agreement = math::agreement(statistics);
  steps_.push_back(std::move(seen));
  if (statistics.q.empty()) return;
  watch_.observe(step, statistics);
  if (!statistics.has_matrix() || statistics.workers() > kCosineWorkers) return;
  const auto cosines = math::cosines(statistics, 1e-30);
  if (std::ranges::any_of(cosines, [](double cosine) { return !std::isfinite(cosine); })) return;
  cosine_sums_.resize(cosines.size());
  for (std::size_t i = 0; i < cosines.size(); ++i) cosine_sums_[i] += cosines[i];
  ++cosine_steps_;
}

void Telemetry::describe(std::int64_t step, nlohmann::json& line) const {
  const auto seen = std::ranges::find(steps_, step, &Seen::step);
  if (seen == steps_.end()) return;
  if (!seen->coefficients.empty()) line["coefficients"] = brief(seen->coefficients);
  if (!seen->norms.empty()) line["norms"] = brief(seen->norms);
  if (!seen->agreement.empty()) line["agreement"] = brief(seen->agreement);
  if (seen->event != math::Event::none) line["event"] = math::to_string(seen->event);
}

std::optional<nlohmann::json> Telemetry::cosines(std::int64_t step) {
  if (cosine_steps_ == 0) return std::nullopt;
  nlohmann::json matrix = nlohmann::json::array();
  for (std::size_t workers = 0; math::packed_size(workers) < cosine_sums_.size();) {
    ++workers;
    if (math::packed_size(workers) != cosine_sums_.size()) continue;
    for (std::size_t i = 0; i < workers; ++i) {
      std::vector<double> row;
      for (std::size_t j = 0; j < workers; ++j)
        row.push_back(cosine_sums_[math::packed_index(i, j)] / static_cast<double>(cosine_steps_));
      matrix.push_back(brief(row));
    }
  }
  nlohmann::json line{{"kind", "cosines"}, {"step", step}, {"steps", cosine_steps_}, {"matrix", std::move(matrix)}};
  cosine_sums_.clear();
  cosine_steps_ = 0;
  return line;
}

std::vector<nlohmann::json> Telemetry::new_findings(std::int64_t step) {
  std::vector<nlohmann::json> lines;
  for (; told_ < findings().size(); ++told_) {
    lines.push_back(to_json(findings()[told_]));
    lines.back()["kind"] = "finding";
    lines.back()["step"] = step;
  }
  return lines;
}

}  // namespace flockstep::train
