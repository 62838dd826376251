# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What find_package(kiln) brings for kernels. Both functions need the compiler.
#
#   kiln_add_bundle(TARGET SOURCES file... TARGETS processor... [OUTPUT file] [HEADER file] [EMBED file] [LEVEL 1..19] [OPTIONS option...])
#
# makes a target of the name TARGET that compiles the sources for the processors into one bundle. Without OUTPUT it is TARGET.kbundle in the
# current binary folder; its path is the target's property KILN_BUNDLE. HEADER is written by `kiln header`; EMBED, a .S for the language ASM, by
# `kiln embed`. What uses them depends on TARGET. OPTIONS go to `kiln build` as they are.
#
#   kiln_add_library(TARGET SOURCES file... TARGETS processor... [RUNTIME target] [LEVEL 1..19] [OPTIONS option...])
#
# makes a library to link, which has the bundle inside and brings RUNTIME (kiln::runtime) with it. Its header TARGET.h has a typed function for
# each kernel, as `kiln header --prefix TARGET_` writes them, and TARGET_open(&library, &err) of TARGET_open.h opens the bundle.
# In these names characters of TARGET that C does not allow are _ . Needs the language ASM.

# kiln leaves a file alone that would be written with the same bytes. Ninja looks at the time again after the command; make would run the
# command at each build.
function(kiln_touch out file)
  set(${out} "" PARENT_SCOPE)
  if(CMAKE_GENERATOR MATCHES "Makefiles")
    set(${out} COMMAND "${CMAKE_COMMAND}" -E touch_nocreate "${file}" PARENT_SCOPE)
  endif()
endfunction()

# The command that makes the folder of FILE: Ninja would make it, make does not.
function(kiln_make_folder out file)
  get_filename_component(folder "${file}" DIRECTORY)
  set(${out} COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}" PARENT_SCOPE)
endfunction()

# Makes FILE from BUNDLE by `kiln COMMAND` and adds it to the caller's list LIST; more options of the command follow.
function(kiln_derive list command file bundle)
  get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  get_filename_component(name "${file}" NAME)
  kiln_make_folder(folder "${file}")
  kiln_touch(touch "${file}")
  add_custom_command(
    OUTPUT "${file}"
    ${folder}
    COMMAND "${KILN_EXECUTABLE}" ${command} ${ARGN} -o "${file}" "${bundle}"
    ${touch}
    DEPENDS "${bundle}" ${KILN_PROGRAMS}
    COMMENT "Writing ${name}"
    VERBATIM)
  set(${list} ${${list}} "${file}" PARENT_SCOPE)
endfunction()

function(kiln_need_compiler function target)
  if(NOT kiln_compiler_FOUND)
    message(FATAL_ERROR "${function}(${target}): kiln's compiler is needed: ${kiln_compiler_why}")
  endif()
endfunction()

function(kiln_add_bundle target)
  kiln_need_compiler(kiln_add_bundle ${target})
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
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$") # `host` is a CPU of x86-64 for `kiln build`; here the program's is meant
    list(TRANSFORM arg_TARGETS REPLACE "^host$" "aarch64")
  endif()
  list(JOIN arg_TARGETS "," processors)
  set(options ${arg_OPTIONS})
  if(arg_LEVEL)
    list(APPEND options --level ${arg_LEVEL})
  endif()
  kiln_make_folder(folder "${output}")
  kiln_touch(touch "${output}")
  get_filename_component(name "${output}" NAME)
  add_custom_command(
    OUTPUT "${output}"
    ${folder}
    COMMAND "${KILN_EXECUTABLE}" build -q -t "${processors}" ${options} --depfile "${output}.d" -o "${output}" ${sources}
    ${touch}
    DEPENDS ${sources} ${KILN_PROGRAMS}
    DEPFILE "${output}.d"
    COMMENT "Compiling kernels into ${name}"
    VERBATIM)
  set(made "${output}")
  if(arg_HEADER)
    kiln_derive(made header "${arg_HEADER}" "${output}")
  endif()
  if(arg_EMBED)
    kiln_derive(made embed "${arg_EMBED}" "${output}")
  endif()
  add_custom_target(${target} ALL DEPENDS ${made})
  set_target_properties(${target} PROPERTIES KILN_BUNDLE "${output}")
endfunction()

function(kiln_add_library target)
  kiln_need_compiler(kiln_add_library ${target})
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RUNTIME;LEVEL" "SOURCES;TARGETS;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kiln_add_library(${target}): expected SOURCES, TARGETS, RUNTIME, LEVEL or OPTIONS, found ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES OR NOT arg_TARGETS)
    message(FATAL_ERROR "kiln_add_library(${target}): SOURCES and TARGETS are both needed")
  endif()
  if(NOT CMAKE_ASM_COMPILER)
    message(FATAL_ERROR "kiln_add_library(${target}): needs the language ASM: project(... LANGUAGES C ASM) or enable_language(ASM)")
  endif()
  if(NOT arg_RUNTIME)
    set(arg_RUNTIME kiln::runtime)
  endif()
  if(NOT TARGET ${arg_RUNTIME})
    message(FATAL_ERROR "kiln_add_library(${target}): there is no target ${arg_RUNTIME}: ${kiln_runtime_why}")
  endif()
  string(MAKE_C_IDENTIFIER "${target}" kiln_name)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.kiln")
  set(more)
  if(arg_LEVEL)
    list(APPEND more LEVEL ${arg_LEVEL})
  endif()
  if(arg_OPTIONS)
    list(APPEND more OPTIONS ${arg_OPTIONS})
  endif()
  kiln_add_bundle(${target}_bundle SOURCES ${arg_SOURCES} TARGETS ${arg_TARGETS} OUTPUT "${folder}/${kiln_name}.kbundle" ${more})
  set(made)
  kiln_derive(made header "${folder}/${kiln_name}.h" "${folder}/${kiln_name}.kbundle" --prefix ${kiln_name}_)
  kiln_derive(made embed "${folder}/${kiln_name}.S" "${folder}/${kiln_name}.kbundle" --symbol ${kiln_name}_bundle)
  configure_file("${KILN_CMAKE_FOLDER}/kilnOpen.h.in" "${folder}/${kiln_name}_open.h" @ONLY)
  add_custom_target(${target}_files DEPENDS ${made})
  add_library(${target} STATIC "${folder}/${kiln_name}.S")
  add_dependencies(${target} ${target}_files)
  target_include_directories(${target} PUBLIC "${folder}")
  target_link_libraries(${target} PUBLIC ${arg_RUNTIME})
  set_target_properties(${target} PROPERTIES KILN_BUNDLE "${folder}/${kiln_name}.kbundle" POSITION_INDEPENDENT_CODE ON)
endfunction()
