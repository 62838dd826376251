// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random kernels: well typed, within their buffers, free of races, and with results that no order of float
// additions can change. The same seed gives the same kernel, the same data and the same launch.
//
// Floats that are reduced or multiplied as matrices are small integers; NaN never becomes an integer by its
// bits. Divisions and roots are marked precise. What is left depends on nothing but the meaning of the
// language.
#ifndef KILN_TESTS_KERNELGEN_H
#define KILN_TESTS_KERNELGEN_H

#include "base/canary.h"
#include "compiler/ir/ir.h"

enum { KERNELGEN_BUFFERS = 40, KERNELGEN_STATEMENTS = 48, KERNELGEN_ARGS = 2048 };

typedef struct kernelgen_options {
  bool no_maths;       ///< leave out exp2, sin, ...
  bool no_half_steps;  ///< leave out f16 and bf16 arithmetic
  bool rereads;        ///< kernels of kernelgen_make_rereads
  bool products;       ///< kernels of kernelgen_make_products
  uint64_t dropped;    ///< bit i: leave statement i out; how kernelgen_reduce shrinks a kernel
  uint32_t statements; ///< at most KERNELGEN_STATEMENTS; 0: as the seed says
} kernelgen_options;

/// What the launch says of a view: element `first` of its buffer is its element 0.
typedef struct kernelgen_view {
  uint8_t rank; ///< 0: the parameter is a pointer
  size_t first;
  int64_t extents[IR_MAX_RANK], strides[IR_MAX_RANK];
} kernelgen_view;

typedef struct kernelgen_buffer {
  kiln_scalar scalar;
  size_t count; ///< elements
  bool written;
  bool is_whole;         ///< begins as small whole numbers
  bool is_small;         ///< begins as numbers from -2 to 2, of which half are 0
  bool is_table;         ///< its elements are pointers to such elements, at first into buffer `target`
  uint32_t target, part; ///< part: to all elements of the target in turn, each `part` backwards; 0: to any
  kernelgen_view view;
} kernelgen_buffer;

typedef struct kernelgen_case {
  uint64_t seed;
  ir_kernel *kernel;
  uint32_t grid[3];
  uint32_t statement_count;
  kernelgen_buffer buffers[KERNELGEN_BUFFERS];
  uint32_t buffer_count;
  const ir_param *params; ///< as drawn; passes take views apart
  uint32_t param_count;
  const int64_t *numbers; ///< values of the integer parameters, in order; NULL: drawn
  bool is_tiny;   ///< @fp(ftz), and half of all floats are denormals, or large enough to make numbers of them
  bool is_normal; ///< @fp(ftz), and no denormal enters: GPUs leave out what would do nothing but flush it
} kernelgen_case;

/// Fails the test when the generator builds something that does not type.
void kernelgen_make(kiln_arena *arena, uint64_t seed, const kernelgen_options *options, kernelgen_case *out);

/// A kernel that reads again what it has written, of two parameters (kernelgen_rereads.c). `out` is as above,
/// without statements that could be dropped. kernelgen_make calls it.
void kernelgen_make_rereads(kiln_arena *arena, uint64_t seed, kernelgen_case *out);
/// Makes its two parameters one buffer in a packed argument block, if they are meant to be; the second begins
/// where the first does, or a little later.
void kernelgen_rereads_share(uint64_t seed, uint8_t *args);
/// Its text, with a zero at the end; the caller's.
void kernelgen_rereads_text(uint64_t seed, kiln_buffer *out);

/// A kernel that multiplies matrices (kernelgen_products.c), without statements that could be dropped.
/// kernelgen_make calls it.
void kernelgen_make_products(kiln_arena *arena, uint64_t seed, kernelgen_case *out);
/// Its text, with a zero at the end; the caller's.
void kernelgen_products_text(uint64_t seed, kiln_buffer *out);

/// The kernel of a text that ends with a zero, which is released. Fails the test where there is none.
ir_kernel *kernelgen_lower_text(kiln_arena *arena, uint64_t seed, kiln_buffer *text);

static inline size_t kernelgen_element(const kernelgen_buffer *b) {
  return b->is_table ? sizeof(void *) : kiln_scalars[b->scalar].bytes;
}
static inline size_t kernelgen_bytes(const kernelgen_buffer *b) { return b->count * kernelgen_element(b); }

/// Buffers with their data and the packed argument block that points to them. Each stands in a block of its
/// own, at a place that the seed draws, no more aligned than its parameter promises.
typedef struct kernelgen_memory {
  uint8_t *blocks[KERNELGEN_BUFFERS];    ///< owned; aligned to 256
  uint8_t *bytes[KERNELGEN_BUFFERS];     ///< the buffers in them
  uint64_t addresses[KERNELGEN_BUFFERS]; ///< where kernels find the buffers: here, until someone says other
  kiln_canary around[KERNELGEN_BUFFERS];
  uint8_t args[KERNELGEN_ARGS];
} kernelgen_memory;

void kernelgen_memory_init(const kernelgen_case *c, kernelgen_memory *out);
/// Writes the addresses into arguments and tables.
void kernelgen_memory_place(const kernelgen_case *c, kernelgen_memory *m);
void kernelgen_memory_deinit(kernelgen_memory *m);
/// True when equal, and when nothing around a buffer has been written; NaN equals NaN in float buffers. Else
/// `out` names the first difference.
bool kernelgen_memory_equal(const kernelgen_case *c, const kernelgen_memory *a, const kernelgen_memory *b,
                            char *out, size_t size);

/// Drops statements as long as `fails` still says true; returns the bits to drop.
uint64_t kernelgen_reduce(uint64_t seed, const kernelgen_options *options,
                          bool (*fails)(uint64_t seed, const kernelgen_options *options, void *context),
                          void *context);

#endif
