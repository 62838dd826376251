// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values and operations: their types, how an operation is made, and what is asked of the value that it makes. The types
// of an operation's results follow from its operands, by a function for each rule of ops.def (ir_infer_memory.c has
// those of memory and regions). Builder and verifier both come here; no other place checks types.
#include <stdio.h>
#include <string.h>

#include "compiler/ir/ir_infer.h"

// ----------------------------------------------------------------------------------------------------- types

bool ir_atomic_takes(ir_combine kind, kiln_scalar scalar) {
  const ir_combine_info *c = &ir_combines[kind];
  unsigned least = kiln_scalars[scalar].type_class == KILN_CLASS_INT     ? c->least_int
                   : kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT ? c->least_float
                                                                         : 0;
  return least && kiln_scalars[scalar].bits >= least;
}

kiln_scalar ir_integer_of(unsigned bits) {
  return bits == 1 ? KILN_I1 : bits == 8 ? KILN_I8 : bits == 16 ? KILN_I16 : bits == 32 ? KILN_I32 : KILN_I64;
}

ir_type ir_scalar_type(kiln_scalar scalar) { return (ir_type){.scalar = (uint8_t)scalar}; }

ir_type ir_pointer_type(kiln_scalar scalar) { return (ir_type){.scalar = (uint8_t)scalar, .pointer = 1}; }

ir_type ir_with_element(ir_type shape_of, ir_type element) {
  shape_of.scalar = element.scalar;
  shape_of.pointer = element.pointer;
  return shape_of;
}

ir_type ir_element(ir_type type) { return (ir_type){.scalar = type.scalar, .pointer = type.pointer}; }

ir_type ir_pointee(ir_type type) {
  if (type.pointer) type.pointer--;
  return type;
}

ir_type ir_view_tile(ir_type view) {
  ir_type tile = {.scalar = view.scalar, .pointer = view.pointer};
  for (unsigned i = 0; i < view.rank; i++)
    if (view.log2[i] != IR_DROPPED) tile.log2[tile.rank++] = view.log2[i];
  return tile;
}

ir_type ir_staged_type(const ir_op *stage) {
  KILN_ASSERT(stage->operands[0]->type.is_view);
  ir_type tile = ir_view_tile(stage->operands[0]->type), turned = tile;
  if (!(stage->attrs.access.is_turned)) return tile;
  turned.log2[0] = tile.log2[1], turned.log2[1] = tile.log2[0];
  return turned;
}

int64_t ir_view_count(const ir_op *access, unsigned axis) {
  ir_type view = access->operands[0]->type;
  unsigned at = 0;
  KILN_ASSERT(view.is_view && axis < view.rank);
  if (view.log2[axis] == IR_DROPPED) return 1;
  for (unsigned i = 0; i < axis; i++) at += view.log2[i] != IR_DROPPED;
  if (access->attrs.access.first && access->attrs.access.axis == at) return access->attrs.access.first;
  if (access->attrs.access.across && at + 1u == ir_view_tile(view).rank) return access->attrs.access.across;
  return (int64_t)1 << view.log2[axis];
}

ir_type ir_memory_type(ir_type tile, unsigned slots) {
  KILN_ASSERT(slots && slots <= UINT8_MAX);
  tile.slots = (uint8_t)slots;
  return tile;
}

ir_type ir_barrier_type(unsigned slots) { return ir_memory_type(ir_scalar_type(KILN_I64), slots); }

bool ir_type_equal(ir_type a, ir_type b) { return !memcmp(&a, &b, sizeof a); }

bool ir_same_shape(ir_type a, ir_type b) {
  return a.rank == b.rank && a.is_view == b.is_view && !memcmp(a.log2, b.log2, sizeof a.log2);
}

unsigned ir_log2_elements(ir_type type) {
  unsigned sum = 0;
  for (unsigned i = 0; i < type.rank; i++)
    if (type.log2[i] != IR_DROPPED) sum += type.log2[i];
  return sum;
}

unsigned ir_type_class(ir_type type) {
  return type.pointer ? (unsigned)KILN_CLASS_POINTER : kiln_scalars[type.scalar].type_class;
}

unsigned ir_type_bits(ir_type type) { return type.pointer ? 64 : kiln_scalars[type.scalar].bits; }

const char *ir_type_text(ir_type type, char out[IR_TYPE_TEXT]) {
  int at = snprintf(out, IR_TYPE_TEXT, "%s%.*s%s",
                    type.is_view ? "view "
                    : type.slots ? "shared "
                                 : "",
                    type.pointer > 8 ? 8 : type.pointer, "********",
                    type.scalar < KILN_SCALAR_COUNT ? kiln_scalars[type.scalar].spelling : "?");
  for (unsigned i = 0; i < type.rank && i < IR_MAX_RANK && at < IR_TYPE_TEXT - 16; i++) {
    at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "%s", i ? ", " : "[");
    if (type.log2[i] == IR_DROPPED) at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "_");
    else at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "%llu", 1ull << (type.log2[i] & 63));
  }
  if (type.rank) at += snprintf(out + at, IR_TYPE_TEXT - (size_t)at, "]");
  if (type.slots) snprintf(out + at, IR_TYPE_TEXT - (size_t)at, " x %u", type.slots);
  return out;
}

// --------------------------------------------------------------------- making, and where an operation stands

ir_kernel *ir_kernel_create(kiln_arena *arena, const char *name) {
  ir_kernel *kernel = KILN_NEW(arena, ir_kernel);
  kernel->arena = arena;
  kernel->name = kiln_arena_text(arena, name, strlen(name));
  kernel->body = KILN_NEW(arena, ir_block);
  kernel->warps = 4;
  return kernel;
}

