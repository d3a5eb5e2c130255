// trace.json in Chrome's trace format, which Perfetto opens: a process per worker, a track per kind of span.
#pragma once

#include <filesystem>

#include "runtime/context.h"

namespace flockstep::train {

// Collective: gathers the traces of all workers and writes them on rank 0.
void write_trace(runtime::Context& context, const std::filesystem::path& path);

// One worker's alone. `epoch_s` is when its engine's time began, in seconds since 1970: processes whose engines do not
// share a clock are put together by it.
void write_own_trace(int rank, const base::Trace& trace, double epoch_s, const std::filesystem::path& path);

}  // namespace flockstep::train
