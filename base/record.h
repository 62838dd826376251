// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two records that describe kernels to compiler, bundle and runtime. Plain structs with one encoding;
// writers and readers are different programs. Texts are borrowed from the arena or from the encoded bytes.
//
//   interface   one per kernel instance, made by the front end: how to call it, how to choose among its
//               codes. It says nothing of a machine.
//   code info   one per artifact, made by the code generator: what the machine code needs at launch, and what
//               it costs.
//
// Kernel ABI 1. Arguments are packed into one block in order of parameters, each at its natural alignment:
// integers and floats at their size (i1 as one byte), pointers 8 bytes, a view parameter as {base pointer,
// extents i64 x rank, strides i64 x rank} aligned to 8; the block's size is rounded up to 8. The same block
// goes to cuLaunchKernel / hipModuleLaunchKernel as the packed parameter buffer. A host object has one
// symbol, of type kiln_host_kernel: one call runs one program instance.
#ifndef KILN_BASE_RECORD_H
#define KILN_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "base/types.h"

enum { KILN_KERNEL_ABI = 1 };

/// One program instance on the host. `scratch` has scratch_bytes of the code info, aligned to 64, and is not
/// shared between calls that run at the same time. Returns 0, or 1 + the number of the assert operation that
/// failed.
typedef int32_t kiln_host_kernel(const void *args, const uint32_t program_id[3], const uint32_t grid[3],
                                 void *scratch);

/// Appended to the kernel's symbol: the symbol of a table in the object that says what failed. An entry is
/// the returned number (u32), the line of the source (u32, 0: unknown) and the message, which ends in a NUL;
/// the number 0 ends the table. Objects without asserts have none.
#define KILN_HOST_ASSERTS "_asserts"

/// Appended to the kernel's symbol: the symbol of a pointer to a kiln_host_wait in the object, NULL until the
/// loader sets it. An instance in a loop that only waits for what others write (host_wait.c) calls it with
/// its program_id again and again, with `is_waiting` not 0, and once with 0 when the wait is over. When the
/// answer is not 0, nobody will write it any more: the instance returns KILN_HOST_GAVE_UP at once. Objects
/// without such loops have none.
#define KILN_HOST_WAIT "_wait"
typedef int32_t kiln_host_wait(const uint32_t program_id[3], int32_t is_waiting);
#define KILN_HOST_GAVE_UP INT32_MIN

/// Appended to the kernel's symbol: the symbol of a pointer to a kiln_host_printer in the object, NULL until the loader sets
/// it. An instance calls it with what it prints (base/printed.h); with NULL it prints nothing. Objects that print nothing
/// have none.
#define KILN_HOST_PRINT "_print"
typedef void kiln_host_printer(const void *what, const uint32_t program_id[3], const void *elements);

typedef struct kiln_span {
  const uint8_t *bytes; ///< borrowed or arena
  size_t size;
} kiln_span;

typedef struct kiln_param_record {
  const char *name;
  uint8_t scalar;    ///< kiln_scalar
  uint8_t pointer;   ///< depth; 0 for scalars
  uint8_t view_rank; ///< non-zero for a view parameter
  uint8_t access;    ///< 0 none, 1 in, 2 out, 3 inout, 4 accum
  bool noalias, has_range;
  uint32_t align;
  uint32_t rows; ///< a view: all strides but the last are multiples of so many bytes, and the last is 1; 0:
                 ///< unknown
  int64_t div, lo, hi;
  kiln_span needs; ///< a pointer: an expression, how many elements lie there at least (@size); empty: not
                   ///< stated. No part of the record: base/sizes.h
  uint32_t offset, size; ///< in the argument block; computed by kiln_layout_params
} kiln_param_record;

/// Whether an argument is an address: of a pointer, or of a view, which an address begins.
static inline bool kiln_param_is_address(const kiln_param_record *p) { return p->pointer || p->view_rank; }
/// Whether expressions may read it.
static inline bool kiln_param_is_integer(const kiln_param_record *p) {
  return kiln_param_is_address(p) || kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL);
}
/// An argument in a block, which has it as the host has integers; sign-extended. i1 (`is_signed` false) is 0 or 1.
static inline int64_t kiln_read_integer(const uint8_t *at, uint8_t size, bool is_signed) {
  int64_t value;
  int32_t of_4;
  int16_t of_2;
  switch (size) {
  case 1: return is_signed ? (int8_t)*at : (*at != 0);
  case 2: return memcpy(&of_2, at, sizeof of_2), of_2;
  case 4: return memcpy(&of_4, at, sizeof of_4), of_4;
  default: return memcpy(&value, at, sizeof value), value;
  }
}

/// One point of the tuning list: compile-time values, launch geometry and when it may be used.
typedef struct kiln_config_record {
  const char *text; ///< "BLOCK=1024,warps=4"; canonical order
  uint16_t warps, stages;
  kiln_span grid[3];  ///< expressions; an empty span is 1, all empty: the launcher gives the grid; only the
                      ///< last there: the source states none, and one program runs
  kiln_span *require; ///< expressions that must all hold
  uint32_t require_count;
  kiln_span
      cost; ///< an expression: of the configs that may be used the one with the least is taken; empty: none
} kiln_config_record;

/// A conjunction of facts; the last variant of a kernel has none and always fits.
typedef struct kiln_variant_record {
  const char *text; ///< "cols % 16 == 0, ldx % 16 == 0"; "" for the generic one
  kiln_span *conditions;
  uint32_t condition_count;
} kiln_variant_record;

/// An argument of a launch in place of the kernel's: parameter `param` of the kernel as it is, or a number or
/// an address that `value` computes.
typedef struct kiln_launch_argument {
  kiln_span value; ///< empty: the parameter
  uint32_t param;
} kiln_launch_argument;

