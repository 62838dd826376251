// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A table of tuned choices: one an identity, kept as text that people read, compare and merge
// (base/tuned.h).
#ifndef KILN_TUNER_TABLE_H
#define KILN_TUNER_TABLE_H

#include "base/tuned.h"
#include "tuner/identity.h"

typedef struct kiln_tuner_row {
  const kiln_tuned_entry *entry; ///< arena
  const char *identity, *whole;  ///< arena: the line without and with choice and history
} kiln_tuner_row;

/// Rows are in order of identity, one of each.
typedef struct kiln_tuner_table {
  kiln_arena *arena; ///< owned
  kiln_tuner_row *rows;
  uint32_t count, capacity;
} kiln_tuner_table;

/// An empty table.
void kiln_tuner_table_init(kiln_tuner_table *table);
void kiln_tuner_table_deinit(kiln_tuner_table *table);

/// Adds a copy of the choice, with its `id`. Of two for one identity the better stays: that with the later
/// `date`; then with the lower `ns`; then the line that is first in the order of bytes. This order is total,
/// so it does not matter in which order tables come together. Then the rows are as kiln_tuner_table promises
/// only after kiln_tuner_table_settle.
KILN_MUST_USE kiln_status kiln_tuner_table_add(kiln_tuner_table *table, const kiln_tuned_entry *entry,
                                               kiln_error *err);
void kiln_tuner_table_settle(kiln_tuner_table *table);

/// Adds the choices of a text, and settles. SOURCE with the place, also where an `id` is another identity's:
/// such a line was changed by hand or is another's.
KILN_MUST_USE kiln_status kiln_tuner_table_read(kiln_tuner_table *table, const char *file, const char *text,
                                                size_t size, kiln_tuned_place *out_place, kiln_error *err);
/// The whole table as text.
void kiln_tuner_table_write(const kiln_tuner_table *table, kiln_buffer *out);
/// The row of an identity, or NULL.
const kiln_tuner_row *kiln_tuner_table_find(const kiln_tuner_table *table, const char *identity);

/// Adds what is in `more` to the table at `path`, which may not exist yet, and leaves the sum in `more`. The
/// file is replaced at once, and nobody else adds in between: what several tuners find at the same time is
/// all there.
KILN_MUST_USE kiln_status kiln_tuner_table_update(const char *path, kiln_tuner_table *more, kiln_error *err);

#endif
