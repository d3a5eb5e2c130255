#include "protocol/grid.h"

#include <cmath>

namespace flockstep::protocol {

Grid::Grid(int members, int direct)
    : members_(members),
      rows_(members > direct ? static_cast<int>(std::sqrt(members)) : 1),
      parts_(static_cast<std::size_t>(members), static_cast<std::size_t>(rows_)) {}

int Grid::row_of(int member) const {
  const int longer = members_ % rows_, in_longer = longer * (columns() + 1);
  return member < in_longer ? member / (columns() + 1) : longer + (member - in_longer) / columns();
}

}  // namespace flockstep::protocol
