// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views become pointers and masks.
//
// A view parameter becomes base, extents and strides one by one: each is 8 bytes, so the argument block stays
// as it is. An access at indices i of a tile becomes one scalar pointer, base + sum(i * stride), and a tile
// of offsets from it, in i32 where strides are known to be small enough. Its mask compares lanes with what is
// left of each axis:
//
//   lane < clamp(extent - index, 0, n)        unless the axis never ends inside the tile
//   lane >= clamp(-index, 0, n)               only where the index may be negative
//
// so that all tile arithmetic is i32 and what is uniform is scalar. Dropped axes give scalar conditions.
//
// Needs views as operations (pass open-views). Afterwards only the views of mapped accesses are left. Uses
// facts of the kernel as it was before.
#include "compiler/analysis/facts.h"
#include "compiler/analysis/provenance.h"
#include "compiler/passes/pass.h"

#include <string.h>

typedef struct viewing {
  ir_kernel *kernel;
  kiln_facts *facts;
  ir_builder b;
} viewing;

// -------------------------------------------------------------------------------------- parameters

static ir_param part_of(const ir_param *view, const char *what, unsigned axis, kiln_arena *arena) {
  return (ir_param){.name = kiln_arena_format(arena, "%s.%s%u", view->name ? view->name : "", what, axis),
                    .type = ir_scalar_type(KILN_I64)};
}

