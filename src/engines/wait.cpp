#include "engines/wait.h"

#include "engines/missing.h"

namespace flockstep::engines {

void wait(Engine& engine, Operation& operation, base::Time deadline, std::string_view what) {
  const base::Time begin = engine.now();
  if (engine.wait_until([&] { return operation.done(); }, deadline)) return;
  const std::vector<int> missing = missing_from(operation);
  engine.fail(Error(ErrorCode::deadline, late_sentence(missing, what, engine.rank(), deadline - begin),
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
