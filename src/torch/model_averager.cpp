#include "torch/model_averager.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "kernels/kernels.h"
#include "torch/collective.h"

namespace flockstep::torch_front {
namespace {

const algorithms::AlgorithmRow& averager_row(const std::string& name) {
  const algorithms::AlgorithmRow& row = algorithms::find_algorithm(name);
  if (row.family != algorithms::Family::model)
    throw Error(ErrorCode::bad_input, base::concatenated(name, " combines gradients, and has no models to average"));
  return row;
}

}  // namespace

ModelAverager::ModelAverager(runtime::Context& context, NamedTensors tensors, const ModelAveragerSettings& settings,
                             Recording* recording)
    : context_(context),
      settings_(settings),
      recording_(recording),
      row_(averager_row(settings.algorithm)),
      options_(settings.options.begin(), settings.options.end()),
      flat_([tensors = std::move(tensors)] { return tensors; }, Gradients::left, settings.holder),
      layout_(flat_.tensors(), settings.bucket_kib * 1024 / sizeof(float)) {
  row_.check(options_, context_.size());
  runtime::Agreed agreed{{"algorithm", settings_.algorithm}};
  runtime::add_settings(agreed, settings_.algorithm, options_);
  agreed.emplace_back("averaging of gradients", std::to_string(settings_.averages_gradients));
  check_alike(context_, flat_, std::move(agreed));

  base::Memory& memory = context_.engine().memory();
  model_ = memory.allocate<float>(flat_.parameters() + flat_.buffers(), "model");
  if (settings_.averages_gradients) gradient_ = memory.allocate<float>(flat_.parameters(), "gradient");
  flat_.attach(model_.span(), gradient_.span(),
               std::make_shared<std::pair<base::Buffer<float>, base::Buffer<float>>>(model_, gradient_));
  if (settings_.starts_anew) broadcast_model(context_, flat_, model_.span());
  session_.emplace(made());
}

session::Session ModelAverager::made() const {
  return session::Session(row_.make({context_, layout_, options_, settings_.seed, flat_.buffers()}),
                          algorithms::facts_of(row_, options_, context_.size()));
}

// Until the first step workers may load what they like; what they begin with is told here.
void ModelAverager::begin() {
  if (begun_ && !next_) return;
  runtime::check_agreement(context_, {{"steps to go on from", std::to_string(steps())}});
  flat_.collect_model();
  if (begun_) {
    // An agent may only be ended where nobody counts on it any more.
    const auto given_up = context_.engine().memory().allocate<float>(model_.size(), "model to give up");
    std::ranges::copy(model_.span(), given_up.data());
    session_->consolidate(given_up.span());
  }
  const bool goes_on = next_.has_value();
  if (goes_on) session_ = std::exchange(next_, std::nullopt);
  context_.wait(context_.engine().barrier(), "barrier");
  if (!goes_on || !session_->facts().resumes_apart) broadcast_model(context_, flat_, model_.span());
  session_->begin(model_.span());
  begun_ = true;
  somebody_is_absent_ = false;
}

bool ModelAverager::average_gradients(bool has_batch) {
  attend(has_batch);
  std::vector<bool> unused(flat_.count());
  for (std::size_t index = 0; index < flat_.count(); ++index) {
    if (!has_batch) flat_.drop_gradient(index);
    unused[index] = !flat_.collect_gradient(index);
  }
  const std::vector<bool> dropped = unused_everywhere(context_, unused);
  algorithm().finish_gradient(gradient_.span(), 1);
  for (std::size_t index = 0; index < flat_.count(); ++index)
    dropped[index] ? flat_.drop_gradient(index) : flat_.spread_gradient(index);
  return !kernels::has_non_finite(std::span<const float>(gradient_.span()));
}

void ModelAverager::after_update() {
  base::check(begun_ && !next_, "begin() before the update");
  const base::Time computed = context_.engine().now();
  if (algorithm().meets_after(steps())) attend(true);
  update();
  if (!recording_) return;
  const algorithms::MeetingReport meetings = session_->meetings();
  recording_->add(steps(), computed, nullptr, algorithm().meetings() ? &meetings : nullptr);
}

void ModelAverager::update() {
  flat_.collect_model();
  session_->after_update(model_.span());
  flat_.spread_model();
}

// Asking all of them costs little beside a meeting of all, and much where one waits for neighbours alone.
void ModelAverager::attend(bool present) {
  if (!meets_in_lockstep()) return;
  if (!joining_ && !session_->facts().meets_with_all) return attend_fully();
  const std::vector<bool> all = ask({.is_present = present});
  if (!joining_) return attend_fully();
  somebody_is_absent_ = std::ranges::find(all, false) != all.end();
  algorithm().attend(somebody_is_absent_ ? all : std::vector<bool>());
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
      throw Error(
          ErrorCode::mismatch,
          base::concatenated(place(i / mine.size()), " where ", place(0),
                             ": workers with different numbers of batches train in \"with optimizer.join():\""));
    present.push_back(all[i + 2] != 0);
  }
  return present;
}

void ModelAverager::attend_fully() {
  if (somebody_is_absent_) algorithm().attend({});
  somebody_is_absent_ = false;
}

void ModelAverager::shadow() {
  begin();
  if (algorithm().meets_after(steps())) attend(false);
  update();
}

void ModelAverager::leave() {
  if (meets_in_lockstep()) return;
  begin();
  if (!is_away()) session_->leave();
}

void ModelAverager::come_back() {
  if (!is_away()) return;
  flat_.collect_model();
  session_->come_back(model_.span());
  flat_.spread_model();
}

// Whoever was absent from the last meeting takes what the others have, and is there again.
void ModelAverager::consolidate() {
  leave();
  begin();
  if (meets_in_lockstep()) ask({.consolidates = true});
  flat_.collect_model();
  session_->consolidate(model_.span());
  flat_.spread_model();
  broadcast_each(context_, flat_.counters());
  attend_fully();
}

std::vector<std::byte> ModelAverager::save() const {
  base::Archive archive;
  archive.put_text("algorithm", settings_.algorithm);
  newest().save(archive);
  return archive.to_bytes();
}

std::string ModelAverager::restore(std::span<const std::byte> state) {
  const base::Archive archive =
      base::Archive::from_bytes(state, base::concatenated("the state of this ", settings_.holder));
  if (const std::string saved = archive.get_text("algorithm"); saved != settings_.algorithm)
    throw Error(ErrorCode::bad_file, base::concatenated("the state that was loaded is of a training with ", saved,
                                                        ": go on with that instead of ", settings_.algorithm));
  session::Session next = made();
  std::string remade = next.restore(archive);
  next_.emplace(std::move(next));
  return remade;
}

}  // namespace flockstep::torch_front
