// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library of helpers and mathematical functions, mathlib.kiln, compiled in as text. Items are found by a scan for lines that begin one, and
// are parsed when they are asked for, so that a kernel pays for what it uses.
#include <stdio.h>
#include <string.h>

#include "compiler/front/elaborate.h"
#include "compiler/front/mathlib.h"

static const char text[] =
#include "mathlib.inc"
    ;

const char *kiln_mathlib_text(size_t *out_size) {
  *out_size = sizeof text - 1;
  return text;
}

kiln_module *kiln_library_open(kiln_arena *arena) {
  kiln_module *module = KILN_NEW(arena, kiln_module);
  *module = (kiln_module){.arena = arena, .file = "mathlib.kiln", .is_library = true};
  kiln_atoms_init(&module->atoms, arena);
  return module;
}

// An item that begins at the start of a line: "fn NAME(" or "const NAME ".
static const char *find_item(const char *name, size_t length) {
  char head[72];
  if (length > 60) return NULL;
  static const char *const forms[] = {"\nfn %.*s(", "\nconst %.*s ", "\nconst %.*s:"};
  for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
    snprintf(head, sizeof head, forms[i], (int)length, name);
    const char *at = strstr(text, head);
    if (at) return at + 1;
  }
  return NULL;
}

// The end of the item at `at`: where the next line begins that is not blank, not indented and no closing brace.
static const char *end_of(const char *at) {
  for (const char *line = strchr(at, '\n'); line; line = strchr(line + 1, '\n'))
    if (line[1] != ' ' && line[1] != '\n' && line[1] != '}') return line + 1;
  return text + sizeof text - 1;
}

kiln_item *kiln_library_item(kiln_module *library, const char *name, size_t length, kiln_diagnostics *d) {
  kiln_atom *atom = kiln_atoms_find(&library->atoms, name, length);
  if (atom && atom->item) return atom->item;
  const char *at = find_item(name, length);
  if (!at) return NULL;
  uint32_t line = 1;
  for (const char *c = text; c < at; c++) line += *c == '\n';
  kiln_parse_items(library, at, (size_t)(end_of(at) - at), line, d);
  atom = kiln_atoms_find(&library->atoms, name, length);
  return atom ? atom->item : NULL;
}

ir_value *kiln_mathlib_call(ir_builder *b, const char *name, ir_value *const *args, size_t count) {
  enum { MOST = 4 };
  kiln_value values[MOST];
  kiln_diagnostics d = {.arena = b->arena};
  char soft[64];
  if (b->error.status != KILN_OK || count > MOST) return NULL;
  kiln_module *library = kiln_library_open(b->arena);
  snprintf(soft, sizeof soft, "soft_%s", name);
  kiln_item *item = kiln_library_item(library, soft, strlen(soft), &d);
  if (!item) item = kiln_library_item(library, name, strlen(name), &d);
  if (!item || item->kind != KILN_ITEM_FN) {
    kiln_fail(&b->error, KILN_STATUS_INTERNAL, "the library has no function '%s'", name);
    return NULL;
  }
  kiln_elab e;
  kiln_elab_init(&e, b->arena, library, &d, NULL);
  e.b = *b;
  e.has_builder = true;
  for (size_t i = 0; i < count; i++) values[i] = kiln_value_runtime(args[i]);
  kiln_values out = kiln_elab_inline(&e, item, values, (uint32_t)count, b->place);
  ir_value *result = out.count == 1 && !d.count ? kiln_elab_runtime(&e, b->place, out.items[0]) : NULL;
  if (!result) kiln_fail(&b->error, KILN_STATUS_INTERNAL, "library function '%s': %s", name, d.count ? d.items[0].text : "no result");
  return result;
}
