# The runtime side alone: an application links it, and its bundles are made by the compiler of another installation.
vcpkg_download_distfile(archive
  URLS "https://kiln.invalid/releases/kiln-${VERSION}.tar.xz"
  FILENAME "kiln-${VERSION}.tar.xz"
  SHA512 0) # of the release
vcpkg_extract_source_archive(source ARCHIVE "${archive}")

set(shared no)
if(VCPKG_LIBRARY_LINKAGE STREQUAL "dynamic")
  set(shared yes)
endif()
find_program(MAKE make REQUIRED)
vcpkg_execute_required_process(
  COMMAND "${MAKE}" -j${VCPKG_CONCURRENCY} install-runtime "PREFIX=${CURRENT_PACKAGES_DIR}" "SHARED=${shared}"
          "EXTRA_CFLAGS=-I${CURRENT_INSTALLED_DIR}/include" "EXTRA_LDFLAGS=-L${CURRENT_INSTALLED_DIR}/lib"
  WORKING_DIRECTORY "${source}"
  LOGNAME "install-${TARGET_TRIPLET}")
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/man" "${CURRENT_PACKAGES_DIR}/share/kiln/folders")
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/kiln)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${source}/LICENSE" "${source}/NOTICE")
