# The small libraries. One that is missing is an error that names its package.
find_package(Threads REQUIRED)

macro(flockstep_library name package)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} was not found: install ${package}, as Debian calls it, or name its place in ${name}_ROOT.")
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
    message(FATAL_ERROR "toml++ was not found: install libtomlplusplus-dev, as Debian calls it, or name its place in tomlplusplus_ROOT.")
  endif()
endif()

# A module that Python loads may have been linked with a C++ library of its own, statically, beside torch's shared one. It has
# to keep that to itself: where the two get mixed up, streams lose numbers or crash, GoogleTest's too. The same goes for the
# small libraries, where they are archives: torch has an fmt of its own.
function(flockstep_keep_libraries_private module)
  foreach(library stdc++ fmt spdlog hwy sodium)
    target_link_options(${module} PRIVATE LINKER:--exclude-libs,lib${library}.a)  # one each: mold 1.10 takes no list
  endforeach()
endfunction()
