// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuned choices of one kernel on one device (base/tuned.h), from the notes of its library's bundles. A launch
// looks up a cell: the arguments' bins and facts as one number. A cell is filled at its first look-up,
// without a lock; later look-ups are a single load.
#ifndef KILN_RUNTIME_TUNED_CHOICE_H
#define KILN_RUNTIME_TUNED_CHOICE_H

#include "base/tuned.h"
#include "runtime/device/device.h"
#include "runtime/launch.h"

enum {
  KILN_TUNED_MOST_CHOICES = 65534,
  KILN_TUNED_MOST_CELLS = 1 << 20, ///< with more, each launch searches the table
  KILN_TUNED_NEAREST = 3,          ///< choices in a cell, of different configs
  KILN_TUNED_NEAR = 15, ///< largest sum of squared differences in bins: less than an octave of one integer
  KILN_TUNED_ANY = 255, ///< of an axis that a choice does not name
};

/// An argument that choices depend on.
typedef struct kiln_tuned_input {
  kiln_tuned_axis_kind kind;
  uint32_t param, offset;
  uint8_t size;
  bool is_signed;
  uint8_t least;  ///< bins: the lowest measured one
  uint32_t radix; ///< how many values it has
} kiln_tuned_input;

typedef struct kiln_tuned_choice {
  uint32_t config;
  uint32_t line;                        ///< of the note
  uint8_t values[KILN_TUNED_MOST_AXES]; ///< by input: a bin, 0 or 1, a stride; KILN_TUNED_ANY
} kiln_tuned_choice;

struct kiln_tuned {
  /// The value of each input in a block: a bin, 0 or 1, a stride.
  void (*values)(const kiln_tuned *tuned, const uint8_t *block, uint8_t *values);
  /// Records arguments that lie outside of what was measured. Returns 0.
  uint64_t (*outside)(const kiln_tuned *tuned, const uint8_t *block);
  /// Fills the cell of that number for the arguments in the block.
  uint64_t (*fill)(const kiln_tuned *tuned, const uint8_t *block, uint64_t number);
  /// The near choices of each config, by distance: calls `each` until it returns true. Slow.
  void (*search)(const kiln_tuned *tuned, const uint8_t *values, bool (*each)(void *context, uint32_t choice),
                 void *context);
  kiln_bundle *bundle; ///< the owner of the note; NULL: there are no choices, shapes are only recorded
  const char *note;    ///< text of the note, in the bundle
  kiln_tuned_input inputs[KILN_TUNED_MOST_AXES];
  uint32_t input_count, choice_count;
  bool has_bins; ///< some choice names a bin, so no choice is for all arguments
  bool is_exact; ///< only choices for exactly these bins count: costs of configs are more precise elsewhere
  uint64_t cell_count;            ///< 0: too many
  kiln_tuned_choice *choices;     ///< arena of the kernel
  _Atomic(uint64_t) *cells;       ///< owned
  struct kiln_recorder *recorder; ///< NULL: shapes are not recorded
};

// A cell: three configs + 1, 16 bits each, those of the nearest choices first; 0 is none. And
#define KILN_TUNED_FILLED ((uint64_t)1 << 63)
#define KILN_TUNED_MORE ((uint64_t)1 << 62)  ///< there are more configs, farther away
#define KILN_TUNED_EXACT ((uint64_t)1 << 61) ///< the first is for these very bins

/// Finds the choices for kernel and device; `kernel->tuned` stays NULL when there are none. Unusable choices
/// are logged and left out. OUT_OF_MEMORY.
kiln_status kiln_tuned_attach(kiln_kernel *kernel, kiln_error *err);

static inline uint32_t kiln_tuned_value(const kiln_tuned_input *in, const uint8_t *block) {
  const uint8_t *at = block + in->offset;
  int64_t v = in->size == 4   ? (int32_t)kiln_le32(at)
              : in->size == 8 ? (int64_t)kiln_le64(at)
                              : kiln_read_integer(at, in->size, in->is_signed);
  if (in->kind == KILN_TUNED_BIN) return kiln_tuned_bin(v);
  return in->kind == KILN_TUNED_ALIGNED ? !(v & (KILN_TUNED_ALIGNMENT - 1))
         : (uint64_t)v < 2              ? (uint32_t)v
                                        : 2;
}

/// The cell of the arguments; 0 when they are outside of what was measured.
static inline uint64_t kiln_tuned_cell(const kiln_tuned *t, const uint8_t *block) {
  uint64_t number = 0, cell = 0;
  for (uint32_t i = 0; i < t->input_count; i++) {
    uint32_t place = kiln_tuned_value(&t->inputs[i], block) - t->inputs[i].least;
    if (place >= t->inputs[i].radix) return t->recorder ? t->outside(t, block) : 0;
    number = number * t->inputs[i].radix + place;
  }
  if (t->cell_count) cell = atomic_load_explicit(&t->cells[number], memory_order_relaxed);
  return __builtin_expect(cell != 0, 1) ? cell : t->fill(t, block, number);
}

#endif
