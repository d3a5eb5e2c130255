# How our targets are compiled. Products and sums stay apart, so that results do not depend on whether a compiler fuses
# them; kernels fuse explicitly. Warnings are for our own sources, and for those who work on them: a project around this one
# sees none. g++ 12 and 13 report two kinds inside fmt 9 and libstdc++ after inlining, where there is nothing to mend on our
# side: these stay warnings.
function(flockstep_settings target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE -Wall -Wextra)
  else()
    target_compile_options(${target} PRIVATE -w)
  endif()
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  if(FLOCKSTEP_WARNINGS_ARE_ERRORS)
    target_compile_options(${target} PRIVATE -Werror
      $<$<CXX_COMPILER_ID:GNU>:-Wno-error=array-bounds -Wno-error=stringop-overflow>)
  endif()
  # Said outright, so that executables can reuse the precompiled headers of libraries.
  target_compile_options(${target} PRIVATE -fPIC)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE OFF UNITY_BUILD OFF)
endfunction()

# Sources of one folder are compiled together, a few at a time: most of the time of a small one goes into the headers that it
# shares with the next.
function(flockstep_unity target most)
  if(NOT FLOCKSTEP_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    if(NOT folder)
      set(folder ${target})
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT ${folder}_count)
      set(${folder}_count 0)
    endif()
    math(EXPR batch "${${folder}_count} / ${most}")
    math(EXPR ${folder}_count "${${folder}_count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# The layers' names in order, as cmake/layers.txt lists them.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/layers.txt)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/layers.txt FLOCKSTEP_LAYERS REGEX "^(src|lab)/")
list(TRANSFORM FLOCKSTEP_LAYERS REPLACE "^[a-z]+/([a-z]+).*" "\\1")

# flockstep_layer(NAME [NO_UNITY] [USES packages...] SOURCES files...): the objects of a layer, flockstep_NAME. It may use the layers
# before it in cmake/layers.txt; scripts/check_layers.py refuses everything else.
function(flockstep_layer name)
  cmake_parse_arguments(layer "NO_UNITY" "" "SOURCES;USES" ${ARGN})
  if(NOT name IN_LIST FLOCKSTEP_LAYERS)
    message(FATAL_ERROR "cmake/layers.txt does not list the layer ${name}.")
  endif()
  add_library(flockstep_${name} OBJECT ${layer_SOURCES})
  target_link_libraries(flockstep_${name} PRIVATE flockstep_headers ${layer_USES})
  # Shared objects get a copy of the library; nobody replaces its functions from outside.
  target_compile_options(flockstep_${name} PRIVATE -fno-semantic-interposition)
  flockstep_settings(flockstep_${name})
  if(NOT layer_NO_UNITY)
    flockstep_unity(flockstep_${name} 10)
  endif()
  set_property(GLOBAL APPEND PROPERTY FLOCKSTEP_OBJECTS $<TARGET_OBJECTS:flockstep_${name}>)
endfunction()
