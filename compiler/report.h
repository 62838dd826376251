// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the code generator did with a kernel, for people: how wide its accesses are and who does them, which
// tiles are exchanged between threads and with how many bank conflicts, and why nothing better was done. Made
// with every artifact and stored with it, so that a hit says the same. It names operations and parameters
// by number; who prints it knows the source.
#ifndef KILN_COMPILER_REPORT_H
#define KILN_COMPILER_REPORT_H

#include "base/arena.h"
#include "base/buffer.h"

typedef enum kiln_report_kind {
#define KIND(code, text) KILN_REPORT_##code,
#define ENGINE(code, text)
#define REASON(code, text)
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
  KILN_REPORT_KINDS
} kiln_report_kind;

typedef enum kiln_engine {
#define KIND(code, text)
#define ENGINE(code, text) KILN_ENGINE_##code,
#define REASON(code, text)
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
  KILN_ENGINES
} kiln_engine;

typedef enum kiln_report_reason {
#define KIND(code, text)
#define ENGINE(code, text)
#define REASON(code, text) KILN_REASON_##code,
#include "compiler/report.def"
#undef KIND
#undef ENGINE
#undef REASON
  KILN_REASONS
} kiln_report_reason;

typedef struct kiln_report_row {
  uint8_t kind, engine, reason;
  uint32_t operation; ///< its number in the canonical form
  uint32_t bytes;     ///< an access: of one thread at a time; a conversion: of the tile
  uint32_t write,
      read; ///< a conversion through shared memory: accesses of a warp that share a bank, at most; 1: none
  uint32_t parameter; ///< 1 + the kernel parameter that the reason is about; 0: none
  const char *name;   ///< a product: the instruction's name; else ""
} kiln_report_row;

typedef struct kiln_report_rows {
  kiln_report_row *items;
  uint32_t count;
} kiln_report_rows;

/// Why products of a kernel are not multiplied from shared memory: noted where that is decided.
typedef struct kiln_refusal {
  uint32_t operation; ///< the product's
  uint32_t parameter; ///< as in a row
  kiln_report_reason reason;
} kiln_refusal;

typedef struct kiln_refusals {
  kiln_arena *arena; ///< borrowed
  kiln_refusal *items;
  uint32_t count, capacity;
  kiln_report_reason others; ///< that of products without one of their own
} kiln_refusals;

/// Of several reasons the first counts. `refusals` NULL: nobody asks.
void kiln_refuse(kiln_refusals *refusals, const kiln_refusal *refusal);
void kiln_refuse_others(kiln_refusals *refusals, kiln_report_reason reason);
kiln_refusal kiln_refusal_of(const kiln_refusals *refusals, uint32_t operation);

/// Texts of report.def.
const char *kiln_report_kind_text(unsigned kind);
const char *kiln_engine_text(unsigned engine);
const char *kiln_reason_text(unsigned reason);

/// Appends a row.
void kiln_report_put(kiln_buffer *report, const kiln_report_row *row);
/// Rows in order of operations, equal ones once. Texts are borrowed from `bytes`. False when damaged.
bool kiln_report_read(kiln_arena *arena, const uint8_t *bytes, size_t size, kiln_report_rows *out);

#endif
