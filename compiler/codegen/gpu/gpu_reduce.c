// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and scans: over registers, then lanes by shuffles, then warps by an exchange in which every warp
// gets all partial results.
//
// Named combinations may take elements in any order. A region is associative only, so elements are combined
// in their order, lower first.
#include "compiler/codegen/gpu/gpu_lower.h"

enum { LOG2_AT_ONCE = 2 }; // partial results that a thread takes of a reduction

/// The operands of one reduce or scan, as tiles of one layout.
typedef struct group {
  ir_op *op;
  uint32_t count;
  gpu_tile *tiles;
  bool is_ordered;
} group;

static ir_type element_type(const group *s, uint32_t i) { return ir_element(s->op->operands[i]->type); }

/// out = combine(a, b), each of `count` values; `out` may be `a` or `b`.
static void combine(gpu *g, const group *s, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *out) {
  if (s->op->attrs.kind != IR_COMBINE_REGION) {
    out[0] = kiln_element_combine(&g->elements, s->op, s->op->operands[0]->type.scalar, a[0], b[0]);
    return;
  }
  ir_block *body = s->op->regions[0];
  for (uint32_t i = 0; i < s->count; i++) {
    gpu_set_scalar(g, body->args[i], a[i]);
    gpu_set_scalar(g, body->args[s->count + i], b[i]);
  }
  gpu_lower_block(g, body);
  const ir_op *end = ir_terminator(body);
  for (uint32_t i = 0; i < s->count; i++) out[i] = gpu_scalar(g, end->operands[i]);
}

static LLVMValueRef *scratch(gpu *g, const group *s) {
  return KILN_NEW_ARRAY(g->arena, LLVMValueRef, s->count);
}

static void take(const group *s, uint32_t r, LLVMValueRef *out) {
  for (uint32_t i = 0; i < s->count; i++) out[i] = s->tiles[i].regs[r];
}

static void put(const group *s, uint32_t r, LLVMValueRef *const values) {
  for (uint32_t i = 0; i < s->count; i++) s->tiles[i].regs[r] = values[i];
}

static void select_all(gpu *g, const group *s, LLVMValueRef condition, const LLVMValueRef *yes,
                       const LLVMValueRef *no, LLVMValueRef *out) {
  for (uint32_t i = 0; i < s->count; i++) out[i] = LLVMBuildSelect(g->builder, condition, yes[i], no[i], "");
}

// ----------------------------------------------------------------------------------------- layouts

static group new_group(gpu *g, ir_op *op, const kiln_layout *layout) {
  group s = {.op = op, .count = op->operand_count, .is_ordered = op->attrs.kind == IR_COMBINE_REGION};
  s.tiles = KILN_NEW_ARRAY(g->arena, gpu_tile, s.count);
  for (uint32_t i = 0; i < s.count; i++) s.tiles[i] = gpu_tile_new(g, layout);
  return s;
}

static group open_group(gpu *g, ir_op *op, const kiln_layout *layout) {
  group s = new_group(g, op, layout);
  for (uint32_t i = 0; i < s.count; i++) {
    gpu_tile from = gpu_operand(g, op, i); // copied: registers are overwritten
    for (uint32_t r = 0; r < 1u << layout->registers; r++) s.tiles[i].regs[r] = from.regs[r];
  }
  return s;
}

/// After registers and lanes: a tile of (rest, warps along the axis), the latter in the low bits.
static kiln_layout partial_layout(const kiln_layout *l, uint32_t axis, unsigned warp_bits) {
  kiln_layout out = {.bits = (uint8_t)(l->bits - (unsigned)__builtin_popcount(axis) + warp_bits),
                     .lanes = l->lanes,
                     .warps = l->warps};
  unsigned at = 0, along = 0;
  for (unsigned i = 0; i < layout_places(l); i++) {
    bool is_axis = (l->basis[i] & axis) != 0, is_register = i < l->registers,
         is_warp = i >= (unsigned)l->registers + l->lanes;
    if (is_register && is_axis) continue;
    out.registers = (uint8_t)(out.registers + is_register);
    out.basis[at++] =
        is_axis ? (is_warp ? 1u << along++ : 0) : layout_squeeze(l->basis[i], axis) << warp_bits;
  }
  return out;
}

