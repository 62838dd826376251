// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which programs two or four blocks of a cluster share, and how the blocks stand.
//
// A thread of any of the blocks has the elements that the layout of the whole program gives it. So blocks
// share what each thread does with its own elements: products whose operands the copy engine brings,
// elementwise operations, loads of one element for each row or column (a bias, a scale), stores by the copy
// engine. What passes elements from thread to thread (a reduction, another layout) might cross blocks, and is
// refused.
#include "compiler/passes/gpu/gpu.h"

enum { GROUPS_OF_BLOCK = 2, MOST_SPREAD = 4, MOST_LINES = 16, MOST_DEPTH = 8 };

/// A load of one element for each row or column of accumulators.
typedef struct line {
  const ir_op *load;
  unsigned axis; ///< of the accumulators that it is not for
} line;

typedef struct spreading {
  const kiln_matrix_machine *machine;
  ir_kernel *kernel;
  unsigned blocks, columns; ///< columns: of blocks, 0: no product has said
  unsigned made, stored;    ///< columns of products, of stores; 0: none seen
  ir_type sums, wide;       ///< shapes of accumulators after the loop, of what lines are spread over
  line lines[MOST_LINES];
  unsigned line_count, loads; ///< loads: of tiles through pointers
  unsigned turns, turned;     ///< transpositions of what is computed, stores that take one
  bool has_columns;           ///< something depends on an element's column
  bool is_part, is_scattered; ///< of a product's columns only some count; blocks have a part of the sums
  bool has_product, is_possible;
} spreading;

// -------------------------------------------------------------------------------------------- lines

typedef struct line_walk {
  void (*visit)(ir_op *load, const ir_op *expand, void *context);
  void *context;
} line_walk;

static void walk_line(const line_walk *w, const ir_value *value, const ir_op *expand, unsigned depth) {
  ir_op *op = ir_resolve((ir_value *)value)->def;
  if (!op || depth > MOST_DEPTH) return;
  if ((op->code == IR_LOAD || op->code == IR_SLOT_LOAD) && expand) w->visit(op, expand, w->context);
  if (op->code == IR_EXPAND && !expand && op->operands[0]->type.rank == 1)
    walk_line(w, op->operands[0], op, depth + 1);
  if (!ir_has(op->code, IR_EACH)) return;
  for (uint32_t i = 0; i < op->operand_count; i++) walk_line(w, op->operands[i], expand, depth + 1);
}

void kiln_gpu_visit_lines(const ir_op *broadcast,
                          void (*visit)(ir_op *load, const ir_op *expand, void *context), void *context) {
  const line_walk w = {.visit = visit, .context = context};
  if (broadcast->code == IR_BROADCAST && broadcast->results[0].type.rank == 2)
    walk_line(&w, broadcast->operands[0], NULL, 0);
}

static void note_line(ir_op *load, const ir_op *expand, void *context) {
  spreading *s = context;
  unsigned i = 0;
  while (i < s->line_count && s->lines[i].load != load) i++;
  if (i == MOST_LINES) s->is_possible = false;
  else if (i == s->line_count) s->lines[s->line_count++] = (line){.load = load, .axis = expand->attrs.axis};
  else s->is_possible &= s->lines[i].axis == expand->attrs.axis;
}

/// Lines are loaded in the layout of accumulators (note_spread in layouts/assign.c): each is spread over the
/// accumulators and over nothing else.
static bool has_lines_of_sums(const spreading *s) {
  return s->loads == s->line_count && (!s->loads || ir_same_shape(s->wide, s->sums));
}

static void note_broadcast(spreading *s, const ir_op *op) {
  unsigned before = s->line_count;
  kiln_gpu_visit_lines(op, note_line, s);
  if (s->line_count == before) return;
  s->is_possible &= !before || ir_same_shape(s->wide, op->results[0].type);
  s->wide = op->results[0].type;
}

// ----------------------------------------------------------------------------------------- programs

static bool is_tile_op(const ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++)
    if (op->results[i].type.rank && !op->results[i].type.is_view) return true;
  return false;
}

/// Each block has one piece of the result, 64 rows and more for each of its groups, and copies whole patterns
/// of eight rows for those that share an operand with it. An operand whose rows in shared memory have the
/// product's rows or columns is divided by whole such rows.
static bool has_pieces(spreading *s, const ir_op *dot, const kiln_product *p) {
  enum { PATTERN_ROWS = 8 };
  unsigned rows = 1u << dot->results[0].type.log2[0], of_block = GROUPS_OF_BLOCK << s->machine->log2_rows;
  unsigned columns = rows < s->blocks * of_block || p->is_beside ? 2 : 1;
  if (s->columns && s->columns != columns) return false;
  s->is_part |= p->is_beside || p->columns < 1u << dot->results[0].type.log2[1];
  s->columns = columns;
  if (p->is_beside) return s->blocks == 2 && !p->right_mn && p->rows % (2 * PATTERN_ROWS) == 0;
  const ir_type left = dot->operands[0]->type;
  const unsigned depth = 1u << left.log2[1], row = s->machine->row_bytes / kiln_scalars[left.scalar].bytes;
  if ((p->left_mn || p->right_mn) && depth % (s->blocks * PATTERN_ROWS)) return false;
  if (columns > 1 && rows != s->blocks / columns * of_block) return false;
  if (columns > 1 && p->right_mn && p->columns % (columns * row)) return false;
  if (s->blocks == 2) return true;
  return rows <= MOST_SPREAD * of_block && (p->right_mn || p->columns % (s->blocks * PATTERN_ROWS) == 0);
}