ir_value *ir_add_param(ir_kernel *kernel, const ir_param *param) {
  // Parameters are few, so the array is copied for each one instead of carrying a capacity in the kernel.
  ir_param *params = KILN_NEW_ARRAY(kernel->arena, ir_param, kernel->param_count + 1u);
  if (kernel->param_count) memcpy(params, kernel->params, kernel->param_count * sizeof *params);
  params[kernel->param_count++] = *param;
  kernel->params = params;
  return ir_block_arg(kernel->arena, kernel->body, param->type);
}

ir_value *ir_block_arg(kiln_arena *arena, ir_block *block, ir_type type) {
  ir_value *v = KILN_NEW(arena, ir_value);
  v->type = type;
  v->block = block;
  v->index = block->arg_count;
  KILN_GROW(arena, block->args, block->arg_count, block->arg_capacity);
  block->args[block->arg_count++] = v;
  return v;
}

void ir_insert(ir_op *op, ir_block *block, ir_op *before) {
  KILN_ASSERT(!before || before->block == block);
  op->block = block;
  op->next = before;
  op->prev = before ? before->prev : block->last;
  *(op->prev ? &op->prev->next : &block->first) = op;
  *(before ? &before->prev : &block->last) = op;
}

void ir_build_before(ir_builder *b, ir_op *op) {
  b->block = op->block;
  b->before = op;
  b->place = op->place;
}

ir_op *ir_emit(ir_builder *b, ir_opcode code, const ir_attrs *attrs, ir_value *const *operands,
               size_t operand_count, const ir_type *given, ir_block *const *regions, size_t region_count) {
  ir_type types[IR_MAX_RESULTS];
  uint32_t result_count;
  if (b->error.status != KILN_OK) return NULL;
  if (code >= IR_TILE_COUNT && code < IR_OPCODE_COUNT && !b->machine) {
    kiln_fail(&b->error, KILN_STATUS_INTERNAL, "%s: expected an operation of tiles, found one of machines",
              ir_ops[code].text);
    return NULL;
  }
  const ir_op draft = {.code = code,
                       .attrs = attrs ? *attrs : (ir_attrs){0},
                       .operands = (ir_value **)operands,
                       .operand_count = (uint32_t)operand_count,
                       .regions = (ir_block **)regions,
                       .region_count = (uint32_t)region_count,
                       .place = b->place};
  kiln_status status = ir_infer(&draft, given, types, &result_count, &b->error);
  if (status != KILN_OK) {
    b->error.status = status;
    return NULL;
  }
  ir_op *op = kiln_arena_copy(b->arena, &draft, sizeof draft);
  op->operands = kiln_arena_copy(b->arena, operands, operand_count * sizeof *operands);
  op->regions = kiln_arena_copy(b->arena, regions, region_count * sizeof *regions);
  op->results = kiln_arena_alloc(b->arena, result_count * sizeof *op->results); // zero, and few
  op->result_count = result_count;
  for (uint32_t i = 0; i < result_count; i++)
    op->results[i].type = types[i], op->results[i].def = op, op->results[i].index = i;
  for (uint32_t i = 0; i < op->region_count; i++) op->regions[i]->parent = op;
  ir_insert(op, b->block, b->before);
  return op;
}

void ir_remove(ir_op *op) {
  KILN_ASSERT(op->block); // it is removed once
  *(op->prev ? &op->prev->next : &op->block->first) = op->next;
  *(op->next ? &op->next->prev : &op->block->last) = op->prev;
  op->prev = op->next = NULL;
  op->block = NULL;
}

void ir_move(ir_op *op, ir_block *block, ir_op *position) {
  if (op == position) return;
  ir_remove(op);
  ir_insert(op, block, position);
}

// ----------------------------------------------------------------------------------------------- short forms

static ir_value *one(ir_op *op) { return op ? &op->results[0] : NULL; }

static ir_value *flagged(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *const *operands,
                         size_t count) {
  ir_attrs attrs = {.flags = flags};
  return one(ir_emit(b, code, &attrs, operands, count, NULL, NULL, 0));
}

static ir_value *given(ir_builder *b, ir_opcode code, ir_value *a, ir_type type) {
  return one(ir_emit(b, code, NULL, &a, 1, &type, NULL, 0));
}

ir_value *ir_const_bits(ir_builder *b, ir_type scalar_type, uint64_t bits) {
  unsigned width = ir_type_bits(scalar_type);
  ir_attrs attrs = {.bits = width < 64 ? bits & ((1ull << width) - 1) : bits};
  return one(ir_emit(b, IR_CONST, &attrs, NULL, 0, &scalar_type, NULL, 0));
}

ir_value *ir_const_int(ir_builder *b, kiln_scalar scalar, int64_t value) {
  return ir_const_bits(b, ir_scalar_type(scalar), (uint64_t)value);
}

ir_value *ir_const_float(ir_builder *b, kiln_scalar scalar, double value) {
  return ir_const_bits(b, ir_scalar_type(scalar), ir_float_to_bits(scalar, value, true));
}

ir_value *ir_const_like(ir_builder *b, ir_type like, double value) {
  bool is_float = ir_type_class(like) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  ir_value *v =
      is_float ? ir_const_float(b, like.scalar, value) : ir_const_int(b, like.scalar, (int64_t)value);
  return like.rank ? ir_splat(b, v, like) : v;
}

ir_value *ir_unary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *a) {
  return flagged(b, code, flags, &a, 1);
}

ir_value *ir_binary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *left, ir_value *right) {
  return flagged(b, code, flags, (ir_value *[]){left, right}, 2);
}

ir_value *ir_binary_int(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *left, int64_t right) {
  if (!left) return NULL;
  return ir_binary(b, code, flags, left, ir_const_int(b, left->type.scalar, right));
}

