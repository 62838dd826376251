// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library of helpers and mathematical functions, mathlib.kiln, compiled in as text. Items are found by a
// table and parsed when they are asked for, so that a kernel pays for what it uses.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front/elaborate.h"
#include "compiler/unit/mathlib.h"

static const char text[] =
#include "mathlib.inc"
    ;

kiln_module *kiln_library_open(kiln_arena *arena) {
  kiln_module *module = KILN_NEW(arena, kiln_module);
  *module = (kiln_module){.arena = arena, .file = "mathlib.kiln", .is_library = true};
  kiln_atoms_init(&module->atoms, arena);
  return module;
}

// Where each item is: sorted by name, made with the text. Without pointers: the table costs a program that
// does not read it no relocations.
static const struct row {
  char name[24];
  uint32_t offset, size, line;
} rows[] = {
#define ITEM(name, offset, size, line) {name, offset, size, line},
#include "mathlib_index.inc"
#undef ITEM
};

const char *kiln_library_name(size_t index) {
  return index < sizeof rows / sizeof *rows ? rows[index].name : NULL;
}

static int compare_name(const void *key, const void *row) {
  return strcmp(key, ((const struct row *)row)->name);
}

kiln_item *kiln_library_item(kiln_module *library, const char *name, size_t length, kiln_diagnostics *d) {
  kiln_atom *atom = kiln_atoms_find(&library->atoms, name, length);
  if (atom && atom->item) return atom->item;
  const struct row *row = bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
  if (!row) return NULL;
  kiln_parse_items(library, text + row->offset, row->size, row->line, d);
  atom = kiln_atoms_find(&library->atoms, name, length);
  return atom ? atom->item : NULL;
}

// Inlines `name` with its syntax tree and all that elaboration needs in `scratch`; what it emits lives in the
// builder's arena.
static ir_value *call_in(ir_builder *b, kiln_arena *scratch, const char *name, ir_value *const *args,
                         uint32_t count) {
  enum { MOST = 4 };
  kiln_value values[MOST];
  kiln_diagnostics d = {.arena = scratch};
  char soft[64];
  if (count > MOST) {
    kiln_fail(&b->error, KILN_STATUS_INTERNAL,
              "library function '%s': expected at most %d arguments, found %u", name, MOST, count);
    return NULL;
  }
  kiln_module *library = kiln_library_open(scratch);
  snprintf(soft, sizeof soft, "soft_%s", name);
  kiln_item *item = kiln_library_item(library, soft, strlen(soft), &d);
  if (!item) item = kiln_library_item(library, name, strlen(name), &d);
  if (!item || item->kind != KILN_ITEM_FN) {
    kiln_fail(&b->error, KILN_STATUS_INTERNAL, "the library has no function '%s'", name);
    return NULL;
  }
  kiln_elab e;
  kiln_elab_init(&e, scratch, library, &d, NULL);
  e.b = *b;
  e.has_builder = true;
  for (uint32_t i = 0; i < count; i++) values[i] = kiln_value_runtime(args[i]);
  kiln_values out = kiln_elab_inline(&e, item, values, count, b->place);
  ir_value *result = out.count == 1 && !d.count ? kiln_elab_runtime(&e, b->place, out.items[0]) : NULL;
  if (!result)
    kiln_fail(&b->error, KILN_STATUS_INTERNAL, "library function '%s': %s", name,
              d.count ? d.items[0].text : "no result");
  return result;
}

ir_value *kiln_mathlib_call(ir_builder *b, const char *name, ir_value *const *args, size_t count) {
  if (b->error.status != KILN_OK) return NULL;
  kiln_arena *scratch = kiln_arena_create();
  ir_value *result = call_in(b, scratch, name, args, (uint32_t)count);
  kiln_arena_destroy(scratch);
  return result;
}