/// The same with the warps' bits in the lowest registers, everywhere, but the uppermost `lane_bits` of them
/// in the lowest lanes that have no part in the tile.
static kiln_layout gathered_layout(const kiln_layout *partial, unsigned warp_bits, unsigned lane_bits) {
  const unsigned register_bits = warp_bits - lane_bits;
  kiln_layout out = {.bits = partial->bits,
                     .registers = (uint8_t)(partial->registers + register_bits),
                     .lanes = partial->lanes,
                     .warps = partial->warps};
  for (unsigned i = 0; i < register_bits; i++) out.basis[i] = 1u << i;
  for (unsigned i = 0; i < layout_places(partial); i++) {
    bool is_axis_warp = partial->basis[i] && partial->basis[i] < 1u << warp_bits;
    out.basis[register_bits + i] = is_axis_warp ? 0 : partial->basis[i];
  }
  for (unsigned i = 0, bit = register_bits; bit < warp_bits; i++)
    if (!partial->basis[partial->registers + i]) out.basis[out.registers + i] = 1u << bit++;
  return out;
}

static unsigned axis_warps(const kiln_layout *l, uint32_t axis) {
  unsigned count = 0;
  for (unsigned i = 0; i < l->warps; i++) count += (l->basis[l->registers + l->lanes + i] & axis) != 0;
  return count;
}

/// Every warp gets the values of all warps along the axis: register (r << (warp_bits - lane_bits) | warp),
/// the upper bits of the warp's number in lanes.
static void gather_warps(gpu *g, group *s, const kiln_layout *partial, unsigned warp_bits,
                         unsigned lane_bits) {
  kiln_layout gathered = gathered_layout(partial, warp_bits, lane_bits);
  for (uint32_t i = 0; i < s->count; i++) {
    s->tiles[i].layout = *partial;
    s->tiles[i] = gpu_convert(g, &s->tiles[i], element_type(s, i), &gathered);
  }
}

// ------------------------------------------------------------------------------------------ reduce

/// Folds register bit `bit`: the tile has `bits` register bits before, one less after.
static void fold_register(gpu *g, group *s, unsigned bits, unsigned bit) {
  LLVMValueRef *a = scratch(g, s), *b = scratch(g, s);
  const uint32_t low = (1u << bit) - 1;
  for (uint32_t r = 0; r < 1u << (bits - 1); r++) {
    uint32_t from = (r & low) | (r & ~low) << 1;
    take(s, from, a);
    take(s, from | 1u << bit, b);
    combine(g, s, a, b, a);
    put(s, r, a); // r <= from: nothing still needed is overwritten
  }
}

static void fold_lane(gpu *g, group *s, unsigned registers, unsigned lane) {
  LLVMValueRef *own = scratch(g, s), *other = scratch(g, s), *a = scratch(g, s), *b = scratch(g, s);
  LLVMValueRef bit = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, 1u << lane), "");
  LLVMValueRef is_later = s->is_ordered ? LLVMBuildICmp(g->builder, LLVMIntNE, bit, gpu_i32(g, 0), "") : NULL;
  for (uint32_t r = 0; r < 1u << registers; r++) {
    take(s, r, own);
    for (uint32_t i = 0; i < s->count; i++) other[i] = gpu_shuffle_xor(g, own[i], 1u << lane);
    if (is_later) {
      select_all(g, s, is_later, other, own, a);
      select_all(g, s, is_later, own, other, b);
      combine(g, s, a, b, own);
    } else {
      combine(g, s, own, other, own);
    }
    put(s, r, own);
  }
}

/// Folds those of the register bits [first, end) that lie along the axis; the tile has `bits` register bits,
/// the lowest `at` of which are not of these. Returns how many are left.
static unsigned fold_registers(gpu *g, group *s, const kiln_layout *l, uint32_t axis, unsigned first,
                               unsigned end, unsigned bits, unsigned at) {
  for (unsigned i = first; i < end; i++) {
    if (l->basis[i] & axis) fold_register(g, s, bits--, at);
    else at++;
  }
  return bits;
}

/// Bits of the warps' numbers that lanes take. A thread reads four partial results at once; it would hold all
/// of 16 or 32 besides the elements that it still needs, and add them up like every other one.
static unsigned gathering_lanes(const kiln_layout *partial, unsigned warps) {
  unsigned idle = 0, wanted = warps > LOG2_AT_ONCE ? warps - LOG2_AT_ONCE : 0;
  for (unsigned i = 0; i < partial->lanes; i++) idle += !partial->basis[partial->registers + i];
  return wanted < idle ? wanted : idle;
}