ir_value *ir_ternary(ir_builder *b, ir_opcode code, uint32_t flags, ir_value *x, ir_value *y, ir_value *z) {
  return flagged(b, code, flags, (ir_value *[]){x, y, z}, 3);
}

ir_value *ir_compare(ir_builder *b, ir_predicate predicate, uint32_t flags, ir_value *left, ir_value *right) {
  ir_attrs attrs = {.flags = flags, .kind = (uint8_t)predicate};
  return one(ir_emit(b, IR_CMP, &attrs, (ir_value *[]){left, right}, 2, NULL, NULL, 0));
}

ir_value *ir_cast(ir_builder *b, ir_value *a, kiln_scalar to, uint32_t flags, ir_round round) {
  if (!a || b->error.status != KILN_OK) return NULL;
  ir_attrs attrs = {.flags = flags, .round = (uint8_t)round};
  ir_type type = ir_with_element(a->type, ir_scalar_type(to));
  return one(ir_emit(b, IR_CAST, &attrs, &a, 1, &type, NULL, 0));
}

ir_value *ir_bitcast(ir_builder *b, ir_value *a, ir_type element) {
  return a && b->error.status == KILN_OK ? given(b, IR_BITCAST, a, ir_with_element(a->type, element)) : NULL;
}

void ir_print_value(ir_builder *b, const char *text, ir_value *v, bool is_unsigned, unsigned digits) {
  ir_attrs attrs = {.print = {.text = text, .digits = (uint8_t)digits}};
  ir_value *operands[4] = {NULL};
  for (uint8_t axis = 0; axis < 3 && b->error.status == KILN_OK; axis++)
    operands[1 + axis] = one(ir_emit(b, IR_PID, &(ir_attrs){.axis = axis}, NULL, 0, NULL, NULL, 0));
  if (v && !v->type.pointer) {
    bool is_float = kiln_scalars[v->type.scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
    if (is_float && digits) v = ir_bitcast(b, v, ir_scalar_type(ir_integer_of(ir_type_bits(v->type))));
    is_float &= !digits;
    if (v && !is_float && (is_unsigned || digits || v->type.scalar == KILN_I1)) attrs.flags = IR_UNSIGNED;
    if (v && ir_type_bits(v->type) < 32)
      v = ir_cast(b, v, is_float ? KILN_F32 : KILN_I32, attrs.flags, IR_ROUND_NEAREST);
  }
  operands[0] = v;
  if (b->error.status == KILN_OK) ir_emit(b, IR_PRINT, &attrs, operands + !v, v ? 4 : 3, NULL, NULL, 0);
}

ir_value *ir_splat(ir_builder *b, ir_value *scalar, ir_type tile_type) {
  return scalar && b->error.status == KILN_OK
             ? given(b, IR_SPLAT, scalar, ir_with_element(tile_type, scalar->type))
             : NULL;
}

ir_value *ir_expand(ir_builder *b, ir_value *a, unsigned axis) {
  ir_attrs attrs = {.axis = (uint8_t)axis};
  return one(ir_emit(b, IR_EXPAND, &attrs, &a, 1, NULL, NULL, 0));
}

ir_value *ir_broadcast(ir_builder *b, ir_value *a, ir_type type) {
  return a && b->error.status == KILN_OK ? given(b, IR_BROADCAST, a, ir_with_element(type, a->type)) : NULL;
}

ir_value *ir_reshape(ir_builder *b, ir_value *a, ir_type type) {
  return a && b->error.status == KILN_OK ? given(b, IR_RESHAPE, a, ir_with_element(type, a->type)) : NULL;
}

ir_value *ir_iota(ir_builder *b, unsigned log2) {
  ir_type type = {.scalar = KILN_I32, .rank = 1, .log2 = {(uint8_t)log2}};
  return one(ir_emit(b, IR_IOTA, NULL, NULL, 0, &type, NULL, 0));
}

void ir_yield(ir_builder *b, ir_value *const *values, size_t count) {
  b->before = NULL;
  ir_emit(b, IR_YIELD, NULL, values, count, NULL, NULL, 0);
}

uint32_t ir_view_part(const ir_op *op) {
  KILN_ASSERT(op->code == IR_VIEW_BASE || op->code == IR_DIM || op->code == IR_VIEW_STRIDE);
  if (op->code == IR_VIEW_BASE) return 0;
  return 1u + op->attrs.axis + (op->code == IR_VIEW_STRIDE ? op->operands[0]->type.rank : 0);
}

// ---------------------------------------------------------------------------------------------------- values

void ir_forward(ir_value *from, ir_value *to) {
  KILN_ASSERT(to && from != to && ir_type_equal(from->type, to->type));
  KILN_ASSERT_DEEP(ir_resolve(to) != from); // no cycle
  from->forward = to;
}

ir_value *ir_resolve(ir_value *v) {
  ir_value *end = v;
  while (end->forward) end = end->forward;
  while (v->forward) { // shorten the path for the next one who asks
    ir_value *next = v->forward;
    v->forward = end;
    v = next;
  }
  return end;
}

bool ir_constant_bits(const ir_value *v, uint64_t *out_bits) {
  while (v->def && ir_is_renaming(v->def)) v = v->def->operands[0];
  if (!v->def || v->def->code != IR_CONST) return false;
  *out_bits = v->def->attrs.bits;
  return true;
}

bool ir_is_zero(const ir_value *v) {
  uint64_t bits;
  return ir_constant_bits(ir_resolve((ir_value *)v), &bits) && !bits;
}

bool ir_constant_int(const ir_value *v, int64_t *out_value) {
  uint64_t bits;
  unsigned width = ir_type_bits(v->type);
  if (!(ir_type_class(v->type) & (KILN_CLASS_INT | KILN_CLASS_BOOL)) || !ir_constant_bits(v, &bits))
    return false;
  if (width == 1) *out_value = (int64_t)(bits & 1);
  else *out_value = (int64_t)(bits << (64 - width)) >> (64 - width);
  return true;
}

bool ir_constant_float(const ir_value *v, double *out_value) {
  uint64_t bits;
  if (!(ir_type_class(v->type) & (KILN_CLASS_FLOAT | KILN_CLASS_FP8)) || !ir_constant_bits(v, &bits))
    return false;
  *out_value = ir_bits_to_float(v->type.scalar, bits);
  return true;
}

ir_op *ir_terminator(const ir_block *block) {
  ir_op *op = block->last;
  return op && ir_is_terminator(op) ? op : NULL;
}

// -------------------------------------------------------------------------------------------- typing: values

ir_type ir_operand_type(const ir_typing *t, uint32_t i) { return t->op->operands[i]->type; }
const char *ir_name_of(const ir_typing *t) { return ir_ops[t->op->code].text; }

kiln_status ir_wrong(const ir_typing *t, const char *what, ir_type want, ir_type got) {
  char a[IR_TYPE_TEXT], b[IR_TYPE_TEXT];
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: %s: expected %s, found %s", ir_name_of(t), what,
                   ir_type_text(want, a), ir_type_text(got, b));
}

