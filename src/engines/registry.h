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
};

std::span<const Backend> backends();

// Throws Error{bad_input} for an unknown name, suggesting the nearest.
const Backend& find_backend(std::string_view name);

}  // namespace flockstep::engines
