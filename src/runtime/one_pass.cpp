#include "runtime/one_pass.h"

#include "base/check.h"
#include "kernels/kernels.h"

namespace flockstep::runtime {

OnePass::OnePass(Context& context, const Layout& layout, const std::string& purpose)
    : context_(context), layout_(layout) {
  const auto size = static_cast<std::size_t>(context.size()), rank = static_cast<std::size_t>(context.rank());
  std::size_t total = 0;
  for (const Bucket& bucket : layout_.buckets()) {
    shards_.emplace_back(bucket.size, size);
    received_begin_.push_back(total);
    total += shards_.back().size(rank) * (size - 1);
  }
  received_ = context.engine().memory().allocate<float>(total, purpose);
}

std::span<float> OnePass::own_shard(std::size_t bucket, std::span<float> whole) const {
  return shards_[bucket].of(layout_.buckets()[bucket].of(whole), static_cast<std::size_t>(context_.rank()));
}

std::span<float> OnePass::received(std::size_t bucket, int peer) const {
  const int rank = context_.rank();
  const std::size_t size = shards_[bucket].size(static_cast<std::size_t>(rank));
  const auto row = static_cast<std::size_t>(peer < rank ? peer : peer - 1);  // one's own shard is not received
  return received_.span().subspan(received_begin_[bucket] + row * size, size);
}

void OnePass::start(std::size_t bucket, std::span<float> whole) {
  base::check(whole.size() == layout_.size(), "a span of the layout's size");
  const auto data = layout_.buckets()[bucket].of(whole);
  std::vector<engines::ConstBytes> send;
  std::vector<engines::Bytes> receive;
  for (int peer = 0; peer < context_.size(); ++peer) {
    send.push_back(engines::const_bytes_of(shards_[bucket].of(data, static_cast<std::size_t>(peer))));
    receive.push_back(peer == context_.rank() ? engines::Bytes{} : engines::bytes_of(received(bucket, peer)));
  }
  const base::Time now = context_.engine().now();
  started_.push_back({bucket, now, context_.engine().all_to_all(send, receive)});
}

void OnePass::finish(std::span<float> whole, std::span<const float> coefficients) {
  base::check(started_.size() == layout_.buckets().size(), "every bucket started once");
  std::vector<Gathering> gathering;
  for (Started& started : started_) {
    context_.wait(*started.all_to_all, "all_to_all", started.issued);
    sum_own_shard(started.bucket, whole, coefficients);
    gathering.push_back(start_all_gather(started.bucket, whole));
  }
  for (Gathering& each : gathering) context_.wait(*each.all_gather, "all_gather", each.issued);
  started_.clear();
}

void OnePass::run(std::span<float> whole, std::span<const float> coefficients) {
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) start(bucket, whole);
  finish(whole, coefficients);
}

void OnePass::sum_own_shard(std::size_t bucket, std::span<float> whole, std::span<const float> coefficients) {
  const auto own = own_shard(bucket, whole);
  std::vector<const float*> rows;
  for (int peer = 0; peer < context_.size(); ++peer)
    rows.push_back(peer == context_.rank() ? own.data() : received(bucket, peer).data());
  kernels::weighted_sum(rows, coefficients, own);
  context_.engine().charge(static_cast<double>((rows.size() + 1) * own.size_bytes()));
}

OnePass::Gathering OnePass::start_all_gather(std::size_t bucket, std::span<float> whole) {
  const auto data = layout_.buckets()[bucket].of(whole);
  std::vector<engines::Bytes> receive;
  for (int peer = 0; peer < context_.size(); ++peer)
    receive.push_back(engines::bytes_of(shards_[bucket].of(data, static_cast<std::size_t>(peer))));
  const base::Time now = context_.engine().now();
  return {now, context_.engine().all_gather(engines::const_bytes_of(own_shard(bucket, whole)), receive)};
}

}  // namespace flockstep::runtime
