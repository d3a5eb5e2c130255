#include "algorithms/averagers/outer_fragment.h"

#include <algorithm>

namespace flockstep::algorithms {
namespace {

template <std::size_t rows>
void sum(runtime::Context& context, const std::array<std::span<const float>, rows>& spans,
         const std::array<double, rows>& coefficients, std::span<float> out) {
  std::array<const void*, rows> at;
  std::ranges::transform(spans, at.begin(), [](std::span<const float> span) { return span.data(); });
  context.queue().weighted_sum({at, out.size()}, coefficients.data(), out);
}

AlgorithmInputs inputs_of(const AlgorithmInputs& whole, const runtime::Layout& layout) {
  return {.context = whole.context, .layout = layout, .settings = whole.settings, .seed = whole.seed};
}

}  // namespace

OuterFragment::OuterFragment(const AlgorithmInputs& inputs, const DilocoOptions& options, runtime::Range range)
    : context_(inputs.context),
      range_(range),
      layout_(range.size, inputs.layout.bucket_floats()),
      outer_(options.outer),
      rule_(inputs_of(inputs, layout_), options.rule) {
  if (options.delay > 1) rule_.pass().let_results_set_out();
  base::Memory& memory = context_.engine().memory();
  model_ = memory.allocate<float>(range.size, "outer model");
  if (outer_.momentum > 0) velocity_ = memory.allocate<float>(range.size, "outer momentum");
  if (options.rule.common.wire == runtime::Wire::float32) return;
  lost_ = memory.allocate<float>(range.size, "updates lost on the wire");
  lost_results_ = memory.allocate<float>(rule_.pass().own_numbers(), "updates lost on the wire");
}

void OuterFragment::set(std::span<const float> model) {
  context_.uncharged().copy(model_.data(), model.data(), model.size_bytes());
}

// One who is not here keeps what it has lost for when its update counts again; as an owner of results it works on.
void OuterFragment::start(std::span<float> update, const Attendance& attendance, bool beside) {
  rule_.pass().feed_back({attendance.is_here ? lost_.span() : std::span<float>(), lost_results_.span()});
  rule_.attend(attendance.present);
  if (!beside) return;
  for (std::size_t bucket = 0; bucket < layout_.buckets().size(); ++bucket) rule_.bucket_ready(bucket, update);
}

void OuterFragment::go_on(std::span<float> update) {
  if (is_decided_)
    static_cast<void>(rule_.pass().can_receive());
  else
    rule_.pass().sweep_arrived(update);
}

void OuterFragment::decide(std::span<float> update) {
  rule_.finish_gradient(update, 1);
  is_decided_ = true;
}

void OuterFragment::finish(std::span<float> update) {
  if (!is_decided_) decide(update);
  rule_.pass().receive(update);
  is_decided_ = false;
  std::uint32_t is_not_finite = 0;
  context_.queue().find_non_finite(std::span<const float>(update), &is_not_finite);
  if (is_not_finite == 0) step(update);
}

void OuterFragment::step(std::span<const float> update) {
  const auto [own, along, further] = outer_.model();
  if (outer_.momentum > 0) {
    sum<2>(context_, {velocity_.span(), update}, outer_.velocity(), velocity_.span());
    sum<3>(context_, {model_.span(), update, velocity_.span()}, {own, along, further}, model_.span());
  } else {
    sum<2>(context_, {model_.span(), update}, {own, along}, model_.span());
  }
}

void OuterFragment::save(base::Archive& archive) const {
  archive.put("outer model", model_.span());
  archive.put("outer momentum", velocity_.span());
  archive.put("lost", lost_.span());
  archive.put("lost results", lost_results_.span());
  archive.put_value("rank", context_.rank());
  archive.put_value("workers", context_.size());
  rule_.save(archive);
}

// The state of one worker may be all that another has to go on from.
std::string OuterFragment::restore(const base::Archive& archive) {
  archive.get("outer model", model_.span());
  archive.get("outer momentum", velocity_.span());
  const std::string remade = rule_.restore(archive);
  if (lost_.size() == 0) return remade;
  if (archive.get_value<int>("workers") == context_.size() && archive.get_value<int>("rank") == context_.rank()) {
    archive.get("lost", lost_.span());
    archive.get("lost results", lost_results_.span());
    return remade;
  }
  return remade + (remade.empty() ? "" : "; ") + "what the wire had lost of this worker's updates is not in this state";
}

}  // namespace flockstep::algorithms
