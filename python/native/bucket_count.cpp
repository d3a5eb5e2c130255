#include "native/bucket_count.h"

namespace flockstep::python {
namespace {

// Which bucket is the last is told only where they are numbered, which they are not while DDP learns a static graph.
// Instantiations may name private members.
template <std::size_t c10d::GradBucket::*Count>
struct BucketCount {
  friend std::size_t private_count(const c10d::GradBucket& bucket) { return bucket.*Count; }
};
template struct BucketCount<&c10d::GradBucket::bucket_count_>;
std::size_t private_count(const c10d::GradBucket& bucket);

}  // namespace

std::size_t buckets_beside(const c10d::GradBucket& bucket) { return private_count(bucket); }

}  // namespace flockstep::python
