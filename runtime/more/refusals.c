// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the error message of a launch that is refused, with the names and values that caused it.
#include <stdio.h>
#include <string.h>

#include "base/expr.h"
#include "runtime/more/core.h"

void kiln_read_integers(const kiln_kernel *k, const uint8_t *block, int64_t *values) {
  for (uint32_t i = 0; i < k->interface.param_count; i++) {
    const kiln_param_record *p = &k->interface.params[i];
    uint8_t size = kiln_param_is_address(p) ? 8 : (uint8_t)p->size;
    values[i] = kiln_read_integer(block + p->offset, size, p->scalar != KILN_I1);
  }
}

// "cols <= 1024 (cols = 2000)"
static void describe(const kiln_kernel *k, kiln_span code, const uint8_t *block, char *out, size_t capacity) {
  const char *names[KILN_MOST_PARAMS];
  int64_t values[KILN_MOST_PARAMS];
  for (uint32_t i = 0; i < k->interface.param_count; i++) names[i] = k->interface.params[i].name;
  kiln_read_integers(k, block, values);
  kiln_expr_text(code.bytes, code.size, names, k->interface.param_count, out, capacity);
  size_t used = strlen(out);
  const char *separator = " (";
  kiln_reader r = kiln_reader_of(code.bytes, code.size);
  for (uint64_t seen = 0; r.left;) {
    uint8_t op = kiln_read_u8(&r);
    if (op == KILN_EXPR_CONST) kiln_read_svarint(&r);
    if (op != KILN_EXPR_PARAM) continue;
    uint32_t param = (uint32_t)kiln_read_varint(&r);
    if (param < 64 && seen >> param & 1) continue;
    if (param < 64) seen |= (uint64_t)1 << param;
    int n = snprintf(out + used, capacity - used, "%s%s = %lld", separator, names[param],
                     (long long)values[param]);
    if (n < 0 || (size_t)n >= capacity - used) return;
    used += (size_t)n;
    separator = ", ";
  }
  if (*separator == ',' && used + 1 < capacity) memcpy(out + used, ")", 2);
}

kiln_status kiln_more_refuse_expr(const kiln_kernel *k, kiln_span code, const uint8_t *block,
                                  const char *what, kiln_error *err) {
  char text[400];
  describe(k, code, block, text, sizeof text);
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s overflows or divides by zero: %s", k->interface.name,
                   what, text);
}

kiln_status kiln_more_refuse_alignment(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  const kiln_param_record *p = k->interface.params;
  const uint64_t *mask = k->masks;
  while (!*mask || !(kiln_le64(block + p->offset) & *mask)) p++, mask++;
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s is promised to be aligned to %llu bytes, but is 0x%llx",
                   k->interface.name, p->name, (unsigned long long)*mask + 1,
                   (unsigned long long)kiln_le64(block + p->offset));
}

static kiln_status refuse_stride(const kiln_kernel *k, const kiln_fact *f, int64_t value, kiln_error *err) {
  const kiln_param_record *p = &k->interface.params[f->param];
  unsigned axis = (f->offset - p->offset) / 8 - 1 - p->view_rank;
  if (value < f->lo || value > f->hi)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': stride %u of %s is promised to be %lld, but is %lld",
                     k->interface.name, axis, p->name, (long long)f->lo, (long long)value);
  char bytes[40] = "";
  long long all;
  if (!__builtin_mul_overflow(value, kiln_scalars[p->scalar].bytes, &all))
    snprintf(bytes, sizeof bytes, " (%lld bytes)", all);
  return kiln_fail(err, KILN_STATUS_LAUNCH,
                   "'%s': stride %u of %s is promised to be divisible by %lld (%u bytes), but is %lld%s",
                   k->interface.name, axis, p->name, (long long)f->div, p->rows, (long long)value, bytes);
}

