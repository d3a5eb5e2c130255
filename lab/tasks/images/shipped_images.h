// The part of Fashion-MNIST that is built into the library: the files of data/fashion-mnist, byte for byte.
#pragma once

#include <cstddef>
#include <span>

namespace flockstep::tasks {

struct ShippedImages {
  std::span<const std::byte> train_images, train_labels, test_images, test_labels;  // gzip'ed IDX
};
ShippedImages shipped_images();

}  // namespace flockstep::tasks
