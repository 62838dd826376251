// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What processors have for operands that are on their way while others are multiplied.
#include "compiler/gpu/ahead.h"

enum { WIDE_WAVE = 64, BLOCK_THREADS = 1024 };

kiln_fetch_machine kiln_fetch_machine_of(const kiln_target *target) {
  const kiln_processor *p = target->processor;
  unsigned units = 1u << KILN_MATRIX_MMA_80 | 1u << KILN_MATRIX_MMA_89 | 1u << KILN_MATRIX_WGMMA;
  return (kiln_fetch_machine){.lanes = target->wave == WIDE_WAVE ? 6 : 5,
                              .threads = BLOCK_THREADS,
                              .shared_bytes = p->shared_bytes,
                              .matrix = p->matrix,
                              .has_fetch = units >> p->matrix & 1,
                              .has_buffers = kiln_family_of(p->family)->has_buffers};
}

typedef struct mma_row {
  uint8_t from, left, right, precision, m, n, k;
} mma_row;

static const mma_row rows[] = {
#define MMA(from, left, right, sum, precision, m, n, k, fragments, emit) \
  {KILN_MATRIX_MMA_##from, KILN_##left, KILN_##right, IR_PREC_##precision, m, n, k},
#include "compiler/gpu/mma.def"
#undef MMA
};

bool kiln_has_fragments(kiln_matrix matrix, const ir_op *dot) {
  ir_type a = dot->operands[0]->type, b = dot->operands[1]->type;
  unsigned m = a.log2[a.rank - 2], n = b.log2[b.rank - 1], k = a.log2[a.rank - 1];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const mma_row *r = &rows[i];
    bool fits = matrix >= r->from && matrix <= KILN_MATRIX_WGMMA && r->left == a.scalar &&
                r->right == b.scalar && r->m <= m && r->n <= n && r->k <= k;
    if (fits && (a.scalar != KILN_F32 || r->precision == dot->attrs.precision)) return true;
  }
  return false;
}
