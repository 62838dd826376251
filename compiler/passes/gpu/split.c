// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The iterations of a loop shared out among the blocks of a cluster, where few programs have long loops.
//
// A loop with `split` n, at the top of the program, whose carried values are sums of products:
//
//   sums = for k in lo .. hi step s { ... dot(..., sums) }     rest
//
// becomes, with `rank` the number of the block in its cluster of n,
//
//   sums = for k in lo + rank s .. hi step n s { ... }
//   part = cluster_scatter sums
//   rest, for the columns of the part (slice.c)
//
// or, where the rest has no such form,
//
//   all  = cluster_sum sums
//   if rank == 0 { rest }
//
// Blocks add in the order of their ranks, so that the result does not depend on which comes first. Wants a
// persistent grid (pass persist), whose blocks are clusters afterwards. A loop that does not fit keeps
// all its iterations.
#include <string.h>

#include "base/check.h"
#include "compiler/passes/gpu/gpu.h"

enum { MOST_OF_CLUSTER = 8 }; // blocks (PTX ISA, ".reqnctapercluster")

typedef struct sharing {
  ir_kernel *kernel;
  ir_op *programs, *loop;  ///< the persistent grid's loop; the one that is shared
  unsigned blocks, spread; ///< that share it; that share each program besides
  unsigned columns;        ///< of these, side by side
  ir_value *parity;        ///< of the programs that came before; NULL: not carried yet
} sharing;

/// What is carried comes back as itself and products added to it.
static bool is_sum(const ir_op *loop, uint32_t i) {
  const ir_value *carried = ir_loop_args(loop)[i], *v = ir_resolve(ir_loop_next(loop)->operands[i]);
  for (; v != carried; v = ir_resolve(v->def->operands[2]))
    if (!v->def || v->def->code != IR_DOT || v->def->block != ir_loop_body(loop) || v->uses != 1)
      return false;
  return carried->uses == 1;
}

static ir_builder in_front_of(const sharing *s, ir_op *op) {
  return (ir_builder){
      .arena = s->kernel->arena, .block = op->block, .before = op, .place = op->place, .machine = true};
}

/// The programs go round the clusters. Returns the number of the block among those of its own that share the
/// loop: blocks that share a program follow one another.
static ir_value *group_blocks(const sharing *s, ir_builder *b) {
  ir_value *block = ir_resolve(ir_for_lower(s->programs)), *count = ir_resolve(ir_for_step(s->programs));
  ir_value *size = ir_const_int(b, KILN_I32, s->blocks * s->spread);
  s->programs->operands[0] = ir_binary(b, IR_DIV, IR_UNSIGNED, block, size);
  s->programs->operands[2] = ir_binary(b, IR_DIV, IR_UNSIGNED, count, size);
  if (s->spread > 1) block = ir_binary_int(b, IR_DIV, IR_UNSIGNED, block, s->spread);
  return ir_binary_int(b, IR_REM, IR_UNSIGNED, block, s->blocks);
}

static void take_turns(const sharing *s, ir_builder *b, ir_value *rank, ir_value *is_first) {
  ir_op *loop = s->loop;
  ir_value *step = ir_for_step(loop);
  kiln_scalar type = step->type.scalar;
  ir_value *number = type == KILN_I32 ? rank : ir_cast(b, rank, type, IR_UNSIGNED, IR_ROUND_NEAREST);
  ir_value *shift = ir_binary(b, IR_MUL, 0, number, step);
  loop->operands[0] = ir_binary(b, IR_ADD, 0, ir_for_lower(loop), shift);
  loop->operands[2] = ir_binary(b, IR_MUL, 0, step, ir_const_int(b, type, s->blocks));
  for (uint32_t i = 0; i < loop->result_count; i++) {
    ir_value **initial = &ir_loop_initials(loop)[i];
    if (ir_is_zero(*initial)) continue;
    *initial = ir_ternary(b, IR_SELECT, 0, is_first, *initial, ir_const_bits(b, (*initial)->type, 0));
  }
}

