// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements on demand: the value of a tile at the current point, under a map of index bits. See host.h for the
// idea.
//
// Uniform and affine values stay scalars as long as they can: address arithmetic then costs nothing per lane,
// and a load knows that its lanes are neighbours.
#include "compiler/codegen/host/host.h"

#include <string.h>

#define B h->builder

host_map host_identity(unsigned bits) {
  host_map map = {.count = (uint8_t)bits};
  for (unsigned i = 0; i < bits; i++) map.from[i] = (uint8_t)i;
  return map;
}

void host_point_init(host *h, host_point *point, unsigned lanes_log2) {
  *point = (host_point){.id = ++h->point_count, .lanes_log2 = (uint8_t)lanes_log2};
}

void host_point_digit(host_point *point, LLVMValueRef counter, unsigned first, unsigned count) {
  if (count) point->digits[point->digit_count++] = (host_digit){counter, (uint8_t)first, (uint8_t)count};
}

static unsigned lane_count(const host *h) { return 1u << h->point->lanes_log2; }

// ------------------------------------------------------------------------------------------- index

static const host_digit *digit_of(const host *h, unsigned bit) {
  for (unsigned i = 0; i < h->point->digit_count; i++) {
    const host_digit *d = &h->point->digits[i];
    if (bit >= d->first && bit < d->first + (unsigned)d->count) return d;
  }
  return NULL;
}

// Index bits [at, at + count) come from one run of a digit.
static LLVMValueRef digit_part(host *h, const host_digit *d, unsigned root_bit, unsigned at, unsigned count) {
  LLVMValueRef x = d->counter;
  unsigned low = root_bit - d->first;
  if (low) x = LLVMBuildLShr(B, x, host_i64(h, low), "");
  if (low + count < d->count) x = LLVMBuildAnd(B, x, host_i64(h, ((int64_t)1 << count) - 1), "");
  return at ? LLVMBuildNUWMul(B, x, host_i64(h, (int64_t)1 << at), "") : x;
}

static LLVMValueRef index_base(host *h, const host_map *map) {
  LLVMValueRef sum = NULL;
  int64_t fixed = 0;
  for (unsigned b = 0; b < map->count;) {
    unsigned from = map->from[b], run = 1;
    if (from == HOST_BIT_ONE) fixed |= (int64_t)1 << b;
    const host_digit *d = from < HOST_BIT_ZERO ? digit_of(h, from) : NULL;
    if (d) {
      while (b + run < map->count && map->from[b + run] == from + run &&
             from + run < (unsigned)d->first + d->count)
        run++;
      LLVMValueRef part = digit_part(h, d, from, b, run);
      sum = sum ? LLVMBuildNUWAdd(B, sum, part, "") : part;
    }
    b += run;
  }
  if (!sum) return host_i64(h, fixed);
  return fixed ? LLVMBuildNUWAdd(B, sum, host_i64(h, fixed), "") : sum;
}

static int64_t lane_offset(const host_map *map, unsigned lanes_log2, unsigned lane) {
  int64_t offset = 0;
  for (unsigned b = 0; b < map->count; b++)
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): there are at most 64 lanes
    if (map->from[b] < lanes_log2 && lane >> map->from[b] & 1) offset |= (int64_t)1 << b;
  return offset;
}

host_lanes host_index(host *h, const host_map *map) {
  unsigned log2 = h->point->lanes_log2, lanes = lane_count(h);
  host_lanes x = {.value = index_base(h, map), .form = HOST_UNIFORM};
  int64_t stride = log2 ? lane_offset(map, log2, 1) : 0, any = 0;
  bool affine = true;
  for (unsigned l = 0; l < lanes; l++) {
    int64_t offset = lane_offset(map, log2, l);
    any |= offset;
    if (offset != stride * (int64_t)l) affine = false;
  }
  if (!any) return x;
  if (affine) return (host_lanes){x.value, stride, HOST_AFFINE};
  LLVMValueRef offsets[1024];
  for (unsigned l = 0; l < lanes; l++) offsets[l] = host_i64(h, lane_offset(map, log2, l));
  LLVMValueRef base = host_splat(h, x.value, lanes);
  return (host_lanes){LLVMBuildAdd(B, base, LLVMConstVector(offsets, lanes), ""), 0, HOST_VECTOR};
}

