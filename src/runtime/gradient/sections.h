// What is weighted as one: the parts of a gradient that each have a Gram matrix and coefficients of their own.
#pragma once

#include "runtime/layout.h"

namespace flockstep::runtime {

enum class Granularity {
  model,   // the whole gradient: one coefficient per worker
  bucket,  // each bucket on its own
  tensor,  // each tensor on its own
};

class Sections {
 public:
  Sections(const Layout& layout, Granularity granularity);

  std::size_t count() const { return ranges_.size(); }
  std::size_t size(std::size_t section) const { return ranges_[section].size; }
  std::vector<std::size_t> sizes() const;

  // The part of a shard that belongs to one section; `offset` counts from the shard's begin.
  struct Segment {
    std::size_t section, offset, size;
  };
  // Cuts a shard along the borders of the sections. Empty shards have no segments.
  std::vector<Segment> cut(Range shard) const;

 private:
  std::vector<Range> ranges_;
};

}  // namespace flockstep::runtime
