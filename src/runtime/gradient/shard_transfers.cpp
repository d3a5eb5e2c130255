#include "runtime/gradient/shard_transfers.h"

#include "base/check.h"
#include "kernels/cpu/packing.h"

namespace flockstep::runtime {
namespace {

std::span<kernels::BFloat16> narrow_numbers(engines::Bytes bytes) {
  return {reinterpret_cast<kernels::BFloat16*>(bytes.data()), bytes.size() / sizeof(kernels::BFloat16)};
}

std::span<const kernels::BFloat16> narrow_numbers(engines::ConstBytes bytes) {
  return {reinterpret_cast<const kernels::BFloat16*>(bytes.data()), bytes.size() / sizeof(kernels::BFloat16)};
}

}  // namespace

double bytes_per_number(Wire wire) {
  if (wire == Wire::int8)
    return static_cast<double>(kernels::cpu::packed_bytes(kernels::cpu::kPackedBlock)) / kernels::cpu::kPackedBlock;
  return wire == Wire::float32 ? 4 : 2;
}

ShardTransfers::ShardTransfers(Context& context, Shards shards, Wire wire, const std::string& purpose,
                               std::size_t places)
    : context_(context), shards_(std::move(shards)), wire_(wire), rank_(static_cast<std::size_t>(context.rank())) {
  Place end{0, 0};
  std::size_t wired = 0;
  for (std::size_t bucket = 0; bucket < shards_.buckets(); ++bucket) {
    if (bucket < places) {
      places_.push_back(end);
      end.bytes += wire_bytes(own(bucket).size) * (shards_.workers() - 1);
      end.numbers += own(bucket).size * (shards_.workers() - 1);
    }
    results_at_.push_back(own_numbers_);
    own_numbers_ += own(bucket).size;
    wired_at_.emplace_back();
    for (std::size_t worker = 0; worker < shards_.workers(); ++worker) {
      wired_at_.back().push_back(wired);
      wired += wire_bytes(shards_.of(bucket, worker).size);
      numbers_ += shards_.of(bucket, worker).size;
    }
  }
  received_ = context.engine().memory().allocate<std::byte>(end.bytes, purpose);
  if (wire != Wire::float32) sent_ = context.engine().memory().allocate<std::byte>(wired, purpose);
  if (wire == Wire::int8) unpacked_ = context.engine().memory().allocate<float>(end.numbers, purpose);
}

std::size_t ShardTransfers::wire_bytes(std::size_t numbers) const {
  return wire_ == Wire::int8 ? kernels::cpu::packed_bytes(numbers) : numbers * kernels::size_of(number());
}

std::size_t ShardTransfers::place_of(std::size_t bucket) const {
  base::check(bucket < places_.size(), "a bucket with a place of its own");
  return bucket;
}

engines::Bytes ShardTransfers::on_wire(std::size_t bucket, std::size_t worker, Whole whole) const {
  const Range range = shards_.of(bucket, worker);
  if (wire_ == Wire::float32) return engines::bytes_of(whole.of(range));
  return sent_.span().subspan(wired_at_[bucket][worker], wire_bytes(range.size));
}

engines::Bytes ShardTransfers::received(const Arrival& arrival, std::size_t peer) const {
  const std::size_t bytes = wire_bytes(own(arrival.bucket).size);
  return received_.span().subspan(places_[arrival.place].bytes + row_of(peer) * bytes, bytes);
}

std::span<float> ShardTransfers::unpacked(const Arrival& arrival, std::size_t peer) const {
  const std::size_t size = own(arrival.bucket).size;
  return unpacked_.span().subspan(places_[arrival.place].numbers + row_of(peer) * size, size);
}

void ShardTransfers::to_wire(std::span<const float> numbers, std::span<float> lost, engines::Bytes bytes,
                             kernels::cpu::Queue& queue) {
  if (wire_ == Wire::int8)
    queue.pack(numbers, lost, bytes);
  else if (lost.empty())
    queue.convert(numbers, narrow_numbers(bytes));
  else
    queue.narrow(numbers, lost, narrow_numbers(bytes));
}

void ShardTransfers::from_wire(engines::ConstBytes bytes, std::span<float> numbers) {
  if (wire_ == Wire::int8)
    context_.queue().unpack(bytes, numbers);
  else
    context_.queue().convert(narrow_numbers(bytes), numbers);
}

std::vector<const void*> ShardTransfers::rows(const Arrival& arrival, std::size_t offset, Whole whole) const {
  const std::size_t skipped = offset * kernels::size_of(number());
  std::vector<const void*> rows;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer) {
    engines::Bytes row;
    if (peer == rank_)  // with int8 the whole has what was unpacked
      row =
          wire_ == Wire::int8 ? engines::bytes_of(whole.of(own(arrival.bucket))) : on_wire(arrival.bucket, peer, whole);
    else
      row = wire_ == Wire::int8 ? engines::bytes_of(unpacked(arrival, peer)) : received(arrival, peer);
    rows.push_back(row.data() + skipped);
  }
  return rows;
}

ShardTransfers::Arrival ShardTransfers::send(std::size_t bucket, std::size_t place, Whole whole) {
  Arrival arrival{bucket, place, {}, nullptr};
  if (wire_ != Wire::float32) {
    base::check(whole.size() <= numbers_, "numbers of the layout's size");  // later buckets may not be there yet
    for (std::size_t peer = 0; peer < shards_.workers(); ++peer) {
      const Range range = shards_.of(bucket, peer);
      const std::span<float> lost = feedback_.sent.empty() ? feedback_.sent : range.of(feedback_.sent);
      to_wire(whole.of(range), lost, on_wire(bucket, peer, whole), context_.queue());
    }
    if (wire_ == Wire::int8) from_wire(on_wire(bucket, rank_, whole), whole.of(own(bucket)));
  }
  arrival.issued = context_.engine().now();
  std::vector<engines::ConstBytes> send;
  std::vector<engines::Bytes> receive;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer) {
    send.push_back(on_wire(bucket, peer, whole));
    receive.push_back(peer == rank_ ? engines::Bytes{} : received(arrival, peer));
  }
  arrival.all_to_all = context_.engine().all_to_all(send, receive);
  return arrival;
}

void ShardTransfers::wait(Arrival& arrival) {
  context_.wait(*arrival.all_to_all, "all_to_all", arrival.issued);
  if (wire_ != Wire::int8) return;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer)
    if (peer != rank_) from_wire(received(arrival, peer), unpacked(arrival, peer));
}

ShardTransfers::Result ShardTransfers::gather(std::size_t bucket, Whole whole) {
  if (wire_ != Wire::float32) {
    const Range mine = own(bucket);
    const std::span<float> lost =
        feedback_.results.empty() ? feedback_.results : feedback_.results.subspan(results_at_[bucket], mine.size);
    to_wire(whole.of(mine), lost, on_wire(bucket, rank_, whole), context_.uncharged());
  }
  Result result{bucket, context_.engine().now(), nullptr};
  std::vector<engines::Bytes> receive;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer) receive.push_back(on_wire(bucket, peer, whole));
  result.all_gather = context_.engine().all_gather(on_wire(bucket, rank_, whole), receive);
  return result;
}

void ShardTransfers::wait(Result& result, Whole whole) {
  context_.wait(*result.all_gather, "all_gather", result.issued);
  if (wire_ == Wire::float32) return;
  for (std::size_t peer = 0; peer < shards_.workers(); ++peer)  // one's own, too: it was rounded like the others
    from_wire(on_wire(result.bucket, peer, whole), whole.of(shards_.of(result.bucket, peer)));
}

}  // namespace flockstep::runtime
