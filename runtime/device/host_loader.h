// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps a host object without dlopen: a shared object with no undefined symbols and only relative relocations
// (what the host back end makes).
#ifndef KILN_RUNTIME_DEVICE_HOST_LOADER_H
#define KILN_RUNTIME_DEVICE_HOST_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "base/status.h"

typedef struct kiln_host_object {
  void *base; ///< owned mapping
  size_t size;
  const uint8_t *asserts; ///< inside the mapping: the table of KILN_HOST_ASSERTS, or NULL
} kiln_host_object;

/// Maps `bytes`, finds `symbol` in its dynamic symbol table and sets what instances call that wait, or print. Every
/// header, segment, relocation and symbol is bounded; CORRUPT or UNSUPPORTED with what is wrong.
kiln_status kiln_host_object_map(const uint8_t *bytes, size_t size, const char *symbol, kiln_host_wait *wait,
                                 kiln_host_object *out, void **out_function, kiln_error *err);
/// The message and line of the assertion that returned `number`; false where the object does not say.
bool kiln_host_object_assert(const kiln_host_object *object, uint32_t number, const char **out_text,
                             uint32_t *out_line);
void kiln_host_object_unmap(kiln_host_object *object);

#endif
