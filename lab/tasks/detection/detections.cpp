#include "tasks/detection/detections.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/portable_math.h"

namespace flockstep::tasks {
namespace {

double sigmoid(double logit) { return logit >= 0 ? 1 / (1 + base::portable_exp(-logit)) : 1 - sigmoid(-logit); }

struct Candidate {
  float logit;
  std::size_t place;  // anchor and label
};

// In an order that depends on nothing but the numbers.
bool is_better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.place < b.place;
}

// Of the candidates of one label, best first, those that are not suppressed.
std::vector<Detection> without_doubles(const std::vector<Detection>& found, double most_overlap) {
  std::vector<Box> boxes;
  for (const Detection& detection : found) boxes.push_back(detection.box);
  std::vector<Detection> left;
  for (const std::size_t i : suppress(boxes, most_overlap)) left.push_back(found[i]);
  return left;
}

}  // namespace

std::vector<Detection> find_objects(std::span<const float> scores, std::span<const float> codes,
                                    std::span<const Box> anchors, double side, const DetectionRules& rules) {
  const std::size_t labels = scores.size() / anchors.size();
  base::check(scores.size() == labels * anchors.size() && codes.size() == 4 * anchors.size(), "numbers of all anchors");
  const double least = base::portable_log(rules.least_score / (1 - rules.least_score));
  std::vector<Candidate> candidates;
  for (std::size_t place = 0; place < scores.size(); ++place)
    if (scores[place] > least) candidates.push_back({scores[place], place});  // not a number: is not found
  const std::size_t count = std::min(rules.candidates, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), candidates.end(),
                    is_better);
  candidates.resize(count);

  std::map<std::size_t, std::vector<Detection>> by_label;
  for (const Candidate& candidate : candidates) {
    const std::size_t anchor = candidate.place / labels, label = candidate.place % labels;
    const std::span<const float> code = codes.subspan(4 * anchor, 4);
    const Box box = clip(decode({code[0], code[1], code[2], code[3]}, anchors[anchor]), side);
    if (box.area() > 0) by_label[label].push_back({box, label, sigmoid(candidate.logit)});
  }
  std::vector<Detection> found;
  for (const auto& [label, detections] : by_label)
    for (const Detection& detection : without_doubles(detections, rules.most_overlap)) found.push_back(detection);
  std::ranges::stable_sort(found, std::greater(), &Detection::score);
  found.resize(std::min(found.size(), rules.most));
  return found;
}

}  // namespace flockstep::tasks
