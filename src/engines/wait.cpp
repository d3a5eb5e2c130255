#include "engines/wait.h"

#include "engines/missing.h"

namespace flockstep::engines {
namespace {

constexpr base::Duration kPatienceBeforeAsking{1};

}  // namespace

void wait(Engine& engine, Operation& operation, base::Time deadline, std::string_view what) {
  const base::Time begin = engine.now();
  std::optional<int> gone;
  const auto is_settled = [&] { return operation.done() || (gone = operation.gone()).has_value(); };
  bool settled = false;
  if (engine.can_ask_around() && begin + kPatienceBeforeAsking < deadline) {
    settled = engine.wait_until(is_settled, begin + kPatienceBeforeAsking);
    if (!settled) engine.ask_around();
  }
  if (!settled) settled = engine.wait_until(is_settled, deadline);
  if (gone) engine.fail(Error(ErrorCode::peer_lost, gone_sentence(engine.rank(), *gone), std::string(engine.name())));
  if (settled) return;
  const std::vector<int> missing = operation.missing();
  engine.fail(Error(ErrorCode::deadline, late_sentence(missing, what, engine.rank(), deadline - begin),
                    std::string(engine.name())));
}

}  // namespace flockstep::engines
