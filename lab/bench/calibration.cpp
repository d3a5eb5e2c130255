#include "bench/calibration.h"

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>

#include "base/check.h"
#include "base/partition.h"
#include "bench/workers.h"
#include "runtime/gather.h"
#include "runtime/layout.h"

namespace flockstep::bench {
namespace {

// As training does it: buckets of 4 MiB, two under way at a time.
constexpr std::size_t kBucketFloats = std::size_t{1} << 20, kWindow = 2;
constexpr int kShortMessages = 200;
constexpr engines::Tag kTag = 1;

class Probe {
 public:
  Probe(engines::Engine& engine, const CalibrationOptions& options)
      : engine_(engine),
        options_(options),
        context_(engine, kPatience),
        layout_(options.floats, kBucketFloats),
        shards_(runtime::Shards::by_bucket(layout_, workers())),
        whole_(engine.memory().allocate<float>(options.floats, "calibration")),
        received_(engine.memory().allocate<float>(options.floats + shards_.buckets() * workers(), "calibration")) {
    fill_input(rank(), whole_.span());  // memory that nobody has written to may be none
  }

  // Everything in turn, round by round: a machine that others use is now faster, now slower. The first round is not
  // counted.
  Calibration measure() {
    std::vector<Calibration> rounds;
    for (int round = 0; round <= options_.rounds; ++round) {
      const Calibration measured = measure_once();
      if (round > 0) rounds.push_back(measured);
      if (round == options_.rounds / 2) options_.halfway();
    }
    Calibration result{.workers = engine_.size()};
    for (double Calibration::*const figure :
         {&Calibration::latency_s, &Calibration::one_way, &Calibration::both_ways, &Calibration::all_at_once,
          &Calibration::sums, &Calibration::sum_alone, &Calibration::asleep, &Calibration::copies}) {
      std::vector<double> all;
      for (const Calibration& each : rounds) all.push_back(each.*figure);
      result.*figure = spread_of(all).median;
    }
    return result;
  }

 private:
  std::size_t workers() const { return static_cast<std::size_t>(engine_.size()); }
  int rank() const { return engine_.rank(); }
  double now() const { return engine_.now().time_since_epoch().count(); }

  Calibration measure_once() {
    const double bytes = static_cast<double>(layout_.size() * sizeof(float));
    const auto share = 1 - 1 / static_cast<double>(workers());
    Calibration result;
    result.latency_s = slowest([this] { return short_messages(); });
    result.one_way = 2 * bytes / slowest([this] { return messages(true, false); });
    result.both_ways = 2 * bytes / slowest([this] { return messages(true, true); });
    result.all_at_once = 2 * share * bytes / slowest([this] { return collectives(); });
    const double awake = slowest([this] { return exchanges({}); });
    const base::Duration nap(awake / 2);
    const double left = slowest([&] { return exchanges(nap); }) - nap.count();
    result.asleep = std::clamp((awake - left) / nap.count(), 0.0, 1.0) * share * bytes / awake;
    const double touched = bytes * (1 + 1 / static_cast<double>(workers()));
    result.sums = touched / slowest([this] { return sums(true); });
    result.sum_alone = touched / slowest([this] { return sums(rank() == 0); });
    result.copies = 2 * bytes / slowest([this] { return copies(); });
    return result;
  }

  // `run` returns this worker's time; the result is the same on all.
  double slowest(const std::function<double()>& run) {
    meet(context_);
    const double mine = run();
    const auto all = runtime::gather_doubles(context_, {&mine, 1});
    return *std::ranges::max_element(all);
  }

  // Back and forth between the first two workers; one way, the mean.
  double short_messages() {
    if (rank() > 1) return 0;
    const int peer = 1 - rank();
    std::array<std::byte, 8> sent{}, received{};
    const double begin = now();
    for (int i = 0; i < 2 * kShortMessages; ++i) {
      if (i % 2 == rank())
        context_.wait(engine_.send(peer, kTag, sent), "short message");
      else
        context_.wait(engine_.receive(peer, kTag, received), "short message");
    }
    return (now() - begin) / (2 * kShortMessages);
  }

