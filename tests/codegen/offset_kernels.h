// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random kernels of offsets: sums and products of 32 bits that wrap around, what is known of them afterwards,
// accesses that are masked, guarded or never reached. Every i32 is a good offset, since the memory after `x`
// and `y` reaches farther than any on both sides.
//
// What a kernel must do is computed here, lane by lane, with nothing of the compiler.
#ifndef KILN_TESTS_CODEGEN_OFFSET_KERNELS_H
#define KILN_TESTS_CODEGEN_OFFSET_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  OFFSETS_PARAMS = 6,        ///< integers, i32
  OFFSETS_STATEMENTS = 8,    ///< at most
  OFFSETS_RESULTS = 8,       ///< tiles that a statement stores to `o`, at most
  OFFSETS_MOST_TEXT = 16384, ///< bytes of a kernel's text
  OFFSETS_PROGRAMS = 2,
  OFFSETS_AROUND = 0x5a, ///< what may stand where nothing is read or written
};

/// One kernel `k(x: in *i8, y: out *i8, o: out *i32, p0: i32, ...)`, how it is called, and what it does.
typedef struct offsets_case {
  char text[OFFSETS_MOST_TEXT];
  int32_t params[OFFSETS_PARAMS];
  uint32_t grid[3];
  size_t results;    ///< elements of `o`
  int32_t *expected; ///< owned; what they are afterwards
  int64_t *reads;    ///< owned; offsets from `x`, bytes
  int64_t *writes;   ///< owned; offsets from `y`, bytes; a byte there is offsets_byte of it
  size_t read_count, read_capacity, write_count, write_capacity;
} offsets_case;

/// The byte that lies at an offset; never 0 nor OFFSETS_AROUND.
int8_t offsets_byte(int64_t offset);

void offsets_make(uint64_t seed, offsets_case *out);
void offsets_drop(offsets_case *c);

#endif
