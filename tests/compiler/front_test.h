// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of the kernel language share: sources opened, round trips, refusals with their place.
#ifndef KILN_TESTS_FRONT_TEST_H
#define KILN_TESTS_FRONT_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "tests/harness.h"

typedef struct opened {
  kiln_arena *arena;
  kiln_diagnostics d;
  kiln_unit *unit;
} opened;

static inline opened open_text(const char *file, const char *text, size_t size,
                               const kiln_front_options *options) {
  opened o = {.arena = kiln_arena_create()};
  o.d = (kiln_diagnostics){.arena = o.arena, .limit = 100};
  o.unit = kiln_unit_open(o.arena, file, text, size, options, &o.d);
  return o;
}

static inline void fail_with(const opened *o, const char *text, size_t size) {
  kiln_buffer b = {0};
  kiln_diagnostics_print(&o->d, text, size, &b);
  FAIL("%.*s", (int)b.size, (const char *)b.bytes);
}

static inline kiln_target target_of(const char *name) {
  kiln_target t;
  kiln_error err;
  CHECK_OK(kiln_target_parse(name, &t, &err), err);
  return t;
}

static inline bool same_bytes(const kiln_buffer *a, const kiln_buffer *b) {
  return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

// Encodes, decodes, encodes again; prints, reads, encodes again: all the same bytes.
static inline void check_round_trips(const opened *o, ir_kernel *kernel, const char *what) {
  kiln_target target = target_of("sm_90a");
  kiln_error err;
  kiln_buffer bytes = {0}, again = {0}, text = {0}, back = {0};
  ir_kernel *decoded;
  kiln_canonical_encode(kernel, &bytes);
  if (kiln_canonical_decode(o->arena, bytes.bytes, bytes.size, "again", &decoded, &err) != KILN_OK)
    FAIL("%s: %s", what, err.text);
  kiln_canonical_encode(decoded, &again);
  if (!same_bytes(&bytes, &again)) FAIL("%s: decoding changed the bytes", what);
  kiln_print_ir(decoded, &text);
  opened p = open_text("printed.kiln", (const char *)text.bytes, text.size, NULL);
  ir_kernel *read = p.unit ? kiln_unit_lower(p.unit, p.arena, 0, 0, 0, &target, &p.d) : NULL;
  if (!read) fail_with(&p, (const char *)text.bytes, text.size);
  kiln_canonical_encode(read, &back);
  if (!same_bytes(&bytes, &back))
    FAIL("%s: printing and reading changed the bytes\n%.*s", what, (int)text.size, (const char *)text.bytes);
  kiln_arena_destroy(p.arena);
  kiln_buffer_deinit(&bytes);
  kiln_buffer_deinit(&again);
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&back);
}

static inline void check_text(const char *path, const char *text, size_t size) {
  kiln_front_options options = {.all_configs = true};
  opened o = open_text(path, text, size, &options);
  kiln_target target = target_of("sm_90a");
  if (!o.unit) fail_with(&o, text, size);
  for (size_t i = 0; i < kiln_unit_instance_count(o.unit); i++) {
    const kiln_interface *f = kiln_unit_interface(o.unit, i);
    for (uint32_t c = 0; c < f->config_count; c++) {
      for (uint32_t v = 0; v < f->variant_count; v++) {
        // A config of other processors is lowered without one: none of these sources asks for its target.
        bool has = kiln_unit_has_config(o.unit, i, c, &target);
        ir_kernel *kernel = kiln_unit_lower(o.unit, o.arena, i, c, v, has ? &target : NULL, &o.d);
        if (!kernel) fail_with(&o, text, size);
        check_round_trips(&o, kernel, f->name);
      }
    }
  }
  kiln_arena_destroy(o.arena);
}

static inline uint32_t count_ops(const ir_block *block, ir_opcode code) {
  uint32_t count = 0;
  for (const ir_op *op = block->first; op; op = op->next) {
    count += op->code == code;
    for (uint32_t i = 0; i < op->region_count; i++) count += count_ops(op->regions[i], code);
  }
  return count;
}

// The first error of a source in which '`' stands before the place at fault, as "" or a text; FAILs when the
// place is another.
static inline void check_refused(const char *items, const char *want) {
  char text[1000], got[1000] = "";
  size_t size = (size_t)snprintf(text, sizeof text, "kiln 1\n%s\n", items);
  char *mark = strchr(text, '`');
  uint32_t line = 1, column = 1;
  CHECK(mark && size < sizeof text);
  for (const char *c = text; c < mark; c++) *c == '\n' ? line++, column = 1 : column++;
  memmove(mark, mark + 1, strlen(mark));
  opened o = open_text("k.kiln", text, size - 1, NULL);
  kiln_target target = target_of("x86-64-v3");
  if (o.unit) kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d);
  const kiln_diagnostic *first = NULL;
  for (uint32_t i = 0; i < o.d.count && !first; i++)
    if (o.d.items[i].severity == KILN_ERROR) first = &o.d.items[i];
  if (first) snprintf(got, sizeof got, "%u:%u: %s", first->line, first->column, first->text);
  char place[50];
  snprintf(place, sizeof place, "%u:%u: ", line, column);
  if (strncmp(got, place, strlen(place)) || !strstr(got, want))
    FAIL("%s\ngives  '%s'\nwanted '%s%s'", text, got, place, want);
  if (o.d.errors != 1) FAIL("%s\ngives %u errors", text, o.d.errors);
  kiln_arena_destroy(o.arena);
}

#endif
