#include "runtime/gradient/one_pass.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"

namespace flockstep::runtime {
namespace {

using math::Need;

// Buckets that travel at a time where all are ready: enough to overlap copying with adding, few enough for
// their shards to be still in cache when they are swept or added, and for an engine not to serve many at once.
constexpr std::size_t kCachedBuckets = 2;

// Buckets that have started and not been summed, where more are still being made: enough to keep a network busy while
// a worker waits for the oldest of them, few enough for most results to be there when the last bucket is.
constexpr std::size_t kAhead = 4;

float first_of(const kernels::Rows& rows, std::size_t row) {
  const void* const number = rows.at[row];
  return rows.type == kernels::Number::float32 ? *static_cast<const float*>(number)
                                               : kernels::to_float(*static_cast<const kernels::BFloat16*>(number));
}

// Results on their way to everybody, at most `most` at a time.
class Gathering {
 public:
  Gathering(ShardTransfers& exchange, Whole whole, std::size_t most, const OnePass::Arrived& arrived = {})
      : exchange_(exchange), whole_(whole), most_(most), arrived_(arrived) {}

  void add(std::size_t bucket) {
    if (results_.size() == most_) wait_for_oldest();
    results_.push_back(exchange_.gather(bucket, whole_));
  }
  void wait_for_all() {
    while (!results_.empty()) wait_for_oldest();
  }

 private:
  void wait_for_oldest() {
    exchange_.wait(results_.front(), whole_);
    if (arrived_) arrived_(results_.front().bucket);
    results_.pop_front();
  }

  ShardTransfers& exchange_;
  Whole whole_;
  std::size_t most_;
  OnePass::Arrived arrived_;
  std::deque<ShardTransfers::Result> results_;
};

}  // namespace

OnePass::OnePass(Context& context, const Layout& layout, const std::string& purpose, const OnePassOptions& options)
    : OnePass(context, layout, Shards::by_bucket(layout, static_cast<std::size_t>(context.size())), purpose, options) {}

OnePass::OnePass(Context& context, const Layout& layout, Shards shards, const std::string& purpose,
                 const OnePassOptions& options)
    : context_(context),
      options_(options),
      sections_(layout, options.granularity),
      exchange_(context, std::move(shards), options.wire, purpose,
                options.room == Room::all ? std::numeric_limits<std::size_t>::max() : kCachedBuckets),
      travelling_(kCachedBuckets) {
  for (std::size_t bucket = 0; bucket < exchange_.shards().buckets(); ++bucket)
    segments_.push_back(sections_.cut(exchange_.own(bucket)));
}

// Drops what has started when an exception leaves: the engine then withdraws what it can, instead of touching spans
// that may be gone.
class OnePass::Withdrawal {
 public:
  explicit Withdrawal(OnePass& pass) : pass_(pass), exceptions_(std::uncaught_exceptions()) {}
  ~Withdrawal() {
    if (std::uncaught_exceptions() <= exceptions_) return;
    pass_.results_.clear();
    pass_.known_.clear();
    pass_.arrivals_.clear();
  }

