#include "bench/published.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "runtime/gather.h"

namespace flockstep::bench {

PublishedAdaCons::PublishedAdaCons(runtime::Context& context, std::size_t floats, AllReduce all_reduce,
                                   const math::AdaConsOptions& options)
    : context_(context),
      all_reduce_(std::move(all_reduce)),
      rule_(math::adacons(options)),
      sum_(context.engine().memory().allocate<float>(floats, "sum of gradients")) {}

void PublishedAdaCons::aggregate(std::span<float> gradient) {
  std::ranges::copy(gradient, sum_.span().begin());
  all_reduce_(sum_.span());
  const std::span<const float> mine = gradient;
  const std::array<double, 2> products{kernels::cpu::dot(mine, std::span<const float>(sum_.span())),
                                       kernels::cpu::dot(mine, mine)};
  const auto all = runtime::gather_doubles(context_, products);
  std::vector<double> d, q;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    d.push_back(all[i]);
    q.push_back(all[i + 1]);
  }
  std::vector<double> weights(d.size(), 1.0);
  const auto outcome =
      rule_.apply(math::Statistics::of_row_sums(std::move(d), std::move(q), std::move(weights)), memory_);
  base::check(outcome.has_value(), "gradients that can be normalised: a benchmark has no guards");
  memory_ = outcome->memory;

  const auto c = static_cast<float>(outcome->c[static_cast<std::size_t>(context_.rank())]);
  const float* const row = gradient.data();
  kernels::cpu::weighted_sum(std::span(&row, 1), std::span(&c, 1), gradient);
  all_reduce_(gradient);
}

}  // namespace flockstep::bench
