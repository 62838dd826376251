// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which products of a kernel a processor can do from shared memory (wgmma), and the shapes of what is copied
// for them and stored after them.
#include "compiler/passes/gpu/gpu.h"

unsigned kiln_memory_row(ir_type tile, unsigned row_bytes) {
  unsigned bytes = kiln_scalars[tile.scalar].bytes << tile.log2[tile.rank - 1];
  return bytes < row_bytes ? bytes : row_bytes;
}

unsigned kiln_memory_rows(ir_type tile, uint32_t rows) { return rows ? rows : 1u << tile.log2[0]; }

uint32_t kiln_memory_bytes(ir_type tile, uint32_t rows, uint32_t columns) {
  uint32_t all = 1u << (ir_log2_elements(tile) - tile.log2[0]);
  return kiln_memory_rows(tile, rows) * (columns ? columns : all) * kiln_scalars[tile.scalar].bytes;
}

uint32_t kiln_copied(const ir_op *load, unsigned axis) {
  const ir_view_access *how = &load->attrs.access;
  return how->first && how->axis == axis ? (uint32_t)how->first : 0;
}

uint32_t kiln_slot_bytes(const ir_op *alloc) {
  const ir_alloc *how = &alloc->attrs.alloc;
  return kiln_memory_bytes(alloc->results[0].type, how->rows, how->columns) / (how->parts ? how->parts : 1);
}

kiln_boxes kiln_boxes_of(const ir_op *copy, unsigned row_bytes) {
  const ir_copy *how = &copy->attrs.copy;
  const ir_op *memory = ir_view_indices(copy)[copy->operands[0]->type.rank]->def;
  const ir_type tile = memory->results[0].type;
  const unsigned parts = memory->attrs.alloc.parts ? memory->attrs.alloc.parts : 1;
  const uint32_t rows = kiln_memory_rows(tile, how->rows);
  kiln_boxes b = {
      .row = kiln_memory_row(tile, row_bytes), .rows = rows, .part_rows = how->is_mn ? rows : rows / parts};
  const uint32_t bytes = kiln_slot_bytes(memory);
  b.part_columns = bytes / b.part_rows / kiln_scalars[tile.scalar].bytes;
  b.count = bytes / b.part_rows / b.row;
  if (how->parts) b.rows = how->is_mn ? rows * parts / how->parts : rows / how->parts;
  return b;
}

/// Rows or columns of the products' tile that are stored, which the stored one may have the other way round;
/// 0: all.
static unsigned part_of_stage(const ir_op *op, unsigned axis) {
  if (op->attrs.access.is_turned) axis = 1 - axis;
  return kiln_part_of(op, axis);
}

unsigned kiln_stage_columns(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *op) {
  ir_type tile = ir_staged_type(op);
  unsigned groups = (unsigned)__builtin_ctz(kernel->warps / m->group_warps),
           down = kernel->groups_beside ? 0 : tile.log2[0] - m->log2_rows;
  unsigned beside = groups > down ? groups - down : 0, columns = part_of_stage(op, 1);
  return (columns ? columns : 1u << tile.log2[1]) >> beside;
}

unsigned kiln_stage_rows(const ir_op *op) {
  unsigned rows = part_of_stage(op, 0);
  return rows ? rows : 1u << ir_staged_type(op).log2[0];
}

unsigned kiln_stage_at_a_time(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *op) {
  enum { ROW_BYTES = 256 };
  unsigned all = kiln_stage_columns(m, kernel, op),
           most = ROW_BYTES / kiln_scalars[op->operands[0]->type.scalar].bytes;
  return all < most ? all : most;
}

static unsigned whole_part(unsigned count, unsigned most) {
  unsigned whole = 1u << __builtin_ctz(count);
  return whole < most ? whole : most;
}

unsigned kiln_stage_row(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *op) {
  unsigned bytes = kiln_scalars[op->operands[0]->type.scalar].bytes;
  if (op->attrs.access.is_turned) return bytes << m->log2_rows;
  return whole_part(kiln_stage_columns(m, kernel, op) * bytes, m->row_bytes);
}

unsigned kiln_stage_box_rows(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *op) {
  unsigned rows = 1u << m->log2_rows;
  return op->attrs.access.is_turned ? whole_part(kiln_stage_columns(m, kernel, op), rows) : rows;
}

/// One use, or several products: all in loops after the load, or all beside it.
static bool is_for_products(const ir_kernel *kernel, const ir_value *load) {
  uint32_t deeper = 0, beside = 0; // products in blocks inside the load's, in the same one
  if (load->uses == 1) return true;
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    for (unsigned i = 0; i < 2 && op->code == IR_DOT; i++) {
      const ir_value *from = op->operands[i];
      if (kiln_is_turned_once(from)) from = from->def->operands[0];
      if (from == load) ++*(op->block == from->def->block ? &beside : &deeper);
    }
  }
  return deeper == load->uses || beside == load->uses;
}