/// Adds the parts of one view parameter at the end of the new list; returns the view built of them.
static ir_value *split_param(ir_kernel *kernel, ir_builder *b, const ir_param *view) {
  ir_value *parts[1 + 2 * IR_MAX_RANK];
  unsigned rank = view->type.rank, count = 0;
  ir_param base = *view;
  base.type = ir_pointer_type(view->type.scalar);
  base.rows = 0;
  parts[count++] = ir_add_param(kernel, &base);
  for (unsigned i = 0; i < rank; i++) {
    const ir_param extent = part_of(view, "extent", i, kernel->arena);
    parts[count++] = ir_add_param(kernel, &extent);
  }
  for (unsigned i = 0; i < rank; i++) {
    ir_param stride = part_of(view, "stride", i, kernel->arena);
    bool is_last = i + 1u == rank;
    if (!is_last) stride.div = view->rows / kiln_scalars[view->type.scalar].bytes;
    ir_value *v = ir_add_param(kernel, &stride);
    parts[count++] = is_last && view->rows ? ir_const_int(b, KILN_I64, 1) : v;
  }
  ir_op *op = ir_emit(b, IR_VIEW, NULL, parts, count, &view->type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

// ------------------------------------------------------------------------------------------ bounds

/// One axis of an access.
typedef struct axis {
  ir_value *extent, *stride, *index; // scalar i64
  int64_t count;                     // elements of the tile that are accessed
  unsigned log2;                     // of the tile's extent; 0 for a dropped axis
  bool dropped;
  bool may_end, may_begin; // the upper, the lower bound can lie inside the tile
} axis;

/// for i in lo .. extent step s, with lo, extent and s multiples of the tile: the tile never crosses the end.
static bool counts_up_to_extent(const viewing *v, const axis *a) {
  const ir_value *index = kiln_behind(a->index), *extent = kiln_behind(a->extent);
  if (index->def || !index->block || index->index != 0) return false;
  const ir_op *loop = index->block->parent;
  if (!loop || loop->code != IR_FOR || kiln_behind(ir_for_upper(loop)) != extent) return false;
  return kiln_fact_of(v->facts, a->index)->divisibility[0] >= a->log2 &&
         kiln_fact_of(v->facts, a->extent)->divisibility[0] >= a->log2;
}

static ir_value *i64(viewing *v, int64_t n) { return ir_const_int(&v->b, KILN_I64, n); }

/// clamp(x, 0, 2^log2) as i32.
static ir_value *clamped(viewing *v, ir_value *x, unsigned log2) {
  ir_value *floor = ir_binary(&v->b, IR_MAX, 0, x, i64(v, 0));
  return ir_cast(&v->b, ir_binary(&v->b, IR_MIN, 0, floor, i64(v, (int64_t)1 << log2)), KILN_I32, 0, 0);
}

static ir_value *both(viewing *v, ir_value *a, ir_value *b) {
  return !a ? b : !b ? a : ir_binary(&v->b, IR_AND, 0, a, b);
}

// ------------------------------------------------------------------------------------- tile pieces

/// iota along tile axis `at` of `rank`, with extents 1 elsewhere.
static ir_value *lanes(viewing *v, unsigned log2, unsigned at, unsigned rank) {
  ir_value *x = ir_iota(&v->b, log2);
  for (unsigned i = 0; i < rank; i++)
    if (i != at) x = ir_expand(&v->b, x, i);
  return x;
}

static ir_value *grown(viewing *v, ir_value *x, ir_type tile) {
  ir_type type = ir_with_element(tile, ir_element(x->type));
  return ir_same_shape(x->type, type) ? x : ir_broadcast(&v->b, x, type);
}

/// The index, or -tile: before that no lane is inside.
static ir_value *index_or_least(viewing *v, const axis *a) {
  return ir_binary(&v->b, IR_MAX, 0, a->index, i64(v, -((int64_t)1 << a->log2)));
}

/// extent - index, or what says the same of the tile's lanes where that is more than 64 bits hold.
static ir_value *left_of_axis(viewing *v, const axis *a) {
  ir_value *extent = a->extent, *index = a->index;
  const kiln_fact *extents = kiln_fact_of(v->facts, extent), *indices = kiln_fact_of(v->facts, index);
  int64_t held;
  if (__builtin_sub_overflow(extents->lo, indices->hi, &held))
    extent = ir_binary(&v->b, IR_MAX, 0, extent, i64(v, 0));
  if (__builtin_sub_overflow(extents->hi, indices->lo, &held)) {
    extent = ir_binary(&v->b, IR_MIN, 0, extent, i64(v, INT64_MAX - ((int64_t)1 << a->log2)));
    index = index_or_least(v, a);
  }
  return ir_binary(&v->b, IR_SUB, 0, extent, index);
}

/// -index, likewise.
static ir_value *before_axis(viewing *v, const axis *a) {
  bool is_held = kiln_fact_of(v->facts, a->index)->lo > INT64_MIN;
  return ir_binary(&v->b, IR_SUB, 0, i64(v, 0), is_held ? a->index : index_or_least(v, a));
}

static ir_value *lane_mask(viewing *v, const axis *a, unsigned at, unsigned rank) {
  ir_value *mask = NULL, *lane = lanes(v, a->log2, at, rank);
  if (a->may_end) {
    ir_value *rest = clamped(v, left_of_axis(v, a), a->log2);
    mask = ir_compare(&v->b, IR_LT, 0, lane, ir_splat(&v->b, rest, lane->type));
  }
  if (a->count >> a->log2 == 0) {
    ir_value *count = ir_splat(&v->b, ir_const_int(&v->b, KILN_I32, a->count), lane->type);
    mask = both(v, mask, ir_compare(&v->b, IR_LT, 0, lane, count));
  }
  if (a->may_begin) {
    ir_value *before = clamped(v, before_axis(v, a), a->log2);
    mask = both(v, mask, ir_compare(&v->b, IR_GE, 0, lane, ir_splat(&v->b, before, lane->type)));
  }
  return mask;
}

/// What all lanes share: the places on dropped axes exist.
static ir_value *shared_mask(viewing *v, const axis *axes, unsigned rank) {
  ir_value *mask = NULL;
  for (const axis *a = axes; a < axes + rank; a++) {
    if (!a->dropped) continue;
    ir_value *inside = a->may_end ? ir_compare(&v->b, IR_LT, 0, a->index, a->extent) : NULL;
    if (a->may_begin) inside = both(v, inside, ir_compare(&v->b, IR_GE, 0, a->index, i64(v, 0)));
    mask = both(v, mask, inside);
  }
  return mask;
}

/// What all lanes share joins the first axis that has a mask, before that is grown to the tile.
static ir_value *access_mask(viewing *v, const axis *axes, unsigned rank, ir_type tile) {
  ir_value *shared = shared_mask(v, axes, rank), *mask = NULL;
  unsigned at = 0;
  for (unsigned i = 0; i < rank; i++) {
    if (axes[i].dropped) continue;
    bool is_masked = axes[i].may_end || axes[i].may_begin || axes[i].count >> axes[i].log2 == 0;
    ir_value *part = is_masked ? lane_mask(v, &axes[i], at, tile.rank) : NULL;
    at++;
    if (!part) continue;
    if (shared) part = both(v, ir_splat(&v->b, shared, part->type), part);
    shared = NULL;
    mask = both(v, mask, grown(v, part, tile));
  }
  return !shared || mask ? mask : tile.rank ? ir_splat(&v->b, shared, tile) : shared;
}

/// Bounds of the offsets inside the tile, when the strides show any.
static bool offsets_fit_i32(const viewing *v, const axis *axes, unsigned rank) {
  __int128 lo = 0, hi = 0;
  for (unsigned i = 0; i < rank; i++) {
    __int128 last = ((int64_t)1 << axes[i].log2) - 1;
    const kiln_fact *stride = kiln_fact_of(v->facts, axes[i].stride);
    if (axes[i].dropped || !last) continue;
    lo += stride->lo < 0 ? last * stride->lo : 0;
    hi += stride->hi > 0 ? last * stride->hi : 0;
  }
  return lo >= INT32_MIN && hi <= INT32_MAX;
}

static ir_value *tile_offsets(viewing *v, const axis *axes, unsigned rank, ir_type tile) {
  kiln_scalar width = offsets_fit_i32(v, axes, rank) ? KILN_I32 : KILN_I64;
  ir_value *sum = NULL;
  unsigned at = 0;
  for (unsigned i = 0; i < rank; i++) {
    if (axes[i].dropped) continue;
    ir_value *lane = lanes(v, axes[i].log2, at++, tile.rank), *stride = axes[i].stride;
    if (width == KILN_I64) lane = ir_cast(&v->b, lane, KILN_I64, 0, 0);
    else stride = ir_cast(&v->b, stride, KILN_I32, 0, 0);
    ir_value *part = grown(v, ir_binary(&v->b, IR_MUL, 0, lane, ir_splat(&v->b, stride, lane->type)), tile);
    sum = sum ? ir_binary(&v->b, IR_ADD, 0, sum, part) : part;
  }
  return sum;
}

static ir_value *access_pointer(viewing *v, ir_value *base, const axis *axes, unsigned rank, ir_type tile) {
  ir_value *offset = NULL;
  for (unsigned i = 0; i < rank; i++) {
    ir_value *part = ir_binary(&v->b, IR_MUL, 0, axes[i].index, axes[i].stride);
    offset = offset ? ir_binary(&v->b, IR_ADD, 0, offset, part) : part;
  }
  ir_value *p = ir_binary(&v->b, IR_PTRADD, 0, base, offset);
  if (!tile.rank) return p;
  return ir_binary(&v->b, IR_PTRADD, 0, ir_splat(&v->b, p, tile), tile_offsets(v, axes, rank, tile));
}

// ---------------------------------------------------------------------------------------- accesses

static void read_axes(viewing *v, const ir_op *view, const ir_op *op, axis *axes) {
  ir_type type = view->results[0].type;
  for (unsigned i = 0; i < type.rank; i++) {
    axes[i] = (axis){.extent = ir_view_extents(view)[i],
                     .stride = ir_view_strides(view)[i],
                     .index = ir_view_indices(op)[i],
                     .dropped = type.log2[i] == IR_DROPPED};
    axes[i].log2 = axes[i].dropped ? 0 : type.log2[i];
    axes[i].count = ir_view_count(op, i);
    const kiln_fact *index = kiln_fact_of(v->facts, axes[i].index);
    const kiln_fact *extent = kiln_fact_of(v->facts, axes[i].extent);
    int64_t last;
    bool inside = !__builtin_add_overflow(index->hi, axes[i].count, &last) && extent->lo >= last;
    axes[i].may_begin = index->lo < 0;
    axes[i].may_end = !inside && !counts_up_to_extent(v, &axes[i]);
  }
}

static ir_op *lower_access(viewing *v, ir_op *op, const ir_op *view) {
  axis axes[IR_MAX_RANK];
  ir_type type = view->results[0].type, tile = ir_view_tile(type);
  ir_value *operands[3], *value = op->operands[op->operand_count - 1];
  read_axes(v, view, op, axes);
  size_t count = 0;
  operands[count++] = access_pointer(v, view->operands[0], axes, type.rank, tile);
  if (op->code != IR_VIEW_LOAD) operands[count++] = value;
  ir_value *mask = access_mask(v, axes, type.rank, tile);
  if (mask) operands[count++] = mask;
  if (mask && op->code == IR_VIEW_LOAD && op->attrs.access.has_other)
    operands[count++] = tile.rank ? ir_splat(&v->b, value, tile) : value;
  ir_attrs attrs = op->attrs;
  attrs.access = (ir_view_access){0};
  ir_opcode code = op->code == IR_VIEW_LOAD ? IR_LOAD : op->code == IR_VIEW_STORE ? IR_STORE : IR_ATOMIC;
  return ir_emit(&v->b, code, &attrs, operands, count, NULL, NULL, 0);
}

// ------------------------------------------------------------------------------------ views that are carried

// Views that loops carry, branches yield and selects choose: base, extents and strides are carried one by one, and a view is
// put together again where the loop's body begins and after the operation. Afterwards every view is the result of a
// `view` operation. What a loop does not change, the clean-up that follows takes out of it again.

typedef struct splitting {
  ir_builder b;
  bool too_many;
} splitting;

static uint32_t part_count(ir_type type) { return type.is_view ? 1u + 2u * type.rank : 1u; }

static ir_type part_type(ir_type view, uint32_t part) {
  return part ? ir_scalar_type(KILN_I64) : ir_pointer_type(view.scalar);
}

/// The view of `parts`, at the builder's place.
static ir_value *joined(splitting *s, ir_type type, ir_value *const *parts) {
  ir_op *op = ir_emit(&s->b, IR_VIEW, NULL, parts, part_count(type), &type, NULL, 0);
  return op ? &op->results[0] : NULL;
}

// --------------------------------------------------------------------------------------- arguments

static bool has_view(ir_value *const *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i]->type.is_view) return true;
  return false;
}

