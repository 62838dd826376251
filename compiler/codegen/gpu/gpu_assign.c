// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses which values have a home and in what layout: anchors are memory accesses and dots; elementwise
// users follow their operands; a loop-carried value has the layout that the loop's end offers, or its start,
// or the access that it is the address of.
#include "compiler/codegen/gpu/gpu_lower.h"

static void assign_block(gpu *g, ir_block *block);

kiln_layout gpu_default_layout(gpu *g, ir_type type) {
  unsigned vector = 0, threads = g->lanes + g->warps, bits = ir_log2_elements(type);
  if (bits > threads && type.rank) vector = bits - threads < 2 ? bits - threads : 2;
  if (type.rank && vector > type.log2[type.rank - 1]) vector = type.log2[type.rank - 1];
  return layout_blocked(type, type.rank ? type.rank - 1u : 0, vector, g->lanes, g->warps);
}

static void set_home(gpu *g, ir_value *value, kiln_layout layout) {
  gpu_value *v = gpu_value_of(g, value);
  v->has_home = true;
  v->home = layout;
}

static void clear(gpu *g, ir_value *value) { gpu_value_of(g, value)->has_home = false; }

static bool is_renaming(const ir_value *value) {
  const ir_op *op = value->def;
  return op && (op->code == IR_EXPAND || op->code == IR_RESHAPE || op->code == IR_TRANS) &&
         op->operands[0]->type.rank && value->type.rank;
}

/// Goes down a chain of shape operations to what has a home, then back up.
bool gpu_suggestion(gpu *g, ir_value *value, kiln_layout *out) {
  enum { MOST = 32 };
  const ir_op *chain[MOST];
  unsigned count = 0;
  while (!gpu_value_of(g, value)->has_home) {
    if (!is_renaming(value) || count == MOST) return false;
    chain[count++] = value->def;
    value = value->def->operands[0];
  }
  *out = gpu_value_of(g, value)->home;
  while (count) {
    kiln_layout inner = *out;
    layout_forward(chain[--count], &inner, out);
  }
  return true;
}

/// Address values of an access that nothing else decides: loop-carried pointers and offsets take the layout
/// of the access.
static void want(gpu *g, ir_value *value, const kiln_layout *layout, unsigned depth) {
  gpu_value *v = gpu_value_of(g, value);
  if (!value->type.rank || v->has_home || depth > 32) return;
  if (!value->def || ir_is_loop(value->def) || value->def->code == IR_IF) {
    if (!v->is_wanted) v->wanted = *layout;
    v->is_wanted = true;
    return;
  }
  if (!ir_has(value->def->code, IR_EACH)) return;
  for (uint32_t i = 0; i < value->def->operand_count; i++)
    want(g, value->def->operands[i], layout, depth + 1);
}

typedef struct spreading {
  gpu *g;
  ir_type sums[16]; ///< shapes of accumulators
  unsigned count;
} spreading;

static bool has_shape_of_sums(const spreading *s, ir_type type) {
  for (unsigned i = 0; i < s->count; i++)
    if (ir_same_shape(s->sums[i], type)) return true;
  return false;
}

static void note_sums(ir_op *op, void *context) {
  spreading *s = context;
  if (op->code != IR_MMA || has_shape_of_sums(s, op->results[0].type)) return;
  if (s->count < sizeof s->sums / sizeof *s->sums) s->sums[s->count++] = op->results[0].type;
}

/// A load of one axis that is spread over a tile of the shape of accumulators: each thread loads what its own
/// elements meet, instead of an exchange through shared memory in which all threads wait for one another.
static void note_spread(ir_op *op, void *context) {
  spreading *s = context;
  const ir_op *expand = op->code == IR_BROADCAST ? op->operands[0]->def : NULL;
  if (!expand || expand->code != IR_EXPAND || !has_shape_of_sums(s, op->results[0].type)) return;
  ir_value *value = expand->operands[0];
  if (!value->def || value->def->code != IR_LOAD || value->type.rank != 1) return;
  kiln_layout whole = s->g->machine->accumulator(s->g, op->results[0].type);
  kiln_layout line = layout_backward(op, &whole);
  gpu_value *v = gpu_value_of(s->g, value);
  v->wanted = layout_backward(expand, &line);
  v->is_wanted = true;
}

