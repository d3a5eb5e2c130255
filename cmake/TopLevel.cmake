# How this project is built where it is not a part of another one: strictly, and fast.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
option(FLOCKSTEP_WARNINGS_ARE_ERRORS "Stop at a warning: for those who work on the project" ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

# The fastest linker that is there.
foreach(linker mold lld)
  find_program(FLOCKSTEP_${linker} ld.${linker})
  if(FLOCKSTEP_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

# FLOCKSTEP_SANITIZE: a value for -fsanitize=, such as "address,undefined" or "thread". Empty: none.
set(FLOCKSTEP_SANITIZE "" CACHE STRING "Sanitizers to build with, as for -fsanitize=")
if(FLOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${FLOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    -Wno-maybe-uninitialized)  # g++ sees less where sanitizers have put their calls
  add_link_options(-fsanitize=${FLOCKSTEP_SANITIZE})
endif()
