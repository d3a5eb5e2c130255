// How a worker that fails tells the others why: the code in one byte, then the sentence, in a control message.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

std::vector<std::byte> failure_message(const Error& error);

// The error that a peer has told; nothing for bytes that failure_message() has not made.
std::optional<Error> failure_in(ConstBytes message, std::string_view engine);

}  // namespace flockstep::engines