// ------------------------------------------------------------------------------------------- lanes

static LLVMValueRef affine_vector(host *h, host_lanes x) {
  LLVMValueRef offsets[1024];
  LLVMTypeRef type = LLVMTypeOf(x.value);
  bool is_pointer = type == h->pointer;
  unsigned lanes = lane_count(h);
  for (unsigned l = 0; l < lanes; l++)
    offsets[l] = LLVMConstInt(is_pointer ? h->i64 : type, (uint64_t)(x.stride * (int64_t)l), true);
  LLVMValueRef steps = LLVMConstVector(offsets, lanes);
  if (is_pointer) return LLVMBuildGEP2(B, h->i8, x.value, &steps, 1, "");
  return LLVMBuildAdd(B, host_splat(h, x.value, lanes), steps, "");
}

LLVMValueRef host_vector(host *h, host_lanes x) {
  if (x.form == HOST_VECTOR || !h->point || !h->point->lanes_log2) return x.value;
  return x.form == HOST_UNIFORM ? host_splat(h, x.value, lane_count(h)) : affine_vector(h, x);
}

static host_lanes uniform(LLVMValueRef v) { return (host_lanes){v, 0, HOST_UNIFORM}; }
static host_lanes make(LLVMValueRef v, int64_t stride) {
  return (host_lanes){v, stride, stride ? HOST_AFFINE : HOST_UNIFORM};
}
static bool constant_int(host_lanes x, int64_t *out) {
  if (x.form != HOST_UNIFORM || !LLVMIsAConstantInt(x.value)) return false;
  *out = LLVMConstIntGetSExtValue(x.value);
  return true;
}

/// x * c for a constant that leaves strides far from overflow.
static bool scale(host *h, host_lanes x, int64_t c, host_lanes *out) {
  int64_t stride;
  if (__builtin_mul_overflow(x.stride, c, &stride) || stride > INT32_MAX || stride < INT32_MIN) return false;
  *out = make(LLVMBuildMul(B, x.value, LLVMConstInt(LLVMTypeOf(x.value), (uint64_t)c, true), ""), stride);
  return true;
}

/// Integer operations under which affine stays affine.
static bool affine_result(host *h, ir_opcode code, ir_type type, const host_lanes *x, host_lanes *out) {
  int64_t c;
  if (ir_type_class(type) != KILN_CLASS_INT) return false;
  switch (code) {
  case IR_ADD:
    *out = make(LLVMBuildAdd(B, x[0].value, x[1].value, ""), x[0].stride + x[1].stride);
    return true;
  case IR_SUB:
    *out = make(LLVMBuildSub(B, x[0].value, x[1].value, ""), x[0].stride - x[1].stride);
    return true;
  case IR_MUL:
    if (constant_int(x[1], &c)) return scale(h, x[0], c, out);
    return constant_int(x[0], &c) && scale(h, x[1], c, out);
  case IR_SHL: return constant_int(x[1], &c) && c >= 0 && c < 31 && scale(h, x[0], (int64_t)1 << c, out);
  case IR_HINT: *out = x[0]; return true;
  default: return false;
  }
}

static bool is_affine_or_uniform(const host_lanes *x, uint32_t count) {
  bool affine = false;
  for (uint32_t i = 0; i < count; i++) {
    if (x[i].form == HOST_VECTOR) return false;
    affine |= x[i].form == HOST_AFFINE;
  }
  return affine;
}

