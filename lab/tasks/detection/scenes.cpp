#include "tasks/detection/scenes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace flockstep::tasks {
namespace {

using Colour = std::array<int, kColours>;

constexpr int kNoise = 24;          // how far a pixel is from its colour at most
constexpr int kLeastContrast = 90;  // sum over the colours, between a shape and the background
constexpr double kSeen = 1.0 / 3;
constexpr std::uint64_t kTestSeed = 20240229;  // of test and validation, whatever the seed of the run

// Whether a shape covers a point of its box, whose middle is (0, 0) and whose corners are at 1.
bool covers(std::size_t kind, double x, double y) {
  const double square = x * x + y * y;
  switch (kind) {
    case 0: return square <= 1;
    case 1: return true;
    case 2: return std::abs(x) <= (y + 1) / 2;
    case 3: return std::abs(x) <= 1.0 / 3 || std::abs(y) <= 1.0 / 3;
    case 4: return square <= 1 && square >= 0.3;
    default: return std::abs(x) + std::abs(y) <= 1;
  }
}

Colour draw_colour(base::Random& random) {
  Colour colour;
  for (int& part : colour) part = static_cast<int>(random.below(256));
  return colour;
}

int distance(const Colour& a, const Colour& b) {
  int sum = 0;
  for (std::size_t c = 0; c < kColours; ++c) sum += std::abs(a[c] - b[c]);
  return sum;
}

struct Shape {
  Box box;
  std::size_t kind;
  Colour colour;
  std::size_t pixels = 0, seen = 0;
};

// Calls visit(pixel) for all pixels that the shape covers.
template <typename Visit>
void for_each_pixel(const Shape& shape, std::size_t side, const Visit& visit) {
  const Box& box = shape.box;
  for (auto row = static_cast<std::size_t>(box.top); row < static_cast<std::size_t>(box.bottom); ++row)
    for (auto column = static_cast<std::size_t>(box.left); column < static_cast<std::size_t>(box.right); ++column) {
      const double x = (static_cast<double>(column) + 0.5 - box.left) / box.width() * 2 - 1;
      const double y = (static_cast<double>(row) + 0.5 - box.top) / box.height() * 2 - 1;
      if (covers(shape.kind, x, y)) visit(row * side + column);
    }
}

// Numbers from -kNoise to kNoise, four from each draw.
class Noise {
 public:
  explicit Noise(base::Random& random) : random_(random) {}
  int operator()() {
    if (left_ == 0) bits_ = random_.bits(), left_ = 4;
    const auto byte = static_cast<int>(bits_ & 255);
    bits_ >>= 8;
    --left_;
    return byte * (2 * kNoise + 1) / 256 - kNoise;
  }

 private:
  base::Random& random_;
  std::uint32_t bits_ = 0;
  int left_ = 0;
};

class Scenes final : public DetectionData {
 public:
  explicit Scenes(const SceneOptions& options) : options_(options), all_(options.kinds) {
    std::iota(all_.begin(), all_.end(), 0);
  }
  std::size_t labels() const override { return options_.kinds; }
  Sample draw(base::Random& random, std::span<const std::size_t> labels) const override {
    return draw_scene(options_, labels, random);
  }
  std::size_t count(train::Split /*split*/) const override { return options_.tests; }
  Sample at(train::Split split, std::size_t index) const override {
    base::Random random(kTestSeed, base::Purpose::fixed_data, split == train::Split::test ? 0 : 1,
                        static_cast<std::uint32_t>(index));
    return draw_scene(options_, all_, random);
  }

 private:
  SceneOptions options_;
  std::vector<std::size_t> all_;
};

}  // namespace

Sample draw_scene(const SceneOptions& options, std::span<const std::size_t> kinds, base::Random& random) {
  const std::size_t side = options.side, plane = side * side;
  const Colour background = draw_colour(random);
  std::vector<Shape> shapes(1 + random.below(static_cast<std::uint32_t>(options.most_shapes)));
  for (Shape& shape : shapes) {
    shape.kind = kinds[random.below(static_cast<std::uint32_t>(kinds.size()))];
    shape.box = draw_box(side, random);
    do shape.colour = draw_colour(random);
    while (distance(shape.colour, background) < kLeastContrast);
  }
  // The first is painted last, over all others.
  std::vector<const Shape*> on_top(plane);
  for (std::size_t i = shapes.size(); i-- > 0;)
    for_each_pixel(shapes[i], side, [&](std::size_t pixel) {
      on_top[pixel] = &shapes[i];
      ++shapes[i].pixels;
    });
  Sample sample;
  sample.pixels.resize(kColours * plane);
  Noise noise(random);
  for (std::size_t pixel = 0; pixel < plane; ++pixel) {
    const Colour& colour = on_top[pixel] ? on_top[pixel]->colour : background;
    for (std::size_t c = 0; c < kColours; ++c)
      sample.pixels[c * plane + pixel] = static_cast<std::uint8_t>(std::clamp(colour[c] + noise(), 0, 255));
  }
  for (Shape& shape : shapes) {
    shape.seen = static_cast<std::size_t>(std::ranges::count(on_top, &shape));
    if (static_cast<double>(shape.seen) >= kSeen * static_cast<double>(shape.pixels))
      sample.objects.push_back({.box = shape.box, .label = shape.kind});
  }
  return sample;
}

std::unique_ptr<DetectionData> make_scenes(const SceneOptions& options) { return std::make_unique<Scenes>(options); }

}  // namespace flockstep::tasks
