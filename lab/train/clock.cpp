#include "train/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engines/missing.h"
#include "runtime/gather.h"

namespace flockstep::train {

using base::Duration;

Duration Clock::wait_for_all(std::string_view name) {
  const Duration before = context_.waited();
  const engines::Pending barrier = context_.engine().barrier();
  const base::Time deadline = context_.deadline();
  context_.wait_for([&] { return barrier->done() || context_.engine().now() >= deadline; }, name);
  if (!barrier->done())
    context_.engine().fail(Error(
        ErrorCode::deadline,
        engines::late_sentence(barrier->missing(), fmt::format("the {}", name), context_.rank(), context_.patience()),
        std::string(context_.engine().name())));
  stands_still_ = true;
  return context_.waited() - before;
}

Duration Clock::meet() { return wait_for_all("meeting of all workers"); }

void Clock::halt() {
  if (stands_still_) return;
  const double waited = wait_for_all("halt of all workers").count();
  const auto all = runtime::gather_doubles(context_, std::span(&waited, 1));
  behind_ = std::min(Duration(std::ranges::max(all) - waited), context_.patience() / 4);
}

void Clock::set_out() {
  const engines::Pending barrier = context_.engine().barrier();
  engines::wait(context_.engine(), *barrier, context_.deadline(), "the setting out of all workers");
  if (behind_.count() > 0) context_.engine().sleep(std::exchange(behind_, Duration(0)));
}

}  // namespace flockstep::train
