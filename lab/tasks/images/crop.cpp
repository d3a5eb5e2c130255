#include "tasks/images/crop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace flockstep::tasks {
namespace {

constexpr std::size_t kChannels = 3;
constexpr std::array<float, kChannels> kMean{0.485f, 0.456f, 0.406f}, kDeviation{0.229f, 0.224f, 0.225f};
constexpr int kMostTries = 10;

// The pixels along one side that a pixel of the result is made of.
struct Taps {
  std::size_t first = 0;
  std::vector<float> weights;  // sum one
};

// For each of `side` pixels that stand for `length` pixels from `begin` on, of `count` that there are.
std::vector<Taps> taps_of(double begin, double length, std::size_t side, std::size_t count, bool mirrored) {
  const double scale = length / static_cast<double>(side), reach = std::max(1.0, scale);
  std::vector<Taps> all(side);
  for (std::size_t i = 0; i < side; ++i) {
    const double middle = begin + (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto last = static_cast<double>(count - 1);
    const double first = std::clamp(std::ceil(middle - reach), 0.0, last),
                 end = std::clamp(middle + reach, first, last);
    Taps& taps = all[mirrored ? side - 1 - i : i];
    taps.first = static_cast<std::size_t>(first);
    float sum = 0;
    for (double at = first; at <= end; ++at) {
      taps.weights.push_back(static_cast<float>(std::max(1e-6, 1 - std::abs(at - middle) / reach)));
      sum += taps.weights.back();
    }
    for (float& weight : taps.weights) weight /= sum;
  }
  return all;
}

}  // namespace

Crop central_crop(std::size_t width, std::size_t height) {
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  const double side = std::min(w, h) * 7 / 8;
  return {.left = (w - side) / 2, .top = (h - side) / 2, .width = side, .height = side};
}

Crop draw_crop(std::size_t width, std::size_t height, base::Random& random) {
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  Crop crop = central_crop(width, height);
  for (int tries = 0; tries < kMostTries; ++tries) {
    const double area = w * h * (0.08 + 0.92 * random.uniform()), ratio = 0.75 + (4.0 / 3 - 0.75) * random.uniform();
    const double crop_width = std::sqrt(area * ratio), crop_height = std::sqrt(area / ratio);
    if (crop_width > w || crop_height > h) continue;
    crop = {(w - crop_width) * random.uniform(), (h - crop_height) * random.uniform(), crop_width, crop_height};
    break;
  }
  crop.mirrored = random.below(2) == 1;
  return crop;
}

void resample(const Picture& picture, const Crop& crop, std::size_t side, std::span<float> values) {
  const auto columns = taps_of(crop.left, crop.width, side, picture.width, crop.mirrored);
  const auto rows = taps_of(crop.top, crop.height, side, picture.height, false);
  const std::size_t top = rows.front().first, bottom = rows.back().first + rows.back().weights.size();
  std::vector<float> narrow((bottom - top) * side * kChannels);  // as wide as the result, as high as the crop
  float* to = narrow.data();
  for (std::size_t y = top; y < bottom; ++y)
    for (const Taps& taps : columns) {
      const std::uint8_t* from = &picture.pixels[(y * picture.width + taps.first) * kChannels];
      for (const float weight : taps.weights)
        for (std::size_t c = 0; c < kChannels; ++c) to[c] += weight * static_cast<float>(*from++);
      to += kChannels;
    }
  for (std::size_t c = 0; c < kChannels; ++c)
    for (std::size_t y = 0; y < side; ++y)
      for (std::size_t x = 0; x < side; ++x) {
        float sum = 0;
        const float* from = &narrow[((rows[y].first - top) * side + x) * kChannels + c];
        for (std::size_t k = 0; k < rows[y].weights.size(); ++k, from += side * kChannels)
          sum += rows[y].weights[k] * *from;
        values[(c * side + y) * side + x] = (sum / 255 - kMean[c]) / kDeviation[c];
      }
}

}  // namespace flockstep::tasks
