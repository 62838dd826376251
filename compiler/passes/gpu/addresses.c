// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Addresses for processors that add a number which all threads share to one of each thread: what is the same
// in all threads becomes scalars.
//
//   carry   a loop that advances a tile by the same amount everywhere carries the sum of the amounts, a
//   scalar:
//           for (p = start) { ... p; yield p + c }  =>  for (s = 0) { ... start + s; yield s + c }
//   near    a load whose address is a parameter that promises 2 GiB and offsets: base + offsets of 32 bits,
//           where the base is a scalar that has taken up every uniform part
#include "compiler/analysis/provenance.h"
#include "compiler/passes/gpu/loops.h"

// ----------------------------------------------------------------------------------------- uniform

/// The scalar that all elements of the tile are; NULL when they may differ.
static ir_value *splatted_scalar(ir_value *v) {
  while (v && v->type.rank) {
    const ir_op *op = v->def;
    bool passes = op && (op->code == IR_SPLAT || op->code == IR_EXPAND || op->code == IR_BROADCAST ||
                         op->code == IR_RESHAPE || op->code == IR_TRANS);
    v = passes ? op->operands[0] : NULL;
  }
  return v;
}

static ir_value *as_i64(ir_builder *b, ir_value *v) {
  return v && v->type.scalar != KILN_I64 ? ir_cast(b, v, KILN_I64, 0, IR_ROUND_NEAREST) : v;
}

// ------------------------------------------------------------------------------------------- carry

enum { MOST_CARRIED = 32, MOST_STEPS = 8 };

/// A tile that a loop advances by scalars.
typedef struct advance {
  uint32_t index; ///< among carried values
  unsigned count;
  ir_value *steps[MOST_STEPS];
} advance;

/// The scalar that an addition adds to all elements of a tile, and the operand it adds it to; NULL: there is
/// none.
static ir_value *scalar_added(const ir_op *op, ir_value **out_to) {
  bool adds =
      op->code == IR_PTRADD || (op->code == IR_ADD && ir_type_class(op->results[0].type) == KILN_CLASS_INT);
  ir_value *step = adds ? splatted_scalar(op->operands[1]) : NULL;
  *out_to = op->operands[0];
  if (step || !adds || op->code == IR_PTRADD) return step;
  *out_to = op->operands[1];
  return splatted_scalar(op->operands[0]);
}

/// How the loop's body makes the next value of carried tile `i` from this one.
static bool find_advance(const ir_op *loop, uint32_t i, advance *out) {
  const ir_value *arg = ir_loop_args(loop)[i];
  ir_value *v = ir_loop_next(loop)->operands[i];
  *out = (advance){.index = i};
  if (!arg->type.rank || v == arg) return false;
  while (v != arg) {
    ir_value *step = v->def ? scalar_added(v->def, &v) : NULL;
    if (!step || out->count == MOST_STEPS) return false;
    out->steps[out->count++] = step;
  }
  return true;
}

static ir_value *moved(ir_builder *b, ir_value *start, ir_value *by) {
  ir_type type = ir_with_element(start->type, ir_element(by->type));
  return ir_binary(b, start->type.pointer ? IR_PTRADD : IR_ADD, 0, start, ir_splat(b, by, type));
}

static void carry_scalars(ir_op *loop, void *context) {
  ir_kernel *kernel = context;
  advance advances[MOST_CARRIED];
  ir_value *sums[MOST_CARRIED], *zeros[MOST_CARRIED], *next[MOST_CARRIED];
  uint32_t count = 0;
  if (loop->code != IR_FOR) return;
  for (uint32_t i = 0; i < loop->result_count && count < MOST_CARRIED; i++)
    count += find_advance(loop, i, &advances[count]);
  if (!count || loop->result_count + count > IR_MAX_RESULTS) return;
  ir_block *body = ir_loop_body(loop);
  ir_op *end = ir_loop_next(loop);
  ir_builder before = {.arena = kernel->arena, .block = loop->block, .before = loop, .place = loop->place},
             first = {.arena = kernel->arena, .block = body, .before = body->first, .place = loop->place},
             last = {.arena = kernel->arena, .block = body, .before = end, .place = loop->place};
  for (uint32_t n = 0; n < count; n++) {
    ir_value *arg = ir_loop_args(loop)[advances[n].index], *start = ir_loop_initials(loop)[advances[n].index];
    kiln_scalar scalar = arg->type.pointer ? KILN_I64 : (kiln_scalar)arg->type.scalar;
    zeros[n] = ir_const_int(&before, scalar, 0);
    next[n] = sums[n] = ir_block_arg(kernel->arena, body, ir_scalar_type(scalar));
    for (unsigned k = 0; k < advances[n].count; k++) {
      ir_value *step = advances[n].steps[k];
      next[n] = ir_binary(&last, IR_ADD, 0, next[n], arg->type.pointer ? as_i64(&last, step) : step);
    }
    ir_forward(arg, moved(&first, start, sums[n]));
    end->operands[advances[n].index] = start; // the loop does not change it: the clean-up takes it away
  }
  ir_op *follows = loop->next;
  uint32_t old = loop->result_count;
  ir_op *made = kiln_carry_more(&before, loop, zeros, next, count);
  if (!made) return;
  ir_builder after = {.arena = kernel->arena, .block = made->block, .before = follows, .place = loop->place};
  for (uint32_t n = 0; n < count; n++)
    loop->results[advances[n].index].forward =
        moved(&after, ir_loop_initials(made)[advances[n].index], &made->results[old + n]);
  ir_apply_forwards(kernel);
}

