// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of operations, found by name through a hash that is filled at first use.
#include <pthread.h>
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

static const ttir_row rows[] = {
#define TTIR(name, form, code, on_i1, flags) \
  {name, TTIR_FORM_##form, IR_##code, IR_##on_i1 == IR_CONST ? 0 : IR_##on_i1, flags},
#include "compiler/ttir/ttir_ops.def"
#undef TTIR
};
#define TTIR(n, ...) _Static_assert(sizeof n <= sizeof rows->name, "it has room: " n);
#include "compiler/ttir/ttir_ops.def"
#undef TTIR

enum { ROW_COUNT = sizeof rows / sizeof *rows, SLOT_COUNT = 512 };

static uint8_t slots[SLOT_COUNT]; // row + 1, open addressing
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t slot_of(const char *name, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
  return (hash ^ hash >> 15) % SLOT_COUNT;
}

static void fill(void) {
  _Static_assert(ROW_COUNT < 255, "a slot is a byte");
  for (uint32_t i = 0; i < ROW_COUNT; i++) {
    uint32_t at = slot_of(rows[i].name, strlen(rows[i].name));
    while (slots[at]) at = (at + 1) % SLOT_COUNT;
    slots[at] = (uint8_t)(i + 1);
  }
}

const ttir_row *ttir_find_row(const char *name, size_t length) {
  pthread_once(&once, fill);
  for (uint32_t at = slot_of(name, length); slots[at]; at = (at + 1) % SLOT_COUNT) {
    const ttir_row *row = &rows[slots[at] - 1];
    if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) return row;
  }
  return NULL;
}