kiln_status ir_refuse(const ir_typing *t, const char *expected, ir_type got) {
  char b[IR_TYPE_TEXT];
  return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected %s, found %s", ir_name_of(t), expected,
                   ir_type_text(got, b));
}

kiln_status ir_yield_type(ir_typing *t, ir_type type) {
  if (t->count >= IR_MAX_RESULTS)
    return kiln_fail(t->err, KILN_STATUS_LIMIT, "%s: expected at most %d results, found more", ir_name_of(t),
                     IR_MAX_RESULTS);
  t->types[t->count++] = type;
  return KILN_OK;
}

kiln_status ir_expect_type(const ir_typing *t, const char *what, ir_type want, ir_type got) {
  return ir_type_equal(want, got) ? KILN_OK : ir_wrong(t, what, want, got);
}

kiln_status ir_expect_shape(const ir_typing *t, ir_type a, ir_type b) {
  return ir_same_shape(a, b) ? KILN_OK : ir_wrong(t, "shapes differ", a, b);
}

kiln_status ir_need_given(const ir_typing *t) {
  return t->given
             ? KILN_OK
             : kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: the result type must be named", ir_name_of(t));
}

bool ir_is_scalar(ir_type type, kiln_scalar scalar) {
  return !type.rank && !type.pointer && !type.is_view && !type.slots && type.scalar == scalar;
}

bool ir_is_index(ir_type type) {
  return !type.pointer && !type.is_view && (type.scalar == KILN_I32 || type.scalar == KILN_I64);
}

kiln_status ir_check_regions(const ir_typing *t, uint32_t want) {
  if (t->op->region_count != want)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected %u regions, found %u", ir_name_of(t), want,
                     t->op->region_count);
  for (uint32_t i = 0; i < want; i++)
    if (!t->op->regions[i])
      return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: region %u is missing", ir_name_of(t), i);
  return KILN_OK;
}

static kiln_status all_equal(const ir_typing *t, uint32_t from) {
  for (uint32_t i = from + 1; i < t->op->operand_count; i++)
    if (!ir_type_equal(ir_operand_type(t, from), ir_operand_type(t, i)))
      return ir_wrong(t, "operands differ", ir_operand_type(t, from), ir_operand_type(t, i));
  return KILN_OK;
}

static kiln_status rule_none(ir_typing *t) {
  if (t->op->code == IR_COND && !ir_is_scalar(ir_operand_type(t, 0), KILN_I1))
    return ir_refuse(t, "a scalar i1 condition", ir_operand_type(t, 0));
  return KILN_OK;
}

/// A number that belongs to an axis: of a view, or of the grid where there is no operand.
static kiln_status rule_axis(ir_typing *t) {
  const unsigned axis = t->op->attrs.axis;
  if (!t->op->operand_count) {
    if (axis > 2)
      return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis of 0, 1 or 2, found %u",
                       ir_name_of(t), axis);
    return ir_yield_type(t, ir_scalar_type(KILN_I32));
  }
  ir_type view = ir_operand_type(t, 0);
  if (!view.is_view) return ir_refuse(t, "a view", view);
  if (axis >= view.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", ir_name_of(t),
                     view.rank, axis);
  return ir_yield_type(t, ir_scalar_type(KILN_I64));
}

static kiln_status rule_given(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  const ir_type to = *t->given;
  const bool is_plain = !to.pointer && !to.is_view;
  if (t->op->code == IR_CONST && (to.rank || !is_plain)) return ir_refuse(t, "a scalar type", to);
  if (t->op->code == IR_IOTA && (to.rank != 1 || to.scalar != KILN_I32 || !is_plain))
    return ir_refuse(t, "a result type i32[n]", to);
  return ir_yield_type(t, to);
}

static kiln_status rule_splat(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  if (ir_operand_type(t, 0).rank || ir_operand_type(t, 0).is_view)
    return ir_refuse(t, "a scalar", ir_operand_type(t, 0));
  if (!t->given->rank) return ir_refuse(t, "a tile as result type", *t->given);
  KILN_TRY(ir_expect_type(t, "element", ir_operand_type(t, 0), ir_element(*t->given)));
  return ir_yield_type(t, *t->given);
}

