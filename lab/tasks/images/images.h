#pragma once

#include <string>

#include "tasks/descent.h"
#include "tasks/images/image_sampler.h"
#include "tasks/registry.h"

namespace flockstep::tasks {

struct ImagesOptions {
  std::size_t hidden = 64;
  DescentOptions descent;
  ShardOptions shard;
  std::string data;  // a folder; empty: what is built in
};

TaskRow images_row();

}  // namespace flockstep::tasks
