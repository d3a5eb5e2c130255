// How long a single wait may last, as a program says it.
#pragma once

#include "base/time.h"

namespace flockstep::base {

// Throws Error{bad_input} for what no clock can count to.
Duration deadline_of(double seconds);

}  // namespace flockstep::base
