#include "engines/c10d/attachment.h"

#include <unistd.h>

#include "engines/c10d/engine.h"
#include "engines/c10d/group_lane.h"

namespace flockstep::engines::c10d {

Attachment::Attachment(const Groups& groups) : process_(getpid()) {
  Lanes data;
  for (const auto& group : groups.data) data.push_back(make_lane(group));
  engine_ = std::make_unique<C10dEngine>(std::move(data), make_lane(groups.control));
}

// A forked child has none of the threads, and shares the connections with its parent: there is nothing to end.
Attachment::~Attachment() {
  if (getpid() != process_) (void)engine_.release();
}

Engine& Attachment::engine() { return *engine_; }

void Attachment::close() noexcept {
  if (getpid() == process_) engine_->close();
}

}  // namespace flockstep::engines::c10d
