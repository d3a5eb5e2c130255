# Google Highway, wherever its headers and library are (set Highway_ROOT for an unpacked copy). Defines Highway::Highway.
find_path(Highway_INCLUDE_DIR hwy/highway.h)
find_library(Highway_LIBRARY hwy)

if(Highway_INCLUDE_DIR)
  file(STRINGS ${Highway_INCLUDE_DIR}/hwy/highway.h lines REGEX "#define HWY_(MAJOR|MINOR) [0-9]+")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" Highway_VERSION "${lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway
  REQUIRED_VARS Highway_LIBRARY Highway_INCLUDE_DIR VERSION_VAR Highway_VERSION)

if(Highway_FOUND AND NOT TARGET Highway::Highway)
  add_library(Highway::Highway UNKNOWN IMPORTED)
  set_target_properties(Highway::Highway PROPERTIES
    IMPORTED_LOCATION ${Highway_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${Highway_INCLUDE_DIR})
endif()
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)
