#include "runtime/gradient/shard_transfers.h"

#include "base/check.h"

namespace flockstep::runtime {

ShardTransfers::ShardTransfers(Context& context, Shards shards, Wire wire, const std::string& purpose,
                               std::size_t places)
    : context_(context), shards_(std::move(shards)), wire_(wire), rank_(static_cast<std::size_t>(context.rank())) {
  std::size_t total = 0, size = 0;
  for (std::size_t bucket = 0; bucket < shards_.buckets(); ++bucket) {
    if (bucket < places) {
      places_.push_back(total);
      total += own(bucket).size * (shards_.workers() - 1);
    }
    for (std::size_t worker = 0; worker < shards_.workers(); ++worker) size += shards_.of(bucket, worker).size;
  }
  received_ = context.engine().memory().allocate<std::byte>(total * kernels::size_of(number()), purpose);
  if (wire == Wire::bfloat16) sent_ = context.engine().memory().allocate<kernels::BFloat16>(size, purpose);
}

std::size_t ShardTransfers::place_of(std::size_t bucket) const {
  base::check(bucket < places_.size(), "a bucket with a place of its own");
  return places_[bucket];
}

template <typename T>
std::span<T> ShardTransfers::received(const Arrival& arrival, std::size_t peer) const {
  const std::size_t size = own(arrival.bucket).size;
  const std::size_t row = peer < rank_ ? peer : peer - 1;  // one's own shard is not received
  return {reinterpret_cast<T*>(received_.data()) + arrival.place + row * size, size};
}

std::vector<const void*> ShardTransfers::rows(const Arrival& arrival, std::size_t offset, Whole whole) const {
  const Range mine = own(arrival.bucket);
  std::vector<const void*> rows;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer)
    if (wire_ == Wire::float32)
      rows.push_back((peer == rank_ ? whole.of(mine) : received<float>(arrival, peer)).data() + offset);
    else
      rows.push_back((peer == rank_ ? mine.of(sent_.span()) : received<kernels::BFloat16>(arrival, peer)).data() +
                     offset);
  return rows;
}

template <typename T, typename F>
engines::Pending ShardTransfers::send_from(const Arrival& arrival, const F& part_of) {
  std::vector<engines::ConstBytes> send;
  std::vector<engines::Bytes> receive;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer) {
    send.push_back(engines::const_bytes_of(part_of(shards_.of(arrival.bucket, peer))));
    receive.push_back(peer == rank_ ? engines::Bytes{} : engines::bytes_of(received<T>(arrival, peer)));
  }
  return context_.engine().all_to_all(send, receive);
}

ShardTransfers::Arrival ShardTransfers::send(std::size_t bucket, std::size_t place, Whole whole) {
  if (wire_ == Wire::bfloat16) {
    base::check(whole.size() <= sent_.size(), "numbers of the layout's size");  // later buckets may not be there yet
    for (std::size_t peer = 0; peer < shards_.workers(); ++peer) {
      const Range range = shards_.of(bucket, peer);
      context_.queue().convert(kernels::Numbers(whole.of(range)), range.of(sent_.span()));
    }
  }
  Arrival arrival{bucket, place, context_.engine().now(), nullptr};
  if (wire_ == Wire::float32)
    arrival.all_to_all = send_from<float>(arrival, [&](Range range) { return whole.of(range); });
  else
    arrival.all_to_all = send_from<kernels::BFloat16>(arrival, [&](Range range) { return range.of(sent_.span()); });
  return arrival;
}

template <typename F>
engines::Pending ShardTransfers::gather_into(std::size_t bucket, const F& part_of) {
  std::vector<engines::Bytes> receive;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer)
    receive.push_back(engines::bytes_of(part_of(shards_.of(bucket, peer))));
  return context_.engine().all_gather(engines::const_bytes_of(part_of(own(bucket))), receive);
}

ShardTransfers::Result ShardTransfers::gather(std::size_t bucket, Whole whole) {
  Result result{bucket, context_.engine().now(), nullptr};
  if (wire_ == Wire::float32) {
    result.all_gather = gather_into(bucket, [&](Range range) { return whole.of(range); });
  } else {
    context_.uncharged().convert(kernels::Numbers(whole.of(own(bucket))), own(bucket).of(sent_.span()));
    result.all_gather = gather_into(bucket, [&](Range range) { return range.of(sent_.span()); });
  }
  return result;
}

void ShardTransfers::wait(Result& result, Whole whole) {
  context_.wait(*result.all_gather, "all_gather", result.issued);
  if (wire_ == Wire::float32) return;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer) {  // one's own, too: it was rounded like the others
    const Range range = shards_.of(result.bucket, peer);
    context_.queue().convert(kernels::Numbers(range.of(sent_.span())), whole.of(range));
  }
}

}  // namespace flockstep::runtime
