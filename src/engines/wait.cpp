#include "engines/wait.h"

#include <fmt/core.h>

namespace flockstep::engines {

void wait(Engine& engine, Operation& operation, base::Time deadline, std::string_view what) {
  if (engine.wait_until([&] { return operation.done(); }, deadline)) return;
  engine.fail(
      Error(ErrorCode::deadline,
            fmt::format("worker {}: {} did not finish in time; a peer is stuck or gone, or the deadline is too short",
                        engine.rank(), what),
            std::string(engine.name())));
}

std::optional<Control> wait_for_control(Engine& engine, base::Time deadline) {
  std::optional<Control> taken;
  engine.wait_until([&] { return (taken = engine.take_control()).has_value(); }, deadline);
  return taken;
}

bool wait_for_signal(Engine& engine, Signal& signal, base::Time deadline) {
  return engine.wait_until([&] { return signal.take(); }, deadline);
}

}  // namespace flockstep::engines
