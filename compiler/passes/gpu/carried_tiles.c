// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles that a loop carries and that branches choose, where each choice is the same tile and a scalar: the loop carries
// the scalar. Where no branch chooses, too, if the tile is one of numbers, which is made anew for each use.
//
//   for (t = rows) { u = if c { yield n + rows } else { yield t }; ..u..; yield u }          becomes
//   for (s = 0)    { w = if c { yield n }        else { yield s }; ..w + rows..; yield w }
//
//   for (t = expand(n + iota)) { ..t..; yield t + m }      =>    for (s = n) { ..s + expand(iota)..; yield s + m }
//
// A carried tile has one layout, and its uses others: each iteration would move it through shared memory, and an address
// that rests on it could not be computed some iterations ahead.
#include "base/check.h"
#include "compiler/passes/gpu/loops.h"

enum { MOST_STEPS = 32, MOST_MADE = 16, MOST_CARRIED = 32 };

/// A tile as `base` and a scalar.
typedef struct carrying {
  ir_kernel *kernel;
  ir_op *loop;
  uint32_t index;       ///< among what the loop carries
  const ir_value *base; ///< defined before the loop
  unsigned steps;       ///< looked at
  unsigned branches;    ///< of them, that choose
  ir_value *scalar;     ///< that the loop carries in its place
  ir_builder b;
  struct {
    const ir_value *from;
    ir_value *to;
  } made[MOST_MADE]; ///< results of branches
  unsigned made_count;
  bool has_changed; ///< the kernel
} carrying;

// -------------------------------------------------------------------------------------- what it is

static ir_value *splatted(const ir_value *v) {
  return v->def && v->def->code == IR_SPLAT ? v->def->operands[0] : NULL;
}

/// The scalar that an addition adds to all elements, and the tile that it adds it to; NULL: there is none.
static ir_value *scalar_added(const ir_value *v, ir_value **out_to) {
  const ir_op *op = v->def;
  if (!op || op->code != IR_ADD || ir_type_class(op->results[0].type) != KILN_CLASS_INT) return NULL;
  for (unsigned i = 0; i < 2; i++) {
    ir_value *scalar = splatted(op->operands[i]);
    *out_to = op->operands[1 - i];
    if (scalar) return scalar;
  }
  return NULL;
}

static bool is_base(const carrying *c, const ir_value *v) {
  const bool are_counts = v->def && c->base->def && v->def->code == IR_IOTA && c->base->def->code == IR_IOTA;
  return v == c->base || (are_counts && ir_type_equal(v->type, c->base->type));
}

/// Whether the value is the base and a scalar, whatever branches are taken.
static bool is_known(carrying *c, const ir_value *v) {
  ir_value *to;
  if (++c->steps > MOST_STEPS) return false;
  if (v == ir_loop_args(c->loop)[c->index] || is_base(c, v)) return true;
  if (scalar_added(v, &to)) return is_known(c, to);
  if (!v->def || v->def->code != IR_IF || !ir_encloses(ir_loop_body(c->loop), v->def->block)) return false;
  if (++c->branches > MOST_MADE || v->def->result_count + MOST_CARRIED > IR_MAX_RESULTS) return false;
  return is_known(c, ir_if_end(v->def, 0)->operands[v->index]) &&
         is_known(c, ir_if_end(v->def, 1)->operands[v->index]);
}

/// The tile that the loop begins with, without the scalars that are added to it.
static const ir_value *base_of(ir_value *initial) {
  ir_value *to;
  for (unsigned i = 0; i < MOST_STEPS && scalar_added(initial, &to); i++) initial = to;
  return initial;
}

/// It is made of numbers that any thread knows.
static bool is_of_counts(const ir_value *v) {
  for (unsigned i = 0; i < MOST_STEPS && v->def && v->def->code != IR_IOTA; i++) {
    ir_value *to;
    if (v->def->code == IR_EXPAND) v = v->def->operands[0];
    else if (scalar_added(v, &to)) v = to;
    else return false;
  }
  return v->def && v->def->code == IR_IOTA;
}

// ----------------------------------------------------------------------------------- the scalar of it

static ir_value *scalar_of(carrying *c, ir_value *v, ir_block *block, ir_op *before);

static ir_value *tile_of(carrying *c, ir_value *scalar, ir_block *block, ir_op *before) {
  c->b.block = block, c->b.before = before;
  return ir_binary(&c->b, IR_ADD, 0, ir_splat(&c->b, scalar, c->base->type), (ir_value *)c->base);
}

