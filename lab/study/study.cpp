#include "study/study.h"

namespace flockstep::study {
namespace {

nlohmann::json json_of(const Picture& picture) {
  nlohmann::json series = nlohmann::json::array();
  for (const Series& each : picture.series)
    series.push_back({{"name", each.name}, {"mark", to_string(each.mark)}, {"x", each.x}, {"y", each.y}});
  return {{"title", picture.title}, {"x_title", picture.x_title}, {"y_title", picture.y_title},
          {"log_x", picture.log_x}, {"log_y", picture.log_y},     {"x_names", picture.x_names},
          {"series", series}};
}

}  // namespace

std::string_view to_string(Mark mark) { return mark == Mark::line ? "line" : "points"; }

nlohmann::json to_json(const StudyResult& result) {
  nlohmann::json tables = nlohmann::json::array();
  for (const StudyTable& table : result.tables)
    tables.push_back({{"name", table.name},
                      {"title", table.title},
                      {"columns", table.columns},
                      {"rows", table.rows},
                      {"figures", table.figures},
                      {"picture", json_of(table.picture)}});
  return {{"tables", tables}, {"words", result.words}, {"how", result.how}};
}

}  // namespace flockstep::study