/// Folds all axis bits of the layout; registers from bit `first` on, of which `registers` bits are left.
static void reduce_group(gpu *g, group *s, const kiln_layout *l, uint32_t axis, unsigned first,
                         unsigned registers) {
  registers =
      fold_registers(g, s, l, axis, first, l->registers, registers, registers - (l->registers - first));
  for (unsigned i = 0; i < l->lanes; i++)
    if (l->basis[l->registers + i] & axis) fold_lane(g, s, registers, i);
  unsigned warps = axis_warps(l, axis);
  if (!warps) return;
  kiln_layout partial = partial_layout(l, axis, warps);
  const unsigned lanes = gathering_lanes(&partial, warps), gathered = warps - lanes;
  gather_warps(g, s, &partial, warps, lanes);
  for (unsigned i = 0; i < gathered; i++) fold_register(g, s, registers + gathered - i, 0);
  for (unsigned i = 0, left = lanes; left; i++)
    if (!partial.basis[partial.registers + i]) fold_lane(g, s, registers, i), left--;
}

/// A reduction whose operand is loaded a part of the registers at a time.
typedef struct folding {
  const kiln_layout *layout;
  uint32_t axis;
  const kiln_chain *chain;
  gpu_tile others[KILN_MOST_CHAINED][3]; ///< what the chain computes with, whole
  group part;
} folding;

/// The chain's results for a part, in place of what was loaded.
static void compute_part(gpu *g, const folding *f, uint32_t first, LLVMValueRef *part) {
  const ir_value *previous = &f->chain->load->results[0];
  for (unsigned c = 0; c < f->chain->count; c++) {
    const ir_op *op = f->chain->ops[c];
    LLVMMetadataRef place = kiln_llvm_lines_at(g->lines, g->builder, op);
    for (uint32_t r = 0; r < 1u << f->chain->registers; r++) {
      LLVMValueRef values[3];
      for (uint32_t i = 0; i < op->operand_count; i++)
        values[i] = op->operands[i] == previous  ? part[r]
                    : op->operands[i]->type.rank ? f->others[c][i].regs[first + r]
                                                 : gpu_scalar(g, op->operands[i]);
      part[r] = gpu_element(g, op, values);
    }
    kiln_llvm_lines_back(g->lines, g->builder, place);
    previous = &op->results[0];
  }
}

static void fold_part(gpu *g, void *context, uint32_t first, LLVMValueRef *part, LLVMValueRef *out) {
  folding *f = context;
  unsigned registers = f->chain->registers;
  compute_part(g, f, first, part);
  f->part.tiles[0].regs = part;
  unsigned left = fold_registers(g, &f->part, f->layout, f->axis, 0, registers, registers, 0);
  for (uint32_t r = 0; r < 1u << left; r++) out[r] = g->machine->pin(g, part[r]);
}

/// Loads the chain's tile and folds the low register bits; `bits`: register bits that are left.
static group fold_parts(gpu *g, ir_op *op, const kiln_layout *layout, uint32_t axis, kiln_chain *chain,
                        unsigned *bits) {
  folding *f = KILN_NEW(g->arena, folding);
  group s = new_group(g, op, layout);
  unsigned left = 0;
  *f = (folding){.layout = layout, .axis = axis, .chain = chain, .part = new_group(g, op, layout)};
  for (unsigned c = 0; c < chain->count; c++)
    for (uint32_t i = 0; i < chain->ops[c]->operand_count; i++) {
      ir_value *value = chain->ops[c]->operands[i];
      if (value->type.rank && !g->layouts->notes[value->id]->is_deferred)
        f->others[c][i] = gpu_operand(g, chain->ops[c], i);
    }
  for (unsigned i = 0; i < chain->registers; i++) left += !(layout->basis[i] & axis);
  gpu_parts parts = {.registers = chain->registers, .left = 1u << left, .take = fold_part, .context = f};
  LLVMMetadataRef place = kiln_llvm_lines_at(g->lines, g->builder, chain->load);
  s.tiles[0].regs = gpu_load_parts(g, chain->load, layout, &parts);
  kiln_llvm_lines_back(g->lines, g->builder, place);
  *bits = layout->registers - chain->registers + left;
  return s;
}

void gpu_lower_reduce(gpu *g, ir_op *op) {
  uint32_t axis = layout_axis_mask(op->operands[0]->type, op->attrs.axis);
  const kiln_layout layout = *op->operand_layouts[0], result = layout_without(&layout, axis);
  kiln_chain chain = {0};
  unsigned bits = layout.registers;
  bool is_deferred = kiln_chain_of(g->layouts, op, &chain);
  group s = is_deferred ? fold_parts(g, op, &layout, axis, &chain, &bits) : open_group(g, op, &layout);
  if (g->status != KILN_OK) return;
  reduce_group(g, &s, &layout, axis, is_deferred ? chain.registers : 0, bits);
  for (uint32_t i = 0; i < s.count; i++) {
    s.tiles[i].layout = result;
    if (op->results[i].type.rank) gpu_set_home(g, &op->results[i], s.tiles[i]);
    else gpu_set_scalar(g, &op->results[i], s.tiles[i].regs[0]);
  }
}

