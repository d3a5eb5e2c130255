#include "runtime/gradient/device_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace flockstep::runtime {
namespace {

using kernels::Number;
using kernels::Numbers;
using math::Need;

// So many numbers that every shard, own or received, begins where a device reads fastest.
constexpr std::size_t kGranule = 64, kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

engines::ConstBytes to_send(const Numbers& numbers) {
  return {static_cast<const std::byte*>(numbers.data), numbers.bytes()};
}
engines::Bytes to_receive(const Numbers& numbers) { return {static_cast<std::byte*>(numbers.data), numbers.bytes()}; }

// As twice as many floats: what is filled with zeros, or sent, need not be known as a double.
Numbers doubles(double* values, std::size_t count) { return {values, 2 * count, Number::float32}; }

}  // namespace

struct DevicePass::Host {
  kernels::Block block;
  double *head, *records, *table, *squares, *factors;
  std::vector<Norm> norms;
};

DevicePass::DevicePass(Context& context, Layout layout, std::span<const Number> types, kernels::Queue& queue,
                       engines::DeviceLinks& links, const Allocate& allocate, const DevicePassOptions& options)
    : context_(context),
      layout_(std::move(layout)),
      queue_(queue),
      links_(links),
      options_(options),
      sections_(layout_, options.granularity),
      shards_(Shards::by_bucket(layout_, static_cast<std::size_t>(context.size()), kGranule)),
      workers_(static_cast<std::size_t>(context.size())),
      rank_(static_cast<std::size_t>(context.rank())),
      host_(std::make_shared<Host>()) {
  base::check(types.size() == layout_.buckets().size(), "a type for every bucket");
  std::size_t received = 0, narrowed = 0;
  for (std::size_t bucket = 0; bucket < types.size(); ++bucket) {
    const bool is_narrowed = types[bucket] == Number::float32 && options.wire == Wire::bfloat16;
    buckets_.push_back({types[bucket], is_narrowed, received, narrowed, sections_.cut(own(bucket))});
    const std::size_t bytes = kernels::size_of(is_narrowed ? Number::bfloat16 : types[bucket]);
    received += aligned(own(bucket).size * bytes) * (workers_ - 1);
    if (is_narrowed) narrowed += aligned(layout_.buckets()[bucket].size * bytes);
  }
  received_ = allocate(received);
  narrowed_ = allocate(narrowed);

  const std::size_t S = sections_.count(),
                    record = options.head + S * std::max(math::packed_size(workers_), 2 * workers_);
  const auto cut = [](double*& at, std::size_t count) { return std::exchange(at, at + count); };
  doubles_ = allocate(sizeof(double) * (record * (workers_ + 1) + S * workers_ + S * (workers_ + 2)));
  auto* at = reinterpret_cast<double*>(doubles_.get());
  record_ = cut(at, record), records_ = cut(at, record * workers_), table_ = cut(at, S * workers_);
  squares_ = cut(at, S), all_squares_ = cut(at, S * workers_), factors_ = cut(at, S);
  host_->block =
      queue.allocate_on_host(sizeof(double) * (options.head + record * workers_ + S * workers_ + S * (workers_ + 1)));
  at = reinterpret_cast<double*>(host_->block.get());
  host_->head = cut(at, options.head), host_->records = cut(at, record * workers_);
  host_->table = cut(at, S * workers_), host_->squares = cut(at, S * workers_), host_->factors = cut(at, S);
}

DevicePass::~DevicePass() {
  bool is_done = false;
  try {
    is_done = context_.poll_until(queue_.mark(), context_.deadline());
  } catch (...) {  // the engine is broken, and says nothing of the queue
  }
  if (is_done) return;
  for (kernels::Block* const block : {&received_, &narrowed_, &doubles_, &host_->block})
    static_cast<void>(new kernels::Block(std::move(*block)));
}

