// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The layout of DLPack 1.3, as its specification gives it: what capsules carry, and the exchange between C
// functions.
#ifndef KILN_PYTHON_DLPACK_H
#define KILN_PYTHON_DLPACK_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };

typedef struct dlpack_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; // in elements; strides NULL: contiguous
  uint64_t byte_offset;
} dlpack_tensor;

typedef struct dlpack_version {
  uint32_t major, minor;
} dlpack_version;

/// What "dltensor_versioned" capsules hold; those named "dltensor" hold a dlpack_tensor.
typedef struct dlpack_versioned {
  dlpack_version version;
  void *context;
  void (*deleter)(struct dlpack_versioned *self);
  uint64_t flags;
  dlpack_tensor tensor;
} dlpack_versioned;

/// What the capsule `__dlpack_c_exchange_api__` of a type holds. The functions return 0, or -1 with an
/// exception set.
typedef struct dlpack_exchange {
  dlpack_version version;
  struct dlpack_exchange *previous; // of another major version
  void *tensor_allocator;
  void *managed_from_object, *managed_to_object;
  int (*tensor_from_object)(void *object, dlpack_tensor *out); // borrowed from the object; may be NULL
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} dlpack_exchange;

#endif
