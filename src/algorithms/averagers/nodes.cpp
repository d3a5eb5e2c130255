#include "algorithms/averagers/nodes.h"

#include <fmt/core.h>

#include <array>

#include "flockstep/error.h"
#include "runtime/gather.h"

namespace flockstep::algorithms {

std::vector<int> nodes_from(const std::vector<engines::Place>& places) {
  std::vector<int> nodes;
  int number = 0;  // that the next worker has to have
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const engines::Place& place = places[rank];
    if (number == 0) nodes.push_back(place.workers);
    const bool is_last = rank + 1 == places.size() && number + 1 < nodes.back();
    if (place.number != number || place.workers != nodes.back() || is_last)
      throw Error(ErrorCode::mismatch,
                  fmt::format("worker {} is number {} of {} on its node, so the ranks of a node are not consecutive: "
                              "start the workers node by node, or give workers_per_node",
                              rank, place.number, place.workers));
    number = number + 1 == nodes.back() ? 0 : number + 1;
  }
  return nodes;
}

std::vector<int> nodes_of_all(runtime::Context& context) {
  const engines::Place mine = context.engine().place();
  const std::array<double, 2> numbers{static_cast<double>(mine.number), static_cast<double>(mine.workers)};
  const std::vector<double> all = runtime::gather_doubles(context, numbers);
  std::vector<engines::Place> places;
  for (std::size_t i = 0; i < all.size(); i += numbers.size())
    places.push_back({static_cast<int>(all[i]), static_cast<int>(all[i + 1])});
  return nodes_from(places);
}

}  // namespace flockstep::algorithms