host_lanes host_lanes_of(host *h, const ir_op *op, const host_lanes *x) {
  LLVMValueRef values[3];
  host_lanes result;
  bool all_uniform = true;
  if (is_affine_or_uniform(x, op->operand_count) &&
      affine_result(h, op->code, ir_element(op->operands[0]->type), x, &result))
    return result;
  for (uint32_t i = 0; i < op->operand_count; i++) all_uniform &= x[i].form == HOST_UNIFORM;
  for (uint32_t i = 0; i < op->operand_count; i++)
    values[i] = all_uniform ? x[i].value : host_vector(h, x[i]);
  LLVMValueRef value = kiln_element(&h->elements, op, values);
  return all_uniform || !h->point->lanes_log2 ? uniform(value) : (host_lanes){value, 0, HOST_VECTOR};
}

// -------------------------------------------------------------------------------------------- maps

/// First index bit of an axis.
static unsigned axis_first(ir_type type, unsigned axis) {
  unsigned first = 0;
  for (unsigned i = axis + 1; i < type.rank; i++) first += type.log2[i];
  return first;
}

static host_map broadcast_map(ir_type from, ir_type to, const host_map *map) {
  host_map out = {.count = (uint8_t)ir_log2_elements(from)};
  for (unsigned axis = 0; axis < from.rank; axis++)
    for (unsigned b = 0; b < from.log2[axis]; b++)
      out.from[axis_first(from, axis) + b] = map->from[axis_first(to, axis) + b];
  return out;
}

static host_map trans_map(const ir_op *op, const host_map *map) {
  ir_type from = op->operands[0]->type, to = op->results[0].type;
  host_map out = {.count = map->count};
  for (unsigned axis = 0; axis < to.rank; axis++)
    for (unsigned b = 0; b < to.log2[axis]; b++)
      out.from[axis_first(from, op->attrs.perm[axis]) + b] = map->from[axis_first(to, axis) + b];
  return out;
}

host_map host_operand_map(const ir_op *op, uint32_t operand, uint32_t result, const host_map *map) {
  host_map out = *map;
  if (!op->operands[operand]->type.rank) return (host_map){0};
  switch (op->code) {
  case IR_BROADCAST: return broadcast_map(op->operands[0]->type, op->results[0].type, map);
  case IR_TRANS: return trans_map(op, map);
  case IR_JOIN:
    out.count--;
    memmove(out.from, map->from + 1, out.count);
    out.from[out.count] = 0;
    return out;
  case IR_SPLIT:
    out.count++;
    memmove(out.from + 1, map->from, map->count);
    out.from[0] = result ? HOST_BIT_ONE : HOST_BIT_ZERO;
    return out;
  default: return out;
  }
}

// -------------------------------------------------------------------------------------------- pull

static host_memo *memo_find(host *h, host_value *info, const host_map *map, bool wide) {
  for (host_memo *m = info->memo; m; m = m->next) {
    if (m->point != h->point->id) break; // newer points come first
    if (m->wide == wide && m->map.count == map->count && !memcmp(m->map.from, map->from, map->count))
      return m;
  }
  return NULL;
}

static host_lanes memo_add(host *h, host_value *info, const host_map *map, bool wide, host_lanes lanes) {
  host_memo *m = KILN_NEW(h->arena, host_memo);
  *m = (host_memo){info->memo, h->point->id, wide, *map, lanes};
  info->memo = m;
  return lanes;
}

static host_lanes pull_iota(host *h, const host_map *map, bool wide) {
  host_lanes x = host_index(h, map);
  if (!wide) x.value = LLVMBuildTrunc(B, x.value, kiln_type_like(h->i32, x.value), "");
  return x;
}

static host_lanes pull_ptradd(host *h, const ir_op *op, const host_map *map) {
  host_lanes p = host_pull(h, op->operands[0], map), i = host_pull_wide(h, op->operands[1], map);
  int64_t size = host_memory_bytes(ir_element(ir_pointee(op->operands[0]->type))), stride;
  LLVMTypeRef element = host_memory_type(h, ir_element(ir_pointee(op->operands[0]->type)));
  bool affine =
      p.form != HOST_VECTOR && i.form != HOST_VECTOR && !__builtin_mul_overflow(i.stride, size, &stride);
  if (affine) return make(LLVMBuildGEP2(B, element, p.value, &i.value, 1, ""), p.stride + stride);
  LLVMValueRef base = p.form == HOST_UNIFORM ? p.value : host_vector(h, p), index = host_vector(h, i);
  return (host_lanes){LLVMBuildGEP2(B, element, base, &index, 1, ""), 0, HOST_VECTOR};
}