Numbers DevicePass::shard(const Numbers& whole, std::size_t bucket, std::size_t worker) const {
  const Range range = shards_.of(bucket, worker);
  return whole.part(range.begin - layout_.buckets()[bucket].begin, range.size);
}

std::vector<const void*> DevicePass::rows(std::size_t bucket, std::size_t offset) const {
  const Bucket& of = buckets_[bucket];
  const std::size_t bytes = kernels::size_of(of.on_wire.type), stride = aligned(own(bucket).size * bytes);
  const std::byte* row = received_.get() + of.received + offset * bytes;
  std::vector<const void*> rows;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    if (worker == rank_) {
      rows.push_back(shard(of.on_wire, bucket, rank_).part(offset, 0).data);
    } else {
      rows.push_back(row);
      row += stride;
    }
  }
  return rows;
}

void DevicePass::start(std::size_t bucket, Numbers numbers, Need need) {
  Bucket& of = buckets_[bucket];
  base::check(numbers.size == layout_.buckets()[bucket].size && numbers.type == of.type, "the numbers of the bucket");
  if (started_++ == 0) {
    need_ = need;
    queue_.fill(doubles(record_, options_.head + sections_.count() * math::sums_for(need, workers_)), 0);
  }
  of.numbers = of.on_wire = numbers;
  if (of.is_narrowed) {
    of.on_wire = {narrowed_.get() + of.narrowed, numbers.size, Number::bfloat16};
    queue_.convert(numbers, of.on_wire);
  }
  const std::vector<const void*> received = rows(bucket, 0);
  const std::size_t bytes = own(bucket).size * kernels::size_of(of.on_wire.type);
  std::vector<engines::DeviceBlock> blocks;
  for (std::size_t worker = 0; worker < workers_; ++worker)
    if (worker != rank_)
      blocks.push_back({static_cast<int>(worker),
                        to_send(shard(of.on_wire, bucket, worker)),
                        {static_cast<std::byte*>(const_cast<void*>(received[worker])), bytes}});
  links_.exchange(queue_, blocks);
  sweep(bucket);
}

void DevicePass::sweep(std::size_t bucket) {
  if (need_ == Need::nothing) return;
  const std::size_t count = math::sums_for(need_, workers_);
  for (const auto& [section, offset, size] : buckets_[bucket].segments) {
    const std::vector<const void*> at = rows(bucket, offset);
    const kernels::Rows part{at, size, buckets_[bucket].on_wire.type};
    double* const sums = record_ + options_.head + section * count;
    if (need_ == Need::matrix)
      queue_.add_gram(part, sums);
    else
      queue_.add_row_statistics(part, sums, sums + workers_);
  }
}

void DevicePass::exchange_all(double* mine, double* all, std::size_t count) {
  std::vector<engines::DeviceBlock> blocks;
  for (std::size_t worker = 0; worker < workers_; ++worker)
    blocks.push_back(
        {static_cast<int>(worker), to_send(doubles(mine, count)), to_receive(doubles(all + worker * count, count))});
  links_.exchange(queue_, blocks);
}

void DevicePass::finish(std::span<const double> head, Decide decide, bool may_set_norms) {
  base::check(started_ == buckets_.size(), "every bucket started once");
  base::check(head.size() == options_.head, "a head as long as it was announced");
  tell_and_decide(head, std::move(decide));
  sum_up();
  if (may_set_norms) bring_to_norms();
  send_results();
  mark_failure();
  started_ = 0;
}

