#include "runtime/pairs/neighbours.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace flockstep::runtime {
namespace {

constexpr std::size_t kTravellingBuckets = 2;  // buckets that travel at a time

// Those of different Synchronizers never meet: workers that call them in another order wait until the deadline.
engines::Tag tag_of(const engines::Engine& engine) {
  return engines::kMaximalTag - 1 - static_cast<engines::Tag>(engine.owner() % 64);
}

// Several operations that are waited for, and counted, as one.
struct AllOf final : engines::Operation {
  explicit AllOf(std::vector<engines::Pending> operations) : operations(std::move(operations)) {}
  bool done() override {
    std::erase_if(operations, [](const engines::Pending& operation) { return operation->done(); });
    return operations.empty();
  }
  std::vector<int> missing() override {
    std::set<int> peers;
    for (const engines::Pending& operation : operations)
      for (const int peer : operation->missing()) peers.insert(peer);
    return {peers.begin(), peers.end()};
  }
  std::optional<int> gone() override {
    for (const engines::Pending& operation : operations)
      if (const auto peer = operation->gone()) return peer;
    return std::nullopt;
  }
  std::vector<engines::Pending> operations;
};

}  // namespace

Neighbours::Neighbours(Context& context, const Layout& layout, std::size_t most, const std::string& purpose,
                       math::UpdateGuard* guard)
    : context_(context), layout_(layout), most_(most), guard_(guard) {
  if (guard) {
    known_.resize(static_cast<std::size_t>(context.size()));
    heard_.assign(most, known_);
  }
  const std::size_t places = most * std::min(kTravellingBuckets, layout.buckets().size());
  received_ = context.engine().memory().allocate<float>(places * layout.buckets().front().size, purpose);
}

// No bucket is larger than the first.
std::span<float> Neighbours::received(std::size_t bucket, std::size_t neighbour) const {
  const std::size_t place = bucket % kTravellingBuckets * most_ + neighbour;
  return received_.span().subspan(place * layout_.buckets().front().size, layout_.buckets()[bucket].size);
}

Neighbours::UnderWay Neighbours::start(std::size_t bucket, std::span<float> whole, const std::vector<int>& to,
                                       const std::vector<int>& from) {
  engines::Engine& engine = context_.engine();
  const engines::Tag tag = tag_of(engine);
  const base::Time issued = engine.now();
  std::vector<engines::Pending> transfers;
  if (bucket == 0 && guard_) {
    News& own = known_[static_cast<std::size_t>(context_.rank())];
    own = {guard_->news(), own.step + 1};
    told_ = known_;
    for (std::size_t k = 0; k < from.size(); ++k)
      transfers.push_back(engine.receive(from[k], tag, std::as_writable_bytes(std::span(heard_[k]))));
    for (const int peer : to) transfers.push_back(engine.send(peer, tag, std::as_bytes(std::span(told_))));
  }
  for (std::size_t k = 0; k < from.size(); ++k)
    transfers.push_back(engine.receive(from[k], tag, engines::bytes_of(received(bucket, k))));
  for (const int peer : to)
    transfers.push_back(engine.send(peer, tag, engines::const_bytes_of(layout_.buckets()[bucket].of(whole))));
  return {issued, std::make_unique<AllOf>(std::move(transfers))};
}

void Neighbours::add(std::size_t bucket, std::span<float> whole, std::span<const double> coefficients) {
  const base::Time begin = context_.engine().now();
  const std::span<float> own = layout_.buckets()[bucket].of(whole);
  std::vector<const void*> rows{own.data()};
  for (std::size_t k = 0; k + 1 < coefficients.size(); ++k) rows.push_back(received(bucket, k).data());
  context_.queue().weighted_sum({rows, own.size()}, coefficients.data(), own);
  context_.trace().record(base::Track::compute, "sum", begin, context_.engine().now());
}

// A bucket is sent before it is overwritten, and everybody goes through them in the same order: nobody waits in a
// circle.
template <typename End>
void Neighbours::exchange(std::span<float> whole, const std::vector<int>& to, const std::vector<int>& from,
                          const End& end) {
  base::check(whole.size() == layout_.size() && from.size() <= most_, "a span of the layout's, few enough neighbours");
  const std::size_t count = layout_.buckets().size(), window = std::min(count, kTravellingBuckets);
  std::vector<UnderWay> exchanges;
  for (std::size_t bucket = 0; bucket < window; ++bucket) exchanges.push_back(start(bucket, whole, to, from));
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    UnderWay& oldest = exchanges[bucket % window];
    context_.wait(*oldest.transfers, "neighbours", oldest.issued);
    end(bucket);
    if (bucket + window < count) oldest = start(bucket + window, whole, to, from);
  }
}

void Neighbours::mix(std::span<float> whole, const std::vector<int>& to, const std::vector<int>& from, float share) {
  // A third has no exact float: what stays is what is left, so that nothing is lost or made.
  std::vector<double> coefficients(from.size() + 1, share);
  coefficients[0] = 1 - share * static_cast<float>(to.size());
  exchange(whole, to, from, [&](std::size_t bucket) { add(bucket, whole, coefficients); });
  if (guard_) hear(from);
}

void Neighbours::hear(const std::vector<int>& from) {
  for (std::size_t k = 0; k < from.size(); ++k)
    for (std::size_t rank = 0; rank < known_.size(); ++rank) {
      const News& theirs = heard_[k][rank];
      if (static_cast<int>(rank) == context_.rank() || theirs.step <= known_[rank].step) continue;
      known_[rank] = theirs;
      guard_->hear(static_cast<int>(rank), theirs.of);
    }
}

void Neighbours::save(base::Archive& archive) const {
  if (guard_) archive.put("heard of updates", std::span<const News>(known_));
}

void Neighbours::restore(const base::Archive& archive) {
  if (!guard_ || !archive.has("heard of updates")) return;
  auto known = archive.get_vector<News>("heard of updates");
  if (known.size() == known_.size()) known_ = std::move(known);  // of another number of workers there is no use for it
}

void Neighbours::copy(std::span<float> whole, const std::vector<int>& to, int from) {
  if (to.empty() && from < 0) return;
  exchange(whole, to, from < 0 ? std::vector<int>() : std::vector{from}, [&](std::size_t bucket) {
    if (from < 0) return;
    const std::span<float> theirs = received(bucket, 0);
    context_.uncharged().copy(layout_.buckets()[bucket].of(whole).data(), theirs.data(), theirs.size_bytes());
  });
}

}  // namespace flockstep::runtime