/// Adds the parts of one argument of `block`, and the view made of them to its beginning.
static void split_argument(splitting *s, ir_block *block, ir_value *old) {
  ir_value *parts[1 + 2 * IR_MAX_RANK];
  for (uint32_t i = 0; i < part_count(old->type); i++)
    parts[i] = ir_block_arg(s->b.arena, block, part_type(old->type, i));
  s->b.block = block;
  s->b.before = block->first;
  old->forward = joined(s, old->type, parts);
}

static void split_arguments(splitting *s, ir_block *block) {
  uint32_t count = block->arg_count;
  ir_value **old = block->args;
  if (!has_view(old, count)) return;
  block->args = NULL;
  block->arg_count = block->arg_capacity = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (old[i]->type.is_view) split_argument(s, block, old[i]);
    else old[i]->forward = ir_block_arg(s->b.arena, block, old[i]->type);
  }
}

// ----------------------------------------------------------------------------------------- results

/// Results lie in an array inside the operation: all move to a new one and the old ones forward to it.
static void split_results(splitting *s, ir_op *op) {
  uint32_t count = 0, to = 0;
  for (uint32_t i = 0; i < op->result_count; i++) count += part_count(op->results[i].type);
  if (count == op->result_count) return;
  if (count > IR_MAX_RESULTS) {
    s->too_many = true;
    return;
  }
  ir_value *results = KILN_NEW_ARRAY(s->b.arena, ir_value, count), *parts[1 + 2 * IR_MAX_RANK];
  s->b.block = op->block;
  s->b.before = op->next;
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *old = &op->results[i];
    for (uint32_t k = 0; k < part_count(old->type); k++, to++) {
      results[to] =
          (ir_value){.type = old->type.is_view ? part_type(old->type, k) : old->type, .def = op, .index = to};
      parts[k] = &results[to];
    }
    old->forward = old->type.is_view ? joined(s, old->type, parts) : parts[0];
  }
  op->results = results;
  op->result_count = count;
}

