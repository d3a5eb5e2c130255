// A worker in the hands of Python, of the c10d engine or of one that outlives its peers: flockstep._native.Worker.
#pragma once

#include <torch/extension.h>

#include "base/kept_lines.h"
#include "engines/c10d/attachment.h"
#include "engines/mesh/options.h"
#include "runtime/context.h"

namespace flockstep::python {

// Shared by Python and by whatever works on it, so that it ends last.
class Worker {
 public:
  Worker(const engines::c10d::Groups& groups, double deadline_s);
  // With an engine that outlives its peers.
  Worker(const engines::mesh::MeshOptions& options, double deadline_s);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  runtime::Context& context() { return context_; }
  // Waits until all workers have called it.
  void barrier() { context_.wait(context_.engine().barrier(), "barrier"); }
  void close() noexcept;
  // What was logged since the last time.
  std::vector<base::KeptLines::Line> take_log_lines() { return log_lines_->take(); }

 private:
  std::unique_ptr<engines::c10d::Attachment> attachment_;  // one of the two
  std::unique_ptr<engines::Engine> engine_;
  runtime::Context context_;
  const pid_t process_;
  std::shared_ptr<base::KeptLines> log_lines_ = std::make_shared<base::KeptLines>();
};

}  // namespace flockstep::python
