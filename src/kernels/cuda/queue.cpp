// Memory, order and copies; the sweeps are in sweeps.cpp.
#include "kernels/cuda/queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "flockstep/error.h"

namespace flockstep::kernels::cuda {
namespace {

// As the driver numbers them.
constexpr unsigned kNonBlocking = 1, kWithoutTiming = 2, kPortable = 1;
constexpr std::size_t kLeastScratch = std::size_t{4} << 20;

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

[[noreturn]] void fail_to_allocate(std::size_t bytes, std::string_view where, CUresult result) {
  if (result != kOutOfMemory) require(result, "allocate memory");
  throw Error(ErrorCode::unavailable,
              fmt::format("There is not enough memory {} for {} bytes: use a smaller model or batch, or end what else "
                          "runs there.",
                          where, bytes));
}

// An event that destroys itself, in its context.
class Event {
 public:
  explicit Event(CUcontext context) : context_(context) {
    require(driver().cuEventCreate(&event_, kWithoutTiming), "make an event");
  }
  ~Event() {
    const Current current(context_, std::nothrow);
    if (current.holds()) driver().cuEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  CUevent get() const { return event_; }
  CUcontext context() const { return context_; }

 private:
  CUcontext context_;
  CUevent event_ = nullptr;
};

}  // namespace

// The driver's thread may not free memory of a device, which a function may own the last of.
class CalledFunctions {
 public:
  void add(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    functions_.push_back(std::move(function));
  }
  std::vector<std::function<void()>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(functions_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> functions_;
};

namespace {

struct Call {
  std::function<void()> function;
  std::shared_ptr<CalledFunctions> called;
};

}  // namespace

const char* name_of(Number number) {
  switch (number) {
    case Number::float32: return "float32";
    case Number::bfloat16: return "bfloat16";
    case Number::float16: return "float16";
  }
  return "";
}

StreamQueue::StreamQueue(const Module& module, CUstream stream, bool owns_stream)
    : module_(module),
      device_(fmt::format("cuda:{}", module.device())),
      stream_(stream),
      owns_stream_(owns_stream),
      called_(std::make_shared<CalledFunctions>()) {
  const Current current(module_.context());
  if (owns_stream_) require(driver().cuStreamCreate(&stream_, kNonBlocking), "make a stream");
  require(driver().cuEventCreate(&followed_, kWithoutTiming), "make an event");
}

StreamQueue::~StreamQueue() {
  const Current current(module_.context(), std::nothrow);
  if (!current.holds()) return;
  // The kernels that use the scratch memory, and the functions that are still to be called.
  driver().cuStreamSynchronize(stream_);
  driver().cuEventDestroy(followed_);
  if (owns_stream_) driver().cuStreamDestroy(stream_);
}

Block StreamQueue::allocate(std::size_t bytes) {
  const Current current(module_.context());
  CUdeviceptr memory = 0;
  const CUresult result = driver().cuMemAlloc(&memory, std::max<std::size_t>(bytes, 1));
  if (result != kSuccess) fail_to_allocate(bytes, "on " + device_, result);
  Block block(reinterpret_cast<std::byte*>(memory), [context = module_.context()](std::byte* pointer) {
    const Current freeing(context, std::nothrow);
    if (freeing.holds()) driver().cuMemFree(address_of(pointer));
  });
  if (bytes > 0) require(driver().cuMemsetD8Async(memory, 0, bytes, stream_), "clear memory");
  return block;
}

Block StreamQueue::allocate_on_host(std::size_t bytes) {
  const Current current(module_.context());
  void* memory = nullptr;
  const CUresult result = driver().cuMemHostAlloc(&memory, std::max<std::size_t>(bytes, 1), kPortable);
  if (result != kSuccess) fail_to_allocate(bytes, "of the host that " + device_ + " can reach", result);
  std::fill_n(static_cast<std::byte*>(memory), bytes, std::byte{0});
  return Block(static_cast<std::byte*>(memory), [context = module_.context()](std::byte* pointer) {
    const Current freeing(context, std::nothrow);
    if (freeing.holds()) driver().cuMemFreeHost(pointer);
  });
}

void StreamQueue::follow(Queue& other) {
  auto* const queue = dynamic_cast<StreamQueue*>(&other);
  if (queue == nullptr) return;  // the CPU's work is done when it is asked for
  if (queue->stream_ == stream_ && queue->module_.device() == module_.device()) return;
  {
    const Current current(queue->module_.context());
    require(driver().cuEventRecord(queue->followed_, queue->stream_), "record an event");
  }
  const Current current(module_.context());
  require(driver().cuStreamWaitEvent(stream_, queue->followed_, 0), "let a stream wait for an event");
}

void StreamQueue::call(std::function<void()> function) {
  const Current current(module_.context());
  called_->take();  // destroyed here
  auto call = std::make_unique<Call>(Call{std::move(function), called_});
  const auto run = [](void* data) {
    std::unique_ptr<Call> call(static_cast<Call*>(data));
    call->function();
    call->called->add(std::move(call->function));
  };
  require(driver().cuLaunchHostFunc(stream_, run, call.get()), "call a function of the host");
  call.release();
}

std::function<bool()> StreamQueue::mark() {
  const Current current(module_.context());
  const auto event = std::make_shared<const Event>(module_.context());
  require(driver().cuEventRecord(event->get(), stream_), "record an event");
  return [event] {
    const Current asking(event->context());
    const CUresult result = driver().cuEventQuery(event->get());
    if (result != kNotReady) require(result, "carry out what it was asked for");
    return result == kSuccess;
  };
}

void StreamQueue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const Current current(module_.context());
  require(driver().cuMemcpyAsync(address_of(to), address_of(from), bytes, stream_), "copy memory");
}

std::byte* StreamQueue::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_bytes_ = std::max({bytes, kLeastScratch, 2 * scratch_bytes_});
    scratch_.push_back(allocate(scratch_bytes_));
  }
  return scratch_.back().get();
}

void StreamQueue::launch(const std::string& kernel, const Grid& grid, const void* arguments) {
  const Current current(module_.context());
  void* parameters[] = {const_cast<void*>(arguments)};
  base::check(grid.x > 0 && grid.x < (Size{1} << 31) && grid.y > 0 && grid.y < 65536, "a grid that a device can have");
  require(driver().cuLaunchKernel(module_.kernel(kernel), static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                                  1, static_cast<unsigned>(grid.threads), 1, 1,
                                  static_cast<unsigned>(grid.shared_bytes), stream_, parameters, nullptr),
          "launch the kernel " + kernel);
}

}  // namespace flockstep::kernels::cuda
