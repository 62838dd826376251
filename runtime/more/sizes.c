// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many elements the buffers of a launch have to have: read from the note of a bundle (base/sizes.h), and
// compared with what a caller has.
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "base/sizes.h"
#include "runtime/more/core.h"

// ------------------------------------------------------------------------------------------ reading

static kiln_param_record *find_pointer(kiln_interface *in, const char *name, size_t length) {
  for (uint32_t i = 0; i < in->param_count; i++) {
    kiln_param_record *p = &in->params[i];
    if (p->pointer && strlen(p->name) == length && !memcmp(p->name, name, length)) return p;
  }
  return NULL;
}

// Whether the code is an expression of numbers.
static bool is_code(kiln_interface *in, kiln_span code) {
  if (!kiln_expr_verify(code.bytes, code.size, in->param_count)) return false;
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  while (r.left) {
    int64_t at;
    if (kiln_expr_take(&r, &at) != KILN_EXPR_PARAM) continue;
    const kiln_param_record *p = &in->params[at];
    if (kiln_param_is_address(p) ||
        !(kiln_scalars[p->scalar].type_class & (KILN_CLASS_INT | KILN_CLASS_BOOL)))
      return false;
  }
  return true;
}

static bool read_line(kiln_kernel *k, const char *line) {
  size_t name = strcspn(line, " \n");
  const char *hex = line + name + (line[name] == ' ');
  size_t digits = strspn(hex, "0123456789abcdef");
  kiln_param_record *p = find_pointer(&k->interface, line, name);
  const uint8_t *code = p ? kiln_expr_from_hex(k->arena, hex, digits) : NULL;
  if (!code) return false;
  p->needs = (kiln_span){code, digits / 2};
  return digits % 2 == 0 && is_code(&k->interface, p->needs);
}

// As of tuned choices: the kernel runs without. A tool from before notes of sizes may have put one next to
// another kernel of that name.
static void give_up(kiln_kernel *k) {
  char text[500];
  for (uint32_t i = 0; i < k->interface.param_count; i++) k->interface.params[i].needs.size = 0;
  snprintf(text, sizeof text, "the sizes of '%.200s' in %.200s are not used: they do not fit the kernel",
           k->interface.name, k->bundle->name);
  kiln_log(k->device, k->interface.name, KILN_LOG_WARNING, text);
}

static kiln_status attach(kiln_kernel *k, kiln_error *err) {
  char key[sizeof KILN_SIZES_PREFIX + KILN_BUNDLE_MAX_NAME];
  size_t size;
  snprintf(key, sizeof key, KILN_SIZES_NOTE, k->interface.name);
  for (const char *line = kiln_bundle_note(k->bundle, key, &size); line && *line;) {
    if (!read_line(k, line))
      return kiln_arena_failed(k->arena) ? kiln_kernel_no_memory(k, err) : (give_up(k), KILN_OK);
    line += strcspn(line, "\n");
    line += *line == '\n';
  }
  return KILN_OK;
}

// When sizes are first asked for: most applications never ask.
kiln_status kiln_more_sizes_attach(kiln_kernel *k, kiln_error *err) {
  kiln_status status = KILN_OK;
  if (atomic_load_explicit(&k->has_sizes, memory_order_acquire)) return KILN_OK;
  pthread_mutex_lock(&k->device->lock);
  if (!atomic_load(&k->has_sizes)) status = attach(k, err);
  atomic_store_explicit(&k->has_sizes, status == KILN_OK, memory_order_release);
  pthread_mutex_unlock(&k->device->lock);
  return status;
}

// --------------------------------------------------------------------------------------- comparing

/// Elements from the base of a view to the end of its last one, or what is farther than any buffer. 0 for one
/// that goes backwards: its base is not where it begins.
static int64_t extend_of(const kiln_param_record *p, const uint8_t *extents) {
  int64_t elements = 1;
  for (unsigned axis = 0; axis < p->view_rank; axis++) {
    int64_t extent = (int64_t)kiln_le64(extents + 8 * axis),
            far = (int64_t)kiln_le64(extents + 8 * (p->view_rank + axis));
    if (extent <= 0 || far < 0) return 0;
    if (__builtin_mul_overflow(extent - 1, far, &far) || __builtin_add_overflow(elements, far, &elements))
      elements = INT64_MAX;
  }
  return elements;
}

kiln_status kiln_more_check_sizes(const kiln_kernel *k, const void *block, size_t size, const size_t *bytes,
                                  size_t count, kiln_error *err) {
  int64_t values[KILN_MOST_PARAMS];
  if (!k || size != k->interface.block_bytes || (!block && size)) return kiln_refuse_size(k, size, err);
  if (count != k->interface.param_count || (!bytes && count)) return kiln_refuse_count(k, count, err);
  KILN_TRY(kiln_more_sizes_attach((kiln_kernel *)k, err));
  kiln_read_integers(k, block, values);
  for (uint32_t i = 0; i < count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    int64_t needed = 0;
    if (bytes[i] == KILN_SIZE_UNKNOWN) continue;
    if (p->view_rank) needed = extend_of(p, (const uint8_t *)block + p->offset + 8);
    else if (p->needs.size && !kiln_expr_eval(p->needs.bytes, p->needs.size, values, &needed))
      return kiln_more_refuse_expr(k, p->needs, block, "a size", err);
    size_t have = bytes[i] / (p->pointer > 1 ? sizeof(void *) : kiln_scalars[p->scalar].bytes);
    if (needed < 0 || (uint64_t)needed > have) return kiln_refuse_elements(k, p, needed, have, block, err);
  }
  return KILN_OK;
}
