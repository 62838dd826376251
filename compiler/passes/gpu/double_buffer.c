// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of products through two slots of shared memory that threads store to, where loads go
// through registers. A loop whose operands are loads
//
//   for iv in lo..hi { x = load p(iv); dot(x, ...) }
//
// becomes
//
//   ring = alloc, two slots `stride` bytes apart, by which they are named
//   slot_store ring, 0, load p(lo)
//   for iv in lo..hi (slot = 0) {
//     barrier
//     y = load p(iv + step)
//     x = slot_load ring, slot; dot(x, ...)
//     slot_store ring, stride - slot, y
//     yield stride - slot
//   }
//   fetch_end ring
//
// The barrier makes what all threads have stored in the iteration before seen by all, and says that the other
// slot has been read by all, which is the one stored to next: one barrier an iteration, where one slot needs
// two, and none between the products of an iteration.
#include "compiler/passes/gpu/pipeline.h"

enum { SLOTS = 2, PAD_BYTES = 16, LEAST_WORDS = 4, LEAST_WAVES = 2, SPARE_SHARED = 16 * 1024 };

typedef struct buffering {
  kiln_pipeline *a;
  kiln_ring ring;
  int axis[KILN_PIPELINE_LOADS]; ///< of each tile, that the product sums over
  unsigned pad;                  ///< bytes left free after each row along the summed axis
} buffering;

// -------------------------------------------------------------------------------------------- choice

/// The axis of the loaded matrix that the product sums over; -1: it goes another way than straight.
static int summed_axis(const kiln_pipeline_load *x) {
  const ir_value *v = x->dot->operands[x->operand];
  int axis = x->operand ? 0 : 1;
  if (v->type.rank != 2) return -1;
  for (; v->def != x->load; v = v->def->operands[0]) {
    if (v->def->code != IR_TRANS) return -1;
    axis = 1 - axis;
  }
  return axis;
}

/// Room for rows along the summed axis, and, where a matrix may turn as it is read, along the other one with
/// as much between them as kiln_turned_pad says.
static uint32_t slot_bytes(const buffering *r, ir_type type, int axis) {
  const unsigned bytes = ir_type_bits(type) / 8;
  uint64_t elements = (uint64_t)1 << ir_log2_elements(type), free = (elements >> type.log2[axis]) * r->pad,
           turned =
               r->a->machine->turns ? (elements >> type.log2[1 - axis]) * kiln_turned_pad(r->pad, bytes) : 0;
  return (uint32_t)(elements * bytes + (turned > free ? turned : free));
}

/// Whole pieces of the tile go straight to products of the matrix unit.
static bool can_buffer(const kiln_pipeline *a, const kiln_pipeline_load *x) {
  ir_type type = x->load->results[0].type;
  return !type.pointer && a->machine->slot_scalars >> type.scalar & 1 && summed_axis(x) >= 0 &&
         kiln_pipeline_words(a, type) >= LEAST_WORDS;
}

/// Anything but products and what is computed element by element may exchange values through shared memory.
typedef struct contents {
  bool exchanges, loops;
  bool own_sums; ///< of products that begin in every iteration
  unsigned products;
} contents;

static bool is_constant(const ir_value *value, const ir_block *body) {
  const ir_op *def = value->def;
  return def && (def->block != body || def->code == IR_SPLAT || def->code == IR_CONST);
}

/// Of one slot of each tile.
static uint32_t stride_of(const buffering *r) {
  uint32_t bytes = 0;
  for (unsigned i = 0; i < r->a->count; i++)
    bytes += slot_bytes(r, r->a->loads[i].load->results[0].type, r->axis[i]);
  return bytes;
}

/// Shared memory has room for two slots, and for as many waves as one slot leaves, or for enough that one
/// computes while another waits. `stages` above two asks for slots where there is room at all, below two for
/// none. Without the barriers between its products a loop with sums of its own (attention) holds more values
/// at a time than a small file has room for.
static bool has_shared(const buffering *r) {
  const kiln_pipeline *a = r->a;
  const unsigned asked = a->loop->attrs.loop.stages ? a->loop->attrs.loop.stages : a->kernel->stages;
  contents inside = {false};
  for (const ir_op *op = ir_next(a->body, NULL); op; op = ir_next(a->body, op)) {
    inside.products += op->code == IR_DOT;
    inside.own_sums |= op->code == IR_DOT && is_constant(op->operands[2], op->block);
    inside.loops |= op->code == IR_FOR || op->code == IR_WHILE;
    inside.exchanges |= op->code == IR_REDUCE || op->code == IR_SCAN || op->code == IR_SORT ||
                        op->code == IR_GATHER || op->code == IR_SCATTER || op->code == IR_JOIN ||
                        op->code == IR_SPLIT;
  }
  const uint32_t bytes = SLOTS * stride_of(r), spare = inside.exchanges ? SPARE_SHARED : 0;
  KILN_ASSERT(bytes);
  if (a->machine->small_file && inside.own_sums && inside.products > 1) return false;
  if (asked == 1 || inside.loops || bytes + spare > a->machine->shared_bytes) return false;
  const uint32_t waves =
      a->machine->resident_shared / bytes * a->kernel->warps / a->machine->simds; // of a SIMD
  return asked > SLOTS || waves >= LEAST_WAVES;
}

