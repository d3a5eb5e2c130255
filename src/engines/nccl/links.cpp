#include "engines/nccl/links.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
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
constexpr std::chrono::seconds kGrace{2};
constexpr base::Duration kPatienceWithEnded{3};  // what it sent before its end still arrives

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
    end(std::move(lanes_));
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
    int result = library().group_begin();  // one for all lanes: the host is through sooner
    for (std::size_t lane = 0; lane < used && result == 0; ++lane) result = exchange_on(lane, blocks);
    const int ended = library().group_end();
    try {
      nccl::check(result != 0 ? result : ended, "NCCL does not exchange");
    } catch (const Error& error) {
      break_with(error);
      throw;
    }
    for (std::size_t lane = 0; lane < used; ++lane) queue.follow(*lanes_[lane].queue);
    under_way_.push_back({queue.mark(), engine_.now()});
  }

  std::uint64_t bytes_sent() const override { return bytes_sent_; }

  void check() override {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
  }
  Flag failed() const override { return failed_; }
  void abort() noexcept override {
    *failed_ = true;
    const std::lock_guard lock(mutex_);
    if (!failure_) break_with(Error(ErrorCode::unavailable, "the exchange between GPUs was ended", "nccl"));
  }

 private:
  struct Lane {
    Communicator communicator = nullptr;
    std::unique_ptr<kernels::Queue> queue;
  };

  // Until all that was sent has left: NCCL may wait for the other workers of a machine here, which may be in trouble.
  // Then it is left to itself.
  static void end(std::vector<Lane> lanes) {
    if (lanes.empty()) return;
    const auto ended = std::make_shared<std::promise<void>>();
    std::thread([ended, kept = std::make_shared<std::vector<Lane>>(std::move(lanes))] {
      for (Lane& lane : *kept)
        if (lane.communicator) library().destroy(lane.communicator);
      kept->clear();
      ended->set_value();
    }).detach();
    ended->get_future().wait_for(kGrace);
  }

  // What runs on the device ends with this, and the streams go on. The mutex is held.
  void break_with(const Error& error) {
    *failed_ = true;
    if (!failure_) failure_ = std::make_unique<Error>(error);
    for (Lane& lane : lanes_)
      if (Communicator const communicator = std::exchange(lane.communicator, nullptr)) library().abort(communicator);
  }
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
      *failed_ = true;
      const std::lock_guard lock(mutex_);
      break_with(error);
    }
  }

  void look() {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
    for (const Lane& lane : lanes_) {
      int result = 0;
      if (library().async_error(lane.communicator, &result) == 0 && result != kInProgress)
        nccl::check(result, "the exchange between GPUs has failed");
    }
    while (!under_way_.empty() && under_way_.front().is_done()) under_way_.pop_front();
    if (under_way_.empty()) return;
    const base::Duration age = engine_.now() - under_way_.front().begin;
    if (const auto peer = engine_.ended(); peer && age > kPatienceWithEnded)
      throw Error(
          ErrorCode::peer_lost,
          fmt::format("worker {} has ended during the exchange of gradients: see the error that it raised", *peer),
          "nccl");
    if (age > patience_)
      throw Error(ErrorCode::deadline,
                  fmt::format("an exchange between GPUs did not finish within {:g} s on worker {}: another worker may "
                              "have stopped, or not reached it",
                              patience_.count(), engine_.rank()),
                  "nccl");
  }

  static constexpr int kInProgress = 7;
  static constexpr std::size_t kAlignment = 256;

  Engine& engine_;
  const base::Duration patience_;
  std::vector<Lane> lanes_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
  // Of what follows, and of calls to NCCL. The first exchange with a peer waits for it to connect.
  std::mutex mutex_;
  std::deque<UnderWay> under_way_;
  std::unique_ptr<Error> failure_;
  const std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Signal> closing_;
  std::unique_ptr<Agent> watcher_;
};

}  // namespace

// NCCL takes workers of different names for those of different machines: several on one GPU can then be tried out.
// Machines may share a name, but no boot.
std::string place_of(int device) {
  std::string host;
  if (const char* const given = std::getenv("NCCL_HOSTID")) {
    host = given;
  } else {
    char name[96] = {}, boot[48] = {};
    gethostname(name, sizeof name - 1);
    if (std::FILE* const file = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
      if (std::fgets(boot, sizeof boot, file)) boot[std::strcspn(boot, "\n")] = 0;
      std::fclose(file);
    }
    host = fmt::format("{}{}{}", name, *boot ? ", boot " : "", boot);
  }
  return fmt::format("{} of {}", kernels::cuda::bus_id(device), host);
}

std::unique_ptr<DeviceLinks> connect(Engine& engine, int device, base::Duration patience) {
  return std::make_unique<Links>(engine, device, patience);
}

}  // namespace flockstep::engines::nccl
