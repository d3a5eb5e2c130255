#include "tasks/worker_data.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/partition.h"
#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<base::Choice<Shard>, 2> kShards{{{"iid", Shard::iid}, {"skewed", Shard::skewed}}};

runtime::Range part_of(std::size_t count, int workers, int part) {
  const base::Partition parts(count, static_cast<std::size_t>(workers));
  return {parts.begin(static_cast<std::size_t>(part)), parts.size(static_cast<std::size_t>(part))};
}

}  // namespace

ShardOptions shard_options_of(const base::SettingsReader& reader, int workers) {
  return {.shard = reader.choice("shard", kShards),
          .noisy_workers = static_cast<int>(reader.integer("noisy_workers", 0, workers))};
}

WorkerData::WorkerData(const TaskInputs& inputs)
    : seed(inputs.seed),
      rank(inputs.rank),
      workers(inputs.workers),
      data_rank(inputs.data_rank),
      samples(part_of(static_cast<std::size_t>(inputs.batch), workers, data_rank).size) {}

base::Random WorkerData::random(std::int64_t step) const {
  return {seed, base::Purpose::data, static_cast<std::uint32_t>(data_rank), static_cast<std::uint32_t>(step)};
}

runtime::Range WorkerData::share_of(std::size_t count) const { return part_of(count, workers, rank); }

std::vector<std::size_t> WorkerData::own_kinds(std::size_t count) const {
  const std::size_t step = std::min(static_cast<std::size_t>(workers), count);
  std::vector<std::size_t> kinds;
  for (std::size_t kind = static_cast<std::size_t>(data_rank) % step; kind < count; kind += step) kinds.push_back(kind);
  return kinds;
}

runtime::Range WorkerData::own_part(std::size_t count, std::string_view things) const {
  const runtime::Range part = part_of(count, workers, data_rank);
  if (part.size == 0)
    throw Error(ErrorCode::bad_file, fmt::format("there are fewer {} than workers: use --shard iid", things));
  return part;
}

double share_of_counts(std::span<const double> records) {
  double part = 0, whole = 0;
  for (std::size_t i = 0; i + 1 < records.size(); i += 2) part += records[i], whole += records[i + 1];
  return part / whole;
}

}  // namespace flockstep::tasks
