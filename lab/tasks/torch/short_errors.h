// Torch's own errors come with a page about where they were thrown: here they become one sentence.
#pragma once

#include <c10/util/Exception.h>

#include <string>

#include "base/text.h"
#include "flockstep/error.h"

namespace flockstep::tasks {

template <typename Action>
auto with_short_errors(const Action& action) {
  try {
    return action();
  } catch (const c10::OutOfMemoryError&) {
    throw Error(ErrorCode::unavailable,
                "the GPU has not enough memory for this run: use fewer --workers, a smaller --batch or a smaller "
                "--size");
  } catch (const c10::Error& error) {
    const std::string line = base::first_line(error.what_without_backtrace());
    if (line.starts_with("CUDA error"))
      throw Error(ErrorCode::unavailable, "the GPU failed (" + line +
                                              "): a run with --out and --checkpoint-every goes on from its last "
                                              "checkpoint with --resume, on --device cpu too");
    throw Error(ErrorCode::unavailable, "torch failed: " + line);
  }
}

}  // namespace flockstep::tasks
