#pragma once

#include <string>

#include "tasks/descent.h"
#include "tasks/registry.h"

namespace flockstep::tasks {

enum class Shards {
  iid,      // every worker draws from all training images
  classes,  // of P workers, worker i draws from the classes c with c = i modulo min(P, 10)
};

struct ImagesOptions {
  std::size_t hidden = 64;
  DescentOptions descent;
  Shards shards = Shards::iid;
  int random_labels = 0;  // so many workers, the last ones, draw their labels
  std::string data;       // a folder; empty: what is built in
};

TaskRow images_row();

}  // namespace flockstep::tasks
