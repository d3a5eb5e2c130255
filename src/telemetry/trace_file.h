// trace.json in Chrome's trace format, which Perfetto opens: a process per worker, a track per kind of span.
#pragma once

#include <filesystem>

#include "runtime/context.h"

namespace flockstep::telemetry {

// Collective: gathers the traces of all workers and writes them on rank 0.
void write_trace(runtime::Context& context, const std::filesystem::path& path);

// Not collective: each worker writes its part, trace-3.part, at the end of a run, and who finds that all are there
// makes trace.json of them. `epoch_s` is when the worker's engine began to count, in seconds since 1970: times are
// since then, so that workers without a common clock can be put together.
void write_trace_part(int rank, int workers, const base::Trace& trace, double epoch_s,
                      const std::filesystem::path& folder);

}  // namespace flockstep::telemetry
