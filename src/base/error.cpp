#include "flockstep/error.h"

namespace flockstep {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::bad_input: return "bad_input";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::deadline: return "deadline";
    case ErrorCode::peer_lost: return "peer_lost";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::bad_file: return "bad_file";
  }
  return "unknown";
}

}  // namespace flockstep