 private:
  OnePass& pass_;
  int exceptions_;
};

// Sweeping in the order of the starts, whatever arrives first, keeps the sums' bits from depending on timing.
void OnePass::start(std::size_t bucket, Whole whole) {
  const Withdrawal on_exception(*this);
  base::check(known_.empty(), "a pass in which no coefficients are known");
  base::check(results_.empty(), "results that were received before the next pass");
  if (arrivals_.empty()) {
    swept_ = 0;
    sums_.assign(sections_.count() * math::sums_for(options_.need, exchange_.shards().workers()), 0.0);
  }
  arrivals_.push_back(exchange_.send(bucket, exchange_.place_of(bucket), whole));
  // Asking also lets engines without a thread of their own move bytes while backward goes on.
  sweep_arrived(whole);
}

void OnePass::sweep_arrived(Whole whole) {
  const Withdrawal on_exception(*this);
  while (can_sweep()) sweep_next(whole);
}

void OnePass::sweep_started(Whole whole) {
  const Withdrawal on_exception(*this);
  while (swept_ < arrivals_.size()) sweep_next(whole);
}

void OnePass::start_all(Whole whole) {
  for (std::size_t bucket = 0; bucket < exchange_.shards().buckets(); ++bucket) {
    while (arrivals_.size() >= swept_ + kCachedBuckets) sweep_next(whole);
    start(bucket, whole);
  }
}

void OnePass::sweep_next(Whole whole) {
  Arrival& arrival = arrivals_[swept_];
  exchange_.wait(arrival);
  ++swept_;
  if (options_.need != Need::nothing) sweep(arrival, whole);
}

void OnePass::sweep(const Arrival& arrival, Whole whole) {
  const std::size_t workers = exchange_.shards().workers(), count = math::sums_for(options_.need, workers);
  const base::Time begin = context_.engine().now();
  for (const auto& [section, offset, size] : segments_[arrival.bucket]) {
    const std::vector<const void*> rows = exchange_.rows(arrival, offset, whole);
    double* const sums = sums_.data() + section * count;
    if (options_.need == Need::matrix)
      context_.queue().add_gram({rows, size, exchange_.number()}, sums);
    else
      context_.queue().add_row_statistics({rows, size, exchange_.number()}, sums, sums + workers);
  }
  context_.trace().record(base::Track::compute, "sweep", begin, context_.engine().now());
}

void OnePass::wait_for_all() {
  base::check(arrivals_.size() == exchange_.shards().buckets(), "every bucket started once");
  wait_for_started();
}

void OnePass::wait_for_started() {
  const Withdrawal on_exception(*this);
  for (; swept_ < arrivals_.size(); ++swept_) exchange_.wait(arrivals_[swept_]);
}

std::vector<math::Statistics> OnePass::reduce(std::vector<double> sums, Need need, const std::vector<double>& weights) {
  sums = context_.all_reduce(std::move(sums), "small_sum");
  const std::size_t workers = exchange_.shards().workers(), count = math::sums_for(need, workers);
  std::vector<math::Statistics> statistics;
  for (std::size_t section = 0; section < sections_.count(); ++section)
    statistics.push_back(math::Statistics::of_sums(need, std::span(sums).subspan(section * count, count), weights));
  return statistics;
}

std::vector<math::Statistics> OnePass::statistics(Whole whole, const std::vector<double>& weights) {
  base::check(options_.need != Need::nothing, "something to know");
  const Withdrawal on_exception(*this);
  if (!any_started()) start_all(whole);
  base::check(arrivals_.size() == exchange_.shards().buckets(), "every bucket started once");
  sweep_started(whole);
  return reduce(std::move(sums_), options_.need, weights);
}

std::vector<math::Statistics> OnePass::row_sums_of(Whole whole, const std::vector<double>& weights,
                                                   const std::vector<bool>& included) {
  const Withdrawal on_exception(*this);
  if (!any_started()) start_all(whole);
  wait_for_all();
  std::vector<std::size_t> kept;
  for (std::size_t worker = 0; worker < included.size(); ++worker)
    if (included[worker]) kept.push_back(worker);
  const std::size_t workers = included.size();
  std::vector<double> sums(sections_.count() * 2 * workers), d(sections_.count() * kept.size()), q(d.size());
  for (const Arrival& arrival : arrivals_)
    for (const auto& [section, offset, size] : segments_[arrival.bucket]) {
      if (kept.empty()) continue;
      const std::vector<const void*> rows = exchange_.rows(arrival, offset, whole);
      std::vector<const void*> chosen;
      for (const std::size_t worker : kept) chosen.push_back(rows[worker]);
      context_.queue().add_row_statistics({chosen, size, exchange_.number()}, &d[section * kept.size()],
                                          &q[section * kept.size()]);
    }
  for (std::size_t section = 0; section < sections_.count(); ++section)
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sums[section * 2 * workers + kept[i]] = d[section * kept.size() + i];
      sums[(section * 2 + 1) * workers + kept[i]] = q[section * kept.size() + i];
    }
  return reduce(std::move(sums), Need::row_sums, weights);
}

void OnePass::sum(const Arrival& arrival, Whole whole, const Coefficients& coefficients) {
  const base::Time begin = context_.engine().now();
  for (const auto& [section, offset, size] : segments_[arrival.bucket]) {
    const auto out = whole.of(exchange_.own(arrival.bucket)).subspan(offset, size);
    const std::vector<const void*> rows = exchange_.rows(arrival, offset, whole);
    base::check(coefficients[section].size() == rows.size(), "one coefficient for every worker");
    context_.queue().weighted_sum({rows, size, exchange_.number()}, coefficients[section].data(), out);
  }
  context_.trace().record(base::Track::compute, "sum", begin, context_.engine().now());
}

// One more small sum, over the owners' shards: row sums do not tell the norm of the result beforehand.
void OnePass::bring_to(const std::vector<Norm>& norms, Whole whole) {
  std::vector<double> squares(sections_.count());
  const auto each_segment = [&](const auto& action) {
    for (std::size_t bucket = 0; bucket < segments_.size(); ++bucket)
      for (const auto& [section, offset, size] : segments_[bucket])
        action(section, whole.of(exchange_.own(bucket)).subspan(offset, size));
  };
  each_segment([&](std::size_t section, std::span<const float> part) {
    if (norms[section].rounding != std::numeric_limits<double>::infinity())
      context_.queue().add_square(part, &squares[section]);
  });
  squares = context_.all_reduce(std::move(squares), "small_sum");
  each_segment([&](std::size_t section, std::span<float> part) {
    const double norm = std::sqrt(squares[section]);
    if (norm <= norms[section].rounding) return;
    const double scale = norms[section].wanted / norm;
    context_.queue().scale(part, &scale);
  });
}

