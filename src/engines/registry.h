// The backends, in the order in which `flockstep engines` lists them.
#pragma once

#include <span>
#include <string_view>

#include "engines/backend.h"

namespace flockstep::engines {

struct Backend {
  std::string_view name;
  std::string_view description;
  Availability (*availability)();
  void (*run)(const LaunchOptions&, const WorkerMain&);
  // The library's own all-reduce, what a benchmark compares with; null where there is none.
  void (*plain_all_reduce)(Engine&, std::span<float>);
  // The same for groups of workers at once: collective, and each says the number of its own. What it returns lasts as
  // long as the engine.
  std::function<void(std::span<float>)> (*plain_group_all_reduce)(Engine&, int group);
};

std::span<const Backend> backends();

// Throws Error{bad_input} for an unknown name, suggesting the nearest.
const Backend& find_backend(std::string_view name);

}  // namespace flockstep::engines