// -------------------------------------------------------------------------------------------- scan

/// How a scan lies in layout_sequential: bits along the axis by kind. They are the lowest of registers, lanes
/// and warps.
typedef struct scan {
  group s;
  unsigned registers, lanes, warps;
  bool is_reverse;
  LLVMValueRef lane, warp; ///< position of the thread along the axis: lane part, warp part
} scan;

static unsigned count_axis(const uint32_t *basis, unsigned count, uint32_t axis) {
  unsigned found = 0;
  for (unsigned i = 0; i < count; i++) found += (basis[i] & axis) != 0;
  return found;
}

static LLVMValueRef low_bits(gpu *g, LLVMValueRef v, unsigned bits) {
  return LLVMBuildAnd(g->builder, v, gpu_i32(g, (1u << bits) - 1), "");
}

/// Within a thread: the elements of one row of registers, in order; the last is the thread's total.
static void scan_registers(gpu *g, const scan *x, uint32_t row, LLVMValueRef *total) {
  LLVMValueRef *value = scratch(g, &x->s);
  uint32_t count = 1u << x->registers;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t r = row << x->registers | (x->is_reverse ? count - 1 - i : i);
    take(&x->s, r, value);
    if (i) combine(g, &x->s, total, value, total);
    else take(&x->s, r, total);
    put(&x->s, r, total);
  }
}

/// The value `distance` lanes earlier in scan order, and whether there is one.
static LLVMValueRef earlier(gpu *g, const scan *x, const LLVMValueRef *from, unsigned distance,
                            LLVMValueRef *out) {
  LLVMValueRef number = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, (1u << g->lanes) - 1), "");
  LLVMValueRef lane = x->is_reverse ? LLVMBuildAdd(g->builder, number, gpu_i32(g, distance), "")
                                    : LLVMBuildSub(g->builder, number, gpu_i32(g, distance), "");
  lane = low_bits(g, lane, g->lanes);
  for (uint32_t i = 0; i < x->s.count; i++) out[i] = gpu_shuffle_idx(g, from[i], lane);
  unsigned last = 1u << x->lanes;
  if (x->is_reverse) return LLVMBuildICmp(g->builder, LLVMIntULT, x->lane, gpu_i32(g, last - distance), "");
  return LLVMBuildICmp(g->builder, LLVMIntUGE, x->lane, gpu_i32(g, distance), "");
}

/// Inclusive scan of the threads' totals over lanes.
static void scan_lanes(gpu *g, const scan *x, LLVMValueRef *total) {
  LLVMValueRef *other = scratch(g, &x->s), *sum = scratch(g, &x->s);
  for (unsigned i = 0; i < x->lanes; i++) {
    LLVMValueRef exists = earlier(g, x, total, 1u << i, other);
    combine(g, &x->s, other, total, sum);
    select_all(g, &x->s, exists, sum, total, total);
  }
}

/// What stands before a thread's first element: `has` is NULL when never anything.
typedef struct prefix {
  LLVMValueRef has, *values;
} prefix;

static prefix lane_prefix(gpu *g, const scan *x, const LLVMValueRef *total) {
  prefix p = {.values = scratch(g, &x->s)};
  if (x->lanes) p.has = earlier(g, x, total, 1, p.values);
  return p;
}

/// The totals of warps before this one; `tiles` hold all warps' totals in the low register bits.
static prefix warp_prefix(gpu *g, const scan *x, uint32_t row) {
  prefix p = {.values = scratch(g, &x->s)};
  LLVMValueRef *sum = scratch(g, &x->s), *value = scratch(g, &x->s);
  uint32_t count = 1u << x->warps;
  for (uint32_t i = 0; i + 1 < count; i++) {
    uint32_t w = x->is_reverse ? count - 1 - i : i;
    take(&x->s, row << x->warps | w, value);
    if (i) combine(g, &x->s, sum, value, sum);
    else take(&x->s, row << x->warps | w, sum);
    LLVMValueRef is_before =
        LLVMBuildICmp(g->builder, x->is_reverse ? LLVMIntULT : LLVMIntUGT, x->warp, gpu_i32(g, w), "");
    if (i) select_all(g, &x->s, is_before, sum, p.values, p.values);
    else
      for (uint32_t k = 0; k < x->s.count; k++) p.values[k] = sum[k];
    if (!i) p.has = is_before;
  }
  return p;
}

