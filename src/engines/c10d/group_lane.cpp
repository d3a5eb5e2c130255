// Gloo as seen through c10d, which gives no other way to it:
// - isCompleted() of a send or a receive stays false until wait() returns, so somebody has to block there;
// - a wait() that times out closes every connection of its group, so nobody gives it a short time unless to that end;
// - a message longer than the place for it ends the process, a shorter one is taken without a word;
// - both ends meet before bytes move: a send passes once its receive is posted.
// Nothing here goes through torch's dispatcher or needs Python's lock.
#include "engines/c10d/group_lane.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "base/text.h"

namespace flockstep::engines::c10d {
namespace {

using namespace std::chrono_literals;

// Deadlines are the callers' business: whoever gives up aborts.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
constexpr Tag kCutTag = 0x7FFFFFFF;  // nobody else's

class WorkTransit final : public Transit {
 public:
  explicit WorkTransit(c10::intrusive_ptr<::c10d::Work> work) : work_(std::move(work)) {}
  bool wait() override { return work_->wait(kForever); }
  void abort() noexcept override { work_->abort(); }

 private:
  c10::intrusive_ptr<::c10d::Work> work_;  // the only reference: its end withdraws the bytes from Gloo
};

class GroupLane final : public Lane {
 public:
  explicit GroupLane(c10::intrusive_ptr<::c10d::Backend> group) : group_(std::move(group)) {}
  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  std::unique_ptr<Transit> send(int peer, Tag tag, ConstBytes bytes) override {
    auto tensors = tensors_over(const_cast<std::byte*>(bytes.data()), bytes.size());
    const std::lock_guard lock(mutex_);
    return std::make_unique<WorkTransit>(group_->send(tensors, peer, tag));
  }

  std::unique_ptr<Transit> receive(int peer, Tag tag, Bytes bytes) override {
    auto tensors = tensors_over(bytes.data(), bytes.size());
    const std::lock_guard lock(mutex_);
    return std::make_unique<WorkTransit>(group_->recv(tensors, peer, tag));
  }

  // By a wait that times out. It needs a connection that is still there to wait on.
  void cut() noexcept override {
    std::byte place{};
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      try {
        auto tensors = tensors_over(&place, 1);
        c10::intrusive_ptr<::c10d::Work> work;
        {
          const std::lock_guard lock(mutex_);
          work = group_->recv(tensors, peer, kCutTag);
        }
        work->wait(1ms);
      } catch (const std::exception&) {  // as intended, or this connection is lost already
      }
    }
  }

 private:
  static std::vector<at::Tensor> tensors_over(std::byte* bytes, std::size_t size) {
    return {at::from_blob(bytes, {static_cast<std::int64_t>(size)}, at::TensorOptions().dtype(at::kByte))};
  }

  c10::intrusive_ptr<::c10d::Backend> group_;
  std::mutex mutex_;  // it counts its works without one
};

}  // namespace

std::unique_ptr<Lane> make_lane(c10::intrusive_ptr<::c10d::Backend> group) {
  if (group->getBackendName() != "gloo")
    throw Error(ErrorCode::bad_input,
                base::concatenated("a worker's own groups travel by gloo, not by ", group->getBackendName()), "c10d");
  return std::make_unique<GroupLane>(std::move(group));
}

}  // namespace flockstep::engines::c10d
