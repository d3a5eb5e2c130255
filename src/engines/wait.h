// Waiting for operations, and the typed views that go with it. Free functions: the contract has one primitive.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

template <typename T>
Bytes bytes_of(std::span<T> values) {
  return std::as_writable_bytes(values);
}
template <typename T>
ConstBytes const_bytes_of(std::span<T> values) {
  return std::as_bytes(values);
}

// Waits until the operation is done; a deadline that passes breaks the engine and throws Error{deadline}.
// `what` completes the sentences "worker 1 has not arrived at ..." and "... did not finish within 5 s".
void wait(Engine& engine, Operation& operation, base::Time deadline, std::string_view what);

}  // namespace flockstep::engines