static prefix join_prefixes(gpu *g, const scan *x, const prefix *outer, const prefix *inner) {
  if (!outer->has) return *inner;
  if (!inner->has) return *outer;
  prefix p = {.values = scratch(g, &x->s)};
  combine(g, &x->s, outer->values, inner->values, p.values);
  select_all(g, &x->s, inner->has, p.values, outer->values, p.values);
  select_all(g, &x->s, outer->has, p.values, inner->values, p.values);
  p.has = LLVMBuildOr(g->builder, outer->has, inner->has, "");
  return p;
}

static void apply_prefix(gpu *g, const scan *x, uint32_t row, const prefix *p) {
  LLVMValueRef *value = scratch(g, &x->s), *sum = scratch(g, &x->s);
  if (!p->has) return;
  for (uint32_t i = 0; i < 1u << x->registers; i++) {
    uint32_t r = row << x->registers | i;
    take(&x->s, r, value);
    combine(g, &x->s, p->values, value, sum);
    select_all(g, &x->s, p->has, sum, value, value);
    put(&x->s, r, value);
  }
}

/// The last total of each warp, in all its lanes along the axis.
static void warp_totals(gpu *g, const scan *x, LLVMValueRef *total) {
  uint32_t along = (1u << x->lanes) - 1;
  LLVMValueRef lane = low_bits(g, g->thread, g->lanes);
  lane = x->is_reverse ? LLVMBuildAnd(g->builder, lane, gpu_i32(g, ~along), "")
                       : LLVMBuildOr(g->builder, lane, gpu_i32(g, along), "");
  for (uint32_t i = 0; x->lanes && i < x->s.count; i++) total[i] = gpu_shuffle_idx(g, total[i], lane);
}

/// A scan over the warps' totals: rows x warps.
static scan open_warps(gpu *g, const scan *x, const kiln_layout *layout, uint32_t axis, uint32_t rows,
                       LLVMValueRef **totals) {
  scan out = *x;
  kiln_layout partial = partial_layout(layout, axis, x->warps);
  out.s.tiles = KILN_NEW_ARRAY(g->arena, gpu_tile, x->s.count);
  for (uint32_t i = 0; i < x->s.count; i++) out.s.tiles[i] = gpu_tile_new(g, &partial);
  for (uint32_t row = 0; row < rows; row++) {
    LLVMValueRef *last = scratch(g, &x->s);
    for (uint32_t i = 0; i < x->s.count; i++) last[i] = totals[row][i];
    warp_totals(g, x, last);
    put(&out.s, row, last);
  }
  gather_warps(g, &out.s, &partial, x->warps, 0);
  return out;
}

void gpu_lower_scan(gpu *g, ir_op *op) {
  ir_type type = op->operands[0]->type;
  uint32_t axis = layout_axis_mask(type, op->attrs.axis);
  const kiln_layout l = *op->operand_layouts[0];
  scan x = {.s = open_group(g, op, &l), .is_reverse = (op->attrs.flags & IR_REVERSE) != 0};
  if (g->status != KILN_OK) return;
  x.registers = count_axis(l.basis, l.registers, axis);
  x.lanes = count_axis(l.basis + l.registers, l.lanes, axis);
  x.warps = count_axis(l.basis + l.registers + l.lanes, l.warps, axis);
  x.lane = low_bits(g, g->thread, x.lanes);
  x.warp = low_bits(g, LLVMBuildLShr(g->builder, g->thread, gpu_i32(g, g->lanes), ""), x.warps);
  uint32_t rows = 1u << (l.registers - x.registers);
  LLVMValueRef **totals = KILN_NEW_ARRAY(g->arena, LLVMValueRef *, rows);
  for (uint32_t row = 0; row < rows; row++) {
    totals[row] = scratch(g, &x.s);
    scan_registers(g, &x, row, totals[row]);
    scan_lanes(g, &x, totals[row]);
  }
  scan warps = x;
  if (x.warps) warps = open_warps(g, &x, &l, axis, rows, totals);
  for (uint32_t row = 0; row < rows; row++) {
    prefix inner = lane_prefix(g, &x, totals[row]), outer = {NULL, NULL};
    if (x.warps) outer = warp_prefix(g, &warps, row);
    prefix whole = join_prefixes(g, &x, &outer, &inner);
    apply_prefix(g, &x, row, &whole);
  }
  for (uint32_t i = 0; i < x.s.count; i++) gpu_set_home(g, &op->results[i], x.s.tiles[i]);
}
