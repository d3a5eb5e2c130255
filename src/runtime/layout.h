// How the one flat span of parameters or gradients is divided: into buckets that travel on their own, and each bucket
// into one shard per worker, who owns that part of the result.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/parts.h"

namespace flockstep::runtime {

struct Bucket {
  std::size_t begin, size;

  template <typename T>
  std::span<T> of(std::span<T> whole) const {
    return whole.subspan(begin, size);
  }
};

class Layout {
 public:
  // Buckets of at most `bucket_floats`, equal in size to one; at least one bucket, which may be empty.
  Layout(std::size_t size, std::size_t bucket_floats);

  std::size_t size() const { return size_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  std::size_t size_;
  std::vector<Bucket> buckets_;
};

}  // namespace flockstep::runtime
