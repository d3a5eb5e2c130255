// Backward passes of a DDP that is not there: buckets of a few parameters, cut in several ways, with every worker's
// gradients drawn from its rank and the step.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <numeric>

#include "../math/oracle.h"
#include "base/random.h"
#include "torch/gradient_passes.h"

namespace flockstep::torch_front::test_passes {

namespace oracle = math::oracle;
using Buckets = std::vector<std::vector<std::size_t>>;  // of parameters, by number

// A model of a few parameters, and the gradients that each worker has for them in each step.
inline const std::vector<std::size_t> kSizes = {7, 300, 1, 64, 1200};
inline const Buckets kAsMade = {{0, 1, 2, 3, 4}}, kRebuilt = {{4, 2}, {3}, {1, 0}};

inline std::vector<float> gradient_of(std::size_t parameter, int rank, int step) {
  std::vector<float> numbers(kSizes[parameter]);
  base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(rank + 10 * step), parameter)
      .fill_uniform(numbers, -1, 1);
  for (float& number : numbers) number += 0.1f * static_cast<float>(rank);  // some common direction
  return numbers;
}

inline oracle::Vector whole_gradient(int rank, int step) {
  oracle::Vector all;
  for (std::size_t parameter = 0; parameter < kSizes.size(); ++parameter)
    for (const float number : gradient_of(parameter, rank, step)) all.push_back(number);
  return all;
}

inline oracle::Gradients gradients_of(const std::vector<int>& ranks, int step) {
  oracle::Gradients gradients;
  for (const int rank : ranks) gradients.push_back(whole_gradient(rank, step));
  return gradients;
}

inline std::vector<int> up_to(int workers) {
  std::vector<int> ranks(static_cast<std::size_t>(workers));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// One worker's side of DDP, with whatever hook.
template <typename Hook>
class SideOf {
 public:
  template <typename... Arguments>
  explicit SideOf(runtime::Context& context, Arguments&&... arguments)
      : rank_(context.rank()), exchange(context, std::forward<Arguments>(arguments)...) {}

  struct Pass {
    Buckets buckets = kRebuilt;
    std::size_t sent = 100;         // buckets before backward breaks off
    bool hands_over_zeros = false;  // in the place of the others
    bool has_gradient = true;
    double weight = 1;
    bool divides_by_all = false;
    at::ScalarType type = at::kFloat;
    float factor = 1;  // of the gradient
  };

  std::vector<GradientPasses::Future> send(int step, const Pass& pass) {
    parts_.clear();
    std::vector<GradientPasses::Future> futures;
    for (std::size_t b = 0; b < pass.buckets.size(); ++b) {
      GradientOffer offer;
      offer.is_missing = b >= pass.sent;
      if (offer.is_missing && !pass.hands_over_zeros) break;
      std::vector<at::Tensor> parts;
      for (const std::size_t parameter : pass.buckets[b]) {
        const std::vector<float> numbers = gradient_of(parameter, rank_, step);
        parts.push_back(pass.has_gradient && !offer.is_missing
                            ? torch::tensor(numbers) * pass.factor
                            : torch::zeros(static_cast<std::int64_t>(numbers.size())));
        offer.bucket.parameters.push_back(&kSizes[parameter]);
        offer.bucket.sizes.push_back(numbers.size());
        parts_.push_back(parameter);
      }
      offer.bucket.numbers = torch::cat(parts).to(pass.type);
      offer.buckets = pass.buckets.size();
      offer.has_gradient = pass.has_gradient;
      offer.weight = pass.weight;
      offer.divides_by_all = pass.divides_by_all;
      futures.push_back(exchange.add(std::move(offer)));
    }
    return futures;
  }

  // The result in the order of the parameters.
  oracle::Vector step(int number, const Pass& pass) {
    std::vector<oracle::Vector> results(kSizes.size());
    const auto futures = send(number, pass);
    std::size_t next = 0;
    for (const auto& future : futures) {
      future->waitAndThrow();
      const at::Tensor numbers = future->value().toTensor().to(at::kDouble);
      std::int64_t offset = 0;
      while (offset < numbers.numel()) {
        const std::size_t parameter = parts_[next++];
        const auto size = static_cast<std::int64_t>(kSizes[parameter]);
        const at::Tensor part = numbers.narrow(0, offset, size).contiguous();
        results[parameter].assign(part.data_ptr<double>(), part.data_ptr<double>() + size);
        offset += size;
      }
    }
    oracle::Vector all;
    for (const auto& result : results) all.insert(all.end(), result.begin(), result.end());
    return all;
  }

 private:
  int rank_;
  std::vector<std::size_t> parts_;

 public:
  Hook exchange;
};

inline testing::AssertionResult are_near(const oracle::Vector& x, const oracle::Vector& y, double tolerance = 1e-5) {
  if (x.size() != y.size()) return testing::AssertionFailure() << x.size() << " numbers and not " << y.size();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] - y[i]) <= tolerance * (oracle::norm(y) / std::sqrt(static_cast<double>(y.size())) + 1e-9)))
      return testing::AssertionFailure() << x[i] << " and not " << y[i] << " at " << i;
  return testing::AssertionSuccess();
}

inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace flockstep::torch_front::test_passes
