# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# find_package(kiln): the library as kiln::kiln (shared) and kiln::static, libkiln-verify as kiln::verify, the compiler as KILN_EXECUTABLE, and
#
#   kiln_add_bundle(TARGET SOURCES file... TARGETS processor... [OUTPUT file] [LEVEL 1..19] [OPTIONS option...])
#
# which makes a target of the name TARGET that compiles the sources for the processors into one bundle. Without OUTPUT it is TARGET.kbundle in the
# current binary folder; its path is the target's property KILN_BUNDLE. OPTIONS go to `kiln build` as they are.
if(CMAKE_VERSION VERSION_LESS 3.21)
  set(kiln_FOUND FALSE)
  set(kiln_NOT_FOUND_MESSAGE "kiln needs CMake 3.21 or newer (DEPFILE for every generator), this is ${CMAKE_VERSION}")
  return()
endif()

# This file is PREFIX/lib/cmake/kiln/kilnConfig.cmake.
get_filename_component(KILN_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(KILN_EXECUTABLE "${KILN_PREFIX}/bin/kiln")
foreach(file IN ITEMS bin/kiln libexec/kiln/kiln-codegen libexec/kiln/kiln-tool lib/libkiln.so lib/libkiln.a lib/libkiln-verify.so include/kiln/kiln.h)
  if(NOT EXISTS "${KILN_PREFIX}/${file}")
    set(kiln_FOUND FALSE)
    set(kiln_NOT_FOUND_MESSAGE "${KILN_PREFIX}/${file} is missing: the installation is not complete")
    return()
  endif()
endforeach()

if(NOT TARGET kiln::kiln)
  add_library(kiln::kiln SHARED IMPORTED)
  set_target_properties(kiln::kiln PROPERTIES
    IMPORTED_LOCATION "${KILN_PREFIX}/lib/libkiln.so"
    IMPORTED_SONAME libkiln.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_PREFIX}/include")
  add_library(kiln::static STATIC IMPORTED)
  set_target_properties(kiln::static PROPERTIES
    IMPORTED_LOCATION "${KILN_PREFIX}/lib/libkiln.a"
    INTERFACE_LINK_LIBRARIES "zstd;pthread;dl"
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_PREFIX}/include")
  add_library(kiln::verify SHARED IMPORTED)
  set_target_properties(kiln::verify PROPERTIES
    IMPORTED_LOCATION "${KILN_PREFIX}/lib/libkiln-verify.so"
    IMPORTED_SONAME libkiln-verify.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${KILN_PREFIX}/include")
endif()

function(kiln_add_bundle target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT;LEVEL" "SOURCES;TARGETS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kiln_add_bundle(${target}): expected SOURCES, TARGETS, OUTPUT, LEVEL or OPTIONS, found ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES OR NOT arg_TARGETS)
    message(FATAL_ERROR "kiln_add_bundle(${target}): SOURCES and TARGETS are both needed")
  endif()
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT "${target}.kbundle")
  endif()
  get_filename_component(output "${arg_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  set(sources)
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    list(APPEND sources "${source}")
  endforeach()
  list(JOIN arg_TARGETS "," processors)
  set(options ${arg_OPTIONS})
  if(arg_LEVEL)
    list(APPEND options --level ${arg_LEVEL})
  endif()
  # An identical bundle keeps its time. Ninja looks at the time again after the command; make would run the command at each build.
  set(touch)
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    set(touch COMMAND "${CMAKE_COMMAND}" -E touch_nocreate "${output}")
  endif()
  get_filename_component(name "${output}" NAME)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${KILN_EXECUTABLE}" build -q -t "${processors}" ${options} --depfile "${output}.d" -o "${output}" ${sources}
    ${touch}
    DEPENDS ${sources} "${KILN_EXECUTABLE}" "${KILN_PREFIX}/libexec/kiln/kiln-codegen"
    DEPFILE "${output}.d"
    COMMENT "Compiling kernels into ${name}"
    VERBATIM)
  add_custom_target(${target} ALL DEPENDS "${output}")
  set_target_properties(${target} PROPERTIES KILN_BUNDLE "${output}")
endfunction()
