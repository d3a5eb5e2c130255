// Generated pictures: shapes of several kinds and colours that cover each other, before a noisy background.
#pragma once

#include <memory>

#include "tasks/detection/sample.h"

namespace flockstep::tasks {

constexpr std::size_t kMostKinds = 6;  // discs, rectangles, triangles, crosses, rings and diamonds

struct SceneOptions {
  std::size_t side = 48;        // in pixels; at least 12
  std::size_t kinds = 3;        // the first so many
  std::size_t most_shapes = 3;  // at least 1
  std::size_t tests = 160;      // scenes of the test, and as many for validation: the same ones in every run
};

// The first shape is always to be seen; of the others, those are objects of which at least a third is. Boxes are around
// the whole shape, covered or not.
Sample draw_scene(const SceneOptions& options, std::span<const std::size_t> kinds, base::Random& random);

std::unique_ptr<DetectionData> make_scenes(const SceneOptions& options);

}  // namespace flockstep::tasks