static host_lanes pull_induction(host *h, const ir_value *v, const host_induction *x, const host_map *map) {
  LLVMValueRef grown = LLVMBuildMul(B, x->turns, x->step, "");
  host_lanes first = host_pull(h, x->init, map);
  if (v->type.pointer) {
    first.value =
        LLVMBuildGEP2(B, host_memory_type(h, ir_element(ir_pointee(v->type))), first.value, &grown, 1, "");
    return first;
  }
  grown = LLVMBuildTruncOrBitCast(B, grown, h->elements.types[v->type.scalar], "");
  if (first.form == HOST_VECTOR) grown = host_splat(h, grown, lane_count(h));
  first.value = LLVMBuildAdd(B, first.value, grown, "");
  return first;
}

// Bit 0 of the index says which operand.
static host_lanes pull_join(host *h, const ir_op *op, const host_map *map) {
  host_map inner = host_operand_map(op, 0, 0, map);
  unsigned from = map->from[0], lanes = lane_count(h);
  if (from >= HOST_BIT_ZERO) return host_pull(h, op->operands[from == HOST_BIT_ONE], &inner);
  LLVMValueRef a = host_pull_vector(h, op->operands[0], &inner),
               b = host_pull_vector(h, op->operands[1], &inner), choice;
  if (from < h->point->lanes_log2) {
    LLVMValueRef bits[1024];
    for (unsigned l = 0; l < lanes; l++) bits[l] = LLVMConstInt(h->i1, l >> from & 1, false);
    choice = LLVMConstVector(bits, lanes);
  } else {
    host_map bit = {.count = 1, .from = {(uint8_t)from}};
    choice = LLVMBuildTrunc(B, index_base(h, &bit), h->i1, "");
  }
  return (host_lanes){LLVMBuildSelect(B, choice, b, a, ""), 0,
                      h->point->lanes_log2 ? HOST_VECTOR : HOST_UNIFORM};
}

static host_lanes pull_elementwise(host *h, const ir_op *op, const host_map *map) {
  host_lanes x[3];
  for (uint32_t i = 0; i < op->operand_count; i++) x[i] = host_pull(h, op->operands[i], map);
  return host_lanes_of(h, op, x);
}

static host_lanes pull_op(host *h, const ir_value *v, const host_map *map) {
  const ir_op *op = v->def;
  host_map inner;
  switch (op->code) {
  case IR_IOTA: return pull_iota(h, map, false);
  case IR_PTRADD: return pull_ptradd(h, op, map);
  case IR_LOAD: return host_load(h, op, map);
  case IR_JOIN: return pull_join(h, op, map);
  case IR_SPLAT:
  case IR_EXPAND:
  case IR_BROADCAST:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_SPLIT: inner = host_operand_map(op, 0, v->index, map); return host_pull(h, op->operands[0], &inner);
  default: break;
  }
  if (kiln_element_has(op->code)) return pull_elementwise(h, op, map);
  host_fail_at(h, op, KILN_STATUS_INTERNAL,
               "operation %u: %s has no function in llvm_element.c, and no emit in host_ops.def",
               ir_operation(op), ir_ops[op->code].text);
  return uniform(LLVMGetPoison(host_element_type(h, v->type)));
}

