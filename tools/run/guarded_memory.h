// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers of `kiln run` whose surroundings are watched: on the host each begins or ends at memory that cannot
// be touched, and what does touch it is reported with the argument; elsewhere it lies between zones of a
// known content, which are compared after the launch. Where each lies and how often is launched:
// bounds.h.
#ifndef KILN_TOOLS_RUN_GUARDED_MEMORY_H
#define KILN_TOOLS_RUN_GUARDED_MEMORY_H

#include <stdbool.h>

#include "runtime/kiln.h"

typedef struct run_memory {
  struct run_memory *next; ///< list of those alive, for the handler of faults
  const kiln_param *param; ///< borrowed
  kiln_device *device;     ///< borrowed
  bool is_host;
  uint8_t *begin;       ///< owned: first byte of the mapping, or of the device's allocation
  size_t mapped;        ///< host: bytes of the mapping
  uint8_t *at;          ///< the buffer
  size_t size, element; ///< bytes
  size_t before, after; ///< bytes of the zones around it
  uint8_t zone;         ///< what each byte of them is
} run_memory;

/// Where a buffer of the host lies in the memory that may be touched, and what is around one.
typedef struct run_place {
  bool
      is_at_begin; ///< its first byte is the first; else its last one is the last, as far as alignment allows
  size_t alignment; ///< a power of two up to 256; at the begin it is a page's
  uint8_t zone;
} run_place;

/// A new buffer with the contents of `bytes`.
kiln_status run_memory_create(run_memory *memory, kiln_device *device, bool is_host, const kiln_param *param,
                              const uint8_t *bytes, size_t size, size_t element, run_place place,
                              kiln_error *err);
void run_memory_destroy(run_memory *memory);
/// Whether the zones are as they were made. INVALID_ARGUMENT names the argument and the first byte written.
kiln_status run_memory_check(const run_memory *memory, kiln_error *err);

/// From now on, until it is called with false, a fault of this process is an access of the kernel outside its
/// buffers: it is reported, and the process ends with CLI_FAILED.
void run_memory_watch(bool is_watching);

#endif