/// Whether an even or an odd number of programs came before: what barriers that all programs use are waited
/// by. The programs' loop carries it; its result says the same of all programs.
static ir_value *parity(sharing *s) {
  if (s->parity) return s->parity;
  ir_op *loop = s->programs, *end = ir_terminator(ir_loop_body(loop));
  // Before everything else: what stands after the shared loop is moved.
  ir_builder inner = in_front_of(s, ir_loop_body(loop)->first), outer = in_front_of(s, loop);
  ir_value **operands = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, loop->operand_count + 1u);
  KILN_ASSERT(!loop->result_count);
  memcpy(operands, loop->operands, loop->operand_count * sizeof *operands);
  operands[loop->operand_count] = ir_const_int(&outer, KILN_I32, 0);
  s->parity = ir_block_arg(s->kernel->arena, ir_loop_body(loop), ir_scalar_type(KILN_I32));
  end->operands = KILN_NEW(s->kernel->arena, ir_value *);
  end->operands[0] = ir_binary_int(&inner, IR_XOR, 0, s->parity, 1);
  end->operand_count = 1;
  s->programs =
      ir_emit(&outer, IR_FOR, &loop->attrs, operands, loop->operand_count + 1u, NULL, loop->regions, 1);
  KILN_ASSERT(s->programs);
  loop->region_count = 0;
  ir_remove(loop);
  return s->parity;
}

/// What stands after the loop runs in the first block, with everybody's sums.
static void end_in_first(sharing *s, ir_value *is_first) {
  ir_op *loop = s->loop, *end = ir_terminator(loop->block);
  ir_block *regions[2] = {KILN_NEW(s->kernel->arena, ir_block), KILN_NEW(s->kernel->arena, ir_block)};
  ir_value **sums = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, loop->result_count);
  for (ir_op *op = loop->next, *next; op != end; op = next) {
    next = op->next;
    ir_move(op, regions[0], NULL);
  }
  ir_builder b = in_front_of(s, end);
  ir_value *phase = parity(s);
  for (uint32_t i = 0; i < loop->result_count; i++) {
    ir_value *operands[2] = {&loop->results[i], phase};
    const ir_attrs attrs = {.cluster = {.blocks = (uint8_t)s->blocks}};
    ir_op *sum = ir_emit(&b, IR_CLUSTER_SUM, &attrs, operands, 2, NULL, NULL, 0);
    sums[i] = sum ? &sum->results[0] : operands[0];
  }
  for (ir_op *op = ir_next(regions[0], NULL); op; op = ir_next(regions[0], op))
    for (uint32_t i = 0; i < op->operand_count; i++)
      for (uint32_t k = 0; k < loop->result_count; k++)
        if (ir_resolve(op->operands[i]) == &loop->results[k]) op->operands[i] = sums[k];
  for (unsigned r = 0; r < 2; r++) {
    ir_builder inner = {.arena = s->kernel->arena, .block = regions[r]};
    ir_yield(&inner, NULL, 0);
  }
  ir_emit(&b, IR_IF, NULL, &is_first, 1, NULL, regions, 2);
}

/// What a block has of the sums.
typedef struct slice {
  int64_t rows, columns; ///< 0: all
  unsigned beside;       ///< warpgroups side by side, each with its own columns of the tile
} slice;

/// Parts of the columns are parts of each thread's accumulators: each group has a part of its own columns.
static bool has_slices(const sharing *s, const kiln_matrix_machine *machine, slice *out) {
  const ir_op *loop = s->loop, *end = ir_terminator(loop->block);
  ir_type sums = loop->results[0].type;
  if (loop->result_count != 1 || sums.rank != 2) return false;
  kiln_stored stored = kiln_gpu_stored(loop->next, end);
  unsigned groups = s->kernel->warps / machine->group_warps,
           below = s->kernel->groups_beside ? 1 : (1u << sums.log2[0]) >> machine->log2_rows;
  *out = (slice){.rows = stored.rows,
                 .columns = stored.columns / s->blocks,
                 .beside = groups > below ? groups / below : 1};
  // Rows that do not count are those of which the products have none.
  if ((stored.rows != 0) != s->kernel->groups_beside) return false;
  return stored.columns && stored.columns % (s->blocks * machine->part_columns * out->beside) == 0;
}

