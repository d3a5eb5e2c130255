// What stands behind the public Worker.
#pragma once

#include "base/deadline.h"
#include "flockstep/flockstep.h"
#include "runtime/context.h"

namespace flockstep {

class Worker::Implementation {
 public:
  Implementation(engines::Engine& engine, double deadline_s) : context(engine, base::deadline_of(deadline_s)) {}
  runtime::Context context;
  int data_parallels = 0;  // alive
};

}  // namespace flockstep
