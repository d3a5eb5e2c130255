// `sgp(n)`: stochastic gradient push (arXiv 1811.10792). A worker keeps x and a scalar weight w; gradients are taken at
// z = x/w, the model that the task sees. Each step: x takes the local update; shares 1/(n+1) of (x, w) go to the n
// out-neighbours of math/push_sum.h and one stays; what arrives is summed; z = x/w. The sums of all x and of all w are
// conserved, whoever receives how much.
//
// An update u of any local optimizer arrives as z' = z + u, and x takes it at full length, not times w:
//   x' = x + u = z' + (x - z) = z' + (1 - 1/w) x.
// w travels as one more number behind x, so whatever is done to x is done to it. On the graphs used here it stays one.
#include "algorithms/averagers/sgp.h"

#include <algorithm>
#include <array>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/average_over_all.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/presence.h"
#include "math/push_sum.h"
#include "runtime/pairs/neighbours.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 2> kSgpOptions{{
    {"neighbours", "1", "workers that one sends to per step (n); at most ceil(log2 P)"},
    kGuardOption,
}};

class Sgp final : public Algorithm {
 public:
  explicit Sgp(const AlgorithmInputs& inputs)
      : context_(inputs.context),
        options_(sgp_options(inputs.settings, context_.size())),
        n_(options_.neighbours),
        buffers_(inputs.buffers),
        guard_(remembered_of_all(context_.size())),
        models_(inputs.models()),
        pushed_(models_.size() + 1, models_.bucket_floats()),
        presence_(context_),
        neighbours_(context_, pushed_, static_cast<std::size_t>(math::push_sum_neighbours(context_.size(), n_)),
                    "received models of neighbours", options_.guard ? &guard_ : nullptr),
        buffer_(context_.engine().memory().allocate<float>(pushed_.size(), "pushed model")),
        x_(buffer_.span().first(models_.size())),
        w_(buffer_.span().back()) {
    w_ = 1;
  }

  void begin(std::int64_t /*step*/, std::span<const float> z) override { combine({z.data()}, {w_}, x_); }

  // Those who are there push to each other alone. One who is not keeps its x and its w, and both are left out of the
  // sums; whoever is there again takes another one's.
  void attend(const std::vector<bool>& present) override { presence_.attend(present); }
  void after_update(std::int64_t step, std::span<float> z) override {
    guard_.count_step();
    // With a weight of one x is the model right after the last mixing.
    if (presence_.is_here() && options_.guard && w_ == 1)
      runtime::Guarded{&guard_, buffers_}.judge_and_cut(context_, z, x_);
    if (presence_.is_here()) combine({z.data(), x_.data()}, {1, 1 - 1 / w_}, x_);
    neighbours_.copy(buffer_.span(), presence_.receivers(), presence_.donor());
    if (presence_.is_here()) push(step, z);
    presence_.end_step();
  }

  // The mean of x over that of w: the former alone where all count, as the weights then add up to P. Everybody goes on
  // from it with a weight of one.
  void consolidate(std::span<float> z) override {
    const std::vector<bool> counted = presence_.recent(kRecentSteps);
    if (std::ranges::find(counted, false) == counted.end()) {
      if (w_ != 1) combine({z.data()}, {w_}, z);
      average_over_all(context_, models_, z);
    } else {
      combine({z.data()}, {w_}, x_);
      average_over_all(context_, pushed_, buffer_.span(), counted);
      combine({x_.data()}, {1 / w_}, z);
    }
    w_ = 1;
    combine({z.data()}, {1}, x_);
    presence_.begin_again();
  }

  std::vector<math::Finding> findings() override { return findings_of(guard_, context_.rank()); }
  void save(base::Archive& archive) const override {
    archive.put_value("push-sum weight", w_);
    const std::vector<double> guard = guard_.state();
    archive.put("guard", std::span<const double>(guard));
    neighbours_.save(archive);
  }
  std::string restore(const base::Archive& archive) override {
    w_ = archive.get_value<float>("push-sum weight");
    if (archive.has("guard")) guard_.set_state(archive.get_vector<double>("guard"));
    neighbours_.restore(archive);
    return "";
  }

 private:
  void push(std::int64_t step, std::span<float> z) {
    const auto to =
        presence_.others([&](int place, int workers) { return math::out_neighbours(place, workers, n_, step); });
    const auto from =
        presence_.others([&](int place, int workers) { return math::in_neighbours(place, workers, n_, step); });
    neighbours_.mix(buffer_.span(), to, from, 1.0f / static_cast<float>(to.size() + 1));
    combine({x_.data()}, {1 / w_}, z);
  }

  // A row whose coefficient is zero is not read: with a weight of one this is a copy.
  void combine(const std::vector<const void*>& rows, const std::vector<double>& coefficients, std::span<float> out) {
    context_.queue().weighted_sum({rows, out.size()}, coefficients.data(), out);
  }

  runtime::Context& context_;
  const SgpOptions options_;
  std::int64_t n_;
  const std::size_t buffers_;
  math::UpdateGuard guard_;
  const runtime::Layout models_, pushed_;
  Presence presence_;
  runtime::Neighbours neighbours_;
  base::Buffer<float> buffer_;
  std::span<float> x_;
  float& w_;
};

}  // namespace

SgpOptions sgp_options(const base::Settings& settings, int workers) {
  const base::SettingsReader reader("sgp", kSgpOptions, settings);
  return {.neighbours = reader.integer("neighbours", 1, std::max(1, math::push_sum_hops(workers))),
          .guard = guard_of(reader)};
}

AlgorithmRow sgp_row() {
  return {
      .name = "sgp",
      .family = Family::model,
      .description = "push shares of the model to n workers at hops of powers of two, and sum the received shares",
      .bytes_text = "4 (D+1) n",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return 4 * (parameters + 1) * math::push_sum_neighbours(workers, sgp_options(settings, workers).neighbours);
          },
      .models_held = models_held_among_others<1>,
      .options = kSgpOptions,
      .make = [](const AlgorithmInputs& inputs) { return make_averager<Sgp>(inputs); },
      .check = [](const base::Settings& settings, int workers) { sgp_options(settings, workers); },
      .facts = [](const base::Settings&) { return Facts{.resumes_apart = true}; },
  };
}

}  // namespace flockstep::algorithms
