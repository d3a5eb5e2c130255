// NCCL, opened at run time: where torch has brought one, that one. Only what sends and receives is used, whose binary
// interface has not changed since NCCL 2.7.
#pragma once

#include <cstddef>
#include <string>

namespace flockstep::engines::nccl {

using Communicator = void*;
struct UniqueId {
  char bytes[128];
};
inline constexpr int kBytes = 0;  // the type of what travels

struct Library {
  int (*get_unique_id)(UniqueId*);
  int (*init)(Communicator*, int size, UniqueId, int rank);
  int (*destroy)(Communicator);
  int (*abort)(Communicator);
  int (*async_error)(Communicator, int* result);
  const char* (*error_text)(int result);
  const char* (*last_error)(Communicator);  // may be null
  int (*group_begin)();
  int (*group_end)();
  int (*send)(const void*, std::size_t count, int type, int peer, Communicator, void* stream);
  int (*receive)(void*, std::size_t count, int type, int peer, Communicator, void* stream);
};

// Throws Error{unavailable} where there is none.
const Library& library();

// Throws Error{unavailable} with NCCL's own words unless the result is a success; `what` begins the sentence.
void check(int result, const char* what);

}  // namespace flockstep::engines::nccl