/// Each block has its part of the sums and does with it what stands after the loop.
static bool end_in_all(sharing *s, ir_value *rank, const slice *own) {
  ir_op *loop = s->loop, *end = ir_terminator(loop->block);
  ir_block *made = KILN_NEW(s->kernel->arena, ir_block);
  ir_builder b = {.arena = s->kernel->arena, .block = made, .place = loop->place, .machine = true};
  ir_value *operands[2] = {&loop->results[0], parity(s)};
  bool is_whole = own->columns * s->blocks == (int64_t)1 << loop->results[0].type.log2[1];
  const ir_attrs attrs = {.cluster = {.blocks = (uint8_t)s->blocks,
                                      .columns = is_whole ? 0 : (uint32_t)own->columns,
                                      .rows = (uint32_t)own->rows,
                                      .beside = own->beside > 1 ? (uint8_t)own->beside : 0}};
  ir_op *part = ir_emit(&b, IR_CLUSTER_SCATTER, &attrs, operands, 2, NULL, NULL, 0);
  if (!part) return false;
  ir_value *sum = &part->results[0];
  kiln_slice how = {.loop = loop, .sums = &sum};
  how.columns = own->columns < (int64_t)1 << sum->type.log2[1] ? own->columns : 0;
  how.beside = own->beside, how.shares = s->blocks;
  how.log2_parts = loop->results[0].type.log2[1] - sum->type.log2[1];
  how.first = ir_binary_int(&b, IR_MUL, 0, rank, own->columns / own->beside);
  if (!kiln_gpu_slice(&b, &how, loop->next, end)) return false;
  for (ir_op *op = loop->next, *next; op != end; op = next) {
    next = op->next;
    if (op->code == IR_VIEW_STORE || op->code == IR_STORE) ir_remove(op);
  }
  for (ir_op *op = made->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, loop->block, end);
  }
  return true;
}

kiln_status kiln_pass_split(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_matrix_machine *machine = kiln_matrix_machine_of(context->target);
  sharing s = {.kernel = kernel, .blocks = 1};
  ir_count_uses(kernel);
  kiln_spread spread = kiln_gpu_blocks_of_program(machine, kernel);
  s.spread = spread.blocks, s.columns = spread.columns;
  for (ir_op *op = kernel->body->first; op; op = op->next)
    if (op->code == IR_FOR) s.programs = op;
  for (ir_op *op = s.programs ? ir_loop_body(s.programs)->first : NULL; op && !s.loop; op = op->next) {
    bool has_sums = op->code == IR_FOR && op->attrs.loop.split >= 2 && op->result_count, has_mapped = false;
    for (uint32_t i = 0; i < op->result_count && has_sums; i++) has_sums = is_sum(op, i);
    if (!has_sums) continue;
    const ir_block *body = ir_loop_body(op);
    for (const ir_op *load = ir_next(body, NULL); load; load = ir_next(body, load))
      has_mapped |= load->code == IR_VIEW_LOAD && load->attrs.access.is_mapped;
    if (has_mapped) s.loop = op;
  }
  if (s.loop) s.blocks = s.loop->attrs.loop.split;
  if (s.blocks * s.spread > MOST_OF_CLUSTER) s.blocks = MOST_OF_CLUSTER / s.spread;
  const bool is_shared = s.loop && s.blocks > 1;
  if (!is_shared && s.spread < 2) return KILN_OK;
  KILN_ASSERT(s.programs);
  ir_builder outer = in_front_of(&s, s.programs), inner = in_front_of(&s, is_shared ? s.loop : s.programs);
  ir_value *rank = group_blocks(&s, &outer);
  ir_value *is_first = ir_compare(&outer, IR_EQ, 0, rank, ir_const_int(&outer, KILN_I32, 0));
  if (is_shared) take_turns(&s, &inner, rank, is_first);
  slice own;
  bool is_sliced = is_shared && has_slices(&s, machine, &own) && end_in_all(&s, rank, &own);
  if (is_shared && !is_sliced) end_in_first(&s, is_first);
  if (is_sliced)
    KILN_TRY(kiln_pass_dce(kernel, context,
                           err)); // what was made anew: who looks for what a program does finds it once
  if (outer.error.status == KILN_OK && inner.error.status == KILN_OK) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INTERNAL, "split: %s%s", outer.error.text, inner.error.text);
}
