// The algorithms there are: one row each, one file each.
#pragma once

#include <memory>
#include <optional>

#include "algorithms/algorithm.h"
#include "base/settings.h"
#include "runtime/context.h"
#include "runtime/device_model.h"
#include "runtime/layout.h"

namespace flockstep::algorithms {

struct AlgorithmInputs {
  runtime::Context& context;
  const runtime::Layout& layout;
  const base::Settings& settings;
  std::uint64_t seed = 1;  // of whatever is drawn, the same on every worker
  // Running statistics and the like, which have no gradient: so many numbers at the end of the spans of models, which
  // are so much longer than those of gradients. Whoever averages models averages them, too; gradient rules leave them.
  std::size_t buffers = 0;
  // Where the model is on a device and the algorithm merges there (Facts): then the spans of models that its hooks are
  // given are empty.
  const runtime::DeviceModel* device_model = nullptr;
  // Workers come and go (Facts::survives_losses): a fingerprint of whatever has to be equal, which nobody compares
  // before a worker joins.
  std::optional<std::uint64_t> fingerprint = {};

  // How the spans of models are divided; the layout of gradients is shorter.
  runtime::Layout models() const { return {layout.size() + buffers, layout.bucket_floats()}; }
};

enum class Family {
  gradient,          // rules: the same result from everybody's gradients, everywhere
  partial_gradient,  // sums of the gradients that are there
  model,             // averages of models
};
std::string_view to_string(Family family);

// What never changes while an algorithm runs.
struct Facts {
  bool replicas_are_equal = false;  // all workers hold the same model after every step, to the last bit
  // Replicas stay apart over a checkpoint, so that a resumed run gives what an uninterrupted one gives. If not, they
  // are consolidated before it, and it holds one model, with which any number of workers can go on.
  bool resumes_apart = false;
  bool needs_begin = false;         // steps without a begin() make no sense
  bool meets_with_all = false;      // where models are averaged, everybody waits for everybody, not for a few
  bool averages_gradients = false;  // an averager that does, at times: it looks at gradients, too
  bool merges_on_device = false;    // it takes a model on a device as it is; else models go through main memory
  bool survives_losses = false;     // it goes on without lost workers, and takes in new ones, where the engine can
};

struct RuleAndOptions;  // rules/gradient_rule.h

struct AlgorithmRow {
  std::string_view name;
  Family family;
  std::string_view description;
  std::string_view bytes_text;  // sent per worker and step, with D parameters and P workers
  double (*bytes_per_step)(int workers, double parameters, const base::Settings& settings);
  // Copies of a whole model that it holds on each worker, beside the few parts that are under way.
  double (*models_held)(int workers, const base::Settings& settings);
  // Bytes beside models: numbers for every pair of workers, which each of them holds.
  double (*pair_bytes_held)(int workers, const base::Settings& settings) = [](int, const base::Settings&) {
    return 0.0;
  };
  std::span<const base::OptionSpec> options;
  std::unique_ptr<Algorithm> (*make)(const AlgorithmInputs& inputs);
  // Throws Error{bad_input}, without an engine at hand; `workers` is the largest int where it is not known yet.
  void (*check)(const base::Settings& settings, int workers);
  // Among several workers; see facts_of().
  Facts (*facts)(const base::Settings& settings);

  // Of gradient rules: the rule that these settings choose. Null elsewhere.
  RuleAndOptions (*rule)(const base::Settings& settings) = nullptr;
  // Of rules whose results are not as large as averaged gradients: the magnitude that makes them so.
  std::string_view magnitude_of_averages = {};
  // Of a rule that divides by the number of gradients, so that it could divide by that of workers instead.
  bool divides_by_count = false;
};

// One worker alone takes its own steps, whichever averager it has.
Facts facts_of(const AlgorithmRow& row, const base::Settings& settings, int workers);

std::span<const AlgorithmRow> algorithms();
const AlgorithmRow& find_algorithm(std::string_view name);

}  // namespace flockstep::algorithms