kiln_status kiln_more_refuse_fact(const kiln_kernel *k, const kiln_fact *f, int64_t value, kiln_error *err) {
  const kiln_param_record *p = &k->interface.params[f->param];
  if (p->view_rank) return refuse_stride(k, f, value, err);
  if (value < f->lo || value > f->hi)
    return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s is promised to be in %lld..%lld, but is %lld",
                     k->interface.name, p->name, (long long)f->lo, (long long)f->hi, (long long)value);
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s is promised to be divisible by %lld, but is %lld",
                   k->interface.name, p->name, (long long)f->div, (long long)value);
}

kiln_status kiln_refuse_elements(const kiln_kernel *k, const kiln_param_record *p, int64_t needed,
                                 size_t have, const uint8_t *block, kiln_error *err) {
  char text[400];
  if (p->needs.size) describe(k, p->needs, block, text, sizeof text);
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': %s needs %lld elements, its buffer has %zu: %s",
                   k->interface.name, p->name, (long long)needed, have,
                   p->needs.size ? text : "its extents and strides");
}

kiln_status kiln_more_refuse_configs(const kiln_kernel *k, const uint8_t *block, kiln_error *err) {
  KILN_TRY(kiln_device_check(k->device, err)); // that of a closed device has none
  int64_t values[KILN_MOST_PARAMS];
  char all[800] = "", text[300];
  size_t used = 0;
  kiln_read_integers(k, block, values);
  for (uint32_t c = 0; c < k->interface.config_count && used + 1 < sizeof all; c++) {
    const kiln_prepared_config *config = &k->configs[c];
    snprintf(text, sizeof text, "no code for %s", k->device->target.name);
    const kiln_config_record *record = &k->interface.configs[c];
    for (uint32_t i = 0; config->is_usable && i < record->require_count; i++) {
      int64_t value;
      if (kiln_expr_eval(record->require[i].bytes, record->require[i].size, values, &value) && value)
        continue;
      snprintf(text, sizeof text, "needs ");
      describe(k, record->require[i], block, text + 6, sizeof text - 6);
      break;
    }
    int n = snprintf(all + used, sizeof all - used, "%s%s: %s", used ? "; " : "",
                     k->interface.configs[c].text, text);
    used += n < 0 ? 0 : (size_t)n;
  }
  kiln_hook_tell(k->device, k->interface.name, KILN_EVENT_MISS, KILN_LOG_ERROR, all, NULL);
  return kiln_fail(err, KILN_STATUS_NO_VARIANT, "'%s': no config allows these arguments: %s",
                   k->interface.name, all);
}

kiln_status kiln_more_refuse_extent(const kiln_kernel *k, const kiln_code *code, unsigned axis,
                                    int64_t extent, kiln_span expression, const uint8_t *block,
                                    kiln_error *err) {
  char text[400] = "";
  if (expression.size) describe(k, expression, block, text, sizeof text);
  const bool is_of_code = code->grid_limit[axis] < k->device->grid_limit[axis];
  return kiln_fail(err, KILN_STATUS_LAUNCH, "'%s': grid %c is %lld, %s allows 0 to %lld%s%s%s",
                   k->interface.name, "xyz"[axis], (long long)extent,
                   is_of_code ? "its code" : k->device->name, (long long)code->grid_limit[axis],
                   is_of_code ? ", beyond which its offsets of 32 bits could wrap around" : "",
                   *text ? ": " : "", text);
}

kiln_status kiln_more_refuse_signature(const kiln_kernel *k, const kiln_signature *want, kiln_error *err) {
  char have[500] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < k->interface.param_count && used + 1 < sizeof have; i++) {
    char type[KILN_PARAM_TYPE];
    kiln_param_type(&k->interface.params[i], type);
    int n = snprintf(have + used, sizeof have - used, "%s%s: %s", i ? ", " : "", k->interface.params[i].name,
                     type);
    used += n < 0 ? 0 : (size_t)n;
  }
  return kiln_fail(err, KILN_STATUS_ABI,
                   "'%s': the caller was built for (%.300s) [%016llx], %s has (%s) [%016llx]",
                   k->interface.name, want->params ? want->params : "?", (unsigned long long)want->abi,
                   k->bundle->name, have, (unsigned long long)k->abi);
}
