# `cmake --install` and `find_package(flockstep)`.
include(CMakePackageConfigHelpers)

install(TARGETS flockstep EXPORT flockstepTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(FLOCKSTEP_LAB)
  install(TARGETS flockstep_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY python/flockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/flockstep/python
          PATTERN __pycache__ EXCLUDE)  # draws the report: lab/command/report.cpp looks for it there
  if(NOT CMAKE_CROSSCOMPILING)  # the command prints them itself
    foreach(place bash:bash-completion/completions/flockstep zsh:zsh/site-functions/_flockstep
                  fish:fish/vendor_completions.d/flockstep.fish)
      string(REPLACE ":" ";" place ${place})
      list(POP_FRONT place shell)
      install(CODE "
        set(script \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/${place}\")
        cmake_path(GET script PARENT_PATH folder)
        file(MAKE_DIRECTORY \"\${folder}\")
        execute_process(COMMAND \"$<TARGET_FILE:flockstep_command>\" completion ${shell} OUTPUT_FILE \"\${script}\"
                        COMMAND_ERROR_IS_FATAL ANY)
        message(STATUS \"Installing: \${script}\")")
    endforeach()
  endif()
  if(FLOCKSTEP_TORCH)  # lab/tasks/torch_tasks.cpp looks for it there
    install(TARGETS flockstep_torch_tasks LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/flockstep)
  endif()
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/flockstep ${PROJECT_BINARY_DIR}/include/flockstep
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT flockstepTargets NAMESPACE flockstep:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/flockstep)
if(FLOCKSTEP_TORCH)
  install(TARGETS flockstep_torch EXPORT flockstepTorchTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT flockstepTorchTargets NAMESPACE flockstep:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/flockstep)
endif()

configure_package_config_file(cmake/flockstepConfig.cmake.in ${PROJECT_BINARY_DIR}/flockstepConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/flockstep)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/flockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/flockstepConfig.cmake ${PROJECT_BINARY_DIR}/flockstepConfigVersion.cmake
              cmake/FindHighway.cmake cmake/FindSimGrid.cmake cmake/FindSodium.cmake cmake/FlockstepTorch.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/flockstep)
