// Compiled kernels on disk, so that only the first process on a machine compiles them.
//
// In the folder flockstep of XDG_CACHE_HOME or ~/.cache. Files are written under another name and renamed, so any
// number of ranks may write at once. Whatever fails here is silent: there is just no cache. A damaged file counts as
// none, and is replaced.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace flockstep::kernels::cuda {

// Nothing where neither variable names a place.
std::optional<std::filesystem::path> cache_folder();

// What stands in the folder for this key; else what `make` returns, which then stands there. Keys are texts of any
// length.
std::string cached(const std::optional<std::filesystem::path>& folder, std::string_view key,
                   const std::function<std::string()>& make);

}  // namespace flockstep::kernels::cuda
