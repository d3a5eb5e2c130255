// Calls in the order of a CUDA stream, without CUDA at build time: the driver is found when it is first needed.
#pragma once

#include <cstdint>

namespace flockstep::python {

// Calls function(argument) on a thread of the driver's, once the stream has come to this place. The function must not
// call CUDA. Throws Error{unavailable} where there is no driver or it refuses.
void call_in_stream(std::uintptr_t stream, void (*function)(void*), void* argument);

}  // namespace flockstep::python
