// What a deep learning recommendation model (DLRM; Naumov et al., 2019) is made of. Without torch: options are checked,
// and the numbers of even the largest are counted, before it is loaded.
#pragma once

#include <array>

#include "base/settings.h"
#include "tasks/recommendation/clicks.h"

namespace flockstep::tasks {

// What the top layers see of the vectors: the one of the numbers, and one from each table.
enum class Interaction {
  dot,          // the one of the numbers, and the products of all pairs
  concatenate,  // all vectors as they are
};
inline constexpr std::array<base::Choice<Interaction>, 2> kInteractions{
    {{"dot", Interaction::dot}, {"concatenate", Interaction::concatenate}}};

struct DlrmPlan {
  ClickShape shape;
  std::int64_t dimension = 8;             // of all vectors
  std::vector<std::int64_t> bottom, top;  // widths of hidden layers
  Interaction interaction = Interaction::dot;

  // Inputs, hidden layers and outputs.
  std::vector<std::int64_t> bottom_widths() const;
  std::vector<std::int64_t> top_widths() const;
  std::int64_t rows() const;  // of all tables
};

// Rows of the tables for the 26 categories of Criteo's Kaggle data: as many as each has values there.
std::vector<std::uint32_t> criteo_rows();

}  // namespace flockstep::tasks