static void assign_memory(gpu *g, ir_op *op) {
  if (!op->operands[0]->type.rank) return;
  const gpu_value *loaded = op->code == IR_LOAD ? gpu_value_of(g, &op->results[0]) : NULL;
  kiln_layout layout = loaded && loaded->is_wanted ? loaded->wanted : gpu_memory_layout(g, op);
  if (op->result_count) set_home(g, &op->results[0], layout);
  for (uint32_t i = 0; i < op->operand_count; i++) want(g, op->operands[i], &layout, 0);
}

static void assign_fetch(gpu *g, ir_op *op) {
  kiln_layout layout = gpu_memory_layout(g, op);
  gpu_assign_fetch(g, op, &layout);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (!op->operands[i]->type.slots) want(g, op->operands[i], &layout, 0);
}

static void assign_slot_load(gpu *g, ir_op *op) { set_home(g, &op->results[0], gpu_slot_layout(g, op)); }

static void assign_slot_store(gpu *g, ir_op *op) { gpu_assign_store(g, op); }

static void assign_elementwise(gpu *g, ir_op *op) {
  kiln_layout layout;
  clear(g, &op->results[0]);
  if (!op->results[0].type.rank) return;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.rank && gpu_suggestion(g, op->operands[i], &layout)) {
      set_home(g, &op->results[0], layout);
      return;
    }
}

kiln_layout gpu_operand_layout(gpu *g, ir_value *value) {
  kiln_layout layout;
  return gpu_suggestion(g, value, &layout) ? layout : gpu_default_layout(g, value->type);
}

static void assign_reduce(gpu *g, ir_op *op) {
  if (!op->results[0].type.rank) return;
  kiln_layout from = gpu_operand_layout(g, op->operands[0]);
  kiln_layout layout = layout_without(&from, layout_axis_mask(op->operands[0]->type, op->attrs.axis));
  for (uint32_t i = 0; i < op->result_count; i++) set_home(g, &op->results[i], layout);
}

static void assign_scan(gpu *g, ir_op *op) {
  kiln_layout layout = layout_sequential(op->operands[0]->type, op->attrs.axis, g->lanes, g->warps);
  for (uint32_t i = 0; i < op->result_count; i++) set_home(g, &op->results[i], layout);
}

static void assign_sort(gpu *g, ir_op *op) { set_home(g, &op->results[0], gpu_sort_layout(g, op)); }

static void assign_gather(gpu *g, ir_op *op) { set_home(g, &op->results[0], gpu_gather_layout(g, op)); }

static void assign_dot(gpu *g, ir_op *op) {
  set_home(g, &op->results[0], gpu_dot_layout(g, op));
  gpu_assign_reader(g, op);
}

static void assign_mma(gpu *g, ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++)
    set_home(g, &op->results[i], g->machine->accumulator(g, op->results[i].type));
}

static void assign_roles(gpu *g, ir_op *op) {
  for (uint32_t r = 0; r < op->region_count; r++) assign_block(g, op->regions[r]);
}

static void assign_asm(gpu *g, ir_op *op) {
  if (!op->result_count || !op->results[0].type.rank) return;
  kiln_layout layout = gpu_default_layout(g, op->results[0].type);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.rank && gpu_suggestion(g, op->operands[i], &layout)) break;
  unsigned log2 = op->attrs.pack ? (unsigned)__builtin_ctz(op->attrs.pack) : 0;
  if (layout.registers < log2) // an instance takes its elements from one thread
    layout = layout_blocked(op->results[0].type, op->results[0].type.rank - 1u, log2, g->lanes, g->warps);
  set_home(g, &op->results[0], layout);
}

// ----------------------------------------------------------------------------------------- control

/// One variable of a loop or branch: the values that flow together and must agree on a layout.
typedef struct joined {
  ir_value *values[4];  ///< arguments and results; entries may be NULL
  ir_value *sources[2]; ///< what flows in; the better source of a layout first
} joined;