/// The load that an operand comes from, through at most one transposition; NULL: it comes from elsewhere, or is used
/// elsewhere too. `out_is_transposed`: the tile in memory has the operand's axes the other way round.
static ir_op *load_of(const ir_kernel *kernel, const ir_value *value, bool *out_is_transposed) {
  *out_is_transposed = false;
  for (; value->def; value = value->def->operands[0]) {
    if (value->def->code == IR_VIEW_LOAD) return is_for_products(kernel, value) ? value->def : NULL;
    if (value->def->code != IR_TRANS || value->type.rank != 2 || value->uses != 1) return NULL;
    *out_is_transposed = !*out_is_transposed;
  }
  return NULL;
}

/// A computed left operand that lies across: it goes through shared memory, where the product reads it either
/// way. Each group writes whole rows of it.
static ir_op *put_of(const kiln_matrix_machine *m, const ir_op *dot, unsigned groups) {
  const ir_value *left = dot->operands[0];
  if (!kiln_is_turned_once(left) || left->def->block != dot->block ||
      kiln_scalars[left->type.scalar].bytes != 2)
    return NULL;
  const ir_value *from = left->def->operands[0];
  bool is_computed = from->def && from->def->code != IR_VIEW_LOAD && from->def->code != IR_TRANS;
  return is_computed && from->type.log2[0] >= m->log2_rows + groups && from->type.log2[1] >= m->least_n
             ? left->def
             : NULL;
}

static bool has_type(const ir_op *dot) {
  kiln_scalar a = dot->operands[0]->type.scalar, c = dot->operands[2]->type.scalar;
  switch (a) {
  case KILN_F16:
  case KILN_BF16: return c == KILN_F32;
  case KILN_E4M3:
  case KILN_E5M2: return c == KILN_F32;
  case KILN_I8: return c == KILN_I32;
  case KILN_F32: return dot->attrs.precision == IR_PREC_TF32;
  default: return false;
  }
}

/// What the unit has against the shape of a product: `groups` of warps, of which 2^`*out_down` are below each
/// other (logarithms), none where only some rows of the left operand count.
static kiln_report_reason judge_shape(const kiln_matrix_machine *m, const ir_op *dot, unsigned groups,
                                      bool is_beside, unsigned *out_down) {
  ir_type c = dot->operands[2]->type, a = dot->operands[0]->type;
  if (c.rank != 2) return KILN_REASON_AXES;
  if (!has_type(dot)) return KILN_REASON_NO_WGMMA;
  if (c.log2[0] < m->log2_rows) return KILN_REASON_ROWS;
  unsigned down = is_beside ? 0 : c.log2[0] - m->log2_rows;
  *out_down = down < groups ? down : groups;
  unsigned beside = groups - *out_down, n = c.log2[1] - beside;
  if (beside > c.log2[1] || n < m->least_n || n > m->most_n) return KILN_REASON_COLUMNS;
  return (unsigned)kiln_scalars[a.scalar].bytes << a.log2[1] < m->step_bytes ? KILN_REASON_REDUCED
                                                                             : KILN_REASON_NONE;
}

/// Of the right operand only some columns count: whole rows of shared memory for each group, where these have
/// the product's columns.
static kiln_report_reason judge_part(const kiln_matrix_machine *m, unsigned groups, unsigned down,
                                     kiln_product *p) {
  const ir_type tile = p->right->results[0].type;
  const unsigned row = m->row_bytes / kiln_scalars[tile.scalar].bytes,
                 least = p->right_mn ? row : m->part_columns;
  p->columns = (unsigned)p->right->attrs.access.first;
  bool is_free = p->right->attrs.access.axis == (p->right_mn ? 1 : 0) && (groups <= down + 1 || p->is_beside);
  p->is_divided = groups > down;
  return is_free && p->columns % (least << (groups - down)) == 0 ? KILN_REASON_NONE : KILN_REASON_PARTS;
}

static bool is_of_pointers(const ir_value *value) {
  while (value->def && value->def->code == IR_TRANS) value = value->def->operands[0];
  return value->def && value->def->code == IR_LOAD;
}

/// Of the left operand only some rows count, of which the unit takes whole pieces.
static bool has_whole_rows(const kiln_matrix_machine *m, const kiln_product *p) {
  return !p->left_mn && !p->is_partial && p->left->attrs.access.axis == 0 &&
         p->rows % (1u << m->log2_rows) == 0;
}

