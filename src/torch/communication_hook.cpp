#include "torch/communication_hook.h"

#include "base/text.h"
#include "torch/lost_peer.h"

namespace flockstep::torch_front {
namespace {

constexpr base::Duration kGrace{2};

Error closed() { return {ErrorCode::unavailable, "this exchange of gradients was closed"}; }

}  // namespace

CommunicationHook::CommunicationHook(runtime::Context& context, const GradientPassesSettings& settings,
                                     Translate translate, Recording* recording)
    : context_(context),
      translate_(std::move(translate)),
      recording_(recording),
      signal_(context.engine().make_signal()) {
  check_rule(settings.rule, context.size());
  news_.rule = settings.rule.name;
  news_.step = settings.step;
  news_.memory = settings.memory;
  news_.remembering = asked_ = settings.rule.name;
  conductor_ = context.engine().spawn("gradients", [this, settings] { conduct(settings); });
}

CommunicationHook::Future CommunicationHook::add(GradientOffer offer) {
  check_can_travel(offer.bucket);
  check_device(offer.bucket.numbers.device());
  offer.bucket.made = StagingStream::mark(offer.bucket.numbers.device());
  const auto future = StagingStream::future_for(
      offer.bucket.numbers, offer.result.isNone() ? c10::TypePtr(c10::TensorType::get()) : offer.result.type());
  auto shared = std::make_shared<GradientOffer>(std::move(offer));
  send({[shared, future](GradientPasses& passes) { passes.take(std::move(*shared), future); }, future});
  return future;
}

void CommunicationHook::check_device(c10::Device device) {
  const std::lock_guard lock(mutex_);
  if (!device_) device_ = device;
  if (device != *device_)
    throw Error(ErrorCode::bad_input, base::concatenated("gradients are on several devices (", device_->str(), ", ",
                                                         device.str(), "): keep the model on one"));
}

void CommunicationHook::abandon() {
  send({[](GradientPasses& passes) { passes.abandon(); }, {}});
}

void CommunicationHook::set_rule(RuleChoice choice) {
  check_rule(choice, context_.size());
  {
    const std::lock_guard lock(mutex_);
    asked_ = choice.name;
  }
  send({[choice = std::move(choice)](GradientPasses& passes) { passes.ask_for(choice); }, {}});
}

void CommunicationHook::remember(std::int64_t step, RuleMemory memory) {
  {
    const std::lock_guard lock(mutex_);
    news_.step = step;
    news_.memory = memory;
    news_.remembering = asked_;
  }
  send({[step, memory = std::move(memory)](GradientPasses& passes) { passes.remember(step, memory); }, {}});
}

void CommunicationHook::send(Errand errand) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) std::rethrow_exception(ended_);
    errands_.push_back(std::move(errand));
  }
  signal_->raise();
}

GradientNews CommunicationHook::news() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

void CommunicationHook::conduct(const GradientPassesSettings& settings) {
  const auto publish = [this](GradientNews news) {
    const std::lock_guard lock(mutex_);
    news_ = std::move(news);
  };
  GradientPasses passes(context_, settings, {translate_, publish, recording_});
  try {
    while (run_next(passes)) {
    }
    end(passes, std::make_exception_ptr(closed()));
  } catch (const Error& error) {
    passes.keep_for_ever();
    end(passes, std::make_exception_ptr(in_step(error, passes.steps() + 1, kJoinModel)));
    tell_peers();
  } catch (...) {
    passes.keep_for_ever();
    end(passes, std::current_exception());
    tell_peers();
  }
}

// Whatever went wrong here alone: nobody has to wait for this worker any more.
void CommunicationHook::tell_peers() noexcept {
  try {
    context_.engine().fail(Error(
        ErrorCode::peer_lost, base::concatenated("worker ", context_.rank(), "'s exchange of gradients has failed")));
  } catch (...) {  // as it always does here
  }
}

// False at the end. While a pass is open, its next bucket has to come in time.
bool CommunicationHook::run_next(GradientPasses& passes) {
  if (passes.can_sweep()) passes.sweep();
  std::optional<Errand> errand;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return false;
    if (!errands_.empty()) {
      errand = std::move(errands_.front());
      errands_.pop_front();
    }
  }
  if (errand) {
    errand->run(passes);
    return true;
  }
  const bool came =
      context_.engine().wait_until([&] { return signal_->take() || passes.can_sweep(); }, context_.deadline());
  if (!came && passes.is_open())
    throw Error(ErrorCode::deadline, base::concatenated("worker ", context_.rank(),
                                                        "'s backward pass has not come to its last bucket in time"));
  return true;
}

void CommunicationHook::end(GradientPasses& passes, const std::exception_ptr& error) {
  std::deque<Errand> left;
  {
    const std::lock_guard lock(mutex_);
    ended_ = error;
    left.swap(errands_);
  }
  passes.fail(error);
  for (const Errand& errand : left)
    if (errand.future && !errand.future->completed()) errand.future->setError(translate_(error));
}

void CommunicationHook::close() noexcept {
  if (!conductor_) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  signal_->raise();
  // As a rule it has nothing to do. But it may wait for peers that never come to the end of a pass that broke off here.
  try {
    if (!context_.engine().wait_until([&] { return conductor_->done(); }, context_.engine().now() + kGrace))
      tell_peers();
  } catch (...) {  // the engine is broken, and nobody waits on it any longer
  }
  conductor_.reset();
}

}  // namespace flockstep::torch_front