/// Operands of one type, which the result has too, or its shape. A selection has a condition before them.
static kiln_status rule_equal(ir_typing *t) {
  const uint32_t first = t->op->code == IR_SELECT ? 1 : 0;
  const ir_type type = ir_operand_type(t, first);
  if (first && ir_operand_type(t, 0).rank) KILN_TRY(ir_expect_shape(t, ir_operand_type(t, 0), type));
  KILN_TRY(all_equal(t, first));
  if (t->op->code == IR_MULHI && ir_type_bits(type) < 32) return ir_refuse(t, "i32 or i64", type);
  if (t->op->code != IR_CMP) return ir_yield_type(t, type);
  if (t->op->attrs.kind > IR_GE)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "cmp: unknown predicate %u", t->op->attrs.kind);
  return ir_yield_type(t, ir_with_element(type, ir_scalar_type(KILN_I1)));
}

static kiln_status rule_cast(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  const ir_type from = ir_operand_type(t, 0), to = *t->given;
  const bool keeps_bits = t->op->code == IR_BITCAST, is_address = from.pointer || to.pointer;
  if (!keeps_bits && (to.pointer || to.is_view)) return ir_refuse(t, "an element type as result", to);
  KILN_TRY(ir_expect_shape(t, from, to));
  if (keeps_bits && ir_type_bits(from) != ir_type_bits(to)) return ir_wrong(t, "widths differ", from, to);
  if (keeps_bits && is_address &&
      !((from.pointer || from.scalar == KILN_I64) && (to.pointer || to.scalar == KILN_I64)))
    return ir_wrong(t, "a pointer becomes i64 or another pointer", from, to);
  return ir_yield_type(t, to);
}

static kiln_status rule_expand(ir_typing *t) {
  ir_type from = ir_operand_type(t, 0), to = from;
  unsigned axis = t->op->attrs.axis;
  if (axis > from.rank || from.rank >= IR_MAX_RANK)
    return kiln_fail(t->err, KILN_STATUS_SOURCE,
                     "expand: expected an axis of at most %u and a rank below %d, found axis %u", from.rank,
                     IR_MAX_RANK, axis);
  to.rank++;
  memmove(to.log2 + axis + 1, from.log2 + axis, from.rank - axis);
  to.log2[axis] = 0;
  return ir_yield_type(t, to);
}

static kiln_status rule_broadcast(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  ir_type from = ir_operand_type(t, 0), to = *t->given;
  if (from.rank != to.rank) return ir_wrong(t, "ranks differ", from, to);
  for (unsigned i = 0; i < from.rank; i++)
    if (from.log2[i] && from.log2[i] != to.log2[i])
      return ir_wrong(t, "extents neither equal nor 1", from, to);
  KILN_TRY(ir_expect_type(t, "element", ir_element(from), ir_element(to)));
  return ir_yield_type(t, to);
}

static kiln_status rule_reshape(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  KILN_TRY(ir_expect_type(t, "element", ir_element(ir_operand_type(t, 0)), ir_element(*t->given)));
  if (ir_log2_elements(ir_operand_type(t, 0)) != ir_log2_elements(*t->given))
    return ir_wrong(t, "numbers of elements differ", ir_operand_type(t, 0), *t->given);
  return ir_yield_type(t, *t->given);
}

static kiln_status rule_trans(ir_typing *t) {
  ir_type from = ir_operand_type(t, 0), to = from;
  unsigned seen = 0;
  for (unsigned i = 0; i < from.rank; i++) {
    unsigned axis = t->op->attrs.perm[i];
    if (axis >= from.rank || seen & 1u << axis)
      return kiln_fail(t->err, KILN_STATUS_SOURCE,
                       "trans: expected a permutation of %u axes, found axis %u at %u", from.rank, axis, i);
    seen |= 1u << axis;
    to.log2[i] = from.log2[axis];
  }
  return ir_yield_type(t, to);
}

static kiln_status rule_join(ir_typing *t) {
  ir_type to = ir_operand_type(t, 0);
  KILN_TRY(all_equal(t, 0));
  if (to.rank >= IR_MAX_RANK) return ir_refuse(t, "a rank below 12", to);
  to.log2[to.rank++] = 1;
  return ir_yield_type(t, to);
}

static kiln_status rule_split(ir_typing *t) {
  ir_type to = ir_operand_type(t, 0);
  if (!to.rank || to.log2[to.rank - 1] != 1) return ir_refuse(t, "a tile whose last extent is 2", to);
  to.log2[--to.rank] = 0;
  KILN_TRY(ir_yield_type(t, to));
  return ir_yield_type(t, to);
}

static kiln_status rule_dot(ir_typing *t) {
  ir_type a = ir_operand_type(t, 0), b = ir_operand_type(t, 1), c = ir_operand_type(t, 2);
  unsigned r = a.rank;
  if ((r != 2 && r != 3) || b.rank != r || c.rank != r)
    return ir_refuse(t, "three tiles of rank 2, or three of rank 3", a);
  if (ir_type_class(a) == KILN_CLASS_INT && a.scalar != KILN_I8) return ir_refuse(t, "i8 or a float type", a);
  bool fp8 = ir_type_class(a) == KILN_CLASS_FP8 && ir_type_class(b) == KILN_CLASS_FP8;
  if (a.scalar != b.scalar && !fp8) return ir_wrong(t, "element types differ", ir_element(a), ir_element(b));
  ir_type right = a, sum = c;
  right.scalar = b.scalar;
  right.log2[r - 2] = a.log2[r - 1];
  right.log2[r - 1] = b.log2[r - 1];
  memcpy(sum.log2, a.log2, r);
  sum.log2[r - 1] = b.log2[r - 1];
  if (!ir_same_shape(right, b)) return ir_wrong(t, "second operand (M x K times K x N)", right, b);
  if (!ir_same_shape(sum, c)) return ir_wrong(t, "accumulator (M x N)", sum, c);
  const kiln_scalar accumulator = a.scalar == KILN_I8 ? KILN_I32 : a.scalar == KILN_F64 ? KILN_F64 : KILN_F32;
  KILN_TRY(ir_expect_type(t, "accumulator element", ir_scalar_type(accumulator), ir_element(c)));
  return ir_yield_type(t, c);
}

