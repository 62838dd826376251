// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says which assertion of a kernel on the host failed.
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "runtime/device/host_loader.h"
#include "runtime/more/core.h"

bool kiln_host_object_assert(const kiln_host_object *object, uint32_t number, const char **out_text,
                             uint32_t *out_line) {
  if (!object->asserts) return false;
  const uint8_t *end = (const uint8_t *)object->base + object->size;
  kiln_reader r = kiln_reader_of(object->asserts, (size_t)(end - object->asserts));
  for (uint32_t found; (found = kiln_read_u32(&r)) && !r.failed;) {
    *out_line = kiln_read_u32(&r);
    *out_text = (const char *)end - r.left;
    const uint8_t *text_end = memchr(*out_text, 0, r.left);
    if (!text_end) return false;
    if (found == number) return true;
    kiln_read_bytes(&r, (size_t)(text_end + 1 - (const uint8_t *)*out_text));
  }
  return false;
}

// What the object says of its assertion; else the number of the operation.
kiln_status kiln_more_refuse_assertion(kiln_device *d, const kiln_launch_call *call, int32_t failed,
                                       uint64_t instance, kiln_error *err) {
  const char *text = "";
  uint32_t line = 0, x = call->grid[0], y = call->grid[1];
  bool is_known = false;
  pthread_mutex_lock(&d->lock);
  for (const kiln_module *m = d->modules; m && !is_known; m = m->next)
    is_known =
        m->function == call->function && kiln_host_object_assert(m->module, (uint32_t)failed, &text, &line);
  pthread_mutex_unlock(&d->lock);
  char what[600];
  if (!is_known) snprintf(what, sizeof what, "assertion");
  else if (!line) snprintf(what, sizeof what, "assertion '%.500s'", text);
  else snprintf(what, sizeof what, "line %u: assertion '%.500s'", line, text);
  return kiln_fail(err, KILN_STATUS_ASSERT,
                   "'%s': %s at operation %d does not hold in program (%u, %u, %u) of %u x %u x %u",
                   call->code->info.symbol, what, failed - 1, (uint32_t)(instance % x),
                   (uint32_t)(instance / x % y), (uint32_t)(instance / x / y), x, y, call->grid[2]);
}
