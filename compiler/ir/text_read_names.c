// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of values in a kernel's text. A name is defined once in a kernel, and visible to the end of its
// block.
#include <string.h>

#include "compiler/ir/text_read.h"

typedef struct entry {
  ir_name name;
  ir_value *value;
  bool is_visible;
} entry;

/// What is wanted before it may be defined.
typedef struct later {
  ir_name name;
  ir_value **out;
} later;

struct ir_names {
  entry *entries; // in order of their definition
  uint32_t count, capacity;
  uint32_t *table; // by hash: 1 + index of an entry; 0: free
  uint32_t slots;  // a power of two, more than twice as many as entries
  later *laters;
  uint32_t later_count, later_capacity;
};

static struct ir_names *names_of(ir_reading *r) {
  if (!r->names) r->names = KILN_NEW(r->w.arena, struct ir_names);
  return r->names;
}

static uint32_t hash(const ir_name *name) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < name->length; i++) h = (h ^ (uint8_t)name->start[i]) * 16777619u;
  return h;
}

static bool is_same(const ir_name *a, const ir_name *b) {
  return a->length == b->length && !memcmp(a->start, b->start, a->length);
}

/// The slot of the name, or the free one where it would be.
static uint32_t *slot_of(const struct ir_names *n, const ir_name *name) {
  uint32_t at = hash(name) & (n->slots - 1);
  while (n->table[at] && !is_same(&n->entries[n->table[at] - 1].name, name)) at = (at + 1) & (n->slots - 1);
  return &n->table[at];
}

static void grow_table(ir_reading *r, struct ir_names *n) {
  if (n->slots > 2 * n->count + 2) return;
  n->slots = n->slots ? 2 * n->slots : 64;
  n->table = KILN_NEW_ARRAY(r->w.arena, uint32_t, n->slots);
  for (uint32_t i = 0; i < n->count; i++) *slot_of(n, &n->entries[i].name) = i + 1;
}

static entry *find(ir_reading *r, const ir_name *name) {
  struct ir_names *n = names_of(r);
  grow_table(r, n);
  const uint32_t at = *slot_of(n, name);
  return at ? &n->entries[at - 1] : NULL;
}

bool ir_read_name(ir_reading *r, ir_name *out) {
  if (r->w.kind != IR_TOKEN_VALUE) return ir_words_fail(&r->w, "a value such as %3");
  *out = (ir_name){r->w.start, r->w.length, r->w.place};
  ir_words_next(&r->w);
  return true;
}

static int shown(const ir_name *name) { return name->length > 40 ? 40 : (int)name->length; }

bool ir_define_name(ir_reading *r, const ir_name *name, ir_value *value) {
  struct ir_names *n = names_of(r);
  const entry *known = find(r, name);
  if (known)
    return ir_words_fail_at(&r->w, name->place, "expected a new name, found %.*s, which line %u defines",
                            shown(name), name->start, known->name.place.line);
  KILN_GROW(r->w.arena, n->entries, n->count, n->capacity);
  n->entries[n->count++] = (entry){*name, value, true};
  *slot_of(n, name) = n->count;
  return true;
}

bool ir_find_name(ir_reading *r, const ir_name *name, ir_value **out) {
  const entry *known = find(r, name);
  if (known && known->is_visible) return *out = known->value, true;
  return ir_words_fail_at(&r->w, name->place,
                          known ? "expected a value that is visible here, found %.*s, whose block has ended"
                                : "expected a value that is defined before, found %.*s",
                          shown(name), name->start);
}

uint32_t ir_names_begin(ir_reading *r) { return names_of(r)->count; }

void ir_names_end(ir_reading *r, uint32_t begin) {
  struct ir_names *n = names_of(r);
  for (uint32_t i = begin; i < n->count; i++) n->entries[i].is_visible = false;
}

bool ir_read_value_later(ir_reading *r, ir_value **out) {
  struct ir_names *n = names_of(r);
  KILN_GROW(r->w.arena, n->laters, n->later_count, n->later_capacity);
  n->laters[n->later_count].out = out;
  return ir_read_name(r, &n->laters[n->later_count++].name);
}

bool ir_resolve_later(ir_reading *r) {
  const struct ir_names *n = names_of(r);
  for (uint32_t i = 0; i < n->later_count; i++) {
    const ir_name *name = &n->laters[i].name;
    const entry *known = find(r, name);
    if (!known)
      return ir_words_fail_at(&r->w, name->place, "expected a value of the kernel, found %.*s", shown(name),
                              name->start);
    *n->laters[i].out = known->value;
  }
  return true;
}
