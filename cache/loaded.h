// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which parts of a program's file are loaded when it runs: the rest (sections, symbols, debug information,
// what packagers add and strip) may change and the program is the same.
#ifndef KILN_CACHE_LOADED_H
#define KILN_CACHE_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  KILN_LOADED_HEADER = 64,  ///< bytes of the ELF header
  KILN_LOADED_SEGMENTS = 64 ///< most program headers that are looked at
};

typedef struct kiln_loaded_part {
  uint64_t at, size; ///< bytes of the file
} kiln_loaded_part;

typedef struct kiln_loaded {
  kiln_loaded_part parts[KILN_LOADED_SEGMENTS + 2]; ///< in order; they neither overlap nor touch
  unsigned count;
} kiln_loaded;

/// The parts of the file that the kernel and the dynamic linker read: the ELF header, the program headers,
/// and what each of these names of the file. False: the file is no 64-bit little-endian ELF program or
/// library with a PT_LOAD, or its headers do not fit together or into its `size` bytes; then nothing but the
/// whole of it says what it is.
bool kiln_loaded_find(int fd, uint64_t size, kiln_loaded *out);

/// Takes the fields about sections out of `size` bytes that were read from `at` of a file: the loader does
/// not read these.
void kiln_loaded_mask(uint8_t *bytes, uint64_t at, size_t size);

#endif
