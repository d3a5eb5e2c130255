# What is built. First what needs no package to be asked for.
option(FLOCKSTEP_LAB "Build the laboratory: tasks, comparisons, studies, benchmarks and the command" ${PROJECT_IS_TOP_LEVEL})
option(FLOCKSTEP_INSTALL "Add to what `cmake --install` installs" ${PROJECT_IS_TOP_LEVEL})
option(FLOCKSTEP_UNITY "Compile several sources at a time" ON)

# The large dependencies, the tests, and readers of pictures. Each option is ON when its package is found; asking for one that is
# missing is an error.
set(flockstep_summary "")
set(flockstep_left_out "")   # packages that were looked for in vain, by Debian's names

# Without a word from the user, or from the project around this one, the option follows the machine at every configure, so it
# is not cached then.
macro(flockstep_option name purpose found version package)
  if(NOT DEFINED ${name})
    if(${found})
      set(${name} ON)
    else()
      set(${name} OFF)
      string(REGEX MATCHALL "lib[a-z0-9-]+" flockstep_packages "${package}")
      list(APPEND flockstep_left_out ${flockstep_packages})
    endif()
    set(asked "")
  else()
    set(asked "as asked; ")
  endif()
  if(${name} AND NOT ${found})
    message(FATAL_ERROR "${name} is ON, but ${package} was not found: install it, or configure with -D${name}=OFF.")
  elseif(${name})
    string(APPEND flockstep_summary "\n  ${name} ON   ${purpose} (${asked}${package} ${version})")
  elseif(${found})
    string(APPEND flockstep_summary "\n  ${name} OFF  ${purpose} (${asked}${package} ${version} is here)")
  else()
    string(APPEND flockstep_summary "\n  ${name} OFF  ${purpose} (${asked}${package} was not found)")
  endif()
endmacro()

function(flockstep_print_summary)
  message(STATUS "flockstep ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}${flockstep_summary}")
endfunction()

find_package(MPI QUIET COMPONENTS CXX)
flockstep_option(FLOCKSTEP_MPI "the mpi engine" MPI_CXX_FOUND "${MPI_CXX_VERSION}" "libopenmpi-dev")

find_package(SimGrid QUIET)
flockstep_option(FLOCKSTEP_SIM "the sim engine" SimGrid_FOUND "${SimGrid_VERSION}" "libsimgrid-dev")

find_package(Asio 1.18 QUIET)
find_package(Sodium QUIET)
set(flockstep_mesh_found FALSE)
if(Asio_FOUND AND Sodium_FOUND)
  set(flockstep_mesh_found TRUE)
endif()
flockstep_option(FLOCKSTEP_MESH "the mesh engine" flockstep_mesh_found "${Asio_VERSION} and ${Sodium_VERSION}" "libasio-dev with libsodium-dev")

# Torch comes inside a Python package. Looked for where it is cheap to look: CMAKE_PREFIX_PATH, an active virtual
# environment, then the one that scripts/setup.sh made. A wheel is for the Python that builds it, and for its torch.
if(SKBUILD)
  find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c
    "from importlib.util import find_spec; found = find_spec('torch'); print(found.origin if found and found.origin else '')"
    OUTPUT_VARIABLE torch_origin OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT torch_origin)
    message(FATAL_ERROR "The Python that builds flockstep has no torch: install torch, then run "
      "`pip install --no-build-isolation .`, since the build has to see it.")
  endif()
  get_filename_component(FLOCKSTEP_TORCH_FOLDER ${torch_origin} DIRECTORY)
endif()
if(NOT DEFINED FLOCKSTEP_TORCH OR FLOCKSTEP_TORCH)
  file(GLOB FLOCKSTEP_TORCH_HINTS
       "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/torch"
       "${PROJECT_SOURCE_DIR}/build/venv/lib/python3*/site-packages/torch")
  include(cmake/FlockstepTorch.cmake)
else()
  set(Torch_FOUND FALSE)
endif()
flockstep_option(FLOCKSTEP_TORCH "the libtorch front and tasks with networks" Torch_FOUND "${Torch_VERSION}" "torch")
if(FLOCKSTEP_TORCH AND Torch_VERSION VERSION_GREATER_EQUAL 2.16)
  message(WARNING "flockstep has been tried with torch 2.11 to 2.15, and this is torch ${Torch_VERSION}: run its tests before "
    "you rely on it.")
endif()

# The PyTorch package needs the Python that torch is installed for, with its headers. A project around this one has to ask for it.
if(FLOCKSTEP_TORCH AND (PROJECT_IS_TOP_LEVEL OR FLOCKSTEP_PYTHON))
  file(GLOB flockstep_torch_python "${TORCH_INSTALL_PREFIX}/../../../../bin/python")
  if(NOT DEFINED Python3_EXECUTABLE AND flockstep_torch_python)
    set(Python3_EXECUTABLE ${flockstep_torch_python})
  endif()
  find_package(Python3 3.10 QUIET COMPONENTS Interpreter Development.Module)
  find_library(TORCH_PYTHON_LIBRARY torch_python PATHS "${TORCH_INSTALL_PREFIX}/lib" NO_CACHE NO_DEFAULT_PATH)
  if(NOT TORCH_PYTHON_LIBRARY)
    set(Python3_Development.Module_FOUND FALSE)
  endif()
endif()
if(PROJECT_IS_TOP_LEVEL OR FLOCKSTEP_PYTHON)
  flockstep_option(FLOCKSTEP_PYTHON "the PyTorch package" Python3_Development.Module_FOUND "${Python3_VERSION}" "python3-dev, for the Python of torch,")
endif()

# The tests. A project around this one has to ask for them, and a wheel needs none.
if(FLOCKSTEP_TESTS OR (PROJECT_IS_TOP_LEVEL AND NOT SKBUILD))
  find_package(GTest QUIET)
  flockstep_option(FLOCKSTEP_TESTS "the tests" GTest_FOUND "${GTest_VERSION}" "libgtest-dev")
endif()

# Readers of pictures for the laboratory's tasks.
if(FLOCKSTEP_LAB)
  find_package(PNG QUIET)
  flockstep_option(FLOCKSTEP_PNG "reading of PNG images" PNG_FOUND "${PNG_VERSION_STRING}" "libpng-dev")
  find_package(JPEG QUIET)
  flockstep_option(FLOCKSTEP_JPEG "reading of JPEG images" JPEG_FOUND "${JPEG_VERSION}" "libjpeg-dev")
endif()
