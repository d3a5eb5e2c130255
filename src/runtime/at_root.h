// What one worker finds out for all: files that processes share look different to each, depending on when it looks.
#pragma once

#include <functional>
#include <string>

#include "runtime/context.h"

namespace flockstep::runtime {

// Collective: what `body`, which waits for nobody, gives on rank 0. Where it throws an Error, all throw that.
std::string at_root(Context& context, const std::function<std::string()>& body);

}  // namespace flockstep::runtime
