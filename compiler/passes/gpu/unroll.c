// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that load little in an iteration and compute with it at once: several iterations become one (`unroll`), so that
// several loads are under way at a time.
//
//   for iv in lo..hi step s (c) { c' = c + load p(iv) }              =>    mid = lo + (whole groups of n) n s
//                                                                          for iv in lo..mid step n s (c) {
//                                                                            x1 = load p(iv + s); ..; x0 = load p(iv)
//                                                                            c1 = c + x0; c' = c1 + x1; ..
//                                                                          }
//                                                                          for iv in mid..hi step s (c) { c' = c + load p(iv) }
//
// Values are combined in the order of before: results have the same bits. Loops that write, whose threads exchange values, or whose
// addresses are loaded stay as they are, and so do loops that load enough in each iteration. A branch that only computes is in
// each copy; one for the loop's first iteration (means and variances, Welford) is left in the first copy only.
#include "compiler/passes/gpu/pipeline.h"

enum {
  MOST_ITERATIONS = KILN_PIPELINE_STAGES, ///< in one
  MOST_WORDS = 16,                        ///< of a thread, under way at a time
  MOST_ACCESSES = 8,                      ///< the same
  LOG2_ACCESS = 4,                        ///< bytes
  MOST_OPERATIONS = 64,
  MOST_STEP = 1 << 20
};

/// The words that a thread loads in an iteration; 0: the loop is none of these.
static uint64_t words_of(kiln_pipeline *a) {
  uint64_t words = 0;
  unsigned count = 0;
  for (const ir_op *op = ir_next(a->body, NULL); op; op = ir_next(a->body, op)) {
    // Each thread computes by itself what is not loaded.
    const bool is_simple = ir_is_terminator(op) || op->code == IR_IF || op->code == IR_LOAD ||
                           ir_has(op->code, IR_EACH) || op->code == IR_SPLAT || op->code == IR_EXPAND ||
                           op->code == IR_BROADCAST || op->code == IR_CONST || op->code == IR_IOTA;
    count += !ir_is_terminator(op);
    if (!is_simple || count > MOST_OPERATIONS) return 0;
  }
  a->count = 0;
  for (ir_op *op = a->body->first; op != ir_loop_next(a->loop); op = op->next) {
    if (ir_is_pure(op)) continue;
    if (op->code != IR_LOAD || !kiln_pipeline_add(a, op, MOST_ITERATIONS - 1)) return 0;
    words += kiln_pipeline_words(a, op->results[0].type);
    words += !kiln_pipeline_words(a, op->results[0].type);
  }
  return words;
}

/// Instructions that a thread loads a tile with.
static uint64_t accesses_of(const kiln_pipeline *a, const kiln_facts *facts, const ir_op *load) {
  const ir_type type = load->results[0].type;
  const ir_value *mask = load->operand_count > 1 ? load->operands[1] : NULL;
  const unsigned elements = ir_log2_elements(type);
  unsigned most = 0;
  for (unsigned axis = 0; axis < type.rank; axis++) {
    const unsigned row = kiln_fact_vector(facts, load->operands[0], mask, axis, LOG2_ACCESS);
    most = row > most ? row : most;
  }
  return elements > a->threads + most ? (uint64_t)1 << (elements - a->threads - most) : 1;
}

static uint64_t all_accesses(const kiln_pipeline *a) {
  const kiln_facts *facts = kiln_facts_compute(a->kernel->arena, a->kernel);
  uint64_t count = 0;
  for (unsigned i = 0; i < a->count; i++) count += accesses_of(a, facts, a->loads[i].load);
  return count;
}

/// Iterations that become one.
static unsigned count_for(kiln_pipeline *a) {
  int64_t step;
  if (!ir_constant_int(ir_for_step(a->loop), &step) || step < 1 || step > MOST_STEP) return 1;
  if (a->loop->attrs.loop.unroll == 1) return 1;
  const uint64_t words = words_of(a);
  if (!words || 2 * words > MOST_WORDS) return 1;
  const uint64_t accesses = all_accesses(a);
  unsigned count = MOST_ITERATIONS;
  while (count > 1 && (count * words > MOST_WORDS || count * accesses > MOST_ACCESSES)) count /= 2;
  return count;
}

/// The loop of groups: for lower .. end by `step`; what is left: for middle .. upper. Where nothing is left, the
/// middle may be past the end of the type: then the first loop ends at the old upper bound, and the other is empty.
typedef struct groups {
  ir_value *step, *end, *middle, *upper;
} groups;