static bool choose(buffering *r) {
  kiln_pipeline *a = r->a;
  if (!a->machine->slot_scalars || !kiln_pipeline_find(a, true, KILN_NEXT)) return false;
  const unsigned all = a->count; // products, also those that are computed with before
  if (!kiln_pipeline_find(a, false, KILN_NEXT) || a->count != all || !kiln_pipeline_has_room(a)) return false;
  for (unsigned i = 0; i < a->count; i++) {
    if (!can_buffer(a, &a->loads[i])) return false;
    r->axis[i] = summed_axis(&a->loads[i]);
  }
  r->pad = PAD_BYTES;
  if (has_shared(r)) return true;
  r->pad = 0;
  return has_shared(r);
}

// ---------------------------------------------------------------------------------------------- ring

static void alloc_memory(buffering *r) {
  uint32_t at = 0;
  r->ring.slots = SLOTS;
  for (unsigned i = 0; i < r->a->count; i++) {
    const ir_type loaded = r->a->loads[i].load->results[0].type;
    const ir_alloc where = {
        .at = at, .stride = stride_of(r), .pad = (uint8_t)r->pad, .pad_axis = (uint8_t)r->axis[i]};
    kiln_ring_alloc(&r->ring, kiln_ring_add(&r->ring, loaded), where, &r->a->b);
    at += slot_bytes(r, loaded, r->axis[i]);
  }
}

static void store(buffering *r, unsigned i, ir_value *slot, ir_value *value) {
  ir_value *operands[3] = {r->ring.memory[i], slot, value};
  r->a->b.place = r->a->loads[i].load->place;
  ir_emit(&r->a->b, IR_SLOT_STORE, NULL, operands, 3, NULL, NULL, 0);
}

static void buffer_loop(kiln_pipeline *a) {
  buffering r = {.a = a};
  if (!choose(&r)) return;
  const unsigned count = a->count;
  ir_value *first[KILN_PIPELINE_LOADS], *next[KILN_PIPELINE_LOADS];
  kiln_pipeline_open_before(a, 1);
  alloc_memory(&r);
  ir_value *start = ir_const_int(&a->b, KILN_I32, 0);
  for (unsigned i = 0; i < count; i++) a->loads[i].load->attrs.flags |= IR_FEEDS;
  for (unsigned i = 0; i < count; i++) first[i] = kiln_pipeline_load_at(a, a->loads[i].load, KILN_FIRST);
  for (unsigned i = 0; i < count; i++) store(&r, i, start, first[i]);
  kiln_pipeline_open_inside(a, 1);
  kiln_pipeline_stay(a);
  ir_value *slot = ir_block_arg(a->kernel->arena, a->body, ir_scalar_type(KILN_I32));
  ir_emit(&a->b, IR_BARRIER, &(ir_attrs){.barrier = {.is_shared = true}}, NULL, 0, NULL, NULL, 0);
  for (unsigned i = 0; i < count; i++) next[i] = kiln_pipeline_load_at(a, a->loads[i].load, KILN_NEXT);
  // The loads read what the iteration before has stored.
  for (unsigned i = 0; i < count; i++)
    kiln_ring_replace_load(&r.ring, i, a->loads[i].load, slot, false, &a->b);
  a->b.before = ir_terminator(a->body);
  ir_value *other = ir_binary(&a->b, IR_SUB, 0, ir_const_int(&a->b, KILN_I32, stride_of(&r)), slot);
  for (unsigned i = 0; i < count; i++) store(&r, i, other, next[i]);
  if (a->b.error.status != KILN_OK) return;
  ir_op *loop = kiln_pipeline_remake(a, &start, &other, 1);
  if (loop) kiln_ring_end(&r.ring, loop, &a->b);
}

kiln_status kiln_pass_double_buffer(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  return kiln_pipeline_loops(kernel, context, buffer_loop, "double-buffer", err);
}
