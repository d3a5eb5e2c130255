// The public interface in include/flockstep/flockstep.h, over engines and algorithms.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "algorithms/registry.h"
#include "api/public_reports.h"
#include "api/worker.h"
#include "engines/launcher.h"
#include "engines/registry.h"
#include "runtime/gradient/ready_buckets.h"
#include "session/session.h"

namespace flockstep {
namespace {

constexpr int kMostWorkers = 1 << 20;
constexpr std::size_t kMostNumbers = std::size_t{1} << 40;  // in a model: 4 TiB

// Before anything of that size is made.
const std::vector<std::size_t>& checked(const std::vector<std::size_t>& tensors, std::size_t buffers) {
  std::size_t left = kMostNumbers;
  const auto take = [&](std::size_t size) {
    if (size > left)
      throw Error(ErrorCode::bad_input,
                  fmt::format("a model has at most {} parameters and buffers: pass numbers of floats", kMostNumbers));
    left -= size;
  };
  for (const std::size_t size : tensors) take(size);
  take(buffers);
  return tensors;
}

}  // namespace

int Worker::rank() const { return implementation_.context.rank(); }
int Worker::size() const { return implementation_.context.size(); }

void launch(const LaunchSettings& settings, const std::function<void(Worker&)>& body) {
  engines::LaunchOptions options;
  const std::string engine = engines::resolve_engine(settings.engine);
  base::deadline_of(settings.deadline_s);
  if (engine != "mpi" && (settings.workers < 1 || settings.workers > kMostWorkers))
    throw Error(ErrorCode::bad_input,
                fmt::format("{} workers cannot run: ask for 1 to {}", settings.workers, kMostWorkers));
  options.workers = engine == "mpi" ? 0 : settings.workers;
  options.deterministic = settings.deterministic;
  options.seed = settings.seed;
  engines::find_backend(engine).run(options, [&](engines::Engine& engine) {
    Worker::Implementation implementation(engine, settings.deadline_s);
    Worker worker(implementation);
    body(worker);
  });
}

struct Synchronizer::Implementation {
  static constexpr std::size_t kBucketFloats = std::size_t{1} << 20;  // 4 MiB

  Implementation(runtime::Context& context, std::string_view algorithm, const std::vector<std::size_t>& tensors,
                 const std::map<std::string, std::string>& options, const SynchronizerSettings& settings)
      : layout(checked(tensors, settings.buffers), kBucketFloats),
        buffers(settings.buffers),
        ready(layout),
        session(context, layout,
                {.row = algorithms::find_algorithm(algorithm),
                 .options = {options.begin(), options.end()},
                 .seed = settings.seed,
                 .buffers = settings.buffers},
                {{"parameters", std::to_string(layout.size())},
                 {"tensors", fmt::format("{}", tensors)},
                 {"buffers", std::to_string(settings.buffers)}}) {}

  void check_gradient(std::span<const float> gradient) const {
    if (gradient.size() != layout.size())
      throw Error(ErrorCode::bad_input, fmt::format("a span of {} floats was given where {} parameters were announced",
                                                    gradient.size(), layout.size()));
  }
  void check_model(std::span<const float> model) const {
    if (buffers == 0) return check_gradient(model);
    if (model.size() != layout.size() + buffers)
      throw Error(ErrorCode::bad_input,
                  fmt::format("a span of {} floats was given where {} parameters and {} buffers were announced",
                              model.size(), layout.size(), buffers));
  }

  void check_announced(std::span<const float> gradient) const {
    if (ready.any_ready() && gradient.data() != announced)
      throw Error(ErrorCode::bad_input,
                  "another gradient was announced as ready than the one that is given now: pass the same span until "
                  "after_backward returns");
  }
  void require_nothing_announced(std::string_view call) const {
    if (ready.any_ready())
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} was called while a gradient that was announced as ready is under way: call "
                              "after_backward first",
                              call));
  }

  runtime::Layout layout;
  std::size_t buffers;
  runtime::ReadyBuckets ready;
  const float* announced = nullptr;  // the gradient that `ready` is about
  session::Session session;
};

Synchronizer::Synchronizer(Worker& worker, std::string_view algorithm, std::size_t parameters,
                           const std::map<std::string, std::string>& options, const SynchronizerSettings& settings)
    : Synchronizer(worker, algorithm, std::vector<std::size_t>{parameters}, options, settings) {}

