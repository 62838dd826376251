// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The consumers' programs follow one another by a fixed step. What their number is divided by on the way to a
// tile's place is carried, so that between two programs, where the unit for products waits, no one divides:
//
//   for t in block .. programs step blocks { q = t / d;  r = t % d; ... }
//
//   for t in block .. programs step blocks, q = block / d, r = block % d {
//     ...
//     r' = r + blocks % d;  q' = q + blocks / d;  and where r' >= |d|:  r' -= |d|, q' += 1, or -1 where d < 0
//   }
//
// A quotient is stepped itself, by one more where its remainder wraps, so that quotients of quotients are
// carried, too: the axes of a grid are digits of a program's number.
//
// Needs the consumer of `roles`. The producer divides where no one waits (next_program.c).
#include "compiler/passes/gpu/loops.h"

enum { MOST_DIVISIONS = 8 };

/// A value of the loop, not negative, that grows by `step`, which the loop does not change, and by `more`, an
/// i1 at the end of the body, NULL: nothing.
typedef struct stepped {
  ir_value *value, *first, *step, *more;
} stepped;

/// Division of one of them by what the loop does not change.
typedef struct division {
  const ir_value *dividend;
  ir_value *divisor, *quotient, *remainder; ///< the loop's arguments
  ir_value *first[2], *next[2];
  uint32_t flags;
} division;

typedef struct carrying {
  ir_kernel *kernel;
  ir_op *loop;
  ir_block *body;
  ir_builder before, after;
  stepped numbers[1 + MOST_DIVISIONS];
  division divisions[MOST_DIVISIONS];
  unsigned number_count, count;
} carrying;

/// `value`, of the other sign where the divisor is negative.
static ir_value *by_sign(ir_builder *b, const division *d, ir_value *value) {
  if (d->flags & IR_UNSIGNED) return value;
  ir_value *zero = ir_const_int(b, KILN_I32, 0), *is_negative = ir_compare(b, IR_LT, 0, d->divisor, zero);
  return ir_ternary(b, IR_SELECT, 0, is_negative, ir_binary(b, IR_SUB, 0, zero, value), value);
}

/// The division of `of` that `op` is: one of those that are carried, or a new one. NULL: there are too many. A new
/// quotient is one of the stepped values, too.
static division *division_of(carrying *c, stepped of, const ir_op *op) {
  uint32_t flags = op->attrs.flags & IR_UNSIGNED;
  for (unsigned i = 0; i < c->count; i++) {
    division *d = &c->divisions[i];
    if (d->dividend == of.value && d->divisor == ir_resolve(op->operands[1]) && d->flags == flags) return d;
  }
  if (c->count == MOST_DIVISIONS) return NULL;
  division *d = &c->divisions[c->count++];
  *d = (division){.dividend = of.value, .divisor = ir_resolve(op->operands[1]), .flags = flags};
  ir_builder *before = &c->before, *after = &c->after;
  ir_value *size = by_sign(before, d, d->divisor),
           *unit = by_sign(before, d, ir_const_int(before, KILN_I32, 1));
  ir_value *rest = ir_binary(before, IR_REM, d->flags, of.step, d->divisor),
           *whole = ir_binary(before, IR_DIV, d->flags, of.step, d->divisor);
  d->quotient = ir_block_arg(c->kernel->arena, c->body, ir_scalar_type(KILN_I32));
  d->remainder = ir_block_arg(c->kernel->arena, c->body, ir_scalar_type(KILN_I32));
  d->first[0] = ir_binary(before, IR_DIV, d->flags, of.first, d->divisor);
  d->first[1] = ir_binary(before, IR_REM, d->flags, of.first, d->divisor);
  ir_value *r = ir_binary(after, IR_ADD, 0, d->remainder, rest);
  if (of.more) r = ir_binary(after, IR_ADD, 0, r, ir_cast(after, of.more, KILN_I32, IR_UNSIGNED, 0));
  ir_value *wraps = ir_compare(after, IR_GE, IR_UNSIGNED, r, size);
  ir_value *q = ir_binary(after, IR_ADD, 0, d->quotient, whole);
  d->next[0] = ir_ternary(after, IR_SELECT, 0, wraps, ir_binary(after, IR_ADD, 0, q, unit), q);
  d->next[1] = ir_ternary(after, IR_SELECT, 0, wraps, ir_binary(after, IR_SUB, 0, r, size), r);
  if (d->flags & IR_UNSIGNED)
    c->numbers[c->number_count++] = (stepped){d->quotient, d->first[0], whole, wraps};
  return d;
}

kiln_status kiln_pass_quotients(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  ir_op *loop = kiln_program_loop(kernel, KILN_CONSUMER);
  if (!loop) return KILN_OK;
  // The number of a block's first program and how many blocks there are: neither is negative.
  const ir_op *lower = ir_for_lower(loop)->def, *step = ir_for_step(loop)->def;
  if (!lower || !step || lower->code != IR_BLOCK || step->code != IR_BLOCK) return KILN_OK;
  carrying c = {.kernel = kernel, .loop = loop, .body = ir_loop_body(loop)};
  ir_value *first[2 * MOST_DIVISIONS], *next[2 * MOST_DIVISIONS];
  kiln_hoist_scalars(loop);
  c.before = (ir_builder){.arena = kernel->arena, .block = loop->block, .before = loop, .machine = true};
  c.after =
      (ir_builder){.arena = kernel->arena, .block = c.body, .before = ir_terminator(c.body), .machine = true};
  c.numbers[c.number_count++] =
      (stepped){.value = ir_for_counter(loop), .first = ir_for_lower(loop), .step = ir_for_step(loop)};
  for (ir_op *op = c.body->first, *after; op; op = after) {
    after = op->next;
    uint64_t known;
    if ((op->code != IR_DIV && op->code != IR_REM) || op->results[0].type.scalar != KILN_I32 ||
        op->results[0].type.rank || ir_home(op->operands[1]) == c.body ||
        ir_constant_bits(op->operands[1], &known))
      continue;
    unsigned i = 0;
    while (i < c.number_count && c.numbers[i].value != ir_resolve(op->operands[0])) i++;
    const division *d = i < c.number_count ? division_of(&c, c.numbers[i], op) : NULL;
    if (d) ir_forward(&op->results[0], op->code == IR_DIV ? d->quotient : d->remainder), ir_remove(op);
  }
  for (unsigned i = 0; i < 2 * c.count; i++) {
    first[i] = c.divisions[i / 2].first[i % 2];
    next[i] = c.divisions[i / 2].next[i % 2];
  }
  if (c.count) kiln_carry_more(&c.before, loop, first, next, 2 * c.count);
  kiln_error *failed = c.before.error.status != KILN_OK ? &c.before.error : &c.after.error;
  if (failed->status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "quotients: %s", failed->text);
  ir_apply_forwards(kernel);
  return KILN_OK;
}
