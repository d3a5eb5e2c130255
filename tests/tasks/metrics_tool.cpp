// metrics_tool NAME < input.json: computes a task's metric from what stands in the input and prints the results as
// JSON, so that tests/command/test_metrics.py can compare them with those of Python's reference packages.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tasks/detection/coco_metric.h"
#include "tasks/recommendation/click_metrics.h"
#include "tasks/translation/bleu.h"
#include "tasks/translation/number_words.h"

namespace {

namespace tasks = flockstep::tasks;

using nlohmann::json;

json click_metrics(const json& input) {
  const auto scores = input.at("scores").get<std::vector<double>>();
  const auto labels = input.at("labels").get<std::vector<std::uint8_t>>();
  return {{"auc", tasks::area_under_curve(scores, labels)}, {"log_loss", tasks::log_loss(scores, labels)}};
}

// Boxes are left, top, width and height, as in files of COCO.
tasks::Box box_of(const json& input) {
  const auto box = input.at("bbox").get<std::vector<double>>();
  return {box.at(0), box.at(1), box.at(0) + box.at(2), box.at(1) + box.at(3)};
}

json coco_metrics(const json& input) {
  std::vector<tasks::ImageResult> images;
  for (const json& image : input.at("images")) {
    tasks::ImageResult& result = images.emplace_back();
    for (const json& object : image.at("objects"))
      result.objects.push_back({box_of(object), object.at("category"), object.at("iscrowd") == 1});
    for (const json& detection : image.at("detections"))
      result.detections.push_back({box_of(detection), detection.at("category"), detection.at("score")});
  }
  const tasks::MeanPrecision precision = tasks::mean_precision(images);
  return {{"all", precision.all}, {"at50", precision.at50}, {"at75", precision.at75}};
}

// Pairs of a translation and its reference.
json bleu(const json& input) {
  tasks::BleuCounts counts;
  for (const json& pair : input.at("pairs"))
    counts += tasks::count_for_bleu(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  return {{"bleu", tasks::bleu(counts)},
          {"matches", counts.matches},
          {"ngrams", counts.ngrams},
          {"words", counts.words},
          {"reference_words", counts.reference_words}};
}

// No metric, but what the sentences of the task translation are made of.
json number_words(const json& input) {
  json words = json::array();
  for (const std::uint32_t number : input.at("numbers"))
    words.push_back({tasks::english_number(number), tasks::german_number(number)});
  return words;
}

// Every entry reads its own input; a missing or mistyped field is told by the JSON library's exception.
const std::map<std::string, json (*)(const json& input), std::less<>> kMetrics{
    {"auc", click_metrics}, {"bleu", bleu}, {"coco", coco_metrics}, {"number_words", number_words}};

}  // namespace

int main(int count, char** words) try {
  const std::string name = count == 2 ? words[1] : "";
  const auto metric = kMetrics.find(name);
  if (metric == kMetrics.end()) {
    fmt::print(stderr, "metrics_tool: there is no metric '{}'\n", name);
    return 2;
  }
  fmt::print("{}\n", metric->second(json::parse(std::cin)).dump());
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "metrics_tool: {}\n", error.what());
  return 1;
}
