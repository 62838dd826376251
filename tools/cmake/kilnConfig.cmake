# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# find_package(kiln): the library as kiln::kiln (shared) and kiln::static, libkiln-verify as kiln::verify, the compiler as KILN_EXECUTABLE, and
#
#   kiln_add_bundle(TARGET SOURCES file... TARGETS processor... [OUTPUT file] [HEADER file] [EMBED file] [LEVEL 1..19] [OPTIONS option...])
#
# which makes a target of the name TARGET that compiles the sources for the processors into one bundle. Without OUTPUT it is TARGET.kbundle in the
# current binary folder; its path is the target's property KILN_BUNDLE. HEADER is written by `kiln header`; EMBED, a .S for the language ASM, by
# `kiln embed`. What uses them depends on TARGET. OPTIONS go to `kiln build` as they are.
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

# kiln leaves a file alone that would be written with the same bytes. Ninja looks at the time again after the command; make would run the
# command at each build.
function(kiln_touch out file)
  set(${out} "" PARENT_SCOPE)
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    set(${out} COMMAND "${CMAKE_COMMAND}" -E touch_nocreate "${file}" PARENT_SCOPE)
  endif()
endfunction()

# Makes FILE from BUNDLE by `kiln COMMAND` and adds it to the caller's list LIST.
function(kiln_derive list command file bundle)
  get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  get_filename_component(name "${file}" NAME)
  kiln_touch(touch "${file}")
  add_custom_command(
    OUTPUT "${file}"
    COMMAND "${KILN_EXECUTABLE}" ${command} -o "${file}" "${bundle}"
    ${touch}
    DEPENDS "${bundle}" "${KILN_EXECUTABLE}" "${KILN_PREFIX}/libexec/kiln/kiln-tool"
    COMMENT "Writing ${name}"
    VERBATIM)
  set(${list} ${${list}} "${file}" PARENT_SCOPE)
endfunction()

function(kiln_add_bundle target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT;HEADER;EMBED;LEVEL" "SOURCES;TARGETS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kiln_add_bundle(${target}): expected SOURCES, TARGETS, OUTPUT, HEADER, EMBED, LEVEL or OPTIONS, found ${arg_UNPARSED_ARGUMENTS}")
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
  kiln_touch(touch "${output}")
  get_filename_component(name "${output}" NAME)
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${KILN_EXECUTABLE}" build -q -t "${processors}" ${options} --depfile "${output}.d" -o "${output}" ${sources}
    ${touch}
    DEPENDS ${sources} "${KILN_EXECUTABLE}" "${KILN_PREFIX}/libexec/kiln/kiln-codegen"
    DEPFILE "${output}.d"
    COMMENT "Compiling kernels into ${name}"
    VERBATIM)
  set(made "${output}")
  if(arg_HEADER)
    kiln_derive(made header "${arg_HEADER}" "${output}")
  endif()
  if(arg_EMBED)
    kiln_derive(made embed "${arg_EMBED}" "${output}")
    list(GET made -1 file) # names the bundle and stays the same when its bytes change
    set_property(SOURCE "${file}" APPEND PROPERTY OBJECT_DEPENDS "${output}")
  endif()
  add_custom_target(${target} ALL DEPENDS ${made})
  set_target_properties(${target} PROPERTIES KILN_BUNDLE "${output}")
endfunction()
