#include "engines/c10d/attachment.h"

#include <unistd.h>

#include "engines/c10d/engine.h"
#include "engines/c10d/group_lane.h"

namespace flockstep::engines::c10d {

Attachment::Attachment(const Groups& groups)
    : engine_(std::make_unique<C10dEngine>(make_lane(groups.data), make_lane(groups.control))), process_(getpid()) {}

// A forked child has none of the threads, and shares the connections with its parent: there is nothing to end.
Attachment::~Attachment() {
  if (getpid() != process_) (void)engine_.release();
}

Engine& Attachment::engine() { return *engine_; }

void Attachment::close() noexcept {
  if (getpid() == process_) engine_->close();
}

}  // namespace flockstep::engines::c10d
