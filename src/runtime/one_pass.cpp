#include "runtime/one_pass.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/kernels.h"

namespace flockstep::runtime {
namespace {

// Buckets that travel at a time where all are ready: enough to overlap copying with adding, few enough for their shards
// to be still in cache when they are added.
constexpr std::size_t kWindow = 2;

}  // namespace

OnePass::OnePass(Context& context, const Layout& layout, const std::string& purpose)
    : context_(context), layout_(layout) {
  const auto size = static_cast<std::size_t>(context.size()), rank = static_cast<std::size_t>(context.rank());
  std::size_t total = 0;
  for (const Bucket& bucket : layout_.buckets()) {
    shards_.emplace_back(bucket.size, size);
    places_.push_back(total);
    total += shards_.back().size(rank) * (size - 1);
  }
  received_ = context.engine().memory().allocate<float>(total, purpose);
}

std::span<float> OnePass::own_shard(std::size_t bucket, std::span<float> whole) const {
  return shards_[bucket].of(layout_.buckets()[bucket].of(whole), static_cast<std::size_t>(context_.rank()));
}

std::span<float> OnePass::received(std::size_t bucket, std::size_t place, int peer) const {
  const int rank = context_.rank();
  const std::size_t size = shards_[bucket].size(static_cast<std::size_t>(rank));
  const auto row = static_cast<std::size_t>(peer < rank ? peer : peer - 1);  // one's own shard is not received
  return received_.span().subspan(place + row * size, size);
}

OnePass::Started OnePass::start_all_to_all(std::size_t bucket, std::size_t place, std::span<float> whole) {
  base::check(whole.size() == layout_.size(), "a span of the layout's size");
  const auto data = layout_.buckets()[bucket].of(whole);
  std::vector<engines::ConstBytes> send;
  std::vector<engines::Bytes> receive;
  for (int peer = 0; peer < context_.size(); ++peer) {
    send.push_back(engines::const_bytes_of(shards_[bucket].of(data, static_cast<std::size_t>(peer))));
    receive.push_back(peer == context_.rank() ? engines::Bytes{} : engines::bytes_of(received(bucket, place, peer)));
  }
  const base::Time now = context_.engine().now();
  return {bucket, place, now, context_.engine().all_to_all(send, receive)};
}

OnePass::Gathering OnePass::sum_and_gather(Started& started, std::span<float> whole,
                                           std::span<const float> coefficients) {
  context_.wait(*started.all_to_all, "all_to_all", started.issued);
  const auto own = own_shard(started.bucket, whole);
  std::vector<const float*> rows;
  for (int peer = 0; peer < context_.size(); ++peer)
    rows.push_back(peer == context_.rank() ? own.data() : received(started.bucket, started.place, peer).data());
  kernels::weighted_sum(rows, coefficients, own);
  context_.engine().charge(static_cast<double>((rows.size() + 1) * own.size_bytes()));

  const auto data = layout_.buckets()[started.bucket].of(whole);
  std::vector<engines::Bytes> receive;
  for (int peer = 0; peer < context_.size(); ++peer)
    receive.push_back(engines::bytes_of(shards_[started.bucket].of(data, static_cast<std::size_t>(peer))));
  const base::Time now = context_.engine().now();
  return {now, context_.engine().all_gather(engines::const_bytes_of(own), receive)};
}

void OnePass::wait_for(std::vector<Gathering>& gathering) {
  for (Gathering& each : gathering) context_.wait(*each.all_gather, "all_gather", each.issued);
}

void OnePass::start(std::size_t bucket, std::span<float> whole) {
  started_.push_back(start_all_to_all(bucket, places_[bucket], whole));
}

// What has started is taken out of the object first: a wait that throws then leaves nothing half done behind.
void OnePass::finish(std::span<float> whole, std::span<const float> coefficients) {
  base::check(started_.size() == layout_.buckets().size(), "every bucket started once");
  std::vector<Started> started = std::exchange(started_, {});
  std::vector<Gathering> gathering;
  for (Started& each : started) gathering.push_back(sum_and_gather(each, whole, coefficients));
  wait_for(gathering);
}

void OnePass::run(std::span<float> whole, std::span<const float> coefficients) {
  base::check(started_.empty(), "a pass of which nothing has started");
  const std::size_t count = layout_.buckets().size(), window = std::min(count, kWindow);
  // The places of the first buckets serve all: no bucket is larger than an earlier one.
  std::vector<Started> started;
  std::vector<Gathering> gathering;
  for (std::size_t bucket = 0; bucket < window; ++bucket)
    started.push_back(start_all_to_all(bucket, places_[bucket], whole));
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    Started& oldest = started[bucket % window];
    gathering.push_back(sum_and_gather(oldest, whole, coefficients));
    if (bucket + window < count) oldest = start_all_to_all(bucket + window, oldest.place, whole);
  }
  wait_for(gathering);
}

}  // namespace flockstep::runtime