// What has started is taken out of the object first: a wait that throws then leaves nothing half done behind.
void OnePass::finish(Whole whole, const Coefficients& coefficients, Target target, const std::vector<Norm>& norms,
                     const Arrived& arrived) {
  base::check(arrivals_.size() == exchange_.shards().buckets(), "every bucket started once");
  base::check(coefficients.size() == sections_.count(), "coefficients for every section");
  const Withdrawal on_exception(*this);
  std::vector<Arrival> arrivals = std::exchange(arrivals_, {});
  Gathering gathering(exchange_, whole, travelling_, arrived);
  const auto send = [&](std::size_t bucket) {
    if (target != Target::everywhere) return;
    if (leaves_results_)
      results_.push_back(exchange_.gather(bucket, whole));
    else
      gathering.add(bucket);
  };
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    if (i >= swept_) exchange_.wait(arrivals[i]);
    sum(arrivals[i], whole, coefficients);
    if (norms.empty()) send(arrivals[i].bucket);
  }
  if (!norms.empty()) {
    bring_to(norms, whole);
    for (const Arrival& arrival : arrivals) send(arrival.bucket);
  }
  gathering.wait_for_all();
}

bool OnePass::can_receive() const {
  return std::ranges::all_of(results_, [](const ShardTransfers::Result& result) { return result.all_gather->done(); });
}

void OnePass::receive(Whole whole) {
  const Withdrawal on_exception(*this);
  for (ShardTransfers::Result& result : results_) exchange_.wait(result, whole);
  results_.clear();
}

void OnePass::start_known(std::size_t bucket, Whole whole, std::vector<double> coefficients, bool spreads_nan) {
  const Withdrawal on_exception(*this);
  if (arrivals_.empty()) swept_ = 0;
  base::check(known_.size() == arrivals_.size(), "a pass in which all coefficients are known");
  arrivals_.push_back(exchange_.send(bucket, exchange_.place_of(bucket), whole));
  known_.push_back({std::move(coefficients), spreads_nan});
  while (arrivals_.size() > swept_ + kAhead) gather_next(whole);
}

void OnePass::gather_next(Whole whole) {
  Arrival& arrival = arrivals_[swept_];
  exchange_.wait(arrival);
  sum(arrival, whole, known_[swept_]);
  ++swept_;
  results_.push_back(exchange_.gather(arrival.bucket, whole));
}

void OnePass::sum(const Arrival& arrival, Whole whole, const Known& known) {
  const auto out = whole.of(exchange_.own(arrival.bucket));
  if (out.empty()) return;
  const base::Time begin = context_.engine().now();
  const std::vector<const void*> at = exchange_.rows(arrival, 0, whole);
  base::check(known.coefficients.size() == at.size(), "one coefficient for every worker");
  const kernels::Rows rows{at, out.size(), exchange_.number()};
  bool is_nan = false;
  for (std::size_t i = 0; known.spreads_nan && i < at.size(); ++i)
    is_nan = is_nan || (known.coefficients[i] == 0 && std::isnan(first_of(rows, i)));
  context_.queue().weighted_sum(rows, known.coefficients.data(), out);
  if (is_nan) context_.uncharged().fill(out, std::numeric_limits<float>::quiet_NaN());
  context_.trace().record(base::Track::compute, "sum", begin, context_.engine().now());
}

void OnePass::finish_known(Whole whole, const Arrived& arrived) {
  const Withdrawal on_exception(*this);
  base::check(arrivals_.size() == exchange_.shards().buckets(), "every bucket started once");
  while (swept_ < arrivals_.size()) gather_next(whole);
  for (ShardTransfers::Result& result : results_) {
    exchange_.wait(result, whole);
    if (arrived) arrived(result.bucket);
  }
  results_.clear();
  known_.clear();
  arrivals_.clear();
}

void OnePass::average(Whole whole, const std::vector<bool>& counted) {
  const std::size_t workers = exchange_.shards().workers();
  const auto count = std::ranges::count(counted, true);
  std::vector<float> coefficients(workers,
                                  1.0f / static_cast<float>(count > 0 ? static_cast<std::size_t>(count) : workers));
  if (count > 0)
    for (std::size_t worker = 0; worker < workers; ++worker)
      if (!counted[worker]) coefficients[worker] = 0;
  run(whole, coefficients);
}

void OnePass::run(Whole whole, std::span<const float> coefficients) {
  base::check(!any_started(), "a pass of which nothing has started");
  const Coefficients all(sections_.count(), {coefficients.begin(), coefficients.end()});
  const std::size_t count = exchange_.shards().buckets(), window = std::min(count, kCachedBuckets);
  // The places of the first buckets serve all: no bucket is larger than an earlier one.
  std::vector<Arrival> arrivals;
  Gathering gathering(exchange_, whole, count);  // waits for arrivals in between hold them back already
  for (std::size_t bucket = 0; bucket < window; ++bucket)
    arrivals.push_back(exchange_.send(bucket, exchange_.place_of(bucket), whole));
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    Arrival& oldest = arrivals[bucket % window];
    exchange_.wait(oldest);
    sum(oldest, whole, all);
    gathering.add(bucket);
    if (bucket + window < count) oldest = exchange_.send(bucket + window, oldest.place, whole);
  }
  gathering.wait_for_all();
}

}  // namespace flockstep::runtime
