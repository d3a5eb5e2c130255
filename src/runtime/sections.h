// What is weighted as one: the parts of a gradient that each have a Gram matrix and coefficients of their own.
#pragma once

#include <string_view>

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

  std::size_t count() const { return sizes_.size(); }
  std::size_t size(std::size_t section) const { return sizes_[section]; }

  // The part of a shard that belongs to one section; `offset` counts from the shard's begin.
  struct Segment {
    std::size_t section, offset, size;
  };
  // Cuts a shard of a bucket along the borders of the sections. Empty shards have no segments.
  std::vector<Segment> cut(std::size_t bucket, Range shard) const;

 private:
  Granularity granularity_;
  std::vector<Range> tensors_;
  std::vector<std::size_t> sizes_;
};

}  // namespace flockstep::runtime
