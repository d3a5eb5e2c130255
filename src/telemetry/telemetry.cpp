#include "telemetry/telemetry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace flockstep::telemetry {
namespace {

// Six digits are more than a picture shows, and a third of the file.
nlohmann::json brief(const std::vector<double>& values) {
  nlohmann::json list = nlohmann::json::array();
  for (const double value : values)
    list.push_back(std::isfinite(value) ? nlohmann::json(std::stod(fmt::format("{:.6g}", value))) : nlohmann::json());
  return list;
}

nlohmann::json to_json(const math::Finding& finding) {
  return {
      {"finding", math::to_string(finding.kind)}, {"workers", finding.workers},   {"first_step", finding.first_step},
      {"last_step", finding.last_step},           {"evidence", finding.evidence}, {"sentence", finding.sentence}};
}

}  // namespace

nlohmann::json findings_json(const std::vector<math::Finding>& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const math::Finding& finding : findings) list.push_back(to_json(finding));
  return list;
}

std::vector<math::Finding> findings_from_json(const nlohmann::json& json) {
  std::vector<math::Finding> findings;
  for (const auto& each : json) {
    math::Finding finding{};
    for (const math::FindingKind kind : math::kFindingKinds)
      if (math::to_string(kind) == each.at("finding").get<std::string>()) finding.kind = kind;
    each.at("workers").get_to(finding.workers);
    each.at("first_step").get_to(finding.first_step);
    each.at("last_step").get_to(finding.last_step);
    finding.evidence = each.at("evidence").is_null() ? 0 : each.at("evidence").get<double>();
    each.at("sentence").get_to(finding.sentence);
    findings.push_back(std::move(finding));
  }
  return findings;
}

void Telemetry::observe(std::int64_t step, const algorithms::GradientReport& report, math::Event event,
                        const std::vector<math::Finding>& raised) {
  Seen seen{step, event, report.coefficients, {}, {}, {}};
  const math::Statistics& statistics = report.statistics;
  for (const double square : statistics.q) seen.norms.push_back(std::sqrt(square));
  seen.agreement = math::agreement(statistics);
  for (std::size_t i = 0; i < report.clipped.size(); ++i)
    if (report.clipped[i]) seen.clipped.push_back(static_cast<int>(i));
  steps_.push_back(std::move(seen));
  raised_.insert(raised_.end(), raised.begin(), raised.end());
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
  if (!seen->clipped.empty()) line["clipped"] = seen->clipped;
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
  for (const math::Finding& finding : std::exchange(raised_, {})) {
    lines.push_back(to_json(finding));
    lines.back()["kind"] = "finding";
    lines.back()["step"] = step;
  }
  return lines;
}

}  // namespace flockstep::telemetry