/// Where the operands come from.
static kiln_report_reason judge_operands(const kiln_matrix_machine *m, const ir_kernel *kernel,
                                         const ir_op *dot, unsigned groups, kiln_product *out) {
  unsigned bytes = kiln_scalars[dot->operands[0]->type.scalar].bytes;
  bool transposed;
  out->left = load_of(kernel, dot->operands[0], &transposed);
  out->left_mn = transposed;
  if (!out->left) out->put = put_of(m, dot, groups);
  if (out->put) out->left_mn = true;
  out->right = load_of(kernel, dot->operands[1], &transposed);
  out->right_mn = !transposed;
  if (!out->right) return is_of_pointers(dot->operands[1]) ? KILN_REASON_POINTERS : KILN_REASON_COMPUTED;
  if (bytes != 2 && (out->right_mn || out->left_mn)) return KILN_REASON_ACROSS;
  if (out->left || bytes == 2) return KILN_REASON_NONE;
  return is_of_pointers(dot->operands[0]) ? KILN_REASON_POINTERS : KILN_REASON_LEFT;
}

/// Logarithm of the kernel's groups.
static unsigned groups_of(const kiln_matrix_machine *m, const ir_kernel *kernel) {
  return (unsigned)__builtin_ctz(kernel->warps / m->group_warps);
}

/// Shape, type and sum, of which `out` gets rows, columns and is_partial.
static kiln_report_reason judge_whole(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *dot,
                                      unsigned *out_down, kiln_product *out) {
  ir_type c = dot->operands[2]->type, a = dot->operands[0]->type;
  kiln_report_reason why = judge_shape(m, dot, groups_of(m, kernel), out->is_beside, out_down);
  if (why) return why;
  bool is_fp8 = a.scalar == KILN_E4M3 || a.scalar == KILN_E5M2;
  out->is_partial = is_fp8 && dot->attrs.precision != IR_PREC_FAST;
  if (out->is_partial && 1u << a.log2[1] > m->most_partial) return KILN_REASON_PARTIAL;
  out->columns = 1u << c.log2[1], out->rows = 1u << c.log2[0];
  return KILN_REASON_NONE;
}

kiln_report_reason kiln_judge_shape(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *dot,
                                    kiln_product *out) {
  unsigned down = 0;
  *out = (kiln_product){0};
  return judge_whole(m, kernel, dot, &down, out);
}

kiln_report_reason kiln_judge_product(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *dot,
                                      kiln_product *out) {
  *out = (kiln_product){0};
  KILN_ASSERT(dot->code == IR_DOT);
  unsigned groups = groups_of(m, kernel), down = 0;
  bool transposed;
  const ir_op *left = load_of(kernel, dot->operands[0], &transposed);
  out->is_beside = left && left->attrs.access.first;
  kiln_report_reason why = judge_whole(m, kernel, dot, &down, out);
  if (why) return why;
  if (out->is_beside) out->rows = (unsigned)left->attrs.access.first;
  why = judge_operands(m, kernel, dot, groups, out);
  if (!why && out->is_beside && !has_whole_rows(m, out)) why = KILN_REASON_PARTS;
  return !why && out->right->attrs.access.first ? judge_part(m, groups, down, out) : why;
}

bool kiln_product_of(const kiln_matrix_machine *m, const ir_kernel *kernel, const ir_op *dot,
                     kiln_product *out) {
  return dot->code == IR_DOT && !kiln_judge_product(m, kernel, dot, out);
}

unsigned kiln_product_registers(const ir_kernel *kernel, const ir_op *dot, const kiln_product *how) {
  unsigned sums = 1u << (ir_log2_elements(dot->results[0].type) - 5 - (unsigned)__builtin_ctz(kernel->warps));
  sums = sums * how->columns >> dot->results[0].type.log2[1];
  sums = sums * how->rows >> dot->results[0].type.log2[0];
  unsigned part = 1u << (KILN_PARTIAL_COLUMNS - 1);
  return how->is_partial ? sums + (sums < part ? sums : part) : sums;
}

void kiln_count_sums(kiln_sums *s, const ir_kernel *kernel, const ir_op *dot, const kiln_product *how) {
  unsigned registers = kiln_product_registers(kernel, dot, how);
  if (how->put) {
    if (registers > s->put) s->put = registers;
    return;
  }
  s->all += registers;
  if (!ir_resolve(dot->operands[2])->def) s->carried += registers;
}

unsigned kiln_most_sums(const kiln_sums *s) {
  return s->all > s->carried + s->put ? s->all : s->carried + s->put;
}
