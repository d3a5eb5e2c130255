#include "study/published_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace flockstep::study {
namespace {

constexpr auto kAuthors = Transfers::authors, kOurs = Transfers::ours;
constexpr std::array<PublishedRow, 13> kRows{{{"local", "local_sgd"},
                                              {"allreduce", "mean"},
                                              {"D-PSGD", "dpsgd", kAuthors},
                                              {"D-PSGD", "dpsgd", kOurs},
                                              {"SGP", "sgp", kAuthors, 2},
                                              {"SGP", "sgp", kAuthors, 1},
                                              {"SGP", "sgp", kOurs, 2},
                                              {"SGP", "sgp", kOurs, 1},
                                              {"eager", "eager_solo", kAuthors},
                                              {"eager", "eager_solo", kOurs},
                                              {"WAGMA", "wagma", kAuthors},
                                              {"WAGMA", "wagma", kOurs},
                                              {"AD-PSGD", "adpsgd"}}};

constexpr std::array<Configuration, 6> kConfigurations{
    {{kAuthors, 2, 2, "transfers as in the authors' code, SGP with two neighbours"},
     {kAuthors, 2, 1, "transfers as in the authors' code, SGP with two neighbours for ResNet-50 and one elsewhere"},
     {kAuthors, 1, 1, "transfers as in the authors' code, SGP with one neighbour"},
     {kOurs, 2, 2, "our transfers, SGP with two neighbours"},
     {kOurs, 2, 1, "our transfers, SGP with two neighbours for ResNet-50 and one elsewhere"},
     {kOurs, 1, 1, "our transfers, SGP with one neighbour"}}};

// Numbers that each member sends for the sum over all of them, in vectors.
double sent_by_doubling(int members) { return std::log2(members); }
double sent_by_ours(int members) { return 2.0 * (members - 1) / members; }

bool is_exchange(const PublishedRow& row) { return row.algorithm == "dpsgd" || row.algorithm == "sgp"; }

}  // namespace

std::string PublishedRow::name() const {
  std::string name(column);
  if (neighbours > 0) name += fmt::format(", {} neighbour{}", neighbours, neighbours > 1 ? "s" : "");
  if (transfers == Transfers::ours) name += is_exchange(*this) ? ", models whole" : ", our all-reduce";
  return name;
}

std::string PublishedRow::file_name() const {
  return fmt::format("{}{}{}", algorithm, neighbours > 0 ? fmt::format("-{}", neighbours) : "",
                     transfers == Transfers::authors ? "-as-published" : "");
}

std::span<const PublishedRow> published_rows() { return kRows; }

const PublishedRow& allreduce_row() { return *std::ranges::find(kRows, "allreduce", &PublishedRow::column); }

base::Settings settings_of(const PublishedRow& row, const PublishedWorkload& workload) {
  if (row.algorithm == "local_sgd") return {{"period", "1"}};
  if (row.algorithm == "wagma") return {{"period", std::to_string(workload.period)}};  // its groups are sqrt(P) large
  if (row.algorithm == "sgp") return {{"neighbours", std::to_string(row.neighbours)}};
  return {};
}

Moved moved_by(const PublishedRow& row, const PublishedWorkload& workload, std::size_t place) {
  const int ranks = workload.ranks[place];
  if (row.column == "allreduce") return {workload.allreduce_parameters(place), 1};
  if (row.transfers != Transfers::authors) return {workload.parameters, 1};
  if (is_exchange(row)) {
    // Two buckets of ours are under way at a time, so two take the place of a tensor. Once a delay has come around, at
    // the far side of the ring or of SGP's hops, further ones change nothing.
    const int farthest = row.neighbours == 1 ? ranks : ranks / 2;
    return {workload.parameters, 2 * std::min(workload.tensors, farthest)};
  }
  double over_ours = sent_by_doubling(ranks) / sent_by_ours(ranks);
  if (row.algorithm == "wagma") {
    const int group = static_cast<int>(std::lround(std::sqrt(ranks))), others = workload.period - 1;
    over_ours = (others * sent_by_doubling(group) + sent_by_doubling(ranks)) /
                (others * sent_by_ours(group) + sent_by_ours(ranks));
  }
  return {std::llround(over_ours * static_cast<double>(workload.parameters)), 1};
}

std::span<const Configuration> configurations() { return kConfigurations; }

bool Configuration::has(const PublishedRow& row, const PublishedWorkload& workload) const {
  const int neighbours = workload.name == "resnet" ? neighbours_of_resnet : neighbours_elsewhere;
  return (row.transfers == Transfers::alike || row.transfers == transfers) &&
         (row.neighbours == 0 || row.neighbours == neighbours);
}

}  // namespace flockstep::study
