// The one transfer path (one_pass.h) for buckets on a device: everything stands in the order of a queue, and the host
// waits for nothing.
//
//   start      worker r receives shard r of everybody's bucket, and sweeps it: r's part of the Gram matrix
//   finish     everybody's part, with a few numbers of each worker's own, reaches every host; a function of the host's,
//              in the order of the queue, decides on coefficients; r adds its shards up and sends them to everybody
//
// Each shard has one owner who adds in rank order, so everybody ends on the same bits. In place: results overwrite the
// buckets. Numbers travel in the type that buckets have, or those of float32 as bfloat16. Device memory: the shards
// received, (P-1)/P of the gradient, and little else.
#pragma once

#include <functional>
#include <optional>

#include "engines/device_links.h"
#include "math/statistics.h"
#include "runtime/context.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::runtime {

struct DevicePassOptions {
  Wire wire = Wire::float32;  // of buckets of float32
  Granularity granularity = Granularity::model;
  std::size_t head = 0;  // numbers of each worker's own that everybody is told in finish()
};

// What the workers have told each other in a pass.
struct DeviceRecords {
  std::vector<std::vector<double>> heads;  // by worker
  std::vector<std::vector<double>> sums;   // by section, over the workers: a packed matrix, or row sums and squares
};

class DevicePass {
 public:
  using Allocate = std::function<kernels::Block(std::size_t bytes)>;
  // What to make of it, per section. Coefficients are one list of one number per worker.
  struct Plan {
    Coefficients coefficients;
    std::vector<Norm> norms;  // none, or the norms that results are brought to
  };
  // Called in the order of the queue, on a thread that may neither wait nor use the device. Must not throw.
  using Decide = std::function<Plan(const DeviceRecords& records)>;

  // For passes of buckets with the layout's sizes and these types. `allocate` gives device memory.
  DevicePass(Context& context, Layout layout, std::span<const kernels::Number> types, kernels::Queue& queue,
             engines::DeviceLinks& links, const Allocate& allocate, const DevicePassOptions& options);
  // Waits for the queue, and keeps the memory for ever if that takes too long.
  ~DevicePass();
  DevicePass(const DevicePass&) = delete;
  DevicePass& operator=(const DevicePass&) = delete;

  const Layout& layout() const { return layout_; }
  const Sections& sections() const { return sections_; }

  // Once for each bucket, in the same order on every worker. The bucket stays where it is, and nobody touches it before
  // the queue has come to the end of finish(). `need` is the same in all of a pass.
  void start(std::size_t bucket, kernels::Numbers numbers, math::Need need);
  // Forgets what was started: it travels to its end, and nobody uses it. The same on every worker.
  void drop() { started_ = 0; }
  // `may_set_norms`: whether the plan may have norms, for which one more small exchange has to be made.
  void finish(std::span<const double> head, Decide decide, bool may_set_norms);

 private:
  // What the functions of the host read and write; they may come later than this object's end.
  struct Host;
  struct Bucket {
    kernels::Number type;
    bool is_narrowed;                         // on its way
    std::size_t received, narrowed;           // where, in bytes
    std::vector<Sections::Segment> segments;  // of one's own shard
    kernels::Numbers numbers = {}, on_wire = {};
  };

  Range own(std::size_t bucket) const { return shards_.of(bucket, rank_); }
  kernels::Numbers shard(const kernels::Numbers& whole, std::size_t bucket, std::size_t worker) const;
  std::vector<const void*> rows(std::size_t bucket, std::size_t offset) const;
  void sweep(std::size_t bucket);
  void exchange_all(double* mine, double* all, std::size_t count);
  void tell_and_decide(std::span<const double> head, Decide decide);
  void sum_up();
  void bring_to_norms();
  void send_results();
  void mark_failure();

  Context& context_;
  const Layout layout_;
  kernels::Queue& queue_;
  engines::DeviceLinks& links_;
  const DevicePassOptions options_;
  const Sections sections_;
  const Shards shards_;
  const std::size_t workers_, rank_;
  std::vector<Bucket> buckets_;
  kernels::Block received_, narrowed_;
  kernels::Block doubles_;  // one's own record, everybody's, coefficients, and the same three for norms
  double *record_, *records_, *table_, *squares_, *all_squares_, *factors_;
  std::shared_ptr<Host> host_;

  math::Need need_ = math::Need::nothing;
  std::size_t started_ = 0;
};

}  // namespace flockstep::runtime
