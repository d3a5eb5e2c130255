#include "runtime/layout.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace flockstep::runtime {
namespace {

std::size_t pieces_of(std::size_t size, std::size_t bucket_floats) {
  base::check(bucket_floats > 0, "buckets that hold something");
  return std::max<std::size_t>(1, (size + bucket_floats - 1) / bucket_floats);
}

}  // namespace

Layout::Layout(std::size_t size, std::size_t bucket_floats) : Layout(std::span(&size, 1), bucket_floats) {}

Layout::Layout(std::span<const std::size_t> tensors, std::size_t bucket_floats)
    : size_(std::accumulate(tensors.begin(), tensors.end(), std::size_t{0})), bucket_floats_(bucket_floats) {
  const std::size_t count = pieces_of(size_, bucket_floats);
  const base::Parts parts(size_, count);
  for (std::size_t part = 0; part < count; ++part) buckets_.push_back({parts.begin(part), parts.size(part)});
  std::size_t begin = 0;
  for (const std::size_t size : tensors) {
    tensors_.push_back({begin, size});
    begin += size;
  }
  if (tensors_.empty()) tensors_.push_back({0, 0});
}

Shards Shards::by_bucket(const Layout& layout, std::size_t workers) {
  Shards shards(workers);
  for (const Range& bucket : layout.buckets()) {
    const base::Parts parts(bucket.size, workers);
    auto& ranges = shards.ranges_.emplace_back();
    for (std::size_t worker = 0; worker < workers; ++worker)
      ranges.push_back({bucket.begin + parts.begin(worker), parts.size(worker)});
  }
  return shards;
}

Shards Shards::by_worker(const Layout& layout, std::size_t workers) {
  Shards shards(workers);
  const base::Parts owners(layout.size(), workers);
  const std::size_t count = pieces_of(layout.size(), layout.bucket_floats());
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    auto& ranges = shards.ranges_.emplace_back();
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const base::Parts pieces(owners.size(worker), count);
      ranges.push_back({owners.begin(worker) + pieces.begin(bucket), pieces.size(bucket)});
    }
  }
  return shards;
}

}  // namespace flockstep::runtime
