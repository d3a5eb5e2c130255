// The rows of the published tables: an algorithm of the paper as we run it, and how its models and sums travel.
//
// The authors' code moves the same things in other ways than ours, which changes who waits for whom:
// - D-PSGD and SGP exchange a model tensor by tensor, and wait for one before they send the next. So a late rank holds
//   up its neighbours at the first tensor, their neighbours at the second, and so on: as many ranks away as there are
//   tensors, in one step. Ours can send a model whole, and then a late rank holds up its neighbours alone.
// - The eager sums and WAGMA's groups pass whole vectors in log2 of the members rounds (recursive doubling); ours move
//   2 (m-1)/m of a vector, as any bandwidth-optimal all-reduce.
#pragma once

#include "base/settings.h"
#include "study/published.h"

namespace flockstep::study {

enum class Transfers { alike, authors, ours };

struct PublishedRow {
  std::string_view column;     // of the paper
  std::string_view algorithm;  // of ours
  Transfers transfers = Transfers::alike;
  int neighbours = 0;  // that SGP sends to

  std::string name() const;       // of the row, as people read it
  std::string file_name() const;  // no other row's
};

std::span<const PublishedRow> published_rows();
const PublishedRow& allreduce_row();

base::Settings settings_of(const PublishedRow& row, const PublishedWorkload& workload);

// A model of so many parameters in so many buckets, one after the other, moves as many bytes in as many exchanges as
// the row does among `workload.ranks[place]`.
struct Moved {
  std::int64_t parameters, buckets;
};
Moved moved_by(const PublishedRow& row, const PublishedWorkload& workload, std::size_t place);

// One figure for each published one: SGP has several rows, and so has what travels differently.
struct Configuration {
  Transfers exchanges, sums;  // of D-PSGD and SGP, of the eager sums and WAGMA
  int neighbours_of_resnet, neighbours_elsewhere;
  std::string words;

  bool has(const PublishedRow& row, const PublishedWorkload& workload) const;
};
std::span<const Configuration> configurations();  // the first one's figures are drawn

}  // namespace flockstep::study
