// The whole history of a run in words, one line per event and action.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "simulation/checker.h"

namespace flockstep::simulation {

std::string describe(const protocol::Message& message);
std::unique_ptr<Checker> make_history(const Truth& truth, std::FILE* out);

}  // namespace flockstep::simulation
