// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one conversion between layouts: renaming registers, shuffles within a warp, or a round trip through
// swizzled shared memory.
#include <string.h>

#include "compiler/codegen/gpu/gpu_tile.h"

enum { MAX_SELECT_BITS = 3, MAX_SHUFFLES = 64 };

// ---------------------------------------------------------------------- registers chosen by threads

/// How the register (and lane) to read from depends on the reading thread. selector[b] is NULL when register
/// bit b does not.
typedef struct choice {
  LLVMValueRef selector[LAYOUT_MAX_BITS];
  uint8_t bits[LAYOUT_MAX_BITS];
  unsigned count;
} choice;

static choice find_choice(gpu *g, const layout_moves *moves, const kiln_layout *from, const kiln_layout *to,
                          bool emit) {
  choice c = {.count = 0};
  for (unsigned b = 0; b < from->registers; b++) {
    uint32_t basis[LAYOUT_MAX_PLACES] = {0};
    bool varies = false;
    for (unsigned i = 0; i < layout_thread_bits(to); i++)
      varies |= (basis[i] = moves->from[to->registers + i] >> b & 1) != 0;
    if (!varies) continue;
    c.bits[c.count++] = (uint8_t)b;
    if (emit)
      c.selector[b] =
          LLVMBuildTrunc(g->builder, gpu_thread_bits(g, basis, layout_thread_bits(to)), g->i1, "");
  }
  return c;
}

/// Register part of where register `r` of `to` comes from, before thread bits have their say.
static uint32_t source_set(const layout_moves *moves, const kiln_layout *to, uint32_t r) {
  uint32_t set = 0;
  for (unsigned i = 0; i < to->registers; i++)
    if (r >> i & 1) set ^= moves->from[i];
  return set;
}

typedef LLVMValueRef reader(gpu *g, LLVMValueRef value, void *context);

/// The element of register `base`, or of those that the selectors choose, each passed through `read`.
static LLVMValueRef pick(gpu *g, const gpu_tile *tile, const choice *c, unsigned level, uint32_t base,
                         reader *read, void *context) {
  if (level == c->count) return read ? read(g, tile->regs[base], context) : tile->regs[base];
  unsigned bit = c->bits[level];
  LLVMValueRef same = pick(g, tile, c, level + 1, base, read, context),
               other = pick(g, tile, c, level + 1, base ^ 1u << bit, read, context);
  return LLVMBuildSelect(g->builder, c->selector[bit], other, same, "");
}

static gpu_tile rename_registers(gpu *g, const gpu_tile *tile, const layout_moves *moves,
                                 const kiln_layout *to) {
  gpu_tile out = gpu_tile_new(g, to);
  choice c = find_choice(g, moves, &tile->layout, to, true);
  for (uint32_t r = 0; r < 1u << to->registers; r++)
    out.regs[r] = pick(g, tile, &c, 0, source_set(moves, to, r), NULL, NULL);
  return out;
}

// --------------------------------------------------------------------------------- within the warp

typedef struct lane_source {
  LLVMValueRef lane; ///< NULL: XOR with the constant
  unsigned flip;
} lane_source;

static LLVMValueRef read_lane(gpu *g, LLVMValueRef value, void *context) {
  const lane_source *s = context;
  if (s->lane) return gpu_shuffle_idx(g, value, LLVMBuildXor(g->builder, s->lane, gpu_i32(g, s->flip), ""));
  return s->flip ? gpu_shuffle_xor(g, value, s->flip) : value;
}

static gpu_tile exchange_lanes(gpu *g, const gpu_tile *tile, const layout_moves *moves,
                               const kiln_layout *to) {
  const kiln_layout *from = &tile->layout;
  gpu_tile out = gpu_tile_new(g, to);
  choice c = find_choice(g, moves, from, to, true);
  uint32_t basis[LAYOUT_MAX_PLACES] = {0}, lane_mask = (1u << from->lanes) - 1;
  bool is_identity = true;
  for (unsigned i = 0; i < layout_thread_bits(to); i++) {
    basis[i] = moves->from[to->registers + i] >> from->registers & lane_mask;
    is_identity &= basis[i] == (i < to->lanes ? 1u << i : 0);
  }
  lane_source source = {.lane = is_identity ? NULL : gpu_thread_bits(g, basis, layout_thread_bits(to))};
  for (uint32_t r = 0; r < 1u << to->registers; r++) {
    uint32_t set = source_set(moves, to, r);
    source.flip = set >> from->registers & lane_mask;
    out.regs[r] = pick(g, tile, &c, 0, set & ((1u << from->registers) - 1), read_lane, &source);
  }
  return out;
}

