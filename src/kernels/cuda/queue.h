// A queue of kernels::Queue on a CUDA stream. Calls from one thread at a time; marks may be asked from any.
//
// Memory for partial sums belongs to the queue: what follows each other in a stream may share it. A larger one is made
// where it is too small, and the old one stays until the queue ends, for kernels that still use it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/module.h"
#include "kernels/cuda/shared.h"
#include "kernels/queue.h"

namespace flockstep::kernels::cuda {

constexpr Type type_of(Number number) { return static_cast<Type>(number); }
const char* name_of(Number number);  // "float32", as kernels are named

class CalledFunctions;

class StreamQueue final : public Queue {
 public:
  // On a stream of its own without one.
  StreamQueue(const Module& module, CUstream stream, bool owns_stream);
  ~StreamQueue() override;
  StreamQueue(const StreamQueue&) = delete;
  StreamQueue& operator=(const StreamQueue&) = delete;

  std::string_view device() const override { return device_; }
  void* stream() const override { return stream_; }

  Block allocate(std::size_t bytes) override;
  Block allocate_on_host(std::size_t bytes) override;

  void follow(Queue& other) override;
  void call(std::function<void()> function) override;
  std::function<bool()> mark() override;

  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(Numbers x, float value) override;
  void convert(ConstNumbers from, Numbers to) override;

  void add_gram(const Rows& rows, double* K) override;
  void add_row_statistics(const Rows& rows, double* d, double* q) override;
  void weighted_sum(const Rows& rows, const double* coefficients, Numbers out) override;

  void add_square(ConstNumbers x, double* square) override;
  void scale(Numbers x, const double* factor) override;
  void axpy(float a, std::span<const float> x, std::span<float> y) override;
  void add_sketch(ConstNumbers x, SketchKey key, std::uint32_t first_chunk, std::span<float> z,
                  double* square) override;
  void find_non_finite(ConstNumbers x, std::uint32_t* found) override;

  void divide(std::span<float> x, float divisor) override;
  void join(std::span<float> model, std::span<const float> mean, int members) override;
  void join_and_swap(std::span<float> model, std::span<float> mean, int members) override;
  void move_to(std::span<float> x, std::span<float> y) override;

  // ---- for sweeps beside this class ----
  struct Grid {
    Size x = 1, y = 1;
    int threads = 0, shared_bytes = 0;
  };
  template <typename Arguments>
  void launch(const std::string& kernel, const Grid& grid, const Arguments& arguments) {
    launch(kernel, grid, static_cast<const void*>(&arguments));
  }
  // At least so many bytes, on a multiple of 256; they hold anything, and are the next sweep's as well.
  std::byte* scratch(std::size_t bytes);
  // The partial sums of a sketch; z may be null, for the square alone.
  struct Measured {
    const float* sketches;
    const double* squares;
    Size programs, square_count, width;
  };
  Measured measure(ConstNumbers x, SketchKey key, std::uint32_t first_chunk, std::size_t length);

 private:
  void launch(const std::string& kernel, const Grid& grid, const void* arguments);
  void over_span(const std::string& kernel, const SpanArguments& arguments);
  // The partial products of all pairs; returns how many blocks there are for each.
  Size sweep_products(const Rows& rows, double*& partials);
  void sweep_statistics(const Rows& rows, double* d, double* q);

  const Module& module_;
  std::string device_;
  CUstream stream_;
  bool owns_stream_;
  std::shared_ptr<CalledFunctions> called_;  // destroyed by this queue's caller
  CUevent followed_ = nullptr;               // what others that follow this queue wait for
  std::vector<Block> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace flockstep::kernels::cuda