// -------------------------------------------------------------------------------------------- near

/// An address as a base that all threads share, and an offset in elements of each; offset NULL: none.
typedef struct parts {
  bool is_known, is_near;
  ir_value *base, *offset;
} parts;

typedef struct nearing {
  ir_kernel *kernel;
  parts *of; ///< by value
  uint32_t count;
} nearing;

/// Before the operation that makes `v`: what that is made of is there.
static ir_builder before(const nearing *n, const ir_value *v) {
  return (ir_builder){
      .arena = n->kernel->arena, .block = v->def->block, .before = v->def, .place = v->def->place};
}

/// An offset of 32 bits: those above it do not matter.
static ir_value *narrow(ir_builder *b, ir_value *v) {
  if (v->type.scalar == KILN_I32) return v;
  const ir_op *op = v->def;
  bool was_narrow = op && op->code == IR_CAST && op->operands[0]->type.scalar == KILN_I32;
  return was_narrow ? op->operands[0] : ir_cast(b, v, KILN_I32, 0, IR_ROUND_NEAREST);
}

static parts parts_of(nearing *n, ir_value *v);

static parts parts_of_sum(nearing *n, ir_value *v) {
  ir_value *by = v->def->operands[1], *scalar = splatted_scalar(by);
  parts p = parts_of(n, v->def->operands[0]);
  if (!p.is_near) return p;
  ir_builder b = before(n, v);
  if (scalar) p.base = ir_binary(&b, IR_PTRADD, 0, p.base, scalar);
  else p.offset = p.offset ? ir_binary(&b, IR_ADD, 0, p.offset, narrow(&b, by)) : narrow(&b, by);
  p.is_near = b.error.status == KILN_OK;
  return p;
}

static parts parts_of_shape(nearing *n, ir_value *v) {
  parts p = parts_of(n, v->def->operands[0]);
  if (!p.is_near || !p.offset) return p;
  ir_builder b = before(n, v);
  ir_type type = ir_with_element(v->type, ir_scalar_type(KILN_I32));
  ir_op *op = ir_emit(&b, v->def->code, &v->def->attrs, &p.offset, 1, &type, NULL, 0);
  p.offset = op ? &op->results[0] : NULL;
  p.is_near = op != NULL;
  return p;
}

static parts find_parts(nearing *n, ir_value *v) {
  const ir_op *op = v->def;
  if (!v->type.rank) {
    int param = kiln_param_of(v);
    return (parts){.is_near = param >= 0 && n->kernel->params[param].within, .base = v};
  }
  if (!op) return (parts){.is_near = false};
  switch (op->code) {
  case IR_SPLAT: return parts_of(n, op->operands[0]);
  case IR_PTRADD: return parts_of_sum(n, v);
  case IR_EXPAND:
  case IR_BROADCAST:
  case IR_RESHAPE:
  case IR_TRANS: return parts_of_shape(n, v);
  default: return (parts){.is_near = false};
  }
}

static parts parts_of(nearing *n, ir_value *v) {
  if (v->id >= n->count) return (parts){.is_near = false};
  if (!n->of[v->id].is_known) {
    parts p = find_parts(n, v);
    p.is_known = true;
    n->of[v->id] = p;
  }
  return n->of[v->id];
}

kiln_status kiln_pass_carry(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  ir_walk(kernel->body, carry_scalars, kernel);
  return KILN_OK;
}

kiln_status kiln_pass_near(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  nearing n = {.kernel = kernel};
  n.count = ir_number(kernel);
  n.of = KILN_NEW_ARRAY(kernel->arena, parts, n.count);
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    if (op->code != IR_LOAD || !op->operands[0]->type.rank || op->attrs.flags & IR_VOLATILE) continue;
    ir_value *pointer = op->operands[0];
    parts p = parts_of(&n, pointer);
    if (!p.is_near || !p.offset || !pointer->def) continue;
    ir_builder b = before(&n, pointer);
    ir_value *made = ir_binary(&b, IR_PTRADD, 0, ir_splat(&b, p.base, pointer->type), p.offset);
    if (made) op->operands[0] = made;
  }
  ir_apply_forwards(kernel);
  return KILN_OK;
}