Synchronizer::Synchronizer(Worker& worker, std::string_view algorithm, const std::vector<std::size_t>& tensors,
                           const std::map<std::string, std::string>& options, const SynchronizerSettings& settings)
    : implementation_(
          std::make_unique<Implementation>(worker.implementation_.context, algorithm, tensors, options, settings)) {}

Synchronizer::~Synchronizer() = default;
Synchronizer::Synchronizer(Synchronizer&&) noexcept = default;
Synchronizer& Synchronizer::operator=(Synchronizer&&) noexcept = default;

void Synchronizer::begin(std::span<const float> model) {
  Implementation& mine = *implementation_;
  mine.check_model(model);
  mine.require_nothing_announced("begin");
  mine.session.require_same_model(model);
  mine.session.begin(model);
}

void Synchronizer::ready(std::span<float> gradient, std::size_t begin, std::size_t size) {
  Implementation& mine = *implementation_;
  mine.check_gradient(gradient);
  mine.session.require_begun();
  mine.check_announced(gradient);
  if (begin > gradient.size() || size > gradient.size() - begin)
    throw Error(ErrorCode::bad_input,
                fmt::format("the {} numbers from {} on are not all in a gradient of {}", size, begin, gradient.size()));
  if (mine.ready.any_ready_in(begin, size))
    throw Error(ErrorCode::bad_input,
                fmt::format("some of the {} numbers from {} on were announced as ready before: announce every number "
                            "once, then call after_backward",
                            size, begin));
  mine.announced = gradient.data();
  for (const std::size_t bucket : mine.ready.add(begin, size)) mine.session.algorithm().bucket_ready(bucket, gradient);
}

void Synchronizer::after_backward(std::span<float> gradient, double weight) {
  Implementation& mine = *implementation_;
  mine.check_gradient(gradient);
  mine.check_announced(gradient);
  mine.session.require_begun();
  if (mine.ready.any_ready() && !mine.ready.all_ready())
    throw Error(ErrorCode::bad_input,
                "part of the gradient was announced as ready and the rest was not: announce all "
                "of it, or nothing");
  mine.ready.begin();  // whatever becomes of this step, the next one is another
  mine.session.finish_gradient(gradient, weight);
}

std::span<float> Synchronizer::reduce_scatter(std::span<float> gradient, double weight) {
  implementation_->check_gradient(gradient);
  if (implementation_->ready.any_ready())
    throw Error(ErrorCode::bad_input,
                "part of the gradient was announced as ready, and its results would go to "
                "everybody: call after_backward, or reduce_scatter without announcing");
  return implementation_->session.reduce_scatter(gradient, weight);
}

void Synchronizer::after_update(std::span<float> model) {
  implementation_->check_model(model);
  implementation_->require_nothing_announced("after_update");
  implementation_->session.after_update(model);
}

bool Synchronizer::drain(std::span<float> gradient) {
  implementation_->check_gradient(gradient);
  implementation_->require_nothing_announced("drain");
  return implementation_->session.drain(gradient);
}

void Synchronizer::consolidate(std::span<float> model) {
  implementation_->check_model(model);
  implementation_->require_nothing_announced("consolidate");
  implementation_->session.require_begun();
  implementation_->session.require_drained();
  implementation_->session.consolidate(model);
}

std::vector<std::byte> Synchronizer::save() const {
  base::Archive archive;
  archive.put_text("algorithm", std::string(implementation_->session.row().name));
  implementation_->session.save(archive);
  return archive.to_bytes();
}

std::string Synchronizer::restore(std::span<const std::byte> state) {
  Implementation& mine = *implementation_;
  mine.require_nothing_announced("restore");
  const auto archive = base::Archive::from_bytes(state, "the state of a synchronizer");
  const algorithms::AlgorithmRow& row = mine.session.row();
  if (const std::string saved = archive.get_text("algorithm"); saved != row.name)
    throw Error(ErrorCode::bad_input, fmt::format("this is the state of {0}, which {1} cannot go on from: restore it "
                                                  "with {0}",
                                                  saved, row.name));
  if (mine.session.has_begun() && mine.session.facts().needs_begin)
    throw Error(ErrorCode::bad_input,
                "restore was called after begin: make another Synchronizer, restore, then begin with the model that "
                "goes on");
  return mine.session.restore(archive);
}

StepReport Synchronizer::report() const {
  const session::Session& session = implementation_->session;
  return api::step_report(session.algorithm().report(), session.guards());
}

Meetings Synchronizer::meetings() const { return api::meetings(implementation_->session); }

std::vector<std::string> Synchronizer::findings() const {
  return api::sentences(implementation_->session.steps().findings());
}

}  // namespace flockstep
