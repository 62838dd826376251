// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A recorded case on disk: a kernel as it was once launched. A folder with
//
//   kernel.ttir   the kernel
//   case.json     name, grid, num_warps, num_stages, golden; args in order of the source; buffers with their
//                 sizes
//   in<i>.bin     memory of buffer i before the launch
//   out<i>.bin    memory of buffer i after it, where buffers[i].changed
//
// Arguments whose `sig` is constexpr are no parameters of the kernel. A tensor is `offset_bytes` into its
// `buffer`.
#ifndef KILN_TOOLS_CASE_RECORDING_H
#define KILN_TOOLS_CASE_RECORDING_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/record.h"
#include "base/status.h"

enum { CASE_MAX_BUFFERS = 256, CASE_MAX_ARGS = 1024, CASE_MAX_RANK = 16 };

typedef enum case_kind { CASE_TENSOR, CASE_INTEGER, CASE_FLOAT, CASE_NULL } case_kind;

typedef struct case_arg {
  const char *name; ///< arena
  case_kind kind;
  int64_t integer; ///< INTEGER; booleans are 0 and 1
  double number;   ///< FLOAT
  uint32_t buffer; ///< TENSOR: index
  uint64_t offset; ///< TENSOR: bytes into the buffer
  uint32_t rank;   ///< TENSOR
  int64_t shape[CASE_MAX_RANK], stride[CASE_MAX_RANK];
} case_arg;

/// How the elements of a buffer are compared. Bytes: exactly.
typedef enum case_element {
  CASE_BYTES,
  CASE_F64,
  CASE_F32,
  CASE_F16,
  CASE_BF16,
  CASE_E4M3,
  CASE_E5M2,
  CASE_ELEMENTS
} case_element;

typedef struct case_buffer {
  uint64_t size;
  bool changed;
  bool addresses; ///< 64-bit integers, which may be addresses
  case_element element;
  const char *name;          ///< arena: of the first argument in it
  kiln_buffer before, after; ///< owned; `after` is empty when not changed
} case_buffer;

typedef struct case_file {
  kiln_arena *arena;          ///< borrowed
  const char *folder;         ///< borrowed
  const char *name;           ///< arena: the folder's last part
  kiln_buffer text, metadata; ///< owned: kernel.ttir, case.json
  uint32_t grid[3];
  bool golden;    ///< memory was recorded
  case_arg *args; ///< arena: parameters only
  uint32_t arg_count;
  case_buffer *buffers; ///< arena
  uint32_t buffer_count;
} case_file;

/// Reads all of a case. What it owns must be freed with case_file_deinit, also after a failure.
kiln_status case_file_read(kiln_arena *arena, const char *folder, case_file *out, kiln_error *err);
void case_file_deinit(case_file *c);

/// Packs the arguments for a kernel with these parameters; `addresses[i]` is where buffer i lies. A host
/// descriptor stands for its view parameter and the extents and strides that follow it. ABI when arguments
/// and parameters do not fit.
kiln_status case_file_pack(const case_file *c, const kiln_interface *interface, const uint64_t *addresses,
                           kiln_buffer *out, kiln_error *err);

/// Addresses in recorded memory, which a kernel follows. The memory that they pointed to was not recorded.
typedef struct case_span {
  uint64_t begin, size; ///< size 0: none
} case_span;
/// The span of the recorded machine's memory that 64-bit integers in the buffers point into, with some room
/// after the highest address.
case_span case_file_addresses(const case_file *c);
/// Moves every such address by the distance from `span.begin` to `to`.
void case_file_relocate(case_file *c, case_span span, uint64_t to);

/// Compares memory after a launch with the expected contents. Floats may differ by case_tolerances. `coarse`:
/// the kernel multiplies matrices in less than f32. `label` begins the message, "buffer 2 (out)". MISMATCH
/// with the first differing element, its values and the largest error.
kiln_status case_compare(const char *label, case_element element, bool coarse, const uint8_t *want,
                         const uint8_t *got, uint64_t size, kiln_error *err);

/// Compares memory after a launch with the recording. `coarse`: the kernel multiplies matrices in less than
/// f32. MISMATCH with the first differing element, its values and the largest error.
kiln_status case_file_compare(const case_file *c, uint32_t buffer, bool coarse, const uint8_t *got,
                              kiln_error *err);
/// One line with the tolerances of each type, for --help.
const char *case_tolerances(void);

#endif