/// `count` iterations, a power of two, become one.
static groups emit_groups(kiln_pipeline *a, unsigned count, int64_t step) {
  ir_builder *b = &a->b;
  ir_value *lower = ir_for_lower(a->loop), *upper = ir_for_upper(a->loop);
  const kiln_scalar scalar = (kiln_scalar)lower->type.scalar;
  ir_value *one = ir_const_int(b, scalar, 1), *any = ir_compare(b, IR_LT, 0, lower, upper),
           *last = ir_binary(b, IR_SUB, 0, ir_binary(b, IR_SUB, 0, upper, lower), one),
           *before_it = ir_binary(b, IR_DIV, IR_UNSIGNED, last, ir_for_step(a->loop)),
           *all = ir_binary(b, IR_ADD, 0, before_it, one),
           *whole = ir_binary(b, IR_DIV, IR_UNSIGNED, all, ir_const_int(b, scalar, count)),
           *left = ir_binary(b, IR_AND, 0, all, ir_const_int(b, scalar, count - 1)),
           *is_left = ir_compare(b, IR_NE, 0, left, ir_const_int(b, scalar, 0));
  groups g = {.step = ir_const_int(b, scalar, step * count)};
  ir_value *after = ir_binary(b, IR_ADD, 0, lower, ir_binary(b, IR_MUL, 0, whole, g.step));
  g.middle = ir_ternary(b, IR_SELECT, 0, any, after, lower);
  g.end = ir_ternary(b, IR_SELECT, 0, is_left, g.middle, upper);
  g.upper = ir_ternary(b, IR_SELECT, 0, is_left, upper, g.middle);
  return g;
}

/// What is left of the iterations, in a loop after this one.
static void emit_rest(kiln_pipeline *a, const groups *g) {
  ir_op *loop = a->loop;
  ir_builder b = a->b;
  b.block = loop->block, b.before = loop->next;
  ir_op *rest = ir_clone(&b, loop);
  ir_number(a->kernel);
  for (uint32_t i = 0; i < loop->result_count; i++) loop->results[i].forward = &rest->results[i];
  ir_apply_forwards(a->kernel);
  rest->operands[0] = g->middle, rest->operands[1] = g->upper;
  for (uint32_t i = 0; i < loop->result_count; i++) {
    loop->results[i].forward = NULL;
    ir_loop_initials(rest)[i] = &loop->results[i];
  }
}

/// Of the iterations in one, only the first can be the loop's first.
static void settle_first(kiln_pipeline *a, unsigned count) {
  for (ir_op *op = a->body->first; op; op = op->next) {
    if (op->code != IR_CMP || (op->attrs.kind != IR_EQ && op->attrs.kind != IR_NE)) continue;
    a->b.before = op;
    for (unsigned n = 1; n < count && op->operands[1] == ir_for_lower(a->loop); n++)
      if (op->operands[0] == a->index[KILN_THIS + n])
        ir_forward(&op->results[0], ir_const_int(&a->b, KILN_I1, op->attrs.kind == IR_NE));
  }
  ir_apply_forwards(a->kernel);
}

static void unroll_loop(kiln_pipeline *a) {
  const unsigned count = count_for(a);
  int64_t step;
  ir_value *next[IR_MAX_RESULTS];
  if (count < 2 || !ir_constant_int(ir_for_step(a->loop), &step)) return;
  kiln_pipeline_open_before(a, 0);
  const groups g = emit_groups(a, count, step);
  if (a->b.error.status != KILN_OK) return;
  emit_rest(a, &g);
  a->loop->operands[1] = g.end, a->loop->operands[2] = g.step;
  kiln_pipeline_open_copies(a, ir_const_int(&a->b, (kiln_scalar)g.middle->type.scalar, step), count - 1);
  for (unsigned i = 0; i < a->count; i++)
    for (unsigned n = 1; n < count; n++) kiln_pipeline_value(a, &a->loads[i].load->results[0], KILN_THIS + n);
  ir_op *end = ir_loop_next(a->loop);
  kiln_pipeline_open_end(a);
  for (uint32_t i = 0; i < end->operand_count; i++)
    next[i] = kiln_pipeline_value(a, end->operands[i], KILN_THIS + count - 1);
  for (uint32_t i = 0; i < end->operand_count; i++) end->operands[i] = next[i];
  settle_first(a, count);
}

kiln_status kiln_pass_unroll(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  return context->machine.has_fetch ? kiln_pipeline_loops(kernel, context, unroll_loop, "unroll", err)
                                    : KILN_OK;
}
