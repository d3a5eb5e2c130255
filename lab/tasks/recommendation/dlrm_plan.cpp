#include "tasks/recommendation/dlrm_plan.h"

#include <numeric>

namespace flockstep::tasks {
namespace {

std::vector<std::int64_t> chain(std::int64_t first, std::vector<std::int64_t> widths, std::int64_t last) {
  widths.insert(widths.begin(), first);
  widths.push_back(last);
  return widths;
}

}  // namespace

std::vector<std::int64_t> DlrmPlan::bottom_widths() const {
  return chain(static_cast<std::int64_t>(shape.numbers), bottom, dimension);
}

std::vector<std::int64_t> DlrmPlan::top_widths() const {
  const auto vectors = static_cast<std::int64_t>(shape.categories()) + 1;
  const std::int64_t inputs =
      interaction == Interaction::dot ? dimension + vectors * (vectors - 1) / 2 : vectors * dimension;
  return chain(inputs, top, 1);
}

std::int64_t DlrmPlan::rows() const { return std::accumulate(shape.rows.begin(), shape.rows.end(), std::int64_t{0}); }

std::vector<std::uint32_t> criteo_rows() {
  return {1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
          27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};
}

}  // namespace flockstep::tasks
