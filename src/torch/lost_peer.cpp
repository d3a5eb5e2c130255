#include "torch/lost_peer.h"

#include <string>

#include "base/text.h"
#include "engines/missing.h"

namespace flockstep::torch_front {
namespace {

constexpr base::Duration kPatience{1};

}  // namespace

Error in_step(const Error& error, std::int64_t step, std::string_view advice) {
  if (error.code() != ErrorCode::peer_lost && error.code() != ErrorCode::deadline) return error;
  std::string sentence = base::concatenated("in step ", step, ", ", error.what());
  const bool has_ended = engines::is_gone_sentence(sentence);
  if (has_ended) sentence += ": it ran out of batches, skipped a step or failed";
  if (has_ended || error.code() == ErrorCode::deadline) sentence += base::concatenated("; ", advice);
  return {error.code(), sentence, error.engine()};
}

std::optional<Error> heard_loss(engines::Engine& engine) {
  try {
    if (engine.wait_until([&] { return engine.ended().has_value(); }, engine.now() + kPatience))
      return Error(ErrorCode::peer_lost, engines::gone_sentence(engine.rank(), *engine.ended()),
                   std::string(engine.name()));
  } catch (const Error& error) {  // of an engine that has noticed it
    if (error.code() == ErrorCode::peer_lost) return error;
  }
  return std::nullopt;
}

}  // namespace flockstep::torch_front