/// The tile with the scalars that are added to it outermost: expand(n + t) is n + expand(t).
static ir_value *with_sums_outside(carrying *c, ir_value *tile) {
  ir_value *to;
  if (!tile->def || tile->def->code != IR_EXPAND) return tile;
  ir_value *scalar = scalar_added(with_sums_outside(c, tile->def->operands[0]), &to);
  if (!scalar) return tile;
  ir_value *expanded = with_sums_outside(c, ir_expand(&c->b, to, tile->def->attrs.axis));
  return ir_binary(&c->b, IR_ADD, 0, ir_splat(&c->b, scalar, tile->type), expanded);
}

/// The branch once more, with one result more.
static ir_value *scalar_of_branch(carrying *c, const ir_value *v) {
  ir_op *branch = v->def;
  for (unsigned i = 0; i < c->made_count; i++)
    if (c->made[i].from == v) return c->made[i].to;
  KILN_ASSERT(c->made_count < MOST_MADE);
  ir_value *own[2];
  for (unsigned i = 0; i < 2; i++) {
    ir_op *end = ir_if_end(branch, i);
    own[i] = scalar_of(c, end->operands[v->index], end->block, end);
  }
  ir_value *made = kiln_give_more(&c->b, branch, own);
  c->made[c->made_count].from = v, c->made[c->made_count++].to = made;
  branch->results[v->index].forward = tile_of(c, made, branch->block, branch->next);
  return made;
}

/// What is to be added to the base, before that operation.
static ir_value *scalar_of(carrying *c, ir_value *v, ir_block *block, ir_op *before) {
  ir_value *to, *step;
  if (v == ir_loop_args(c->loop)[c->index]) return c->scalar;
  if (is_base(c, v)) {
    c->b.block = block, c->b.before = before;
    return ir_const_int(&c->b, (kiln_scalar)c->scalar->type.scalar, 0);
  }
  if (!(step = scalar_added(v, &to))) return scalar_of_branch(c, v);
  ir_value *sum = scalar_of(c, to, block, before);
  c->b.block = block, c->b.before = before;
  return ir_binary(&c->b, IR_ADD, 0, sum, step);
}

// ------------------------------------------------------------------------------------------- the loop

static bool find(carrying *c) {
  ir_value *arg = ir_loop_args(c->loop)[c->index];
  if (!arg->type.rank || arg->type.pointer || ir_type_class(arg->type) != KILN_CLASS_INT) return false;
  c->base = base_of(ir_loop_initials(c->loop)[c->index]);
  c->steps = c->branches = c->made_count = 0;
  const ir_value *next = ir_loop_next(c->loop)->operands[c->index];
  return next != arg && is_known(c, next) && (c->branches || is_of_counts(c->base));
}

/// The loop is another one then.
static void carry_scalar(carrying *c) {
  ir_op *end = ir_loop_next(c->loop), *follows = c->loop->next;
  ir_block *body = ir_loop_body(c->loop);
  ir_value *arg = ir_loop_args(c->loop)[c->index], *initial = ir_loop_initials(c->loop)[c->index];
  c->b.place = c->loop->place;
  c->b.block = c->loop->block, c->b.before = c->loop;
  initial = with_sums_outside(c, initial);
  c->base = base_of(initial);
  c->scalar = ir_block_arg(c->kernel->arena, body, ir_scalar_type((kiln_scalar)arg->type.scalar));
  ir_value *next = scalar_of(c, end->operands[c->index], body, end),
           *first = scalar_of(c, initial, c->loop->block, c->loop);
  ir_forward(arg, tile_of(c, c->scalar, body, body->first));
  end->operands[c->index] = initial; // the loop does not change it: the clean-up takes it away
  ir_value *old = &c->loop->results[c->index];
  c->b.block = c->loop->block, c->b.before = c->loop;
  ir_op *made = kiln_carry_more(&c->b, c->loop, &first, &next, 1);
  if (!made) return;
  old->forward = tile_of(c, &made->results[made->result_count - 1], made->block, follows);
  ir_apply_forwards(c->kernel);
  c->loop = made;
  c->has_changed = true;
}

static void visit(ir_op *op, void *context) {
  carrying *c = context;
  if (op->code != IR_FOR || op->result_count + MOST_CARRIED > IR_MAX_RESULTS) return;
  const uint32_t count = op->result_count;
  c->loop = op;
  for (c->index = 0; c->index < count && c->b.error.status == KILN_OK; c->index++)
    if (find(c)) carry_scalar(c);
}

kiln_status kiln_pass_carried_tiles(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  carrying c = {.kernel = kernel, .b = {.arena = kernel->arena, .machine = true}};
  ir_walk(kernel->body, visit, &c);
  if (c.b.error.status != KILN_OK)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "carried-tiles: %s", c.b.error.text);
  return c.has_changed ? kiln_pass_simplify(kernel, context, err) : KILN_OK;
}
