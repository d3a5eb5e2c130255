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

// Without any, one that is empty.
std::vector<Range> one_behind_the_other(std::span<const std::size_t> sizes) {
  std::vector<Range> ranges;
  for (const std::size_t size : sizes) ranges.push_back({ranges.empty() ? 0 : ranges.back().end(), size});
  if (ranges.empty()) ranges.push_back({0, 0});
  return ranges;
}

}  // namespace

Layout::Layout(std::size_t size, std::size_t bucket_floats) : Layout(std::span(&size, 1), bucket_floats) {}

Layout::Layout(std::span<const std::size_t> tensors, std::size_t bucket_floats)
    : size_(std::accumulate(tensors.begin(), tensors.end(), std::size_t{0})), bucket_floats_(bucket_floats) {
  const std::size_t count = pieces_of(size_, bucket_floats);
  const base::Partition parts(size_, count);
  for (std::size_t part = 0; part < count; ++part) buckets_.push_back({parts.begin(part), parts.size(part)});
  tensors_ = one_behind_the_other(tensors);
}

Layout Layout::of_buckets(std::span<const std::size_t> buckets, std::span<const std::size_t> tensors) {
  const std::size_t largest = buckets.empty() ? 0 : *std::ranges::max_element(buckets);
  Layout layout(tensors, std::max<std::size_t>(1, largest));
  layout.buckets_ = one_behind_the_other(buckets);
  base::check(layout.buckets_.back().end() == layout.size_, "buckets and tensors of the same numbers");
  return layout;
}

Shards Shards::by_bucket(const Layout& layout, std::size_t workers, std::size_t granule) {
  Shards shards(workers);
  for (const Range& bucket : layout.buckets()) {
    const base::Partition parts((bucket.size + granule - 1) / granule, workers);
    auto& ranges = shards.ranges_.emplace_back();
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const std::size_t begin = std::min(parts.begin(worker) * granule, bucket.size),
                        end = std::min((parts.begin(worker) + parts.size(worker)) * granule, bucket.size);
      ranges.push_back({bucket.begin + begin, end - begin});
    }
  }
  return shards;
}

Shards Shards::by_worker(const Layout& layout, std::size_t workers) {
  Shards shards(workers);
  const base::Partition owners(layout.size(), workers);
  const std::size_t count = pieces_of(layout.size(), layout.bucket_floats());
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    auto& ranges = shards.ranges_.emplace_back();
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const base::Partition pieces(owners.size(worker), count);
      ranges.push_back({owners.begin(worker) + pieces.begin(bucket), pieces.size(bucket)});
    }
  }
  return shards;
}

}  // namespace flockstep::runtime
