// Runs a test's body on P workers of the embedded engine, one context each.
#pragma once

#include <functional>

#include "engines/threads/backend.h"
#include "runtime/context.h"

namespace flockstep::test {

inline void on_threads(int workers, const std::function<void(runtime::Context&)>& body) {
  engines::LaunchOptions options;
  options.workers = workers;
  engines::threads::run(options, [&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(600));
    body(context);
  });
}

}  // namespace flockstep::test
