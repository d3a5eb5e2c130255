#include "base/schema.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "flockstep/error.h"

namespace flockstep::base {

void require_known_schema(const nlohmann::json& json, const std::string& path) {
  if (!json.is_object() || !json.contains("schema")) return;  // of a version before the first
  const nlohmann::json& schema = json["schema"];
  if (schema.is_number_integer() && schema <= kSchema) return;
  throw Error(ErrorCode::bad_file,
              fmt::format("{} has schema {}, and this version of flockstep reads up to {}: use the "
                          "version that wrote it, or a later one",
                          path, schema.dump(), kSchema));
}

}  // namespace flockstep::base
