// A worker of the c10d engine in the hands of Python: flockstep._native.Worker.
#pragma once

#include <torch/extension.h>

#include "base/kept_lines.h"
#include "engines/c10d/attachment.h"
#include "runtime/context.h"

namespace flockstep::python {

// Shared by Python and by whatever works on it, so that it ends last.
class Worker {
 public:
  Worker(const engines::c10d::Groups& groups, double deadline_s);

  runtime::Context& context() { return context_; }
  // Waits until all workers have called it.
  void barrier() { context_.wait(context_.engine().barrier(), "barrier"); }
  void close() noexcept { attachment_.close(); }
  // What was logged since the last time.
  std::vector<base::KeptLines::Line> take_log_lines() { return log_lines_->take(); }

 private:
  engines::c10d::Attachment attachment_;
  runtime::Context context_;
  std::shared_ptr<base::KeptLines> log_lines_ = std::make_shared<base::KeptLines>();
};

}  // namespace flockstep::python
