// metrics_tool NAME < input.json: computes a task's metric from what stands in the input and prints the results as
// JSON, so that tests/command/test_metrics.py can compare them with those of Python's reference packages.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tasks/translation/bleu.h"
#include "tasks/translation/number_words.h"

namespace {

using nlohmann::json;
using Metrics = std::map<std::string, std::function<json(const json& input)>, std::less<>>;

// Pairs of a translation and its reference.
json bleu(const json& input) {
  flockstep::tasks::BleuCounts counts;
  for (const json& pair : input.at("pairs"))
    counts += flockstep::tasks::count_for_bleu(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  return {{"bleu", flockstep::tasks::bleu(counts)},
          {"matches", counts.matches},
          {"ngrams", counts.ngrams},
          {"words", counts.words},
          {"reference_words", counts.reference_words}};
}

// No metric, but what the sentences of the task translation are made of.
json number_words(const json& input) {
  json words = json::array();
  for (const std::uint32_t number : input.at("numbers"))
    words.push_back({flockstep::tasks::english_number(number), flockstep::tasks::german_number(number)});
  return words;
}

// Every entry reads its own input; a missing or mistyped field is told by the JSON library's exception.
const Metrics& metrics() {
  static const Metrics table{{"bleu", bleu}, {"number_words", number_words}};
  return table;
}

}  // namespace

int main(int count, char** words) try {
  const std::string name = count == 2 ? words[1] : "";
  const auto metric = metrics().find(name);
  if (metric == metrics().end()) {
    fmt::print(stderr, "metrics_tool: there is no metric '{}'\n", name);
    return 2;
  }
  fmt::print("{}\n", metric->second(json::parse(std::cin)).dump());
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "metrics_tool: {}\n", error.what());
  return 1;
}
