// Small, occasional exchanges around a run: statistics, texts, and the check that all workers mean the same run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "runtime/context.h"

namespace flockstep::runtime {

// The `mine` of every worker, in rank order, on every worker. Equal lengths everywhere.
std::vector<double> gather_doubles(Context& context, std::span<const double> mine);

// The same one behind the other, of any lengths: these are padded to the longest on their way.
std::vector<double> gather_records(Context& context, std::span<const double> mine);

// The same for texts of any length, which are padded to the longest on their way: for those that are rarely there.
std::vector<std::string> gather_texts(Context& context, const std::string& mine);

// The `mine` of every worker, of any length, on rank 0; empty elsewhere.
std::vector<std::vector<std::byte>> gather_at_root(Context& context, std::span<const std::byte> mine);

// Rank 0's text, on every worker; what the others pass does not count.
std::string broadcast_text(Context& context, const std::string& text);

// The sentence of Error{mismatch} where workers have done different numbers of steps and must not.
std::string unequal_steps(int rank, std::int64_t steps, int other, std::int64_t other_steps);
// Throws it, everywhere alike, unless all numbers are equal, by rank; nothing for a worker that has been away.
void check_same_steps(Context& context, std::span<const std::optional<std::int64_t>> steps);

// What all workers must agree on, by name, in the order in which differences are looked for. A name that some workers
// have and others lack is an option that those leave at its default.
using Agreed = std::vector<std::pair<std::string, std::string>>;
// Adds each setting by itself, as `owner`.name.
void add_settings(Agreed& values, std::string_view owner, const base::Settings& settings);

// Throws Error{mismatch}, everywhere alike, when a value differs between workers; the sentence names the value and the
// ranks, such as "worker 2 has parameters 999 where worker 0 has 1000: all workers must be started alike".
void check_agreement(Context& context, const Agreed& values);

}  // namespace flockstep::runtime