/// A value that launches in place of the kernel's read.
typedef struct kiln_launch_value {
  kiln_span value;
  kiln_span condition; ///< when it is computed: otherwise it is 0; empty: always
} kiln_launch_value;

/// One of the launches that may stand in place of the kernel's (`launches` of the kernel language). The
/// expressions read the parameters, after the last of them the address of the scratch memory, then the values
/// that are computed first.
typedef struct kiln_launch_record {
  const char *kernel;  ///< look-up name
  kiln_span condition; ///< when it is launched
  kiln_launch_argument *args;
  uint32_t arg_count; ///< as many as that kernel has parameters
} kiln_launch_record;

typedef struct kiln_interface {
  const char *name;   ///< look-up name: "softmax[T=bf16]", or "add" without instance parameters
  const char *symbol; ///< C name: "kiln_softmax_bf16"
  kiln_param_record *params;
  uint32_t param_count;
  uint32_t block_bytes; ///< size of the argument block
  kiln_config_record *configs;
  uint32_t config_count;
  kiln_variant_record *variants;
  uint32_t variant_count;
  const char
      *returns; ///< of @returns, "y[rows, cols], rstd[rows]": what a caller may allocate; NULL: nothing
  const char *backward; ///< of @backward: the name of the kernel of its derivatives; NULL: none
  // Of `launches`; no part of the record: base/launches.h. When no condition holds, the kernel itself is
  // launched.
  kiln_launch_record *launches;
  uint32_t launch_count;
  kiln_launch_value *values; ///< computed in order, before all else; each reads those before it
  uint32_t value_count;
  kiln_span scratch; ///< how many bytes of scratch memory the launches want
} kiln_interface;

/// Fills offset, size and block_bytes.
void kiln_layout_params(kiln_interface *interface);
/// XXH3 over kinds, widths and order of the parameters and the ABI number: what caller and kernel must agree
/// on.
uint64_t kiln_interface_abi(const kiln_interface *interface);

/// "*f32", "i32", "view bf16/2": the type of a parameter for messages and identities.
enum { KILN_PARAM_TYPE = 32 };
void kiln_param_type(const kiln_param_record *param, char out[KILN_PARAM_TYPE]);
/// The types of all parameters in order: "*f32, *f32, i32".
void kiln_interface_types(const kiln_interface *interface, kiln_buffer *out);

typedef enum kiln_format {
  KILN_FORMAT_PTX = 1,
  KILN_FORMAT_CUBIN = 2,
  KILN_FORMAT_HSACO = 3,
  KILN_FORMAT_HOST = 4,
  KILN_FORMAT_IR = 5,
  KILN_FORMAT_LLVM = 6,
  KILN_FORMAT_ASM = 7, ///< never in bundles
} kiln_format;
/// "cubin"; "auto" for 0, "?" for numbers of others.
const char *kiln_format_name(unsigned format);

/// Element of a tensor map besides those of base/types.def: f32, of which tf32 is left, rounded to the
/// nearest.
enum { KILN_MAP_TF32 = 31 };

typedef struct kiln_code_info {
  uint8_t format;     ///< kiln_format
  const char *target; ///< canonical target name
  const char *symbol;
  uint32_t block_threads;    ///< threads a block; 1 on the host
  uint32_t shared_bytes;     ///< static + dynamic shared memory a block needs
  uint32_t dynamic_shared;   ///< the part that the launch must ask for
  uint32_t scratch_bytes;    ///< host: see kiln_host_kernel
  uint32_t registers;        ///< a thread; 0 unknown (VGPRs on AMDGPU)
  uint32_t scalar_registers; ///< AMDGPU SGPRs
  uint32_t spill_bytes;
  uint32_t wave;             ///< lanes; 32, 64; 1 on the host
  const char *producer;      ///< compiler and finishing tool, for people
  const char *why_ptx;       ///< why it is PTX though a cubin was wanted; NULL: it is not so
  uint32_t most_programs[3]; ///< along each axis, of which the code is right; a launch of more is refused. 0:
                             ///< any
  uint32_t cluster;          ///< blocks that work on one program together; 0: each block on its own
  uint32_t blocks; ///< not 0: a launch has that many blocks a processor at most, each computes programs until
                   ///< the grid is done; the grid, 3 x u32, lies after the parameters, aligned to 4
  kiln_span maps;  ///< record of tensor maps (docs/bundle.md), which lie after that; empty: none
} kiln_code_info;

/// Encodings: a version byte, then the fields in order; varints, blocks for texts. Decoding copies nothing
/// but arrays: texts end in NUL inside the bytes, which must outlive the struct. False when damaged, of a
/// later version (kiln_record_refuse tells), or when the arena failed; `arena` may then hold rubbish.
void kiln_interface_encode(const kiln_interface *interface, kiln_buffer *out);
bool kiln_interface_decode(kiln_arena *arena, const uint8_t *bytes, size_t size, kiln_interface *out);
void kiln_code_info_encode(const kiln_code_info *info, kiln_buffer *out);
bool kiln_code_info_decode(const uint8_t *bytes, size_t size, kiln_code_info *out);

/// Kinds of records: each has 63 versions, which begin after its number.
typedef enum kiln_record_kind { KILN_RECORD_INTERFACE = 0, KILN_RECORD_CODE_INFO = 64 } kiln_record_kind;
/// The error of a record that does not decode: VERSION of one that a later Kiln wrote, with both numbers,
/// else CORRUPT. `format` names the record.
kiln_status kiln_record_refuse(kiln_error *err, kiln_record_kind kind, const uint8_t *bytes, size_t size,
                               const char *format, ...) KILN_PRINTF(5, 6);

#endif