static kiln_status rule_sort(ir_typing *t) {
  KILN_TRY(ir_need_given(t));
  ir_type from = ir_operand_type(t, 0), to = *t->given;
  if (!from.rank) return ir_refuse(t, "a tile", from);
  ir_type whole = to;
  if (to.rank == from.rank) whole.log2[to.rank - 1] = from.log2[to.rank - 1];
  if (!ir_type_equal(from, whole) || to.log2[to.rank - 1] > from.log2[to.rank - 1])
    return ir_wrong(t, "the result must be the operand or the first elements of its rows", from, to);
  return ir_yield_type(t, to);
}

static kiln_status rule_gather(ir_typing *t) {
  ir_type from = ir_operand_type(t, 0), index = ir_operand_type(t, 1), across = index;
  unsigned axis = t->op->attrs.axis;
  if (index.pointer || index.is_view || index.slots || index.scalar != KILN_I32)
    return ir_refuse(t, "an index of i32", index);
  if (axis >= from.rank)
    return kiln_fail(t->err, KILN_STATUS_SOURCE, "%s: expected an axis below %u, found %u", ir_name_of(t),
                     from.rank, axis);
  across.log2[axis] = from.log2[axis];
  if (!ir_same_shape(from, across)) return ir_wrong(t, "extents differ apart from the axis", from, index);
  return ir_yield_type(t, ir_with_element(index, from));
}

static kiln_status rule_scatter(ir_typing *t) {
  ir_type into = ir_operand_type(t, 0), index = ir_operand_type(t, 1), values = ir_operand_type(t, 2);
  if (into.rank != 1 || ir_type_bits(into) < 32)
    return ir_refuse(t, "a tile of one axis, of i32 or i64", into);
  if (!index.rank || index.pointer || index.is_view || index.slots || index.scalar != KILN_I32)
    return ir_refuse(t, "a tile of indices of i32", index);
  if (!ir_type_equal(values, ir_with_element(index, into)))
    return ir_wrong(t, "there must be a value of the tile for each index", values, index);
  return ir_yield_type(t, into);
}

static kiln_status rule_print(ir_typing *t) {
  const uint32_t count = t->op->operand_count;
  for (uint32_t i = count - 3; i < count; i++)
    if (!ir_is_scalar(ir_operand_type(t, i), KILN_I32))
      return ir_refuse(t, "a number of the program, i32", ir_operand_type(t, i));
  if (count == 3) return KILN_OK;
  const ir_type type = ir_operand_type(t, 0);
  if (type.is_view || type.slots) return ir_refuse(t, "a value", type);
  const bool is_wide = type.pointer || ir_type_bits(type) >= 32;
  return is_wide ? KILN_OK : ir_refuse(t, "i32, i64, f32, f64 or pointers", type);
}

// ---------------------- typing: what only passes for GPUs make (shared memory, barriers, products, clusters)

static bool is_barriers(ir_type type) { return type.slots && !type.rank && type.scalar == KILN_I64; }

/// view, one index an axis, then for COPY memory, slot, barriers; for STAGE memory, value.
static kiln_status rule_copy(ir_typing *t) {
  ir_type view = ir_operand_type(t, 0);
  bool loads = t->op->code == IR_COPY;
  if (!view.is_view) return ir_refuse(t, "a view", view);
  uint32_t rest = 1u + view.rank;
  if (t->op->operand_count != rest + (loads ? 3u : 2u))
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected %u operands, found %u", ir_name_of(t),
                     rest + (loads ? 3u : 2u), t->op->operand_count);
  for (uint32_t i = 1; i < rest; i++)
    if (!ir_is_scalar(ir_operand_type(t, i), KILN_I64))
      return ir_refuse(t, "indices of i64", ir_operand_type(t, i));
  ir_type memory = ir_operand_type(t, rest), tile = ir_view_tile(view);
  if (!memory.slots || memory.scalar != tile.scalar)
    return ir_refuse(t, "shared memory of that element", memory);
  if (!loads) return ir_expect_type(t, "value", ir_staged_type(t->op), ir_operand_type(t, rest + 1));
  KILN_TRY(ir_expect_type(t, "memory", ir_memory_type(tile, memory.slots), memory));
  if (!ir_is_scalar(ir_operand_type(t, rest + 1), KILN_I32))
    return ir_refuse(t, "a slot of i32", ir_operand_type(t, rest + 1));
  return is_barriers(ir_operand_type(t, rest + 2)) ? KILN_OK
                                                   : ir_refuse(t, "barriers", ir_operand_type(t, rest + 2));
}

static kiln_status rule_barrier(ir_typing *t) {
  if (!is_barriers(ir_operand_type(t, 0))) return ir_refuse(t, "barriers", ir_operand_type(t, 0));
  for (uint32_t i = 1; i < t->op->operand_count; i++)
    if (!ir_is_scalar(ir_operand_type(t, i), KILN_I32)) return ir_refuse(t, "i32", ir_operand_type(t, i));
  return KILN_OK;
}

