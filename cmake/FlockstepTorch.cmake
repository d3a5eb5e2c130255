# The torch inside a Python package. Sets Torch_FOUND, Torch_VERSION and TORCH_INSTALL_PREFIX; defines the targets torch and c10.
# The folder of the package, in this order: FLOCKSTEP_TORCH_FOLDER, what CMAKE_PREFIX_PATH names (the prefix that
# `python -c "import torch; print(torch.utils.cmake_prefix_path)"` prints), and FLOCKSTEP_TORCH_HINTS.
set(flockstep_torch_folders ${FLOCKSTEP_TORCH_FOLDER})
string(REPLACE ":" ";" flockstep_torch_prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(prefix IN LISTS CMAKE_PREFIX_PATH flockstep_torch_prefixes Torch_ROOT)
  file(GLOB found "${prefix}/Torch/TorchConfig.cmake" "${prefix}/share/cmake/Torch/TorchConfig.cmake")
  list(TRANSFORM found REPLACE "/share/cmake/Torch/TorchConfig.cmake$" "")
  list(APPEND flockstep_torch_folders ${found})
endforeach()
list(APPEND flockstep_torch_folders ${FLOCKSTEP_TORCH_HINTS})

set(flockstep_torch_cuda "")
if(flockstep_torch_folders)
  list(GET flockstep_torch_folders 0 TORCH_INSTALL_PREFIX)
  if(EXISTS "${TORCH_INSTALL_PREFIX}/version.py")
    file(STRINGS "${TORCH_INSTALL_PREFIX}/version.py" flockstep_torch_cuda REGEX "^cuda.*= *'")
  endif()
endif()

if(TARGET torch)
  set(Torch_FOUND TRUE)
elseif(NOT flockstep_torch_folders)
  find_package(Torch QUIET)
elseif(NOT flockstep_torch_cuda)
  find_package(Torch QUIET PATHS ${TORCH_INSTALL_PREFIX}/share/cmake NO_DEFAULT_PATH)
else()
  # torch for CUDA: its own CMake package asks for the whole CUDA toolkit, of which nothing here is used.
  file(STRINGS ${TORCH_INSTALL_PREFIX}/version.py flockstep_torch_version REGEX "^__version__")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" Torch_VERSION "${flockstep_torch_version}")
  foreach(name torch torch_cpu c10)
    find_library(FLOCKSTEP_LIB_${name} ${name} PATHS ${TORCH_INSTALL_PREFIX}/lib NO_CACHE NO_DEFAULT_PATH REQUIRED)
  endforeach()
  add_library(c10 UNKNOWN IMPORTED)
  set_target_properties(c10 PROPERTIES IMPORTED_LOCATION ${FLOCKSTEP_LIB_c10}
    INTERFACE_INCLUDE_DIRECTORIES ${TORCH_INSTALL_PREFIX}/include)
  add_library(torch UNKNOWN IMPORTED)
  set_target_properties(torch PROPERTIES IMPORTED_LOCATION ${FLOCKSTEP_LIB_torch}
    INTERFACE_INCLUDE_DIRECTORIES ${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include
    INTERFACE_COMPILE_DEFINITIONS "USE_C10D_GLOO;USE_DISTRIBUTED;USE_RPC;USE_TENSORPIPE"
    INTERFACE_LINK_LIBRARIES "c10;${FLOCKSTEP_LIB_torch_cpu}")
  set(Torch_FOUND TRUE)
endif()
