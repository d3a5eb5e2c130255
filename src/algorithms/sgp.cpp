// `sgp(n)`: stochastic gradient push (arXiv 1811.10792). A worker keeps x and a scalar weight w; gradients are taken at
// z = x/w, the model that the task sees. Each step: x takes the local update; shares 1/(n+1) of (x, w) go to the n
// out-neighbours of math/push_sum.h and one stays; what arrives is summed; z = x/w. The sums of all x and of all w are
// conserved, whoever receives how much.
//
// An update u of any local optimizer arrives as z' = z + u, and x takes it at full length, not times w:
//   x' = x + u = z' + (x - z) = z' + (1 - 1/w) x.
// w travels as one more number behind x, so whatever is done to x is done to it. On the graphs used here it stays one.
#include "algorithms/sgp.h"

#include <array>
#include <limits>

#include "algorithms/alone.h"
#include "algorithms/average_over_all.h"
#include "kernels/kernels.h"
#include "math/push_sum.h"
#include "runtime/neighbours.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 1> kOptions{{
    {"neighbours", "1", "workers that one sends to per step (n); at most ceil(log2 P)"},
}};

class Sgp final : public Algorithm {
 public:
  explicit Sgp(const AlgorithmInputs& inputs)
      : context_(inputs.context),
        n_(sgp_options(inputs.settings).neighbours),
        degree_(math::push_sum_neighbours(context_.size(), n_)),
        models_(inputs.models()),
        pushed_(models_.size() + 1, models_.bucket_floats()),
        neighbours_(context_, pushed_, static_cast<std::size_t>(degree_), "received models of neighbours"),
        buffer_(context_.engine().memory().allocate<float>(pushed_.size(), "pushed model")),
        x_(buffer_.span().first(models_.size())),
        w_(buffer_.span().back()) {
    w_ = 1;
  }

  void begin(std::int64_t /*step*/, std::span<const float> z) override { combine({z.data()}, {w_}, x_); }

  void after_update(std::int64_t step, std::span<float> z) override {
    combine({z.data(), x_.data()}, {1, 1 - 1 / w_}, x_);
    const int rank = context_.rank(), workers = context_.size();
    neighbours_.mix(buffer_.span(), math::out_neighbours(rank, workers, n_, step),
                    math::in_neighbours(rank, workers, n_, step), 1.0f / static_cast<float>(degree_ + 1));
    combine({x_.data()}, {1 / w_}, z);
  }

  bool replicas_are_equal() const override { return false; }
  bool resumes_apart() const override { return true; }
  // The mean of all x, as the weights add up to P; everybody goes on from it with a weight of one.
  void consolidate(std::span<float> z) override {
    if (w_ != 1) combine({z.data()}, {w_}, z);
    average_over_all(context_, models_, z);
    w_ = 1;
  }

  void save(base::Archive& archive) const override { archive.put_value("push-sum weight", w_); }
  std::string restore(const base::Archive& archive) override {
    w_ = archive.get_value<float>("push-sum weight");
    return "";
  }

 private:
  // A row whose coefficient is zero is not read: with a weight of one this is a copy.
  void combine(const std::vector<const float*>& rows, const std::vector<float>& coefficients, std::span<float> out) {
    kernels::weighted_sum(rows, coefficients, out);
    context_.engine().charge(static_cast<double>((rows.size() + 1) * out.size_bytes()));
  }

  runtime::Context& context_;
  std::int64_t n_;
  int degree_;  // neighbours that one sends to, and receives from
  const runtime::Layout models_, pushed_;
  runtime::Neighbours neighbours_;
  base::Buffer<float> buffer_;
  std::span<float> x_;
  float& w_;
};

}  // namespace

SgpOptions sgp_options(const base::Settings& settings) {
  const base::SettingsReader reader("sgp", kOptions, settings);
  return {.neighbours = reader.integer("neighbours", 1, std::numeric_limits<std::int64_t>::max())};
}

AlgorithmRow sgp_row() {
  return {
      .name = "sgp",
      .family = Family::model,
      .description = "push shares of one's model to n workers at hops of powers of two, and sum what arrives",
      .bytes_text = "4 (D+1) n",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return 4 * (parameters + 1) * math::push_sum_neighbours(workers, sgp_options(settings).neighbours);
          },
      .options = kOptions,
      .make = [](const AlgorithmInputs& inputs) { return make_averager<Sgp>(inputs, Checkpoint::apart); },
      .check = [](const base::Settings& settings, int) { sgp_options(settings); },
  };
}

}  // namespace flockstep::algorithms
