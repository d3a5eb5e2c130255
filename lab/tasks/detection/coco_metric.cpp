#include "tasks/detection/coco_metric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"

namespace flockstep::tasks {
namespace {

constexpr std::size_t kOverlaps = 10, kRecalls = 101, kMostDetections = 100;

// One label's objects and detections in one image, as COCO wants them: what does not count last, best first.
struct Labelled {
  std::vector<Object> objects;
  std::vector<Detection> detections;
};

// What became of a detection at each overlap.
enum class Fate { right, wrong, not_counted };
struct Judged {
  double score;
  std::array<Fate, kOverlaps> fates;
};

// As numpy divides 0.5 to 0.95: the reference compares with these very numbers.
double needed_overlap(std::size_t i) {
  return i + 1 == kOverlaps ? 0.95 : 0.5 + static_cast<double>(i) * ((0.95 - 0.5) / (kOverlaps - 1));
}

double overlap_with(const Object& object, const Detection& detection) {
  const double both = intersection(object.box, detection.box);
  if (both == 0) return 0;
  return object.is_crowd ? both / detection.box.area() : overlap(detection.box, object.box);
}

// Each detection takes the object that it overlaps most among those that no better one has taken. Crowds can be taken
// often, and only by what finds nothing else.
void judge(const Labelled& image, std::vector<Judged>& all) {
  const std::size_t first = all.size();
  std::vector<double> overlaps;  // of all objects with the first detection, with the second, ...
  for (const Detection& detection : image.detections) {
    all.push_back({detection.score, {}});
    for (const Object& object : image.objects) overlaps.push_back(overlap_with(object, detection));
  }
  for (std::size_t i = 0; i < kOverlaps; ++i) {
    std::vector<bool> taken(image.objects.size());
    for (std::size_t d = 0; d < image.detections.size(); ++d) {
      double best = std::min(needed_overlap(i), 1 - 1e-10);
      const Object* match = nullptr;
      for (std::size_t o = 0; o < image.objects.size(); ++o) {
        const Object& object = image.objects[o];
        if (taken[o] && !object.is_crowd) continue;
        if (match && !match->is_crowd && object.is_crowd) break;
        const double share = overlaps[d * image.objects.size() + o];
        if (share < best) continue;
        best = share;
        match = &object;
      }
      all[first + d].fates[i] = !match ? Fate::wrong : match->is_crowd ? Fate::not_counted : Fate::right;
      if (match) taken[static_cast<std::size_t>(match - image.objects.data())] = true;
    }
  }
}

// Precision at 101 shares of the objects found, each the best that this share or a larger one is found with.
double average_precision(const std::vector<Judged>& judged, std::size_t overlap, double objects) {
  std::vector<double> recall, precision;
  double right = 0, wrong = 0;
  for (const Judged& detection : judged) {
    if (detection.fates[overlap] == Fate::right) ++right;
    if (detection.fates[overlap] == Fate::wrong) ++wrong;
    recall.push_back(right / objects);
    precision.push_back(right / (right + wrong + std::numeric_limits<double>::epsilon()));
  }
  for (std::size_t i = precision.size(); i-- > 1;) precision[i - 1] = std::max(precision[i - 1], precision[i]);
  double sum = 0;
  for (std::size_t i = 0; i < kRecalls; ++i) {
    const double wanted = i + 1 == kRecalls ? 1 : static_cast<double>(i) * (1.0 / (kRecalls - 1));
    const auto place = std::ranges::lower_bound(recall, wanted) - recall.begin();
    if (place < std::ssize(precision)) sum += precision[static_cast<std::size_t>(place)];
  }
  return sum / kRecalls;
}

std::map<std::size_t, std::vector<Labelled>> by_label(std::span<const ImageResult> images) {
  std::map<std::size_t, std::vector<Labelled>> labels;
  for (const ImageResult& image : images) {
    std::map<std::size_t, Labelled> here;
    for (const bool crowds : {false, true})
      for (const Object& object : image.objects)
        if (object.is_crowd == crowds) here[object.label].objects.push_back(object);
    for (const Detection& detection : image.detections) here[detection.label].detections.push_back(detection);
    for (auto& [label, both] : here) {
      std::ranges::stable_sort(both.detections, std::greater(), &Detection::score);
      both.detections.resize(std::min(both.detections.size(), kMostDetections));
      labels[label].push_back(std::move(both));
    }
  }
  return labels;
}

}  // namespace

MeanPrecision mean_precision(std::span<const ImageResult> images) {
  std::array<double, kOverlaps> sums{};
  double labels = 0;
  for (const auto& [label, results] : by_label(images)) {
    double objects = 0;
    std::vector<Judged> judged;
    for (const Labelled& image : results) {
      objects += static_cast<double>(std::ranges::count(image.objects, false, &Object::is_crowd));
      judge(image, judged);
    }
    if (objects == 0) continue;
    std::ranges::stable_sort(judged, std::greater(), &Judged::score);
    ++labels;
    for (std::size_t i = 0; i < kOverlaps; ++i) sums[i] += average_precision(judged, i, objects);
  }
  if (labels == 0) return {};
  double sum = 0;
  for (const double of_overlap : sums) sum += of_overlap / labels;
  return {.all = sum / kOverlaps, .at50 = sums[0] / labels, .at75 = sums[5] / labels};
}

std::vector<double> to_records(std::span<const ImageResult> images) {
  std::vector<double> records;
  const auto put = [&](const Box& box, std::size_t label, double last) {
    records.insert(records.end(), {box.left, box.top, box.right, box.bottom, static_cast<double>(label), last});
  };
  for (const ImageResult& image : images) {
    records.push_back(static_cast<double>(image.objects.size()));
    records.push_back(static_cast<double>(image.detections.size()));
    for (const Object& object : image.objects) put(object.box, object.label, object.is_crowd ? 1 : 0);
    for (const Detection& detection : image.detections) put(detection.box, detection.label, detection.score);
  }
  return records;
}

std::vector<ImageResult> from_records(std::span<const double> records) {
  std::size_t next = 0;
  const auto take = [&] {
    base::check(next < records.size(), "records of whole images");
    return records[next++];
  };
  const auto take_count = [&] { return static_cast<std::size_t>(take()); };
  const auto take_box = [&] {
    Box box;
    for (double* const place : {&box.left, &box.top, &box.right, &box.bottom}) *place = take();
    return box;
  };
  std::vector<ImageResult> images;
  while (next < records.size()) {
    ImageResult& image = images.emplace_back();
    image.objects.resize(take_count());
    image.detections.resize(take_count());
    for (Object& object : image.objects) {
      object.box = take_box();
      object.label = take_count();
      object.is_crowd = take() != 0;
    }
    for (Detection& detection : image.detections) {
      detection.box = take_box();
      detection.label = take_count();
      detection.score = take();
    }
  }
  return images;
}

}  // namespace flockstep::tasks
