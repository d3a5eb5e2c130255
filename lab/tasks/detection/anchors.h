// The anchors of RetinaNet (Lin et al., 2017): boxes of nine shapes around every place of every level of its pyramid,
// one of which each object is told by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasks/detection/box.h"

namespace flockstep::tasks {

constexpr std::size_t kAnchorsPerPlace = 9;  // three sizes by three ratios of height to width

// A level of the pyramid: rows and columns of places, `stride` pixels apart.
struct Level {
  std::size_t places;  // on a side
  std::size_t stride;
};

// Level by level, row by row, place by place: the smallest has sides of `size` strides.
std::vector<Box> make_anchors(std::span<const Level> levels, double size);

// An object in an image. A crowd is many that nobody has told apart: finding one of them is neither right nor wrong.
struct Object {
  Box box;
  std::size_t label = 0;
  bool is_crowd = false;
};

// What an anchor has to say.
constexpr int kBackground = -1;  // there is nothing
constexpr int kLeftOut = -2;     // it is asked for nothing: too close to an object to be background, too far to tell it
// For each anchor the object that it tells, or one of the above: the one that it overlaps most, if by half; background
// is what overlaps none by 0.4. However little that is, every object has an anchor of its own that tells it: the one
// that overlaps it most, or the next where that one is another's, whom it overlaps more. Crowds are told by nobody.
std::vector<int> match_anchors(std::span<const Box> anchors, std::span<const Object> objects);

}  // namespace flockstep::tasks
