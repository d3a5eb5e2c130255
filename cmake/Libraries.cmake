# The small libraries. Those that are missing are an error that names their packages.
find_package(Threads REQUIRED)
set(flockstep_missing "")   # packages, by Debian's names
set(flockstep_complaint "")

macro(flockstep_miss name package place)
  list(APPEND flockstep_missing ${package})
  string(APPEND flockstep_complaint "\n${name} was not found: install ${package}, as Debian calls it, or name its place in ${place}_ROOT.")
endmacro()

macro(flockstep_library name package)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    flockstep_miss(${name} ${package} ${name})
  endif()
endmacro()

flockstep_library(fmt libfmt-dev)
flockstep_library(spdlog libspdlog-dev)
flockstep_library(nlohmann_json nlohmann-json3-dev)
flockstep_library(Highway libhwy-dev)
if(FLOCKSTEP_LAB)
  flockstep_library(ZLIB zlib1g-dev)
  flockstep_library(CLI11 libcli11-dev)
  # Its headers alone: some packages have a library too, which the command would then need where it runs.
  find_path(FLOCKSTEP_TOMLPLUSPLUS toml++/toml.h HINTS ${tomlplusplus_ROOT} PATH_SUFFIXES include)
  if(NOT FLOCKSTEP_TOMLPLUSPLUS)
    flockstep_miss(toml++ libtomlplusplus-dev tomlplusplus)
  endif()
endif()

function(flockstep_require_libraries)
  if(flockstep_missing)
    message(FATAL_ERROR "${flockstep_complaint}")
  endif()
endfunction()

# A module that Python loads may have been linked with a C++ library of its own, statically, beside torch's shared one. It has
# to keep that to itself: where the two get mixed up, streams lose numbers or crash, GoogleTest's too. The same goes for the
# small libraries, where they are archives: torch has an fmt of its own.
function(flockstep_keep_libraries_private module)
  foreach(library stdc++ fmt spdlog hwy sodium)
    target_link_options(${module} PRIVATE LINKER:--exclude-libs,lib${library}.a)  # one each: mold 1.10 takes no list
  endforeach()
endfunction()
