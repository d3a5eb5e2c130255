// The path of a gradient: from backward's hooks through the algorithm and back into the tensors.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "torch/collective.h"
#include "torch/data_parallel.h"

namespace flockstep {
namespace {

// In one sweep that keeps nothing: the device may be full.
bool is_finite(const torch::Tensor& numbers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return numbers.numel() == 0 || std::isfinite(at::linalg_vector_norm(numbers, kInfinity).item<float>());
}

}  // namespace

namespace torch_front {

std::int64_t EpochSteps::most() const { return steps.empty() ? 0 : static_cast<std::int64_t>(std::ranges::max(steps)); }

std::vector<bool> EpochSteps::present() const {
  std::vector<bool> present;
  for (const double count : steps) present.push_back(static_cast<double>(step) < count);
  return std::ranges::find(present, false) == present.end() ? std::vector<bool>() : present;
}

void EpochSteps::advance() {
  if (!steps.empty() && ++step >= most()) *this = {};
}

}  // namespace torch_front

void DataParallel::Implementation::take(std::size_t index) {
  if (any_fired_ && (fired_[index] || accumulating > 0))
    throw Error(ErrorCode::bad_input,
                "two backward passes came before one finish_backward: all but the last of several batches behind one "
                "step need no_sync()");
  flat.collect_gradient(index);
  if (on_device()) on_device()->made_part();
  if (accumulating > 0) {
    accumulated_ = true;
    return;
  }
  if (!any_fired_ && starts_in_hooks())
    session->attend(epoch.present());  // before anything travels: averages divide by who is there
  fired_[index] = any_fired_ = true;
  mark(index);
  if (starts_in_hooks()) start_ready();
}

bool DataParallel::Implementation::starts_in_hooks() {
  if (alive_.count > 1) return false;
  if (on_device()) return on_device()->can_start_in_hooks();
  return !flat.is_on_device() && context.engine().may_be_called_from_a_hook() && !random.running();
}

void DataParallel::Implementation::mark(std::size_t index) {
  if (flat.range(index).size > 0) queue.add(flat.range(index));
}

void DataParallel::Implementation::start_ready() {
  while (const auto bucket = queue.next()) {
    flat.fetch_gradient(layout.buckets()[*bucket]);
    algorithm().bucket_ready(*bucket, gradient.span());
  }
}

void DataParallel::Implementation::finish_backward(double weight) {
  session->require_effect_of(weight);
  const std::vector<bool> present = epoch.present();
  const bool is_absent = !present.empty() && !present[static_cast<std::size_t>(context.rank())];
  if (accumulating > 0)
    throw Error(ErrorCode::bad_input,
                "finish_backward was called while a no_sync() lives: the last batch of a step comes after its end");
  if (is_absent && (any_fired_ || accumulated_))
    throw Error(ErrorCode::bad_input,
                base::concatenated("worker ", context.rank(),
                                   " has had a backward pass in a step that it told join it has no batch "
                                   "for"));
  flat.collect_model();
  session->attend(present);

  // What backward has not made is there from before, or zeros.
  std::vector<bool> unused(flat.count());
  for (std::size_t index = 0; index < flat.count(); ++index) {
    if (fired_[index]) continue;
    if (is_absent) flat.drop_gradient(index);
    unused[index] = !flat.collect_gradient(index);
    mark(index);
  }
  if (layout.size() == 0) queue.add({0, 0});
  start_ready();
  base::check(queue.at_end(), "every bucket started once");

  const bool everybody_waits = algorithm().gradients_are_equal();
  base::check(!merges || !everybody_waits, "an algorithm that merges models on devices, and leaves gradients alone");
  const std::vector<bool> dropped = everybody_waits ? torch_front::unused_everywhere(context, unused) : unused;
  try {
    session->finish_gradient(gradient.span(), weight);
  } catch (...) {  // such as a weight that is none: another step may follow
    begin_pass();
    throw;
  }
  flat.put_gradient();
  if (everybody_waits) learn_order(present);
  spread_gradients(dropped, everybody_waits || merges);  // on a device they are as backward has left them
  if (combines_gradients()) exchange_buffers(present);

  epoch.advance();
  begin_pass();
}

void DataParallel::Implementation::begin_pass() {
  queue.begin();
  fired_.assign(fired_.size(), false);
  any_fired_ = accumulated_ = false;
}

// Where nobody was asked, a gradient that is nothing but zeros stays undefined: optimizers would take it for a step.
void DataParallel::Implementation::spread_gradients(const std::vector<bool>& unused, bool everybody_knows) {
  const std::span<const float> whole = gradient.span();
  const auto is_zero = [&](std::size_t index) {
    return std::ranges::all_of(flat.range(index).of(whole), [](float value) { return value == 0; });
  };
  for (std::size_t index = 0; index < flat.count(); ++index)
    if (unused[index] && (everybody_knows || is_zero(index)))
      flat.drop_gradient(index);
    else
      flat.spread_gradient(index);
}

// Everybody goes by the order in which worker 0's first backward pass has completed the buckets.
void DataParallel::Implementation::learn_order(const std::vector<bool>& present) {
  if (knows_order_ || !may_be_reordered() || (!present.empty() && !present[0])) return;
  knows_order_ = true;
  if (layout.buckets().size() < 2) return;
  const auto order = context.engine().memory().allocate<std::size_t>(layout.buckets().size(), "order of buckets");
  std::ranges::copy(queue.completed(), order.data());
  context.wait(context.engine().broadcast(engines::bytes_of(order.span()), 0), "broadcast");
  if (on_device() && !std::ranges::equal(order.span(), queue.order())) on_device()->reorder();
  queue.set_order({order.span().begin(), order.span().end()});
}

void DataParallel::Implementation::exchange_buffers(const std::vector<bool>& present) {
  if (flat.buffers() == 0 || settings.buffers == Buffers::leave) return;
  const std::span<float> buffers = model.span().last(flat.buffers());
  flat.fetch_model({flat.parameters(), flat.buffers()});
  const auto counts = [&](std::size_t rank) { return present.empty() || present[rank]; };
  std::vector<float> coefficients;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(context.size()); ++rank)
    coefficients.push_back(counts(rank) ? 1.0f : 0.0f);
  if (settings.buffers == Buffers::average) {
    const auto workers = static_cast<float>(std::ranges::count(coefficients, 1.0f));
    for (float& coefficient : coefficients) coefficient /= workers;
    buffers_pass_->run(buffers, coefficients);
  } else {
    const auto root = static_cast<int>(std::ranges::find(coefficients, 1.0f) - coefficients.begin());
    context.wait(context.engine().broadcast(engines::bytes_of(buffers), root), "broadcast");
  }
  flat.put_model({flat.parameters(), flat.buffers()});
  flat.spread_model();
}

void DataParallel::Implementation::after_update() {
  const bool moves = row.family == algorithms::Family::model;
  const bool meets = moves && algorithm().meets_after(session->updates());  // else the model stays as it is
  if (moves) flat.collect_model();
  if (meets) flat.fetch_model();
  session->after_update(model.span());
  if (meets) flat.put_model();
  if (moves) flat.spread_model();
}

void DataParallel::Implementation::update(torch::optim::Optimizer& optimizer) {
  if (merges) {
    if (is_finite(flat.flat_gradient()))
      optimizer.step();
    else
      session->refuse(false);
  } else if (!on_device()) {
    if (session->accepts(gradient.span())) optimizer.step();
  } else if (on_device()->is_finite()) {
    optimizer.step();
  } else {
    session->refuse(on_device()->told().report.event == "non_finite");
  }
}

bool DataParallel::Implementation::drain() {
  if (!session->drain(gradient.span())) return false;
  flat.put_gradient();
  spread_gradients(std::vector<bool>(flat.count(), true), false);
  return true;
}

}  // namespace flockstep
