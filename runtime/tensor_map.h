// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor maps of a code (docs/bundle.md, "Index region"): they describe a tensor to the copy engine of a GPU.
// They depend on the arguments, so they are encoded at launch, or once for a prepared launch. In the block
// they follow the parameters, each as a further parameter of 128 bytes. The driver reports their offset in
// the loaded function: NVIDIA's assembler aligns them to 64 in the constant bank, whose parameters begin at
// no multiple of 64.
#ifndef KILN_RUNTIME_TENSOR_MAP_H
#define KILN_RUNTIME_TENSOR_MAP_H

#include "base/record.h"
#include "runtime/kiln.h"
#include "runtime/launch.h"

/// Some of a block's words of 8 bytes.
enum { KILN_BLOCK_WORD = 8, KILN_WORD_SETS = KILN_MOST_BLOCK / KILN_BLOCK_WORD / 64 };
typedef struct kiln_block_words {
  uint64_t in[KILN_WORD_SETS];
} kiln_block_words;

enum { KILN_MAP_BYTES = 128, KILN_MAP_ALIGNMENT = 64, KILN_MAP_RANK = 5, KILN_MOST_MAPS = 16 };

typedef struct kiln_tensor_map {
  uint8_t element;    ///< kiln_scalar, or KILN_MAP_TF32
  uint8_t rank;       ///< 1 to 5, innermost dimension first
  uint8_t swizzle;    ///< 0 none, 1 32, 2 64, 3 128 bytes
  uint8_t interleave; ///< 0 none, 1 16, 2 32 bytes
  uint8_t fill;       ///< outside the tensor: 0 zeros, 1 NaN
  uint8_t param;      ///< word (docs/bundle.md) with the base address: of a pointer or a view
  uint32_t box[KILN_MAP_RANK];
  kiln_span extents[KILN_MAP_RANK], strides[KILN_MAP_RANK - 1],
      offset;             ///< in the bundle; strides and offset in bytes
  uint32_t base_at;       ///< offset of the base address in the block
  kiln_block_words sizes; ///< what the expressions read
} kiln_tensor_map;

/// A map with its expressions evaluated, for the device's encoder.
typedef struct kiln_tensor_map_values {
  const kiln_tensor_map *map;
  uint64_t address, extents[KILN_MAP_RANK], strides[KILN_MAP_RANK - 1];
} kiln_tensor_map_values;

/// Where the first map lies in the block of a device that does not say otherwise.
static inline uint32_t kiln_maps_at(uint32_t used_bytes) {
  return (used_bytes + KILN_MAP_ALIGNMENT - 1) & ~(uint32_t)(KILN_MAP_ALIGNMENT - 1);
}

/// Reads a record into the code, on the kernel's arena; the code gets its encoder. CORRUPT, OUT_OF_MEMORY.
kiln_status kiln_tensor_maps_decode(struct kiln_kernel *kernel, const uint8_t *record, size_t size,
                                    struct kiln_code *code, kiln_error *err);
/// Stands in for a tensor without elements, for which no driver makes a map: a place on the device with zeros
/// to read and room to write.
enum { KILN_NOWHERE_BYTES = 1024 };
/// The inputs of the maps of a block, one element per map: values of their expressions, and the address
/// without the base.
typedef kiln_tensor_map_values kiln_map_sizes;

/// The words in which the first `size` bytes of two blocks differ.
void kiln_block_changes(const uint8_t *a, const uint8_t *b, size_t size, kiln_block_words *out);

/// kiln_maps_encoder (device.h) encodes the maps of a code into `block`, which has the parameters packed and room for the
/// maps. With `changes`, only the maps that depend on these words; `block` has the other maps, and `known` is as the
/// last call left it. After a failure both are undefined. LAUNCH when an expression fails, UNSUPPORTED when the device
/// has no encoder, DRIVER.

#endif
