#include "engines/nccl/links.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "base/partition.h"
#include "engines/nccl/library.h"
#include "engines/wait.h"
#include "kernels/cuda/device.h"

namespace flockstep::engines::nccl {
namespace {

constexpr std::size_t kLanes = 4;
constexpr std::size_t kPieceBytes = 256 << 10;  // blocks are cut for more lanes only as far as pieces stay this large
constexpr base::Duration kGlance{0.2};

// The same on both ends of a block.
std::size_t lanes_for(std::size_t bytes) { return std::clamp<std::size_t>(bytes / kPieceBytes, 1, kLanes); }

using Place = std::array<char, 192>;

void check_places(Engine& engine, int device, base::Time deadline) {
  const auto places = engine.memory().allocate<Place>(static_cast<std::size_t>(engine.size()), "places");
  std::vector<Bytes> receive;
  for (Place& place : places.span()) receive.push_back(bytes_of(std::span<char>(place)));
  const auto mine = engine.memory().allocate<Place>(1, "places");
  *mine.data() = {};
  const std::string name = place_of(device);
  std::copy_n(name.data(), std::min(name.size(), mine.data()->size() - 1), mine.data()->data());
  const Pending gathering = engine.all_gather(bytes_of(std::span<char>(*mine.data())), receive, Traffic::figures);
  wait(engine, *gathering, deadline, "the gathering of places");
  for (std::size_t i = 0; i < places.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (places.data()[i] == places.data()[j])
        throw Error(ErrorCode::unavailable,
                    fmt::format("workers {} and {} share GPU {}, which NCCL refuses: give every worker a GPU of its "
                                "own, or for a trial set NCCL_HOSTID to another name on each",
                                j, i, places.data()[i].data()),
                    "nccl");
}

class Links final : public DeviceLinks {
 public:
  Links(Engine& engine, int device, base::Duration patience)
      : engine_(engine), patience_(patience), closing_(engine.make_signal()) {
    if (engine.size() == 1) return;
    const base::Time deadline = engine.now() + patience;
    check_places(engine, device, deadline);
    const auto ids = engine.memory().allocate<UniqueId>(kLanes, "NCCL's names");
    if (engine.rank() == 0)
      for (UniqueId& id : ids.span()) nccl::check(library().get_unique_id(&id), "NCCL makes no communicator");
    const Pending broadcast = engine.broadcast(bytes_of(ids.span()), 0);
    wait(engine, *broadcast, deadline, "the broadcast of NCCL's names");
    for (const UniqueId& id : ids.span()) {
      Lane& lane = lanes_.emplace_back();
      lane.queue = kernels::cuda::make_queue(device);
      nccl::check(library().init(&lane.communicator, engine.size(), id, engine.rank()), "NCCL makes no communicator");
    }
    watcher_ = engine.spawn("nccl", [this] { watch(); });
  }

  ~Links() override {
    closing_->raise();
    watcher_.reset();
    const std::lock_guard lock(mutex_);
    for (Lane& lane : lanes_)
      if (lane.communicator) (failure_ ? library().abort : library().destroy)(lane.communicator);
  }

  void exchange(kernels::Queue& queue, std::span<const DeviceBlock> blocks) override {
    std::size_t used = 0;
    for (const DeviceBlock& block : blocks)
      if (block.peer == engine_.rank()) {
        if (!block.receive.empty()) queue.copy(block.receive.data(), block.send.data(), block.send.size());
      } else {
        if (!block.send.empty()) used = std::max(used, lanes_for(block.send.size()));
        if (!block.receive.empty()) used = std::max(used, lanes_for(block.receive.size()));
        bytes_sent_ += block.send.size();
      }
    const std::lock_guard lock(mutex_);
    if (failure_ || used == 0) return;
    for (std::size_t lane = 0; lane < used; ++lane) lanes_[lane].queue->follow(queue);
    nccl::check(library().group_begin(), kRefusal);  // one for all lanes: the host is through sooner
    int result = 0;
    for (std::size_t lane = 0; lane < used && result == 0; ++lane) result = exchange_on(lane, blocks);
    const int ended = library().group_end();
    nccl::check(result != 0 ? result : ended, kRefusal);
    for (std::size_t lane = 0; lane < used; ++lane) queue.follow(*lanes_[lane].queue);
    under_way_.push_back({queue.mark(), engine_.now()});
  }

  std::uint64_t bytes_sent() const override { return bytes_sent_; }

  void check() override {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
  }

 private:
  struct Lane {
    Communicator communicator = nullptr;
    std::unique_ptr<kernels::Queue> queue;
  };
  struct UnderWay {
    std::function<bool()> is_done;
    base::Time begin;
  };

  // NCCL's result.
  int exchange_on(std::size_t index, std::span<const DeviceBlock> blocks) {
    const Lane& lane = lanes_[index];
    const auto piece = [&](auto bytes) {
      const std::size_t lanes = lanes_for(bytes.size());
      if (bytes.empty() || index >= lanes) return bytes.first(0);
      const base::Partition parts(bytes.size() / kAlignment, lanes);
      const std::size_t begin = parts.begin(index) * kAlignment;
      const bool is_last = index + 1 == lanes;
      return bytes.subspan(begin, is_last ? bytes.size() - begin : parts.size(index) * kAlignment);
    };
    int result = 0;
    for (const DeviceBlock& block : blocks) {
      if (block.peer == engine_.rank()) continue;
      const ConstBytes send = piece(block.send);
      const Bytes receive = piece(block.receive);
      if (result == 0 && !send.empty())
        result = library().send(send.data(), send.size(), kBytes, block.peer, lane.communicator, lane.queue->stream());
      if (result == 0 && !receive.empty())
        result = library().receive(receive.data(), receive.size(), kBytes, block.peer, lane.communicator,
                                   lane.queue->stream());
    }
    return result;
  }

  // The engine tells of peers that are lost by breaking: then waiting throws.
  void watch() {
    try {
      while (!engine_.wait_until([&] { return closing_->take(); }, engine_.now() + kGlance)) look();
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      failure_ = std::make_unique<Error>(error);
      // What runs on the device ends with this, and the streams go on.
      for (Lane& lane : lanes_)
        if (Communicator const communicator = std::exchange(lane.communicator, nullptr)) library().abort(communicator);
    }
  }

  void look() {
    const std::lock_guard lock(mutex_);
    for (const Lane& lane : lanes_) {
      int result = 0;
      if (library().async_error(lane.communicator, &result) == 0 && result != kInProgress)
        nccl::check(result, "the exchange between GPUs has failed");
    }
    while (!under_way_.empty() && under_way_.front().is_done()) under_way_.pop_front();
    if (!under_way_.empty() && engine_.now() - under_way_.front().begin > patience_)
      throw Error(ErrorCode::deadline,
                  fmt::format("an exchange between GPUs did not finish within {:g} s on worker {}: another worker may "
                              "have stopped, or not come to it",
                              patience_.count(), engine_.rank()),
                  "nccl");
  }

  static constexpr int kInProgress = 7;
  static constexpr const char* kRefusal = "NCCL does not exchange";
  static constexpr std::size_t kAlignment = 256;

  Engine& engine_;
  const base::Duration patience_;
  std::vector<Lane> lanes_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
  // Of what follows, and of calls to NCCL. Whoever holds it waits for no device.
  std::mutex mutex_;
  std::deque<UnderWay> under_way_;
  std::unique_ptr<Error> failure_;
  std::unique_ptr<Signal> closing_;
  std::unique_ptr<Agent> watcher_;
};

}  // namespace

std::string place_of(int device) {
  char host[96] = {};
  // NCCL takes workers of different names for those of different machines: several on one GPU can then be tried out.
  if (const char* const given = std::getenv("NCCL_HOSTID"))
    std::strncpy(host, given, sizeof host - 1);
  else
    gethostname(host, sizeof host - 1);
  return fmt::format("{} of {}", kernels::cuda::bus_id(device), host);
}

std::unique_ptr<DeviceLinks> connect(Engine& engine, int device, base::Duration patience) {
  return std::make_unique<Links>(engine, device, patience);
}

}  // namespace flockstep::engines::nccl
