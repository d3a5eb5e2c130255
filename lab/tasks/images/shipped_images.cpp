#include "tasks/images/shipped_images.h"

// The assembler copies the files in: megabytes in a C++ array would take the compiler seconds. It finds them by the
// include path that src/CMakeLists.txt gives it. Hidden, so that a shared library can refer to them directly.
#define FLOCKSTEP_EMBED(name, file)                                                            \
  asm(".pushsection .rodata\n"                                                                 \
      ".global flockstep_" #name "_begin\n.hidden flockstep_" #name                            \
      "_begin\n"                                                                               \
      ".global flockstep_" #name "_end\n.hidden flockstep_" #name                              \
      "_end\n"                                                                                 \
      "flockstep_" #name "_begin:\n.incbin \"fashion-mnist/" file "\"\nflockstep_" #name       \
      "_end:\n"                                                                                \
      ".popsection\n");                                                                        \
  extern "C" __attribute__((visibility("hidden"))) const std::byte flockstep_##name##_begin[]; \
  extern "C" __attribute__((visibility("hidden"))) const std::byte flockstep_##name##_end[]

FLOCKSTEP_EMBED(train_images, "train-images-idx3-ubyte.gz");
FLOCKSTEP_EMBED(train_labels, "train-labels-idx1-ubyte.gz");
FLOCKSTEP_EMBED(test_images, "t10k-images-idx3-ubyte.gz");
FLOCKSTEP_EMBED(test_labels, "t10k-labels-idx1-ubyte.gz");
#undef FLOCKSTEP_EMBED

namespace flockstep::tasks {

ShippedImages shipped_images() {
  return {{flockstep_train_images_begin, flockstep_train_images_end},
          {flockstep_train_labels_begin, flockstep_train_labels_end},
          {flockstep_test_images_begin, flockstep_test_images_end},
          {flockstep_test_labels_begin, flockstep_test_labels_end}};
}

}  // namespace flockstep::tasks
