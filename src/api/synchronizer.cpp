// The public interface in include/flockstep/flockstep.h, over engines and algorithms.
#include "api/synchronizer.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "algorithms/registry.h"
#include "api/public_reports.h"
#include "api/worker.h"
#include "engines/launcher.h"
#include "engines/registry.h"

namespace flockstep {
namespace {

constexpr int kMostWorkers = 1 << 20;
constexpr std::size_t kMostNumbers = std::size_t{1} << 40;   // in a model: 4 TiB
constexpr std::size_t kBucketFloats = std::size_t{1} << 20;  // 4 MiB

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
int Worker::incarnation() const { return static_cast<int>(implementation_.context.engine().incarnation()); }

void launch(const LaunchSettings& settings, const std::function<void(Worker&)>& body) {
  engines::LaunchOptions options;
  const std::string engine = engines::resolve_engine(settings.engine);
  base::deadline_of(settings.deadline_s);
  const bool is_launched = engines::is_launched(engine);
  if (!is_launched && (settings.workers < 1 || settings.workers > kMostWorkers))
    throw Error(ErrorCode::bad_input,
                fmt::format("{} workers cannot run: ask for 1 to {}", settings.workers, kMostWorkers));
  options.workers = is_launched ? 0 : settings.workers;
  options.deterministic = settings.deterministic;
  options.seed = settings.seed;
  engines::find_backend(engine).run(options, [&](engines::Engine& engine) {
    Worker::Implementation implementation(engine, settings.deadline_s);
    Worker worker(implementation);
    body(worker);
  });
}

Synchronizer::Implementation::Implementation(runtime::Context& context, std::string_view algorithm,
                                             const std::vector<std::size_t>& tensors,
                                             const std::map<std::string, std::string>& options,
                                             const SynchronizerSettings& settings, const runtime::Devices& devices)
    : context(context),
      gradients(context, devices, "gradient of a device"),
      models(context, devices, "model of a device"),
      layout(checked(tensors, settings.buffers), kBucketFloats),
      buffers(settings.buffers),
      announcements(layout),
      session(context, layout,
              {.row = algorithms::find_algorithm(algorithm),
               .options = {options.begin(), options.end()},
               .seed = settings.seed,
               .buffers = settings.buffers,
               .elastic = true},
              {{"parameters", std::to_string(layout.size())},
               {"tensors", fmt::format("{}", tensors)},
               {"buffers", std::to_string(settings.buffers)}}),
      number_(context.next_owner()) {}

void Synchronizer::Implementation::check_gradient(std::span<const float> gradient) const {
  if (gradient.size() != layout.size())
    throw Error(ErrorCode::bad_input, fmt::format("a span of {} floats was given where {} parameters were announced",
                                                  gradient.size(), layout.size()));
}

void Synchronizer::Implementation::check_model(std::span<const float> model) const {
  if (buffers == 0) return check_gradient(model);
  if (model.size() != layout.size() + buffers)
    throw Error(ErrorCode::bad_input,
                fmt::format("a span of {} floats was given where {} parameters and {} buffers were announced",
                            model.size(), layout.size(), buffers));
}

void Synchronizer::Implementation::check_announced(std::span<const float> gradient) const {
  if (announcements.any_ready() && gradient.data() != announced)
    throw Error(ErrorCode::bad_input,
                "another gradient was announced as ready than the one that is given now: pass the same span until "
                "after_backward returns");
}

void Synchronizer::Implementation::require_nothing_announced(std::string_view call) const {
  if (announcements.any_ready())
    throw Error(
        ErrorCode::bad_input,
        fmt::format(
            "{} was called while a gradient that was announced as ready is in flight: call after_backward first",
            call));
}

bool Synchronizer::Implementation::changes_gradients() const {
  return session.row().family != algorithms::Family::model || session.algorithm().gradients_are_equal();
}

void Synchronizer::Implementation::begin(std::span<const float> model) {
  const Issuing issuing(*this);
  check_model(model);
  require_nothing_announced("begin");
  models.fetch(model, {0, model.size()});
  const std::span<const float> seen = models.of({const_cast<float*>(model.data()), model.size()});
  session.require_same_first_model(seen);
  session.begin(seen);
}

void Synchronizer::Implementation::join(std::span<float> model) {
  if (!context.engine().outlives_peers()) return begin(model);
  const Issuing issuing(*this);
  check_model(model);
  require_nothing_announced("join");
  models.fetch(model, {0, model.size()});
  session.join(models.of(model));
  models.put(model, {0, model.size()});
}

void Synchronizer::Implementation::ready(std::span<float> gradient, std::size_t begin, std::size_t size) {
  const Issuing issuing(*this);
  check_gradient(gradient);
  session.require_begun();
  check_announced(gradient);
  if (begin > gradient.size() || size > gradient.size() - begin)
    throw Error(ErrorCode::bad_input,
                fmt::format("the {} numbers from {} on are not all in a gradient of {}", size, begin, gradient.size()));
  if (announcements.any_ready_in(begin, size))
    throw Error(ErrorCode::bad_input,
                fmt::format("some of the {} numbers from {} on were announced as ready before: announce every number "
                            "once, then call after_backward",
                            size, begin));
  if (changes_gradients()) gradients.fetch(gradient, {begin, size});
  announced = gradient.data();
  for (const std::size_t bucket : announcements.add(begin, size))
    session.algorithm().bucket_ready(bucket, gradients.of(gradient));
}

void Synchronizer::Implementation::after_backward(std::span<float> gradient, double weight) {
  const Issuing issuing(*this);
  check_gradient(gradient);
  check_announced(gradient);
  session.require_begun();
  session.require_effect_of(weight);
  if (announcements.any_ready() && !announcements.all_ready())
    throw Error(ErrorCode::bad_input,
                "part of the gradient was announced as ready and the rest was not: announce all "
                "of it, or nothing");
  const bool is_changed = changes_gradients();
  const runtime::Range whole{0, gradient.size()};
  if (is_changed && !announcements.any_ready()) gradients.fetch(gradient, whole);
  announcements.begin();  // whatever becomes of this step, the next one is another
  session.finish_gradient(is_changed ? gradients.of(gradient) : gradient, weight);
  if (is_changed) gradients.put(gradient, whole);
}

std::span<float> Synchronizer::Implementation::reduce_scatter(std::span<float> gradient, double weight) {
  const Issuing issuing(*this);
  check_gradient(gradient);
  session.require_effect_of(weight);
  if (announcements.any_ready())
    throw Error(ErrorCode::bad_input,
                "part of the gradient was announced as ready, and its results would go to all workers: call "
                "after_backward, or reduce_scatter without announcing");
  gradients.fetch(gradient, {0, gradient.size()});
  const std::span<float> seen = gradients.of(gradient), own = session.reduce_scatter(seen, weight);
  if (seen.data() == gradient.data() || own.empty()) return own;
  const runtime::Range range{static_cast<std::size_t>(own.data() - seen.data()), own.size()};
  gradients.put(gradient, range);
  return range.of(gradient);
}

void Synchronizer::Implementation::after_update(std::span<float> model) {
  const Issuing issuing(*this);
  check_model(model);
  require_nothing_announced("after_update");
  const bool moves =
      session.row().family == algorithms::Family::model && session.algorithm().meets_after(session.updates());
  if (!moves) return session.after_update(model);
  models.fetch(model, {0, model.size()});
  session.after_update(models.of(model));
  models.put(model, {0, model.size()});
}

bool Synchronizer::Implementation::drain(std::span<float> gradient) {
  const Issuing issuing(*this);
  check_gradient(gradient);
  require_nothing_announced("drain");
  if (!session.drain(gradients.of(gradient))) return false;
  gradients.put(gradient, {0, gradient.size()});
  return true;
}

void Synchronizer::Implementation::consolidate(std::span<float> model) {
  const Issuing issuing(*this);
  check_model(model);
  require_nothing_announced("consolidate");
  session.require_begun();
  session.require_drained();
  models.fetch(model, {0, model.size()});
  session.consolidate(models.of(model));
  session.require_same_last_model(models.of(model));
  models.put(model, {0, model.size()});
}

std::vector<std::byte> Synchronizer::Implementation::save() const {
  const Issuing issuing(*this);
  base::Archive archive;
  archive.put_text("algorithm", std::string(session.row().name));
  session.save(archive);
  return archive.to_bytes();
}

std::string Synchronizer::Implementation::restore(std::span<const std::byte> state) {
  const Issuing issuing(*this);
  require_nothing_announced("restore");
  const auto archive = base::Archive::from_bytes(state, "the state of a synchronizer");
  if (const std::string saved = archive.get_text("algorithm"); saved != session.row().name)
    throw Error(ErrorCode::bad_input,
                fmt::format("this is a state of {0}, which {1} cannot continue from: restore it with {0}", saved,
                            session.row().name));
  if (session.has_begun() && session.facts().needs_begin)
    throw Error(
        ErrorCode::bad_input,
        "restore was called after begin: make another Synchronizer, restore, then begin with the restored model");
  return session.restore(archive);
}

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

void Synchronizer::begin(std::span<const float> model) { implementation_->begin(model); }
void Synchronizer::join(std::span<float> model) { implementation_->join(model); }
std::int64_t Synchronizer::updates() const { return implementation_->session.updates(); }
void Synchronizer::ready(std::span<float> gradient, std::size_t begin, std::size_t size) {
  implementation_->ready(gradient, begin, size);
}
void Synchronizer::after_backward(std::span<float> gradient, double weight) {
  implementation_->after_backward(gradient, weight);
}
std::span<float> Synchronizer::reduce_scatter(std::span<float> gradient, double weight) {
  return implementation_->reduce_scatter(gradient, weight);
}
void Synchronizer::after_update(std::span<float> model) { implementation_->after_update(model); }
bool Synchronizer::drain(std::span<float> gradient) { return implementation_->drain(gradient); }
void Synchronizer::consolidate(std::span<float> model) { implementation_->consolidate(model); }
std::vector<std::byte> Synchronizer::save() const { return implementation_->save(); }
std::string Synchronizer::restore(std::span<const std::byte> state) { return implementation_->restore(state); }

StepReport Synchronizer::report() const {
  const session::Session& session = implementation_->session;
  return api::step_report(session.algorithm().report(), session.guards());
}

Meetings Synchronizer::meetings() const { return api::meetings(implementation_->session); }

std::vector<std::string> Synchronizer::findings() const { return api::sentences(implementation_->session.findings()); }

}  // namespace flockstep