// --------------------------------------------------------------------------- through shared memory

static gpu_tile through_memory(gpu *g, const gpu_tile *tile, LLVMTypeRef type, const kiln_layout *to) {
  unsigned log2_bytes = gpu_log2_bytes_of(g, type);
  kiln_matrix_load plan;
  // Other sizes are for operands: elsewhere what a thread holds is in a row more often.
  bool is_matrix = log2_bytes == 1 && kiln_plan_matrix_load(&g->layouts->machine, &tile->layout, to,
                                                            log2_bytes, KILN_WHOLE_ROWS, &plan);
  layout_memory memory = is_matrix ? kiln_matrix_memory(&plan, &tile->layout, log2_bytes)
                                   : layout_swizzle(&tile->layout, to, log2_bytes, NULL, 0);
  gpu_note_exchange(g, g->current, &memory, &tile->layout, is_matrix ? &plan.address : to, log2_bytes,
                    is_matrix);
  gpu_scratch_begin(g, (uint64_t)1 << (tile->layout.bits + log2_bytes));
  gpu_write_tile(g, tile, &memory, log2_bytes, g->scratch_base);
  gpu_barrier(g);
  gpu_tile out = is_matrix ? gpu_read_matrices(g, &plan, &memory, type, to)
                           : gpu_read_tile(g, &memory, type, to, log2_bytes);
  g->shared_dirty = true;
  return out;
}

/// The one machine bit that holds element bit `mask` and nothing else; -1 when it is spread.
static int holder_of(const kiln_layout *l, uint32_t mask) {
  int found = -1;
  for (unsigned i = 0; i < layout_places(l); i++) {
    if (!(l->basis[i] & mask)) continue;
    if (l->basis[i] != mask || found >= 0) return -1;
    found = (int)i;
  }
  return found;
}

/// The highest element bit that is a register bit of the writer and has one holder in the reader, preferably
/// a register; 0 when there is none.
static uint32_t cut_bit(const kiln_layout *from, const kiln_layout *to) {
  uint32_t best = 0, best_register = 0;
  for (unsigned i = 0; i < from->registers; i++) {
    uint32_t mask = from->basis[i];
    if (mask & (mask - 1) || holder_of(from, mask) != (int)i || holder_of(to, mask) < 0) continue;
    if (mask > best) best = mask;
    if (holder_of(to, mask) < to->registers && mask > best_register) best_register = mask;
  }
  return best_register ? best_register : best;
}

/// The layout of one half: the element bit is gone, and its register with it; a thread bit becomes a replica.
static kiln_layout half_layout(const kiln_layout *l, uint32_t mask) {
  kiln_layout out = *l;
  int bit = holder_of(l, mask);
  out.bits--;
  if (bit < l->registers) {
    out.registers--;
    memmove(out.basis + bit, out.basis + bit + 1,
            (LAYOUT_MAX_PLACES - 1 - (unsigned)bit) * sizeof *out.basis);
    out.basis[LAYOUT_MAX_PLACES - 1] = 0;
  } else {
    out.basis[bit] = 0;
  }
  for (unsigned i = 0; i < LAYOUT_MAX_PLACES; i++) out.basis[i] = layout_squeeze(out.basis[i], mask);
  return out;
}

static uint32_t with_bit(uint32_t r, unsigned bit, uint32_t value) {
  uint32_t low = r & ((1u << bit) - 1);
  return low | value << bit | (r & ~((1u << bit) - 1)) << 1;
}

static LLVMValueRef thread_bit(gpu *g, unsigned bit) {
  LLVMValueRef v = LLVMBuildAnd(g->builder, g->thread, gpu_i32(g, 1u << bit), "");
  return LLVMBuildICmp(g->builder, LLVMIntNE, v, gpu_i32(g, 0), "");
}

