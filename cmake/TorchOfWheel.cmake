# The torch of the Python that builds a wheel. Defines Torch_FOUND, Torch_VERSION, TORCH_INSTALL_PREFIX and the targets
# torch and c10.
find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
execute_process(COMMAND ${Python3_EXECUTABLE} -c
  "from importlib.util import find_spec; found = find_spec('torch'); print(found.origin if found and found.origin else '')"
  OUTPUT_VARIABLE torch_origin OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT torch_origin)
  message(FATAL_ERROR "The Python that builds flockstep has no torch: install torch, then run "
    "`pip install --no-build-isolation .`, since the build has to see it.")
endif()
get_filename_component(TORCH_INSTALL_PREFIX ${torch_origin} DIRECTORY)
file(STRINGS ${TORCH_INSTALL_PREFIX}/version.py torch_cuda REGEX "^cuda.*= *'")

if(NOT torch_cuda)
  find_package(Torch QUIET HINTS ${TORCH_INSTALL_PREFIX}/share/cmake)
else()
  # Its own CMake package asks for the whole CUDA toolkit, of which nothing here is used.
  file(STRINGS ${TORCH_INSTALL_PREFIX}/version.py torch_version REGEX "^__version__")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" Torch_VERSION "${torch_version}")
  foreach(name torch torch_cpu c10)
    find_library(${name}_library ${name} PATHS ${TORCH_INSTALL_PREFIX}/lib NO_DEFAULT_PATH REQUIRED)
  endforeach()
  add_library(c10 UNKNOWN IMPORTED)
  set_target_properties(c10 PROPERTIES IMPORTED_LOCATION ${c10_library}
    INTERFACE_INCLUDE_DIRECTORIES ${TORCH_INSTALL_PREFIX}/include)
  add_library(torch UNKNOWN IMPORTED)
  set_target_properties(torch PROPERTIES IMPORTED_LOCATION ${torch_library}
    INTERFACE_INCLUDE_DIRECTORIES ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include
    INTERFACE_COMPILE_DEFINITIONS "USE_C10D_GLOO;USE_DISTRIBUTED;USE_RPC;USE_TENSORPIPE"
    INTERFACE_LINK_LIBRARIES "c10;${torch_cpu_library}")
  set(Torch_FOUND TRUE)
endif()
