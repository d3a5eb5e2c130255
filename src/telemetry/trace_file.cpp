#include "telemetry/trace_file.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/files.h"
#include "base/schema.h"
#include "runtime/gather.h"

namespace flockstep::telemetry {
namespace {

constexpr base::Track kTracks[] = {base::Track::compute, base::Track::wait, base::Track::transfer, base::Track::rounds};

std::string arguments_of(const base::Span& span) {
  if (span.round == base::Round::kUnknown) return "";
  if (span.activator == base::Round::kUnknown) return fmt::format(",\"args\":{{\"round\":{}}}", span.round);
  return fmt::format(",\"args\":{{\"round\":{},\"activator\":{}}}", span.round, span.activator);
}

double microseconds(base::Time time, double epoch_s) { return (epoch_s + time.time_since_epoch().count()) * 1e6; }

// One worker's events, each followed by a comma and a newline. Text, because that is what travels and what is written.
std::string events_of(int rank, const base::Trace& trace, double epoch_s = 0) {
  std::string out = fmt::format(
      "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{0},\"args\":{{\"name\":\"worker {0}\"}}}},\n", rank);
  for (const base::Track track : kTracks) {
    if (std::ranges::find(trace.spans(), track, &base::Span::track) == trace.spans().end()) continue;
    out +=
        fmt::format("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}},\n",
                    rank, static_cast<int>(track), to_string(track));
  }
  for (const base::Span& span : trace.spans()) {
    const double begin_us = microseconds(span.begin, epoch_s);
    out += fmt::format("{{\"ph\":\"X\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f}{}}},\n",
                       trace.names()[span.name], rank, static_cast<int>(span.track), begin_us,
                       (span.end - span.begin).count() * 1e6, arguments_of(span));
  }
  if (trace.dropped() > 0) {
    const double last_us = trace.spans().empty() ? 0 : microseconds(trace.spans().back().end, epoch_s);
    out += fmt::format(
        "{{\"ph\":\"i\",\"s\":\"p\",\"name\":\"{} later spans left out\",\"pid\":{},\"tid\":0,\"ts\":{:.3f}}},\n",
        trace.dropped(), rank, last_us);
  }
  return out;
}

// `events` are those of all workers.
void write(const std::filesystem::path& path, std::string events) {
  events.resize(events.size() - 2);  // the last comma and newline
  base::write_atomically(path, fmt::format("{{\"schema\":{},\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
                                           base::kSchema, events));
}

}  // namespace

void write_trace(runtime::Context& context, const std::filesystem::path& path) {
  const std::string mine = events_of(context.rank(), context.trace());
  const auto all = runtime::gather_at_root(context, std::as_bytes(std::span(mine)));
  if (context.rank() != 0) return;
  std::string text;
  for (const auto& events : all) text.append(reinterpret_cast<const char*>(events.data()), events.size());
  write(path, std::move(text));
}

void write_trace_part(int rank, int workers, const base::Trace& trace, double epoch_s,
                      const std::filesystem::path& folder) {
  const auto part = [&](int worker) { return folder / fmt::format("trace-{}.part", worker); };
  base::write_atomically(part(rank), events_of(rank, trace, epoch_s));
  std::string text;
  for (int worker = 0; worker < workers; ++worker) {
    try {
      text += base::read_text(part(worker));
    } catch (const Error&) {  // it is not there yet, or another worker has just done what follows
      return;
    }
  }
  // Several workers may get here at once: each writes a file of its own first.
  const auto whole = folder / fmt::format("trace-{}.whole", rank);
  write(whole, std::move(text));
  std::error_code failed, ignored;
  std::filesystem::rename(whole, folder / "trace.json", failed);
  if (failed) throw Error(ErrorCode::bad_file, fmt::format("cannot write trace.json in {}", folder.string()));
  for (int worker = 0; worker < workers; ++worker) std::filesystem::remove(part(worker), ignored);
}

}  // namespace flockstep::telemetry