static kiln_status rule_mma(ir_typing *t) {
  ir_type acc = ir_operand_type(t, 0), a = ir_operand_type(t, 2), b;
  uint32_t at = 3;
  if (!ir_is_scalar(ir_operand_type(t, 1), KILN_I1))
    return ir_refuse(t, "keep as a scalar i1", ir_operand_type(t, 1));
  if (a.slots && !ir_is_scalar(ir_operand_type(t, at++), KILN_I32))
    return ir_refuse(t, "a slot of i32", ir_operand_type(t, 3));
  if (t->op->operand_count != at + 2)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "mma: expected %u operands, found %u", at + 2,
                     t->op->operand_count);
  b = ir_operand_type(t, at);
  if (!b.slots || !ir_is_scalar(ir_operand_type(t, at + 1), KILN_I32))
    return ir_refuse(t, "b in shared memory, and its slot", b);
  if (acc.rank != 2 || a.rank != 2 || b.rank != 2) return ir_refuse(t, "operands of rank 2", acc);
  unsigned a_mn = t->op->attrs.mma.a_mn, b_mn = t->op->attrs.mma.b_mn;
  if (a.log2[a_mn] != acc.log2[0] || b.log2[b_mn] != acc.log2[1] || a.log2[1 - a_mn] != b.log2[1 - b_mn])
    return ir_wrong(t, "extents do not fit", a, b);
  return ir_yield_type(t, acc);
}

static kiln_status rule_wait(ir_typing *t) {
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(ir_yield_type(t, ir_operand_type(t, i)));
  return KILN_OK;
}

/// From the tile to a part of its columns for each block.
static bool narrow_to_part(ir_type *tile, const ir_cluster *c) {
  int64_t all = (int64_t)1 << tile->log2[1], blocks = c->blocks;
  int64_t columns = c->columns ? c->columns : blocks ? all / blocks : 0;
  bool fits = tile->rank == 2 && columns > 0 && columns * blocks <= all;
  if (!fits || (!c->columns && columns * blocks != all)) return false;
  while (columns << 1 <= (int64_t)1 << tile->log2[1]) tile->log2[1]--;
  return true;
}

static kiln_status rule_cluster(ir_typing *t) {
  ir_type value = ir_operand_type(t, 0), sum = value;
  bool is_scatter = t->op->code == IR_CLUSTER_SCATTER;
  unsigned blocks = t->op->attrs.cluster.blocks;
  if (is_scatter && !narrow_to_part(&sum, &t->op->attrs.cluster))
    return ir_refuse(t, "a tile with columns for all blocks", value);
  if (!ir_is_scalar(ir_operand_type(t, 1), KILN_I32))
    return ir_refuse(t, "a phase of i32", ir_operand_type(t, 1));
  if (t->op->operand_count == 2) return ir_yield_type(t, sum);
  if (t->op->operand_count != 5)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected 2 or 5 operands, found %u", ir_name_of(t),
                     t->op->operand_count);
  if (blocks < 2)
    return kiln_fail(t->err, KILN_STATUS_INTERNAL, "%s: expected 2 blocks or more, found %u", ir_name_of(t),
                     blocks);
  KILN_TRY(ir_expect_type(t, "memory", ir_memory_type(value, is_scatter ? 1 : blocks - 1u),
                          ir_operand_type(t, 2)));
  for (uint32_t i = 3; i < 5; i++)
    if (!is_barriers(ir_operand_type(t, i))) return ir_refuse(t, "barriers", ir_operand_type(t, i));
  return ir_yield_type(t, sum);
}

/// Shared memory of tiles, not barriers.
static kiln_status expect_memory(ir_typing *t, uint32_t i) {
  ir_type type = ir_operand_type(t, i);
  return type.slots && type.rank ? KILN_OK : ir_refuse(t, "shared memory of tiles", type);
}

/// p, mask, memory, slot, and left where there is a fifth.
static kiln_status rule_fetch(ir_typing *t) {
  ir_type pointer = ir_operand_type(t, 0), memory = ir_operand_type(t, 2);
  KILN_TRY(expect_memory(t, 2));
  if (!pointer.rank || pointer.pointer != 1) return ir_refuse(t, "a tile of pointers to elements", pointer);
  KILN_TRY(
      ir_expect_type(t, "mask", ir_with_element(pointer, ir_scalar_type(KILN_I1)), ir_operand_type(t, 1)));
  ir_type tile = ir_with_element(pointer, ir_pointee(ir_element(pointer)));
  KILN_TRY(ir_expect_type(t, "memory", ir_memory_type(tile, memory.slots), memory));
  if (!ir_is_scalar(ir_operand_type(t, 3), KILN_I32))
    return ir_refuse(t, "a slot of i32", ir_operand_type(t, 3));
  if (t->op->operand_count == 4) return KILN_OK;
  return ir_expect_type(t, "left", ir_with_element(pointer, ir_scalar_type(KILN_I32)), ir_operand_type(t, 4));
}

static kiln_status rule_slot(ir_typing *t) {
  ir_type tile = ir_operand_type(t, 0);
  KILN_TRY(expect_memory(t, 0));
  if (!ir_is_scalar(ir_operand_type(t, 1), KILN_I32))
    return ir_refuse(t, "a slot of i32", ir_operand_type(t, 1));
  tile.slots = 0;
  return ir_yield_type(t, tile);
}

static kiln_status rule_put(ir_typing *t) {
  ir_type memory = ir_operand_type(t, 0);
  KILN_TRY(expect_memory(t, 0));
  if (!ir_is_scalar(ir_operand_type(t, 1), KILN_I32))
    return ir_refuse(t, "a slot of i32", ir_operand_type(t, 1));
  return ir_expect_type(t, "memory", ir_memory_type(ir_operand_type(t, 2), memory.slots), memory);
}

