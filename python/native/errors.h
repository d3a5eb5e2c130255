// Errors on their way to Python: flockstep.Error and what is under it.
#pragma once

#include <exception>

namespace flockstep::python {

// For errors that reach Python through torch, such as those that end a future or a backward pass: a flockstep::Error
// becomes one that torch raises as the class of its code, such as flockstep.PeerLostError; any other stays as it is.
// Direct calls need nothing of the kind: the module translates what they throw.
std::exception_ptr for_python(std::exception_ptr error);

}  // namespace flockstep::python