host_lanes host_pull(host *h, ir_value *v, const host_map *map) {
  host_value *info = host_info(v);
  if (info->has_lanes) return info->lanes;
  host_memo *m = memo_find(h, info, map, false);
  if (m) return m->lanes;
  if (info->buffer) return memo_add(h, info, map, false, host_buffer_load(h, info->buffer, map));
  if (info->induction) return memo_add(h, info, map, false, pull_induction(h, v, info->induction, map));
  if (!v->def) {
    host_fail(h, KILN_STATUS_INTERNAL, "a block argument has no elements");
    return uniform(LLVMGetPoison(host_element_type(h, v->type)));
  }
  LLVMMetadataRef place = kiln_llvm_lines_at(h->lines, B, v->def);
  host_lanes pulled = pull_op(h, v, map);
  kiln_llvm_lines_back(h->lines, B, place);
  return memo_add(h, info, map, false, pulled);
}

LLVMValueRef host_pull_vector(host *h, ir_value *v, const host_map *map) {
  return host_vector(h, host_pull(h, v, map));
}

LLVMValueRef host_pull_scalar(host *h, ir_value *v) {
  if (host_info(v)->has_lanes) return host_info(v)->lanes.value;
  host_point point, *saved = h->point;
  host_map map = host_identity(0);
  host_point_init(h, &point, 0);
  h->point = &point;
  LLVMValueRef value = host_pull(h, v, &map).value;
  h->point = saved;
  return value;
}

// i32 arithmetic below an offset that does not wrap may be done in i64: then neighbours stay neighbours.
static bool wide_through(const host *h, const ir_op *op) {
  switch (op->code) {
  case IR_ADD:
  case IR_SUB:
  case IR_MUL: return op->results[0].type.scalar == KILN_I64 || kiln_fact_does_not_wrap(h->facts, op);
  case IR_HINT: return true;
  case IR_CAST: return op->operands[0]->type.scalar == KILN_I32 && !(op->attrs.flags & IR_UNSIGNED);
  default: return false;
  }
}

/// The elements are those of one operand at other places.
static bool moves_one(const ir_op *op) { return ir_has(op->code, IR_RENAMES) && op->operand_count == 1; }

/// Of 64 bits, which it may be already.
static host_lanes extend(host *h, host_lanes x) {
  if (x.form != HOST_VECTOR && LLVMTypeOf(x.value) == h->i64) return x;
  if (x.form == HOST_AFFINE) x = (host_lanes){host_vector(h, x), 0, HOST_VECTOR};
  if (LLVMTypeOf(x.value) == kiln_type_like(h->i64, x.value)) return x;
  x.value = LLVMBuildSExt(B, x.value, kiln_type_like(h->i64, x.value), "");
  return x;
}

static host_lanes wide_op(host *h, const ir_op *op, const host_map *map) {
  host_lanes x[2] = {{0}}, result;
  LLVMValueRef values[2];
  for (uint32_t i = 0; i < op->operand_count; i++) x[i] = host_pull_wide(h, op->operands[i], map);
  if (op->code == IR_CAST || op->code == IR_HINT) return x[0];
  if (is_affine_or_uniform(x, 2) && affine_result(h, op->code, ir_scalar_type(KILN_I64), x, &result))
    return result;
  bool all_uniform = x[0].form == HOST_UNIFORM && x[1].form == HOST_UNIFORM;
  for (unsigned i = 0; i < 2; i++) values[i] = all_uniform ? x[i].value : host_vector(h, x[i]);
  LLVMOpcode code = op->code == IR_ADD ? LLVMAdd : op->code == IR_SUB ? LLVMSub : LLVMMul;
  return (host_lanes){LLVMBuildBinOp(B, code, values[0], values[1], ""), 0,
                      all_uniform ? HOST_UNIFORM : HOST_VECTOR};
}

static host_lanes pull_wide(host *h, ir_value *v, const host_map *map) {
  const ir_op *op = v->def;
  host_map inner;
  if (host_info(v)->buffer || host_info(v)->induction || !op) return extend(h, host_pull(h, v, map));
  if (op->code == IR_IOTA) return pull_iota(h, map, true);
  if (moves_one(op)) {
    inner = host_operand_map(op, 0, v->index, map);
    return host_pull_wide(h, op->operands[0], &inner);
  }
  if (wide_through(h, op)) return wide_op(h, op, map);
  return extend(h, host_pull(h, v, map));
}