/// A decision stands once made, also when an outer loop is gone through again.
static void decide(gpu *g, const joined *j) {
  const ir_value *first = NULL;
  kiln_layout layout;
  for (unsigned i = 0; i < 4; i++)
    if (j->values[i] && !first) first = j->values[i];
  if (!first || !first->type.rank) return;
  bool found = false;
  for (unsigned i = 0; i < 4 && !found; i++)
    if (j->values[i] && gpu_value_of(g, j->values[i])->has_home)
      layout = gpu_value_of(g, j->values[i])->home, found = true;
  for (unsigned i = 0; i < 2 && !found; i++)
    found = j->sources[i] && gpu_suggestion(g, j->sources[i], &layout);
  for (unsigned i = 0; i < 4 && !found; i++)
    if (j->values[i] && gpu_value_of(g, j->values[i])->is_wanted)
      layout = gpu_value_of(g, j->values[i])->wanted, found = true;
  if (!found) layout = gpu_default_layout(g, first->type);
  for (unsigned i = 0; i < 4; i++)
    if (j->values[i]) set_home(g, j->values[i], layout);
}

/// Something is still to be decided: a tile result without a home. Otherwise one walk over the regions is
/// enough.
static bool is_open(gpu *g, const ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++)
    if (op->results[i].type.rank && !gpu_value_of(g, &op->results[i])->has_home) return true;
  return false;
}

/// The same for the arguments of a block.
static bool needs_layout(gpu *g, const ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++)
    if (block->args[i]->type.rank && !gpu_value_of(g, block->args[i])->has_home) return true;
  return false;
}

static void assign_for(gpu *g, ir_op *op) {
  ir_block *body = ir_loop_body(op);
  bool again = is_open(g, op);
  assign_block(g, body);
  if (!again) return;
  for (uint32_t i = 0; i < op->result_count; i++) {
    joined j = {{ir_loop_args(op)[i], &op->results[i]},
                {ir_loop_next(op)->operands[i], ir_loop_initials(op)[i]}};
    decide(g, &j);
  }
  assign_block(g, body);
}

static void assign_while(gpu *g, ir_op *op) {
  ir_block *before = op->regions[0], *after = ir_loop_body(op);
  bool again = is_open(g, op) || needs_layout(g, before);
  assign_block(g, before);
  assign_block(g, after);
  if (!again) return;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    joined j = {{before->args[i]}, {ir_loop_next(op)->operands[i], ir_loop_initials(op)[i]}};
    decide(g, &j);
  }
  assign_block(g, before);
  for (uint32_t i = 0; i < op->result_count; i++) {
    joined j = {{after->args[i], &op->results[i]}, {ir_cond_passed(ir_while_test(op))[i], NULL}};
    decide(g, &j);
  }
  assign_block(g, after);
}

static void assign_if(gpu *g, ir_op *op) {
  for (uint32_t r = 0; r < op->region_count; r++) assign_block(g, op->regions[r]);
  for (uint32_t i = 0; i < op->result_count; i++) {
    joined j = {{&op->results[i]}, {NULL}};
    for (uint32_t r = 0; r < op->region_count && r < 2; r++) j.sources[r] = ir_if_end(op, r)->operands[i];
    decide(g, &j);
  }
}

static void assign_op(gpu *g, ir_op *op) {
  static void (*const assigners[IR_OPCODE_COUNT])(gpu *, ir_op *) = {
      [IR_LOAD] = assign_memory,
      [IR_STORE] = assign_memory,
      [IR_ATOMIC] = assign_memory,
      [IR_CAS] = assign_memory,
      [IR_REDUCE] = assign_reduce,
      [IR_SCAN] = assign_scan,
      [IR_DOT] = assign_dot,
      [IR_ASM] = assign_asm,
      [IR_FOR] = assign_for,
      [IR_WHILE] = assign_while,
      [IR_IF] = assign_if,
      [IR_MMA] = assign_mma,
      [IR_MMA_WAIT] = assign_mma,
      [IR_CLUSTER_SUM] = assign_mma,
      [IR_CLUSTER_SCATTER] = assign_mma,
      [IR_ROLES] = assign_roles,
      [IR_SORT] = assign_sort,
      [IR_GATHER] = assign_gather,
      [IR_FETCH] = assign_fetch,
      [IR_SLOT_LOAD] = assign_slot_load,
      [IR_SLOT_STORE] = assign_slot_store,
  };
  if (assigners[op->code]) assigners[op->code](g, op);
  else if (ir_has(op->code, IR_EACH)) assign_elementwise(g, op);
}

static void assign_block(gpu *g, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) assign_op(g, op);
}

void gpu_assign(gpu *g) {
  spreading s = {.g = g};
  ir_walk(g->kernel->body, note_sums, &s);
  if (s.count) ir_walk(g->kernel->body, note_spread, &s);
  assign_block(g, g->kernel->body);
}