static kiln_status rule_memory(ir_typing *t) {
  for (uint32_t i = 0; i < t->op->operand_count; i++) KILN_TRY(expect_memory(t, i));
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------- typing: all rules

typedef kiln_status rule_function(ir_typing *t);
static rule_function *const rules[] = {
    [IR_RULE_NONE] = rule_none,
    [IR_RULE_I32SCALAR] = rule_axis,
    [IR_RULE_I64SCALAR] = rule_axis,
    [IR_RULE_GIVEN] = rule_given,
    [IR_RULE_IOTA] = rule_given,
    [IR_RULE_SPLAT] = rule_splat,
    [IR_RULE_SAME] = rule_equal,
    [IR_RULE_BOOL] = rule_equal,
    [IR_RULE_SELECT] = rule_equal,
    [IR_RULE_CAST] = rule_cast,
    [IR_RULE_BITCAST] = rule_cast,
    [IR_RULE_EXPAND] = rule_expand,
    [IR_RULE_BROADCAST] = rule_broadcast,
    [IR_RULE_RESHAPE] = rule_reshape,
    [IR_RULE_TRANS] = rule_trans,
    [IR_RULE_JOIN] = rule_join,
    [IR_RULE_SPLIT] = rule_split,
    [IR_RULE_REDUCE] = ir_rule_reduce,
    [IR_RULE_SCAN] = ir_rule_scan,
    [IR_RULE_PTRADD] = ir_rule_ptradd,
    [IR_RULE_LOAD] = ir_rule_load,
    [IR_RULE_STORE] = ir_rule_store,
    [IR_RULE_ATOMIC] = ir_rule_atomic,
    [IR_RULE_CAS] = ir_rule_cas,
    [IR_RULE_VIEW] = ir_rule_view,
    [IR_RULE_BASE] = ir_rule_base,
    [IR_RULE_VIEWLOAD] = ir_rule_viewaccess,
    [IR_RULE_VIEWSTORE] = ir_rule_viewaccess,
    [IR_RULE_DOT] = rule_dot,
    [IR_RULE_FOR] = ir_rule_for,
    [IR_RULE_WHILE] = ir_rule_while,
    [IR_RULE_IF] = ir_rule_if,
    [IR_RULE_COPY] = rule_copy,
    [IR_RULE_FETCH] = rule_fetch,
    [IR_RULE_SLOT] = rule_slot,
    [IR_RULE_MEMORY] = rule_memory,
    [IR_RULE_PUT] = rule_put,
    [IR_RULE_BARRIER] = rule_barrier,
    [IR_RULE_MMA] = rule_mma,
    [IR_RULE_WAIT] = rule_wait,
    [IR_RULE_CLUSTER] = rule_cluster,
    [IR_RULE_ROLES] = ir_rule_roles,
    [IR_RULE_SORT] = rule_sort,
    [IR_RULE_GATHER] = rule_gather,
    [IR_RULE_SCATTER] = rule_scatter,
    [IR_RULE_PRINT] = rule_print,
};

static kiln_status refuse_class(const ir_typing *t, unsigned classes) {
  static const char *const names[] = {"i1", "integers", "floats", "fp8",
                                      "pointers"}; // in order of KILN_CLASS_
  char text[64];
  size_t length = 0;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    if (!(classes >> i & 1)) continue;
    const char *between = !length ? "" : classes >> (i + 1) ? ", " : " or ";
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", between, names[i]);
  }
  return ir_refuse(t, text, ir_operand_type(t, 0));
}

kiln_status ir_infer(const ir_op *op, const ir_type *given, ir_type *out_types, uint32_t *out_count,
                     kiln_error *err) {
  ir_typing t = {op, given, out_types, 0, err};
  *out_count = 0;
  if ((unsigned)op->code >= IR_OPCODE_COUNT)
    return kiln_fail(err, KILN_STATUS_INTERNAL, "operation %d does not exist", (int)op->code);
  const ir_op_info *info = &ir_ops[op->code];
  if (op->operand_count < (uint32_t)info->least ||
      (info->most >= 0 && op->operand_count > (uint32_t)info->most))
    return kiln_fail(err, KILN_STATUS_SOURCE, "%s: expected %d%s operands, found %u", info->text, info->least,
                     info->most == info->least ? "" : " or more", op->operand_count);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (!op->operands[i])
      return kiln_fail(err, KILN_STATUS_INTERNAL, "%s: operand %u is missing", info->text, i);
  if (info->classes && op->operand_count && !(info->classes & ir_type_class(ir_operand_type(&t, 0))))
    return refuse_class(&t, info->classes);
  if (info->classes && op->operand_count && (ir_operand_type(&t, 0).is_view || ir_operand_type(&t, 0).slots))
    return ir_refuse(&t, "a tile or a scalar", ir_operand_type(&t, 0));
  bool takes_regions = info->rule == IR_RULE_REDUCE || info->rule == IR_RULE_SCAN ||
                       info->rule == IR_RULE_FOR || info->rule == IR_RULE_WHILE || info->rule == IR_RULE_IF ||
                       info->rule == IR_RULE_ROLES; // their rules count the regions themselves
  if (!takes_regions) KILN_TRY(ir_check_regions(&t, 0));
  KILN_TRY(rules[info->rule](&t));
  for (uint32_t i = 0; i < t.count; i++) {
    ir_type type = t.types[i];
    if (type.rank > IR_MAX_RANK) return ir_refuse(&t, "a rank of at most 12", type);
    if (ir_log2_elements(type) > IR_MAX_LOG2_ELEMENTS)
      return ir_refuse(&t, "a tile of at most 1048576 elements", type);
  }
  *out_count = t.count;
  return KILN_OK;
}
