// The public interface in include/flockstep/flockstep.h, over engines and algorithms.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "engines/registry.h"
#include "flockstep/flockstep.h"
#include "runtime/gather.h"

namespace flockstep {

class Worker::Implementation {
 public:
  Implementation(engines::Engine& engine, double deadline_s) : context(engine, base::Duration(deadline_s)) {}
  runtime::Context context;
};

int Worker::rank() const { return implementation_.context.rank(); }
int Worker::size() const { return implementation_.context.size(); }

void launch(const LaunchSettings& settings, const std::function<void(Worker&)>& body) {
  engines::LaunchOptions options;
  options.workers = settings.engine == "mpi" ? 0 : settings.workers;
  engines::find_backend(settings.engine).run(options, [&](engines::Engine& engine) {
    Worker::Implementation implementation(engine, settings.deadline_s);
    Worker worker(implementation);
    body(worker);
  });
}

struct Synchronizer::Implementation {
  static constexpr std::size_t kBucketFloats = std::size_t{1} << 20;  // 4 MiB

  Implementation(runtime::Context& context, std::size_t parameters)
      : layout(parameters, kBucketFloats), context(context) {}

  void check_size(std::span<float> values) const {
    if (values.size() != layout.size())
      throw Error(ErrorCode::bad_input, fmt::format("a span of {} floats was given where {} parameters were announced",
                                                    values.size(), layout.size()));
  }

  runtime::Layout layout;
  runtime::Context& context;
  base::Settings settings;
  std::unique_ptr<algorithms::Algorithm> algorithm;
  std::int64_t step = 0;
};

Synchronizer::Synchronizer(Worker& worker, std::string_view algorithm, std::size_t parameters,
                           const std::map<std::string, std::string>& options)
    : implementation_(std::make_unique<Implementation>(worker.implementation().context, parameters)) {
  const algorithms::AlgorithmRow& row = algorithms::find_algorithm(algorithm);
  Implementation& mine = *implementation_;
  mine.settings = {options.begin(), options.end()};
  row.check(mine.settings);
  runtime::check_agreement(mine.context, {{"algorithm", std::string(algorithm)},
                                          {"options", nlohmann::json(mine.settings).dump()},
                                          {"parameters", std::to_string(parameters)}});
  mine.algorithm = row.make({mine.context, mine.layout, mine.settings});
}

Synchronizer::~Synchronizer() = default;
Synchronizer::Synchronizer(Synchronizer&&) noexcept = default;
Synchronizer& Synchronizer::operator=(Synchronizer&&) noexcept = default;

void Synchronizer::after_backward(std::span<float> gradient) {
  implementation_->check_size(gradient);
  implementation_->algorithm->finish_gradient(gradient);
}

void Synchronizer::after_update(std::span<float> model) {
  implementation_->check_size(model);
  implementation_->algorithm->after_update(implementation_->step++, model);
}

void Synchronizer::consolidate(std::span<float> model) {
  implementation_->check_size(model);
  implementation_->algorithm->consolidate(model);
}

}  // namespace flockstep