// ---------------------------------------------------------------------------------------- operands

/// Every view is the result of a view operation now, whose operands are its parts.
static ir_value *const *parts_of(ir_value *v) { return ir_resolve(v)->def->operands; }

/// A view that is selected is a view of selected parts.
static void split_select(splitting *s, ir_op *op) {
  ir_value *const *yes = parts_of(op->operands[1]), *const *no = parts_of(op->operands[2]);
  ir_value *parts[1 + 2 * IR_MAX_RANK];
  ir_type type = op->results[0].type;
  ir_build_before(&s->b, op);
  for (uint32_t i = 0; i < part_count(type); i++)
    parts[i] = yes[i] == no[i] ? yes[i] : ir_ternary(&s->b, IR_SELECT, 0, op->operands[0], yes[i], no[i]);
  op->results[0].forward = joined(s, type, parts);
  ir_remove(op);
}

static void split_operands(splitting *s, ir_op *op) {
  uint32_t count = 0, to = 0;
  if (!has_view(op->operands, op->operand_count)) return;
  for (uint32_t i = 0; i < op->operand_count; i++) count += part_count(op->operands[i]->type);
  ir_value **operands = KILN_NEW_ARRAY(s->b.arena, ir_value *, count);
  for (uint32_t i = 0; i < op->operand_count; i++) {
    ir_value *v = op->operands[i];
    uint32_t parts = part_count(v->type);
    if (v->type.is_view) memcpy(operands + to, parts_of(v), parts * sizeof *operands);
    else operands[to] = v;
    to += parts;
  }
  op->operands = operands;
  op->operand_count = count;
}

