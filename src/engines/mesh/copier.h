// A thread that copies messages out of the memory of peers on the same host, one after the other, in slices: so that
// the thread that serves the connections is never held up. It starts with the first job. Its lock is innermost.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "engines/mesh/memory_proof.h"

namespace flockstep::engines::mesh {

struct CopyJob {
  enum class End { copied, failed, cancelled };
  MemoryProof source;
  std::uint64_t place = 0;  // of the message
  Bytes to;
  std::atomic<bool> is_cancelled = false;  // set by anybody; then it ends after the slice that it is at
  std::function<void(End)> on_end;         // on the copier's thread; the bytes are not touched any more
};

class Copier {
 public:
  Copier() = default;
  ~Copier();  // cancels what is left, each job of which still ends
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  void run(std::shared_ptr<CopyJob> job);

 private:
  void work();
  static CopyJob::End copy(CopyJob& job, const std::atomic<bool>& is_ending);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CopyJob>> jobs_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace flockstep::engines::mesh
