#include "runtime/layout.h"

#include <algorithm>

#include "base/check.h"

namespace flockstep::runtime {

Layout::Layout(std::size_t size, std::size_t bucket_floats) : size_(size) {
  base::check(bucket_floats > 0, "buckets that hold something");
  const std::size_t count = std::max<std::size_t>(1, (size + bucket_floats - 1) / bucket_floats);
  const base::Parts parts(size, count);
  for (std::size_t part = 0; part < count; ++part) buckets_.push_back({parts.begin(part), parts.size(part)});
}

}  // namespace flockstep::runtime