host_lanes host_pull_wide(host *h, ir_value *v, const host_map *map) {
  host_value *info = host_info(v);
  if (info->has_lanes) return v->type.scalar == KILN_I64 ? info->lanes : extend(h, info->lanes);
  host_memo *m = memo_find(h, info, map, true);
  return m ? m->lanes : memo_add(h, info, map, true, pull_wide(h, v, map));
}

// --------------------------------------------------------------------------------------- all lanes

static LLVMValueRef reduce_lanes(host *h, LLVMValueRef mask) {
  unsigned width = kiln_lanes_of(mask);
  if (!width) return mask;
  LLVMTypeRef bits = LLVMIntTypeInContext(h->context, width);
  return LLVMBuildICmp(B, LLVMIntEQ, LLVMBuildBitCast(B, mask, bits, ""), LLVMConstAllOnes(bits), "");
}

// A comparison of an affine value that does not wrap over the lanes holds for all lanes when it holds at the
// worst end.
static LLVMValueRef compare_ends(host *h, const ir_op *op, const host_lanes *x) {
  int64_t last = ((int64_t)lane_count(h) - 1);
  LLVMValueRef low[2], high[2], ok = LLVMConstInt(h->i1, 1, false);
  bool unsign = (op->attrs.flags & IR_UNSIGNED) != 0;
  for (unsigned i = 0; i < 2; i++) {
    low[i] = high[i] = x[i].value;
    if (x[i].form == HOST_UNIFORM) continue;
    high[i] =
        LLVMBuildAdd(B, low[i], LLVMConstInt(LLVMTypeOf(low[i]), (uint64_t)(x[i].stride * last), true), "");
    ok = LLVMBuildAnd(B, ok, LLVMBuildICmp(B, unsign ? LLVMIntULE : LLVMIntSLE, low[i], high[i], ""), "");
  }
  bool less = op->attrs.kind == IR_LT || op->attrs.kind == IR_LE;
  LLVMValueRef ends[2] = {less ? high[0] : low[0], less ? low[1] : high[1]};
  return LLVMBuildAnd(B, ok, kiln_element(&h->elements, op, ends), "");
}

static bool is_monotone(const ir_op *op, const host_lanes *x) {
  if (op->attrs.kind == IR_EQ || op->attrs.kind == IR_NE ||
      ir_type_class(op->operands[0]->type) != KILN_CLASS_INT)
    return false;
  for (unsigned i = 0; i < 2; i++)
    if (x[i].form == HOST_VECTOR || x[i].stride < 0) return false;
  return true;
}

enum { MAX_CONJUNCTION = 6 }; // nested conjunctions that are taken apart

static LLVMValueRef all_true(host *h, ir_value *v, const host_map *map, unsigned depth) {
  const ir_op *op = v->def;
  const host_value *info = host_info(v);
  host_map inner;
  bool is_computed = op && !info->buffer && !info->has_lanes;
  if (is_computed && moves_one(op)) {
    inner = host_operand_map(op, 0, v->index, map);
    return all_true(h, op->operands[0], &inner, depth);
  }
  if (is_computed && op->code == IR_AND && depth < MAX_CONJUNCTION)
    return LLVMBuildAnd(B, all_true(h, op->operands[0], map, depth + 1),
                        all_true(h, op->operands[1], map, depth + 1), "");
  if (is_computed && op->code == IR_CMP) {
    host_lanes x[2] = {host_pull(h, op->operands[0], map), host_pull(h, op->operands[1], map)};
    if (is_affine_or_uniform(x, 2) && is_monotone(op, x)) return compare_ends(h, op, x);
  }
  host_lanes x = host_pull(h, v, map);
  return reduce_lanes(h, x.form == HOST_UNIFORM ? x.value : host_vector(h, x));
}

LLVMValueRef host_all_true(host *h, ir_value *v, const host_map *map) { return all_true(h, v, map, 0); }