// ---------------------------------------------------------------------------------------------------- passes

kiln_status kiln_pass_open_views(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  splitting s = {.b = {.arena = kernel->arena, .block = kernel->body, .before = kernel->body->first}};
  // Parameters: all move to a new list, which has the parts of views.
  const uint32_t count = kernel->param_count;
  const ir_param *params = kernel->params;
  ir_value **args = kernel->body->args;
  if (has_view(args, count)) {
    kernel->params = NULL;
    kernel->body->args = NULL;
    kernel->param_count = kernel->body->arg_count = kernel->body->arg_capacity = 0;
    for (uint32_t i = 0; i < count; i++)
      args[i]->forward =
          params[i].type.is_view ? split_param(kernel, &s.b, &params[i]) : ir_add_param(kernel, &params[i]);
    ir_apply_forwards(kernel);
  }
  // Arguments of regions and results.
  for (ir_op *op = ir_next(kernel->body, NULL); op && !s.too_many; op = ir_next(kernel->body, op)) {
    if (!ir_is_loop(op) && op->code != IR_IF) continue;
    s.b.place = op->place;
    for (uint32_t i = 0; i < op->region_count; i++) split_arguments(&s, op->regions[i]);
    split_results(&s, op);
  }
  if (s.too_many)
    return kiln_fail(err, KILN_STATUS_LIMIT,
                     "views that a loop or branch yields are carried as base, extents and strides; these are "
                     "more than %d values",
                     IR_MAX_RESULTS);
  if (s.b.error.status != KILN_OK)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "carried views: %s", s.b.error.text);
  ir_apply_forwards(kernel);
  // Operands.
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (op->code == IR_SELECT && op->results[0].type.is_view) split_select(&s, op);
    else if (ir_is_loop(op) || op->code == IR_IF || ir_is_terminator(op)) split_operands(&s, op);
  }
  if (s.b.error.status != KILN_OK)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "selected views: %s", s.b.error.text);
  ir_apply_forwards(kernel);
  // Parts of views are resolved, so that facts see extents through them.
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (op->code != IR_VIEW_BASE && op->code != IR_DIM && op->code != IR_VIEW_STRIDE) continue;
    ir_forward(&op->results[0], op->operands[0]->def->operands[ir_view_part(op)]);
    ir_remove(op);
  }
  ir_apply_forwards(kernel);
  return KILN_OK;
}

kiln_status kiln_pass_views(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context;
  kiln_arena *scratch = kiln_arena_create();
  viewing v = {.kernel = kernel, .b = {.arena = kernel->arena}};
  v.facts = kiln_facts_compute(scratch, kernel);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    const bool is_access =
        op->code == IR_VIEW_LOAD || op->code == IR_VIEW_STORE || op->code == IR_VIEW_ATOMIC;
    if (!is_access || op->attrs.access.is_mapped) continue;
    ir_build_before(&v.b, op);
    ir_op *plain = lower_access(&v, op, op->operands[0]->def);
    if (!plain) continue;
    if (op->result_count) ir_forward(&op->results[0], &plain->results[0]);
    ir_remove(op);
  }
  kiln_arena_destroy(scratch);
  if (v.b.error.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "views: %s", v.b.error.text);
  ir_apply_forwards(kernel);
  ir_count_uses(kernel);
  for (ir_op *op = ir_next(kernel->body, NULL), *next; op; op = next) {
    next = ir_next(kernel->body, op);
    if (op->code == IR_VIEW && !op->results[0].uses) ir_remove(op);
  }
  return KILN_OK;
}
