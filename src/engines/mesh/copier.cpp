#include "engines/mesh/copier.h"

#include <algorithm>

namespace flockstep::engines::mesh {
namespace {

constexpr std::size_t kCopyBytes = 1 << 20;  // a fraction of a millisecond

}  // namespace

Copier::~Copier() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Copier::run(std::shared_ptr<CopyJob> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_one();
}

void Copier::work() {
  while (true) {
    std::shared_ptr<CopyJob> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job->on_end(copy(*job, is_ending_));
  }
}

CopyJob::End Copier::copy(CopyJob& job, const std::atomic<bool>& is_ending) {
  Bytes left = job.to;
  std::uint64_t place = job.place;
  while (!left.empty()) {
    if (job.is_cancelled || is_ending) return CopyJob::End::cancelled;
    const Bytes slice = left.first(std::min(left.size(), kCopyBytes));
    if (!read_memory(job.source.process, place, slice)) return CopyJob::End::failed;
    place += slice.size();
    left = left.subspan(slice.size());
  }
  return is_valid(job.source) ? CopyJob::End::copied : CopyJob::End::failed;
}

}  // namespace flockstep::engines::mesh
