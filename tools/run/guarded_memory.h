// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers of `kiln run` with guarded surroundings: on the host each begins or ends at an inaccessible page,
// and an access to that page is reported with the argument; on GPUs it lies between zones with known contents,
// which are compared after the launch; on the interpreter of PTX nothing lies around it. bounds.h decides
// where buffers lie and what is launched.
#ifndef KILN_TOOLS_RUN_GUARDED_MEMORY_H
#define KILN_TOOLS_RUN_GUARDED_MEMORY_H

#include <stdbool.h>

#include "runtime/kiln.h"

/// What finds accesses outside of a buffer.
typedef enum run_guard {
  RUN_GUARD_PAGES,  ///< on the host: inaccessible pages
  RUN_GUARD_ZONES,  ///< on GPUs: known bytes around it
  RUN_GUARD_DEVICE, ///< the device itself: the buffer is an allocation of its own
} run_guard;

typedef struct run_memory {
  struct run_memory *next; ///< list of the existing ones, for the fault handler
  const kiln_param *param; ///< borrowed
  kiln_device *device;     ///< borrowed
  run_guard guard;
  uint8_t *begin;       ///< owned: first byte of the mapping, or of the device's allocation
  size_t mapped;        ///< host: bytes of the mapping
  uint8_t *at;          ///< the buffer
  size_t size, element; ///< bytes
  size_t before, after; ///< bytes of the zones around it
  uint8_t zone;         ///< what each byte of them is
} run_memory;

/// Where a buffer of the host lies in its accessible memory, and the contents around it.
typedef struct run_place {
  bool is_at_begin; ///< at the begin of that memory; otherwise at its end, as near as alignment allows
  size_t alignment; ///< a power of two up to 256; at the begin it is a page's
  uint8_t zone;
} run_place;

/// A new buffer with the contents of `bytes`.
kiln_status run_memory_create(run_memory *memory, kiln_device *device, run_guard guard,
                              const kiln_param *param, const uint8_t *bytes, size_t size, size_t element,
                              run_place place, kiln_error *err);
void run_memory_destroy(run_memory *memory);
/// Checks that the zones are unchanged. INVALID_ARGUMENT names the argument and the first byte written.
kiln_status run_memory_check(const run_memory *memory, kiln_error *err);

/// While watching, a fault of this process counts as an access of the kernel outside its buffers: it is
/// reported, and the process ends with CLI_FAILED.
void run_memory_watch(bool is_watching);
/// What reports such a fault in place of cli_report, and returns how the process ends. It runs in a handler of
/// a signal.
void run_memory_report(int (*report)(kiln_status status, const kiln_error *err));

#endif