  // Half buckets from worker 0 to worker 1, or both ways; all of them twice, as shards are received and as results are.
  double messages(bool forth, bool back) {
    if (rank() > 1) return 0;
    const bool sends = rank() == 0 ? forth : back, receives = rank() == 0 ? back : forth;
    const int peer = 1 - rank();
    const runtime::Layout blocks(layout_.size(), kBucketFloats / 2);
    const double begin = now();
    std::deque<engines::Pending> under_way;
    for (const bool in_place : {false, true})
      for (const runtime::Range block : blocks.buckets()) {
        make_room(under_way, kWindow * (sends && receives ? 2 : 1));
        const auto place = block.of(in_place ? whole_.span() : received_.span());
        if (receives) under_way.push_back(engine_.receive(peer, kTag, engines::bytes_of(place)));
        if (sends) under_way.push_back(engine_.send(peer, kTag, engines::const_bytes_of(block.of(whole_.span()))));
      }
    make_room(under_way, 1);
    return now() - begin;
  }

  double collectives() {
    const double begin = now();
    std::deque<engines::Pending> under_way;
    for (const bool in_place : {false, true})
      for (std::size_t bucket = 0; bucket < shards_.buckets(); ++bucket) {
        make_room(under_way, kWindow);
        under_way.push_back(in_place ? gather(bucket) : exchange(bucket));
      }
    make_room(under_way, 1);
    return now() - begin;
  }

  // All buckets at once; after that the worker sleeps, then it waits for what is left.
  double exchanges(base::Duration nap) {
    const double begin = now();
    std::deque<engines::Pending> under_way;
    for (std::size_t bucket = 0; bucket < shards_.buckets(); ++bucket) under_way.push_back(exchange(bucket));
    if (nap.count() > 0) engine_.sleep(nap);
    make_room(under_way, 1);
    return now() - begin;
  }

  // Of all that was received last: it has left the caches since.
  double sums(bool takes_part) {
    if (!takes_part) return 0;
    const std::vector<double> factors(workers(), 1 / static_cast<float>(workers()));
    const double begin = now();
    for (std::size_t bucket = 0; bucket < shards_.buckets(); ++bucket) {
      const auto own = shards_.of(bucket, static_cast<std::size_t>(rank())).of(whole_.span());
      std::vector<const void*> rows;
      for (std::size_t peer = 0; peer < workers(); ++peer)
        rows.push_back(static_cast<int>(peer) == rank() ? own.data() : place_of(bucket, peer).data());
      context_.queue().weighted_sum({rows, own.size()}, factors.data(), own);
    }
    return now() - begin;
  }

  double copies() {
    const double begin = now();
    for (const runtime::Range bucket : layout_.buckets()) {
      const auto from = bucket.of(whole_.span());
      context_.queue().copy(bucket.of(received_.span()).data(), from.data(), from.size_bytes());
    }
    return now() - begin;
  }

  std::span<float> place_of(std::size_t bucket, std::size_t peer) const {
    const std::size_t room = received_.size() / shards_.buckets() / workers();
    return received_.span().subspan((bucket * workers() + peer) * room,
                                    shards_.of(bucket, static_cast<std::size_t>(rank())).size);
  }

  engines::Pending exchange(std::size_t bucket) {
    std::vector<engines::ConstBytes> send;
    std::vector<engines::Bytes> receive;
    for (std::size_t peer = 0; peer < workers(); ++peer) {
      send.push_back(engines::const_bytes_of(shards_.of(bucket, peer).of(whole_.span())));
      receive.push_back(static_cast<int>(peer) == rank() ? engines::Bytes{}
                                                         : engines::bytes_of(place_of(bucket, peer)));
    }
    return engine_.all_to_all(send, receive);
  }

  engines::Pending gather(std::size_t bucket) {
    std::vector<engines::Bytes> receive;
    for (std::size_t peer = 0; peer < workers(); ++peer)
      receive.push_back(engines::bytes_of(shards_.of(bucket, peer).of(whole_.span())));
    return engine_.all_gather(receive[static_cast<std::size_t>(rank())], receive);
  }

  // Waits, the oldest first, until fewer than `most` are under way.
  void make_room(std::deque<engines::Pending>& under_way, std::size_t most) {
    for (; under_way.size() >= most; under_way.pop_front()) context_.wait(under_way.front(), "transfer");
  }

  engines::Engine& engine_;
  const CalibrationOptions& options_;
  runtime::Context context_;
  runtime::Layout layout_;
  runtime::Shards shards_;
  base::Buffer<float> whole_, received_;
};

}  // namespace

Calibration calibrate(engines::Engine& engine, const CalibrationOptions& options) {
  if (engine.size() < 2)
    throw Error(ErrorCode::bad_input,
                "a calibration needs at least two workers: start it with mpirun -n 2, or with --workers 2");
  base::check(options.rounds > 0, "at least one round");
  return Probe(engine, options).measure();
}

}  // namespace flockstep::bench