/// A tile too large for shared memory goes through in halves, cut at a register bit of the writer.
static gpu_tile through_memory_in_parts(gpu *g, const gpu_tile *tile, LLVMTypeRef type,
                                        const kiln_layout *to) {
  uint64_t bytes = (uint64_t)1 << (tile->layout.bits + gpu_log2_bytes_of(g, type));
  uint32_t mask = bytes + g->scratch_base > g->machine->max_shared ? cut_bit(&tile->layout, to) : 0;
  if (!mask) return through_memory(g, tile, type, to);
  kiln_layout half_from = half_layout(&tile->layout, mask), half_to = half_layout(to, mask);
  unsigned bit_from = (unsigned)holder_of(&tile->layout, mask), bit_to = (unsigned)holder_of(to, mask);
  gpu_tile out = gpu_tile_new(g, to), parts[2];
  for (uint32_t half = 0; half < 2; half++) {
    parts[half] = gpu_tile_new(g, &half_from);
    for (uint32_t r = 0; r < 1u << half_from.registers; r++)
      parts[half].regs[r] = tile->regs[with_bit(r, bit_from, half)];
    parts[half] = through_memory_in_parts(g, &parts[half], type, &half_to);
  }
  bool is_register = bit_to < to->registers;
  LLVMValueRef is_second = is_register ? NULL : thread_bit(g, bit_to - to->registers);
  for (uint32_t r = 0; r < 1u << half_to.registers; r++) {
    if (!is_register)
      out.regs[r] = LLVMBuildSelect(g->builder, is_second, parts[1].regs[r], parts[0].regs[r], "");
    for (uint32_t half = 0; is_register && half < 2; half++)
      out.regs[with_bit(r, bit_to, half)] = parts[half].regs[r];
  }
  return out;
}

void gpu_share_owned(gpu *g, gpu_tile *tile, ir_type element) {
  *tile = through_memory_in_parts(g, tile, gpu_type(g, element), &tile->layout);
}

// -------------------------------------------------------------------------------------- the choice

/// Shuffles a conversion within the warp would take, in words.
static unsigned long long shuffle_cost(gpu *g, const choice *c, const kiln_layout *to, LLVMTypeRef type) {
  return ((unsigned long long)1 << (to->registers + c->count)) * (gpu_bytes_of(g, type) == 8 ? 2 : 1);
}

gpu_tile gpu_convert(gpu *g, const gpu_tile *tile, ir_type element, const kiln_layout *to) {
  if (layout_equal(&tile->layout, to)) return *tile;
  LLVMTypeRef type = gpu_type(g, element);
  layout_moves moves = layout_convert(&tile->layout, to);
  choice c = find_choice(g, &moves, &tile->layout, to, false);
  if (moves.reach == LAYOUT_SAME_THREAD && c.count <= MAX_SELECT_BITS)
    return rename_registers(g, tile, &moves, to);
  if (moves.reach == LAYOUT_SAME_WARP && c.count <= 1 && shuffle_cost(g, &c, to, type) <= MAX_SHUFFLES) {
    gpu_note_shuffle(g, to, gpu_bytes_of(g, type));
    return exchange_lanes(g, tile, &moves, to);
  }
  return through_memory_in_parts(g, tile, type, to);
}

static gpu_tile read_slot(gpu *g, const gpu_place *place, ir_type element, const kiln_layout *layout) {
  const kiln_slot_read read = kiln_plan_slot_read(g->layouts, place->slots, layout);
  gpu_note_slot_read(g, g->current, place->slots, &read);
  gpu_staged staged = gpu_stage_slot(g, place, element, &read);
  gpu_staged_read(g, &staged, 0, 1u << layout->registers);
  return staged.to;
}

void gpu_lower_convert(gpu *g, ir_op *op) {
  ir_value *to = &op->results[0];
  const gpu_value *from = gpu_value_of(g, op->operands[0]);
  const ir_type element = ir_element(to->type);
  if (!gpu_has_room(g, to)) return;
  gpu_set_home(g, to,
               from->is_ready ? gpu_convert(g, &from->home_tile, element, to->layout)
                              : read_slot(g, &from->place, element, to->layout));
}