void DevicePass::tell_and_decide(std::span<const double> head, Decide decide) {
  const std::size_t count = math::sums_for(need_, workers_), S = sections_.count(), H = options_.head;
  const std::size_t record = H + S * count;
  // In its turn: the host may be several passes ahead, and there is one place for it.
  queue_.call(
      [host = host_, head = std::vector<double>(head.begin(), head.end())] { std::ranges::copy(head, host->head); });
  queue_.copy(record_, host_->head, H * sizeof(double));
  exchange_all(record_, records_, record);
  queue_.copy(host_->records, records_, record * workers_ * sizeof(double));
  queue_.call([host = host_, decide = std::move(decide), count, S, H, record, P = workers_] {
    DeviceRecords told{{}, std::vector<std::vector<double>>(S, std::vector<double>(count))};
    for (std::size_t worker = 0; worker < P; ++worker) {
      const double* const mine = host->records + worker * record;
      told.heads.emplace_back(mine, mine + H);
      for (std::size_t section = 0; section < S; ++section)
        for (std::size_t i = 0; i < count; ++i) told.sums[section][i] += mine[H + section * count + i];
    }
    Plan plan = decide(told);
    base::check(plan.coefficients.size() == S, "coefficients for every section");
    for (std::size_t section = 0; section < S; ++section)
      std::ranges::copy(plan.coefficients[section], host->table + section * P);
    host->norms = std::move(plan.norms);
  });
  queue_.copy(table_, host_->table, S * workers_ * sizeof(double));
}

void DevicePass::sum_up() {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    for (const auto& [section, offset, size] : buckets_[bucket].segments) {
      const std::vector<const void*> at = rows(bucket, offset);
      queue_.weighted_sum({at, size, buckets_[bucket].on_wire.type}, table_ + section * workers_,
                          shard(buckets_[bucket].numbers, bucket, rank_).part(offset, size));
    }
}

// Row sums do not tell the norm of a result beforehand, nor does a matrix where gradients nearly cancel.
void DevicePass::bring_to_norms() {
  const std::size_t S = sections_.count();
  const auto each_segment = [&](const auto& action) {
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket)
      for (const auto& [section, offset, size] : buckets_[bucket].segments)
        action(section, shard(buckets_[bucket].numbers, bucket, rank_).part(offset, size));
  };
  queue_.fill(doubles(squares_, S), 0);
  each_segment([&](std::size_t section, const Numbers& part) { queue_.add_square(part, squares_ + section); });
  exchange_all(squares_, all_squares_, S);
  queue_.copy(host_->squares, all_squares_, S * workers_ * sizeof(double));
  queue_.call([host = host_, S, P = workers_] {
    for (std::size_t section = 0; section < S; ++section) {
      double square = 0;
      for (std::size_t worker = 0; worker < P; ++worker) square += host->squares[worker * S + section];
      const double norm = std::sqrt(square);
      const bool is_left = host->norms.empty() || norm <= host->norms[section].rounding;
      host->factors[section] = is_left ? 1 : host->norms[section].wanted / norm;
    }
  });
  queue_.copy(factors_, host_->factors, S * sizeof(double));
  each_segment([&](std::size_t section, const Numbers& part) { queue_.scale(part, factors_ + section); });
}

// Links that broke leave any numbers behind, which nobody may take for a gradient.
void DevicePass::mark_failure() {
  queue_.call([host = host_, failed = links_.failed()] {
    host->factors[0] = *failed ? std::numeric_limits<double>::quiet_NaN() : 1;
  });
  queue_.copy(factors_, host_->factors, sizeof(double));
  for (const Bucket& of : buckets_) queue_.scale(of.numbers, factors_);
}

void DevicePass::send_results() {
  std::vector<engines::DeviceBlock> blocks;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const Bucket& of = buckets_[bucket];
    const Numbers mine = shard(of.on_wire, bucket, rank_);
    if (of.is_narrowed) queue_.convert(shard(of.numbers, bucket, rank_), mine);
    for (std::size_t worker = 0; worker < workers_; ++worker)
      if (worker != rank_)
        blocks.push_back({static_cast<int>(worker), to_send(mine), to_receive(shard(of.on_wire, bucket, worker))});
  }
  links_.exchange(queue_, blocks);
  for (const Bucket& of : buckets_)
    if (of.is_narrowed) queue_.convert(of.on_wire, of.numbers);  // one's own, too: it was rounded like the others
}

}  // namespace flockstep::runtime
