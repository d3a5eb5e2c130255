// How the one flat span of parameters or gradients is divided: into buckets that travel on their own, into tensors, and
// into shards with one owner each.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/partition.h"

namespace flockstep::runtime {

struct Range {
  std::size_t begin, size;

  std::size_t end() const { return begin + size; }
  template <typename T>
  std::span<T> of(std::span<T> whole) const {
    return whole.subspan(begin, size);
  }
};

class Layout {
 public:
  // Buckets of at most `bucket_floats`, equal in size to one; at least one bucket, which may be empty. One tensor.
  Layout(std::size_t size, std::size_t bucket_floats);
  // The same over tensors of these sizes, one behind the other; without any, one that is empty. A bucket may hold parts
  // of several, and the other way round.
  Layout(std::span<const std::size_t> tensors, std::size_t bucket_floats);
  // With buckets of these sizes, which somebody else has chosen, over the same numbers.
  static Layout of_buckets(std::span<const std::size_t> buckets, std::span<const std::size_t> tensors);

  std::size_t size() const { return size_; }
  std::size_t bucket_floats() const { return bucket_floats_; }
  const std::vector<Range>& buckets() const { return buckets_; }
  const std::vector<Range>& tensors() const { return tensors_; }

 private:
  std::size_t size_, bucket_floats_;
  std::vector<Range> buckets_, tensors_;
};

// Who owns what. Each bucket holds one range of each worker.
class Shards {
 public:
  // Each bucket of the layout is divided among the workers: buckets can travel as they become ready. Shards begin on a
  // multiple of `granule` numbers in their bucket.
  static Shards by_bucket(const Layout& layout, std::size_t workers, std::size_t granule = 1);
  // Each worker owns one contiguous part of the whole, as sharded training wants it; a bucket holds a piece of every
  // part, so nothing can travel before all is ready.
  static Shards by_worker(const Layout& layout, std::size_t workers);

  std::size_t buckets() const { return ranges_.size(); }
  std::size_t workers() const { return workers_; }
  Range of(std::size_t bucket, std::size_t worker) const { return ranges_[bucket][worker]; }

 private:
  explicit Shards(std::size_t workers) : workers_(workers) {}
  std::size_t workers_;
  std::vector<std::vector<Range>> ranges_;
};

}  // namespace flockstep::runtime
