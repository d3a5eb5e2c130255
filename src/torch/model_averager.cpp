#include "torch/model_averager.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "engines/run_record.h"
#include "torch/collective.h"
#include "torch/lost_peer.h"

namespace flockstep::torch_front {
namespace {

const algorithms::AlgorithmRow& averager_row(const std::string& name) {
  const algorithms::AlgorithmRow& row = algorithms::find_algorithm(name);
  if (row.family != algorithms::Family::model)
    throw Error(ErrorCode::bad_input, base::concatenated(name, " combines gradients, and has no models to average"));
  return row;
}

std::shared_ptr<const void> owner_of(const base::Buffer<float>& buffer) {
  return std::make_shared<base::Buffer<float>>(buffer);
}

runtime::Agreed agreed_with_tensors(runtime::Context& context, const ModelAveragerSettings& settings,
                                    const FlatModule& flat) {
  runtime::Agreed agreed{{"averaging of gradients", std::to_string(settings.averages_gradients)}};
  if (settings.elastic)
    add_own_tensors(agreed, flat);
  else
    add_tensors(agreed, context, flat);
  return agreed;
}

}  // namespace

ModelAverager::ModelAverager(runtime::Context& context, NamedTensors tensors, const ModelAveragerSettings& settings,
                             Recording* recording)
    : ModelAverager(context, std::move(tensors), settings, recording, place_of_merges, {}) {}

ModelAverager::ModelAverager(runtime::Context& context, NamedTensors tensors, const ModelAveragerSettings& settings,
                             Recording* recording, const PlaceOfMerges& place, const MakeAlgorithm& make)
    : context_(context),
      settings_(settings),
      recording_(recording),
      flat_([tensors = std::move(tensors)] { return tensors; }, Gradients::left, settings.holder),
      layout_(flat_.tensors(), settings.bucket_kib * 1024 / sizeof(float)),
      merges_(device_merges(context, flat_, averager_row(settings.algorithm),
                            {settings.options.begin(), settings.options.end()}, place)),
      session_(context, layout_,
               {.row = averager_row(settings.algorithm),
                .options = {settings.options.begin(), settings.options.end()},
                .seed = settings.seed,
                .buffers = flat_.buffers(),
                .watches = false,
                .make = make,
                .device_model = merges_ ? &merges_->model() : nullptr,
                .elastic = settings.elastic},
               agreed_with_tensors(context, settings, flat_)) {
  base::Memory& memory = context_.engine().memory();
  if (!merges_) {
    model_ = flat_.span_for(memory, flat_.parameters() + flat_.buffers(), "model");
    flat_.attach(model_.span(), {}, owner_of(model_), &context_);
  }
  if (settings_.averages_gradients) {
    gradient_ = flat_.span_for(memory, flat_.parameters(), "gradient");
    flat_.attach_gradient(gradient_.span(), owner_of(gradient_), &context_);
  }
  if (settings_.elastic)
    join();
  else if (settings_.starts_anew)
    broadcast();
}

void ModelAverager::join() {
  auto* const record = settings_.load ? dynamic_cast<engines::RunRecord*>(&context_.engine()) : nullptr;
  if (record)
    record->load = [this] {
      const std::int64_t steps = settings_.load();
      flat_.collect_model();
      flat_.fetch_model();
      return steps;
    };
  with_model([this](std::span<float> model) { session_.join(model, settings_.steps); });
  if (record) record->load = nullptr;
}

void ModelAverager::broadcast() {
  if (merges_)
    broadcast_model(context_, flat_, *merges_);
  else
    broadcast_model(context_, flat_, model_.span());
}

template <typename F>
void ModelAverager::with_model(const F& action) {
  flat_.collect_model();
  flat_.fetch_model();
  action(model_.span());
  flat_.put_model();
  flat_.spread_model();
}

// The count of steps is taken first, since a step that fails may have been counted.
template <typename F>
auto ModelAverager::naming_the_step(const F& action) {
  const std::int64_t step = steps() + 1;
  try {
    return action();
  } catch (const Error& error) {
    throw in_step(error, step, kJoinOptimizer);
  }
}

void ModelAverager::begin() {
  naming_the_step([this] { start(); });
}

// Until the first step workers may load what they like; what they begin with is told here.
void ModelAverager::start() {
  if (session_.has_begun()) return;
  runtime::check_agreement(context_, {{"steps to go on from", std::to_string(steps())}});
  if (!session_.begins_apart()) broadcast();
  with_model([this](std::span<float> model) { session_.begin(model); });
}

bool ModelAverager::average_gradients(bool has_batch) {
  return naming_the_step([&] { return average(has_batch); });
}

bool ModelAverager::average(bool has_batch) {
  attend(has_batch);
  std::vector<bool> unused(flat_.count());
  for (std::size_t index = 0; index < flat_.count(); ++index) {
    if (!has_batch) flat_.drop_gradient(index);
    unused[index] = !flat_.collect_gradient(index);
  }
  const std::vector<bool> dropped = unused_everywhere(context_, unused);
  flat_.fetch_gradient({0, flat_.parameters()});
  session_.finish_gradient(gradient_.span(), 1);
  flat_.put_gradient();
  for (std::size_t index = 0; index < flat_.count(); ++index)
    dropped[index] ? flat_.drop_gradient(index) : flat_.spread_gradient(index);
  return session_.accepts(gradient_.span());
}

void ModelAverager::after_update() {
  base::check(session_.has_begun(), "begin() before the update");
  const base::Time computed = context_.engine().now();
  naming_the_step([this] { update(true); });
  if (!recording_) return;
  const algorithms::MeetingReport meetings = session_.meetings();
  recording_->add(steps(), computed, nullptr, session_.algorithm().meetings() ? &meetings : nullptr);
}

void ModelAverager::update(bool present) {
  const bool meets = session_.algorithm().meets_after(steps());  // else a mirror would be copied for nothing
  if (meets) attend(present);
  flat_.collect_model();
  if (meets) flat_.fetch_model();
  session_.after_update(model_.span());
  if (meets) flat_.put_model();
  flat_.spread_model();
}

// Asking all of them costs little beside a meeting of all, and much where one waits for neighbours alone.
void ModelAverager::attend(bool present) {
  if (!meets_in_lockstep()) return;
  if (!joining_ && !session_.facts().meets_with_all) return session_.attend({});
  const std::vector<bool> all = ask({.is_present = present});
  session_.attend(joining_ ? all : std::vector<bool>());
}

// What one of them takes for an average after a step must not be what another one takes for the end of an epoch.
std::vector<bool> ModelAverager::ask(const Whereabouts& whereabouts) {
  const std::array<double, 3> mine{static_cast<double>(steps()), whereabouts.consolidates ? 1.0 : 0.0,
                                   whereabouts.is_present ? 1.0 : 0.0};
  const std::vector<double> all = runtime::gather_doubles(context_, mine);
  const auto place = [&](std::size_t worker) {
    const auto steps = static_cast<std::int64_t>(all[worker * mine.size()]);
    return base::concatenated("worker ", worker,
                              all[worker * mine.size() + 1] != 0
                                  ? base::concatenated(" is in consolidate() after ", base::counted(steps, "step"))
                                  : base::concatenated(" is in step ", steps + 1));
  };
  std::vector<bool> present;
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    if (all[i] != all[0] || all[i + 1] != all[1])
      throw Error(ErrorCode::mismatch,
                  base::concatenated(place(i / mine.size()), " where ", place(0), ": ", kJoinOptimizer));
    present.push_back(all[i + 2] != 0);
  }
  return present;
}

