# vcpkg: the C++ library. packaging/README.md says what has to be filled in at a release.
vcpkg_download_distfile(archive
  URLS "URL_OF_THE_ARCHIVE"
  FILENAME "flockstep-${VERSION}.tar.gz"
  SHA512 SHA512_OF_THE_ARCHIVE)
vcpkg_extract_source_archive(source ARCHIVE "${archive}")

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES
  mesh FLOCKSTEP_MESH
  mpi FLOCKSTEP_MPI)
vcpkg_cmake_configure(SOURCE_PATH "${source}" OPTIONS ${features}
  -DFLOCKSTEP_SIM=OFF -DFLOCKSTEP_TORCH=OFF -DFLOCKSTEP_PYTHON=OFF -DFLOCKSTEP_LAB=OFF -DFLOCKSTEP_TESTS=OFF
  -DFLOCKSTEP_INSTALL=ON -DFLOCKSTEP_WARNINGS_ARE_ERRORS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME flockstep CONFIG_PATH lib/cmake/flockstep)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE")
