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

std::vector<Configuration> made_configurations() {
  struct Whose {
    Transfers exchanges, sums;
    std::string_view words;
  };
  struct Neighbours {
    int resnet, elsewhere;
    std::string_view words;
  };
  std::vector<Configuration> all;
  for (const Whose& whose : {Whose{kAuthors, kAuthors, "exchanges and sums as in the authors' code"},
                             {kAuthors, kOurs, "exchanges as in the authors' code, our sums"},
                             {kOurs, kOurs, "our exchanges and sums"}})
    for (const Neighbours& of_sgp :
         {Neighbours{2, 2, "two"}, {2, 1, "two for ResNet-50 and one elsewhere"}, {1, 1, "one"}})
      all.push_back({whose.exchanges, whose.sums, of_sgp.resnet, of_sgp.elsewhere,
                     fmt::format("{}, neighbours of SGP: {}", whose.words, of_sgp.words)});
  return all;
}

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

std::span<const Configuration> configurations() {
  static const std::vector<Configuration> all = made_configurations();
  return all;
}

bool Configuration::has(const PublishedRow& row, const PublishedWorkload& workload) const {
  const int neighbours = workload.name == "resnet" ? neighbours_of_resnet : neighbours_elsewhere;
  const Transfers transfers = is_exchange(row) ? exchanges : sums;
  return (row.transfers == Transfers::alike || row.transfers == transfers) &&
         (row.neighbours == 0 || row.neighbours == neighbours);
}

}  // namespace flockstep::study
