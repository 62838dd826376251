// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads of large tiles that only a reduction needs. Where a load under a mask is a branch, LLVM keeps the
// order of loads and what uses them: the whole tile would be alive after its last load, and spill. Such a
// load, and what is computed of it on the way, is deferred until its reduction, which loads a part of the
// registers, computes with it and folds it before the next part. The pass `defer` notes which values those are.
#include "compiler/passes/gpu/layouts/layouts.h"

static bool is_home(const ir_value *value, const kiln_layout *layout) {
  return value->type.rank && value->layout && layout_equal(value->layout, layout);
}

static uint32_t uses_by(const ir_op *op, const ir_value *value) {
  uint32_t uses = 0;
  for (uint32_t i = 0; i < op->operand_count; i++) uses += op->operands[i] == value;
  return uses;
}

/// Nothing between the two may change what the load reads.
static bool is_quiet(const ir_op *load, const ir_op *reduce) {
  for (const ir_op *op = load->next; op != reduce; op = op->next) {
    uint8_t effect = ir_ops[op->code].effect;
    bool is_nested = op->region_count && op->code != IR_REDUCE && op->code != IR_SCAN;
    if (is_nested || effect == IR_WRITE || effect == IR_SYNC) return false;
  }
  return true;
}

/// Follows values that have no other user down to a load; what is on the way is in `out`, last first.
static bool find_load(ir_value *value, const ir_op *user, const kiln_layout *layout, kiln_chain *out) {
  ir_op *op = value->def;
  if (!op || op->block != user->block || value->uses != uses_by(user, value) || !is_home(value, layout))
    return false;
  if (op->code == IR_LOAD) {
    out->load = op;
    return true;
  }
  if (!ir_has(op->code, IR_EACH) || ir_ops[op->code].effect != IR_PURE || out->count == KILN_MOST_CHAINED)
    return false;
  out->ops[out->count++] = op;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (find_load(op->operands[i], op, layout, out)) return true;
  out->count--;
  return false;
}

/// Bits of the widest element on the way; a register holds one element at most once it is computed with.
static uint64_t widest(const kiln_chain *chain) {
  uint64_t bits = ir_type_bits(chain->load->results[0].type);
  for (unsigned i = 0; i < chain->count; i++) {
    uint64_t own = ir_type_bits(chain->ops[i]->results[0].type);
    if (own > bits) bits = own;
  }
  return bits < 32 ? 32 : bits;
}

static bool find_chain(ir_op *reduce, kiln_chain *out) {
  *out = (kiln_chain){0};
  if (reduce->operand_count > 1 || !find_load(reduce->operands[0], reduce, reduce->operand_layouts[0], out))
    return false;
  for (unsigned k = 0; k < out->count / 2; k++) {
    ir_op *last = out->ops[out->count - 1 - k];
    out->ops[out->count - 1 - k] = out->ops[k];
    out->ops[k] = last;
  }
  return true;
}

/// Whether pieces of the load fall into parts of 2^registers.
static bool has_parts(const kiln_layouts *c, const ir_op *load, const kiln_layout *layout,
                      unsigned registers) {
  return !(load->attrs.flags & IR_VOLATILE) && kiln_pieces_of(c, load, layout, true).mask < 1u << registers;
}

/// Parts take at most half of a thread's registers, and so does what is left of all of them; their masks half
/// of the scalar registers, one or two of 32 bits each. 0: the tile is small enough, or parts would not help.
static unsigned part_of(const kiln_layouts *c, const ir_op *reduce, const kiln_chain *chain) {
  enum { MOST_MASK_WORDS = 11 }; // 64 masks of 32 lanes, logarithm of all bits
  const kiln_layout *layout = reduce->operand_layouts[0];
  uint32_t axis = layout_axis_mask(reduce->operands[0]->type, reduce->attrs.axis);
  uint64_t words = widest(chain) / 32, room = kiln_thread_registers(c) / 2;
  unsigned part = layout->registers, left = layout->registers;
  if (words << part <= room) return 0;
  while (part && (words << part > room || part + c->lanes > MOST_MASK_WORDS)) part--;
  for (unsigned i = 0; i < part; i++) left -= (layout->basis[i] & axis) != 0;
  return part < layout->registers && words << left <= room ? part : 0;
}

kiln_status kiln_pass_defer(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_layouts *c = kernel->layouts;
  (void)context, (void)err;
  if (!c->machine.register_file) return KILN_OK;
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    kiln_chain chain;
    if (op->code != IR_REDUCE || !find_chain(op, &chain) || !is_quiet(chain.load, op)) continue;
    unsigned part = part_of(c, op, &chain);
    if (!part || !has_parts(c, chain.load, op->operand_layouts[0], part)) continue;
    c->notes[chain.load->results[0].id]->is_deferred = true;
    for (unsigned i = 0; i < chain.count; i++) c->notes[chain.ops[i]->results[0].id]->is_deferred = true;
  }
  return KILN_OK;
}

bool kiln_chain_of(const kiln_layouts *c, ir_op *reduce, kiln_chain *out) {
  if (!c->machine.register_file || !find_chain(reduce, out)) return false;
  out->registers = part_of(c, reduce, out);
  return c->notes[out->load->results[0].id]->is_deferred && out->registers &&
         has_parts(c, out->load, reduce->operand_layouts[0], out->registers);
}