void ModelAverager::shadow() {
  naming_the_step([this] {
    start();
    update(false);
  });
}

void ModelAverager::leave() {
  if (meets_in_lockstep()) return;
  begin();
  if (!is_away()) session_.leave();
}

void ModelAverager::come_back() {
  if (!is_away()) return;
  with_model([this](std::span<float> model) { session_.come_back(model); });
}

// Whoever was absent from the last meeting takes what the others have, and is there again.
void ModelAverager::consolidate() {
  if (is_elastic()) return with_model([this](std::span<float> model) { session_.consolidate(model); });
  leave();
  begin();
  if (meets_in_lockstep()) ask({.consolidates = true});
  with_model([this](std::span<float> model) { session_.consolidate(model); });
  broadcast_each(context_, flat_.counters());
  session_.attend({});
}

std::vector<std::byte> ModelAverager::save() const {
  base::Archive archive;
  archive.put_text("algorithm", settings_.algorithm);
  session_.save(archive);
  return archive.to_bytes();
}

std::string ModelAverager::restore(std::span<const std::byte> state) {
  const base::Archive archive =
      base::Archive::from_bytes(state, base::concatenated("the state of this ", settings_.holder));
  if (const std::string saved = archive.get_text("algorithm"); saved != settings_.algorithm)
    throw Error(ErrorCode::bad_file, base::concatenated("the state that was loaded is of a training with ", saved,
                                                        ": go on with that instead of ", settings_.algorithm));
  return session_.restore(archive);
}

}  // namespace flockstep::torch_front
