// The version of what the JSON files say, which each of them holds as "schema" (docs/architecture.md, "JSON files"). It
// is counted up when a reader of the older form would misread the newer one; a key that is added is no reason.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace flockstep::base {

inline constexpr int kSchema = 1;

// Throws Error{bad_file} if a later version of this program wrote it; `path` is for the sentence.
void require_known_schema(const nlohmann::json& json, const std::string& path);

}  // namespace flockstep::base
