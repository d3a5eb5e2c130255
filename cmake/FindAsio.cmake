# Asio without Boost, which is headers alone. Defines Asio::Asio.
find_path(Asio_INCLUDE_DIR asio.hpp)

if(Asio_INCLUDE_DIR)
  file(STRINGS ${Asio_INCLUDE_DIR}/asio/version.hpp lines REGEX "#define ASIO_VERSION [0-9]+")
  string(REGEX REPLACE ".*VERSION ([0-9]+).*" "\\1" number "${lines}")
  math(EXPR major "${number} / 100000")
  math(EXPR minor "${number} / 100 % 1000")
  set(Asio_VERSION ${major}.${minor})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Asio REQUIRED_VARS Asio_INCLUDE_DIR VERSION_VAR Asio_VERSION)

# Whether Asio finds std::aligned_alloc depends on what a source includes before it, and two that differ free each other's memory.
if(Asio_FOUND AND NOT TARGET Asio::Asio)
  add_library(Asio::Asio INTERFACE IMPORTED)
  set_target_properties(Asio::Asio PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${Asio_INCLUDE_DIR}
    INTERFACE_COMPILE_DEFINITIONS "ASIO_STANDALONE;ASIO_NO_DEPRECATED;ASIO_DISABLE_STD_ALIGNED_ALLOC")
endif()
mark_as_advanced(Asio_INCLUDE_DIR)