/// All have as many columns: `count` is one more.
static void note_columns(spreading *s, unsigned *seen, unsigned count) {
  s->is_possible &= !*seen || *seen == count;
  *seen = count;
}

static void note_store(spreading *s, const ir_op *op) {
  const ir_value *value = ir_resolve(op->operands[op->operand_count - 1]);
  unsigned axis = kiln_is_turned_once(value) ? 0 : 1;
  s->turned += 1 - axis;
  unsigned part = kiln_part_of(op, axis);
  unsigned shares = op->attrs.access.split ? op->attrs.access.split : 1; // each stores as many
  note_columns(s, &s->stored, (part ? part : 1u << value->type.log2[axis]) * shares);
}

static bool is_mapped_load(const ir_value *value) {
  const ir_op *op = ir_resolve((ir_value *)value)->def;
  return op && op->code == IR_VIEW_LOAD && op->attrs.access.is_mapped;
}

static void note_product(spreading *s, const ir_op *dot) {
  kiln_product p;
  bool fits = kiln_product_of(s->machine, s->kernel, dot, &p) && p.left && p.right && ir_is_mapped(p.left) &&
              ir_is_mapped(p.right) && p.left->block == dot->block && p.right->block == dot->block &&
              has_pieces(s, dot, &p) && p.left->results[0].uses == 1 && p.right->results[0].uses == 1;
  s->is_possible &= fits;
  if (fits) note_columns(s, &s->made, p.columns);
  if (!s->is_scattered) s->sums = dot->results[0].type;
  s->has_product = true;
}

/// Each block has its part of every tile, and no way to those of the others.
static void note_op(ir_op *op, void *context) {
  spreading *s = context;
  bool is_mapped = ir_is_mapped(op), is_line = op->code == IR_LOAD && op->results[0].type.rank == 1;
  bool is_access = op->code == IR_VIEW_LOAD || op->code == IR_VIEW_STORE;
  bool is_sum = op->code == IR_CLUSTER_SUM || op->code == IR_CLUSTER_SCATTER;
  bool is_place = op->code == IR_IOTA || op->code == IR_EXPAND || op->code == IR_BROADCAST || is_line;
  bool is_local = ir_has(op->code, IR_EACH) || op->code == IR_SPLAT || op->code == IR_TRANS ||
                  op->code == IR_FOR || op->code == IR_IF || is_sum || is_place;
  bool is_write = ir_ops[op->code].effect == IR_WRITE && !is_sum;
  if (op->code == IR_DOT) {
    note_product(s, op);
    return;
  }
  if (op->code == IR_CLUSTER_SCATTER) s->sums = op->results[0].type, s->is_scattered = true;
  if (op->code == IR_BROADCAST) note_broadcast(s, op);
  if (op->code == IR_TRANS) s->turns += !is_mapped_load(op->operands[0]);
  if (op->code == IR_VIEW_STORE && is_mapped) note_store(s, op);
  if (op->code == IR_EXPAND) s->has_columns |= op->attrs.axis == 0;
  s->loads += is_line;
  if (is_access || is_write) s->is_possible &= is_access && is_mapped;
  else if (is_tile_op(op)) s->is_possible &= is_local;
}

kiln_spread kiln_gpu_blocks_of_program(const kiln_matrix_machine *m, ir_kernel *kernel) {
  static const kiln_spread one = {1, 1};
  spreading s = {.machine = m, .kernel = kernel, .is_possible = true};
  s.blocks = kernel->warps / (GROUPS_OF_BLOCK * m->group_warps);
  if (s.blocks < 2 || s.blocks > MOST_SPREAD) return one;
  ir_walk(kernel->body, note_op, &s);
  // Blocks side by side have each its part of the columns that count, which only a store of as many puts
  // there; the number of a column is another then.
  if (s.columns > 1 && s.stored && s.stored != s.made) return one;
  if (s.columns > 1 && s.is_part && s.has_columns) return one;
  // What is computed may be transposed by the store that takes it. Any other use of it wants the layout of accumulators.
  if (s.turns != s.turned) return one;
  return s.is_possible && s.has_product && has_lines_of_sums(&s) ? (kiln_spread){s.blocks, s.columns} : one;
}
