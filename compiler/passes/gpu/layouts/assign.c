// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses which values have a home and in what layout: anchors are memory accesses and dots; elementwise
// users follow their operands; a loop-carried value has the layout that the loop's end offers, or its start,
// or the access that it is the address of, or the elementwise operation that it meets in the loop. Then, in
// what layouts operations take their operands (ir_op.operand_layouts).
#include "base/check.h"
#include "compiler/passes/gpu/layouts/shared_layouts.h"
#include "compiler/passes/gpu/layouts/sort_network.h"

static void assign_block(kiln_layouts *c, ir_block *block);

static void set_home(kiln_layouts *c, ir_value *value, kiln_layout layout) {
  KILN_ASSERT(value == (value->def ? &value->def->results[value->index] : value->block->args[value->index]));
  kiln_layout *home = &c->notes[value->id]->home;
  *home = layout;
  value->layout = home;
}

/// What nothing else decides: loop-carried pointers and offsets take the layout of the access whose address they make.
/// What is no address takes that of an operation that meets it with a tile that has a home (`met`): a loop's count of
/// elements, by which what was loaded is divided, would go through shared memory in each iteration.
static void want(kiln_layouts *c, ir_value *value, const kiln_layout *layout, bool met, unsigned depth) {
  kiln_layout_notes *v = c->notes[value->id];
  if (!value->type.rank || value->layout || depth > 32) return;
  const ir_op *op = value->def;
  const bool is_end = !op || ir_is_loop(op) || op->code == IR_IF;
  if ((v->is_wanted && (met || !v->is_met)) || !(is_end || ir_has(op->code, IR_EACH))) return;
  v->wanted = *layout;
  v->is_wanted = true;
  v->is_met = met;
  for (uint32_t i = 0; !is_end && i < op->operand_count; i++)
    want(c, op->operands[i], layout, met, depth + 1);
}

typedef struct spreading {
  bool is_shared;   ///< blocks share the program
  ir_type sums[16]; ///< shapes of accumulators
  unsigned count;
} spreading;

static bool has_shape_of_sums(const spreading *s, ir_type type) {
  for (unsigned i = 0; i < s->count; i++)
    if (ir_same_shape(s->sums[i], type)) return true;
  return false;
}

/// A line, and what it is spread over.
typedef struct line_of {
  kiln_layouts *c;
  kiln_layout row; ///< the accumulators' without the other axis
  bool is_shared;
} line_of;

static void want_line(ir_op *load, const ir_op *expand, void *context) {
  const line_of *line = context;
  if (!line->is_shared && load->code == IR_LOAD && expand->operands[0]->def != load) return;
  kiln_layout_notes *v = line->c->notes[load->results[0].id];
  if (!v->is_wanted) v->wanted = layout_backward(expand, &line->row);
  v->is_wanted = true;
}

/// A load of one axis that is spread over a tile of the shape of accumulators: each thread loads what its own
/// elements meet, instead of an exchange through shared memory in which all threads wait for one another. Of
/// what is computed from loads (a bias of 16 bits, which is cast) the exchange is a little faster; where
/// blocks share the program it can't be. What lies in a slot is in shared memory already.
static void want_lines_of_sums(kiln_layouts *c) {
  ir_block *body = c->kernel->body;
  spreading s = {0};
  for (const ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    s.is_shared |= op->code == IR_ROLES && op->attrs.roles.spread > 1;
    if (op->code != IR_MMA && op->code != IR_CLUSTER_SCATTER) continue;
    if (has_shape_of_sums(&s, op->results[0].type)) continue;
    if (s.count < sizeof s.sums / sizeof *s.sums) s.sums[s.count++] = op->results[0].type;
  }
  for (ir_op *op = ir_next(body, NULL); op && s.count; op = ir_next(body, op)) {
    if (op->code != IR_BROADCAST || !has_shape_of_sums(&s, op->results[0].type)) continue;
    kiln_layout whole = kiln_layout_of_accumulator(c, op->results[0].type);
    line_of line = {.c = c, .row = layout_backward(op, &whole), .is_shared = s.is_shared};
    kiln_gpu_visit_lines(op, want_line, &line);
  }
}

static void assign_memory(kiln_layouts *c, ir_op *op) {
  if (!op->operands[0]->type.rank) return;
  const kiln_layout_notes *loaded = op->code == IR_LOAD ? c->notes[op->results[0].id] : NULL;
  kiln_layout layout = loaded && loaded->is_wanted ? loaded->wanted : kiln_layout_of_access(c, op);
  if (op->result_count) set_home(c, &op->results[0], layout);
  for (uint32_t i = 0; i < op->operand_count; i++) want(c, op->operands[i], &layout, false, 0);
}

static void assign_fetch(kiln_layouts *c, ir_op *op) {
  kiln_layout layout = kiln_layout_of_access(c, op);
  kiln_slots_are_fetched(c, op, &layout);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (!op->operands[i]->type.slots) want(c, op->operands[i], &layout, false, 0);
}

static void assign_slot_load(kiln_layouts *c, ir_op *op) {
  const kiln_layout_notes *loaded = c->notes[op->results[0].id];
  set_home(c, &op->results[0],
           loaded->is_wanted ? loaded->wanted : kiln_slot_layouts_of(c, op->operands[0])->writer);
}

static void assign_slot_store(kiln_layouts *c, ir_op *op) { kiln_slots_are_stored(c, op); }

static void assign_elementwise(kiln_layouts *c, ir_op *op) {
  kiln_layout layout;
  op->results[0].layout = NULL;
  if (!op->results[0].type.rank) return;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.rank && kiln_layout_offered(op->operands[i], &layout)) {
      set_home(c, &op->results[0], layout);
      for (uint32_t k = 0; k < op->operand_count; k++) want(c, op->operands[k], &layout, true, 0);
      return;
    }
}

static void assign_reduce(kiln_layouts *c, ir_op *op) {
  if (!op->results[0].type.rank) return;
  const uint32_t axis = layout_axis_mask(op->operands[0]->type, op->attrs.axis);
  kiln_layout from = kiln_layout_of_reduction(c, op, axis), layout = layout_without(&from, axis);
  for (uint32_t i = 0; i < op->result_count; i++) set_home(c, &op->results[i], layout);
}

static void assign_scan(kiln_layouts *c, ir_op *op) {
  kiln_layout layout = layout_sequential(op->operands[0]->type, op->attrs.axis, c->lanes, c->warps);
  for (uint32_t i = 0; i < op->result_count; i++) set_home(c, &op->results[i], layout);
}

static void assign_sort(kiln_layouts *c, ir_op *op) {
  set_home(c, &op->results[0], kiln_layout_of_sort(c, op));
}

static void assign_gather(kiln_layouts *c, ir_op *op) {
  set_home(c, &op->results[0], kiln_layout_of_gather(c, op));
}

static void assign_scatter(kiln_layouts *c, ir_op *op) {
  set_home(c, &op->results[0], kiln_layout_of_operand(c, op->operands[0]));
}

static void assign_dot(kiln_layouts *c, ir_op *op) {
  kiln_dot_layouts *l = c->notes[op->results[0].id]->product;
  kiln_dot_choose_layouts(c, op, l);
  set_home(c, &op->results[0], l->accumulator);
  if (l->form) kiln_slots_are_read(c, op, l);
}

static void assign_mma(kiln_layouts *c, ir_op *op) {
  for (uint32_t i = 2; op->code == IR_MMA && i < op->operand_count; i++) {
    kiln_slot_layouts *s = op->operands[i]->type.slots ? c->notes[op->operands[i]->id]->slots : NULL;
    if (s) s->is_for_unit = true; // without it the copy engine fills them
  }
  for (uint32_t i = 0; i < op->result_count; i++)
    set_home(c, &op->results[i], kiln_layout_of_accumulator(c, op->results[i].type));
}

static void assign_asm(kiln_layouts *c, ir_op *op) {
  if (!op->result_count || !op->results[0].type.rank) return;
  kiln_layout layout = kiln_layout_default(c, op->results[0].type);
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (op->operands[i]->type.rank && kiln_layout_offered(op->operands[i], &layout)) break;
  unsigned log2 = op->attrs.assembly.pack ? (unsigned)__builtin_ctz(op->attrs.assembly.pack) : 0;
  if (layout.registers < log2) // an instance takes its elements from one thread
    layout = layout_blocked(op->results[0].type, op->results[0].type.rank - 1u, log2, c->lanes, c->warps);
  set_home(c, &op->results[0], layout);
}

// ----------------------------------------------------------------------------------------- control

/// One variable of a loop or branch: the values that flow together and must agree on a layout.
typedef struct joined {
  ir_value *values[4];  ///< arguments and results; entries may be NULL
  ir_value *sources[2]; ///< what flows in; the better source of a layout first
} joined;

/// A decision stands once made, also when an outer loop is gone through again.
static void decide(kiln_layouts *c, const joined *j) {
  const ir_value *first = NULL;
  kiln_layout layout;
  for (unsigned i = 0; i < 4; i++)
    if (j->values[i] && !first) first = j->values[i];
  if (!first || !first->type.rank) return;
  bool found = false;
  for (unsigned i = 0; i < 4 && !found; i++)
    if (j->values[i] && j->values[i]->layout) layout = *j->values[i]->layout, found = true;
  for (unsigned i = 0; i < 2 && !found; i++)
    found = j->sources[i] && kiln_layout_offered(j->sources[i], &layout);
  for (unsigned i = 0; i < 4 && !found; i++)
    if (j->values[i] && c->notes[j->values[i]->id]->is_wanted)
      layout = c->notes[j->values[i]->id]->wanted, found = true;
  for (unsigned i = 0; i < 2 && !found; i++)
    if (j->sources[i] && c->notes[j->sources[i]->id]->is_wanted)
      layout = c->notes[j->sources[i]->id]->wanted, found = true;
  if (!found) layout = kiln_layout_default(c, first->type);
  for (unsigned i = 0; i < 4; i++)
    if (j->values[i]) set_home(c, j->values[i], layout);
}

/// Something is still to be decided: a tile result without a home. Otherwise one walk over the regions is
/// enough.
static bool is_open(const ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++)
    if (op->results[i].type.rank && !op->results[i].layout) return true;
  return false;
}

/// The same for the arguments of a block.
static bool needs_layout(const ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++)
    if (block->args[i]->type.rank && !block->args[i]->layout) return true;
  return false;
}

static void assign_for(kiln_layouts *c, ir_op *op) {
  ir_block *body = ir_loop_body(op);
  bool again = is_open(op);
  assign_block(c, body);
  if (!again) return;
  for (uint32_t i = 0; i < op->result_count; i++) {
    joined j = {{ir_loop_args(op)[i], &op->results[i]},
                {ir_loop_next(op)->operands[i], ir_loop_initials(op)[i]}};
    decide(c, &j);
  }
  assign_block(c, body);
}

static void assign_while(kiln_layouts *c, ir_op *op) {
  ir_block *before = op->regions[0], *after = ir_loop_body(op);
  bool again = is_open(op) || needs_layout(before);
  assign_block(c, before);
  assign_block(c, after);
  if (!again) return;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    joined j = {{before->args[i]}, {ir_loop_next(op)->operands[i], ir_loop_initials(op)[i]}};
    decide(c, &j);
  }
  assign_block(c, before);
  for (uint32_t i = 0; i < op->result_count; i++) {
    joined j = {{after->args[i], &op->results[i]}, {ir_cond_passed(ir_while_test(op))[i], NULL}};
    decide(c, &j);
  }
  assign_block(c, after);
}

/// A branch, or roles, which have no results.
static void assign_sides(kiln_layouts *c, ir_op *op) {
  for (uint32_t r = 0; r < op->region_count; r++) assign_block(c, op->regions[r]);
  for (uint32_t i = 0; i < op->result_count; i++) {
    joined j = {{&op->results[i]}, {NULL}};
    for (uint32_t r = 0; r < op->region_count && r < 2; r++) j.sources[r] = ir_if_end(op, r)->operands[i];
    decide(c, &j);
  }
}

// ---------------------------------------------------------------------------------------- operands

static bool is_tile(ir_type type) { return type.rank && !type.is_view && !type.slots; }

static const kiln_layout *keep(kiln_layouts *c, kiln_layout layout) {
  return kiln_arena_copy(c->arena, &layout, sizeof layout);
}

static void take(kiln_layouts *c, ir_op *op, uint32_t i, const kiln_layout *layout) {
  if (!is_tile(op->operands[i]->type)) return;
  if (!op->operand_layouts)
    op->operand_layouts = KILN_NEW_ARRAY(c->arena, const kiln_layout *, op->operand_count);
  op->operand_layouts[i] = layout;
}

static void take_all(kiln_layouts *c, ir_op *op, const kiln_layout *layout) {
  for (uint32_t i = 0; i < op->operand_count; i++) take(c, op, i, layout);
}

/// Element by element in the layout of the result.
static void take_result(kiln_layouts *c, ir_op *op) {
  if (op->results[0].layout) take_all(c, op, op->results[0].layout);
}

static void take_store(kiln_layouts *c, ir_op *op) {
  if (op->operands[0]->type.rank) take_all(c, op, keep(c, kiln_layout_of_access(c, op)));
}

static void take_fetch(kiln_layouts *c, ir_op *op) {
  take_all(c, op, &kiln_slot_layouts_of(c, op->operands[2])->writer);
}

static void take_slot_store(kiln_layouts *c, ir_op *op) {
  take_all(c, op, &kiln_slot_layouts_of(c, op->operands[0])->writer);
}

static void take_reduce(kiln_layouts *c, ir_op *op) {
  const uint32_t axis = layout_axis_mask(op->operands[0]->type, op->attrs.axis);
  take_all(c, op, keep(c, kiln_layout_of_reduction(c, op, axis)));
}

static void take_scan(kiln_layouts *c, ir_op *op) {
  take_all(c, op, keep(c, layout_sequential(op->operands[0]->type, op->attrs.axis, c->lanes, c->warps)));
}

/// By how operands lie when all have been chosen.
static void take_dot(kiln_layouts *c, ir_op *op) {
  kiln_dot_layouts *l = c->notes[op->results[0].id]->product;
  kiln_dot_choose_layouts(c, op, l);
  take(c, op, 0, &l->left);
  take(c, op, 1, &l->right);
  take(c, op, 2, &l->accumulator);
}

static void take_sort(kiln_layouts *c, ir_op *op) { take_all(c, op, keep(c, kiln_layout_of_sorted(c, op))); }

static void take_gather(kiln_layouts *c, ir_op *op) {
  take(c, op, 0, keep(c, kiln_layout_of_operand(c, op->operands[0])));
  take(c, op, 1, op->results[0].layout);
}

/// A value lies as its index does: each is added by the thread that has both.
static void take_scatter(kiln_layouts *c, ir_op *op) {
  const kiln_layout *each = keep(c, kiln_layout_of_operand(c, op->operands[1]));
  take(c, op, 0, op->results[0].layout);
  take(c, op, 1, each);
  take(c, op, 2, each);
}

/// All tiles are sums, except the left operand of a product, which is operand 2 if it is in registers.
static void take_sums(kiln_layouts *c, ir_op *op) {
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const ir_type type = op->operands[i]->type;
    if (!is_tile(type)) continue;
    if (op->code == IR_MMA && i == 2) {
      const kiln_mma_split split = kiln_mma_split_of(c, op->operands[0]->type);
      take(c, op, i, keep(c, kiln_layout_of_mma_left(c, type, &split)));
    } else {
      take(c, op, i, keep(c, kiln_layout_of_accumulator(c, type)));
    }
  }
}

static void take_assert(kiln_layouts *c, ir_op *op) {
  if (op->operands[0]->type.rank) take(c, op, 0, keep(c, kiln_layout_of_operand(c, op->operands[0])));
}

static void take_print(kiln_layouts *c, ir_op *op) {
  const ir_value *v = ir_printed(op);
  if (v && v->type.rank) take(c, op, 0, keep(c, kiln_layout_of_operand(c, v)));
}

/// A tile of one element, or of two that are split, becomes scalars: all threads have them.
static void take_elements(kiln_layouts *c, ir_op *op) {
  const ir_type type = op->operands[0]->type;
  if (!op->results[0].type.rank && type.rank)
    take(c, op, 0, keep(c, layout_whole(ir_log2_elements(type), c->lanes, c->warps)));
}

// ----------------------------------------------------------------------------------------- control

static void take_initials(kiln_layouts *c, ir_op *op) {
  const uint32_t first = ir_loop_bounds(op);
  for (uint32_t i = first; i < op->operand_count; i++) take(c, op, i, ir_loop_args(op)[i - first]->layout);
}

/// What a region yields becomes arguments of the next iteration, or results of the operation around it. The first
/// operand of `cond` is the condition.
static void take_end(kiln_layouts *c, ir_op *op) {
  ir_op *outer = op->block->parent;
  const bool is_yield = op->code == IR_YIELD, is_next = is_yield && ir_is_loop(outer);
  if (is_yield && !is_next && outer->code != IR_IF) return; // of a combination
  const uint32_t first = is_yield ? 0 : 1;
  for (uint32_t i = first; i < op->operand_count; i++)
    take(c, op, i, is_next ? ir_loop_args(outer)[i]->layout : outer->results[i - first].layout);
}

// ----------------------------------------------------------------------------------- by operation

/// What gives the results of an operation their homes, and what the layouts in which it takes its operands. Elementwise
/// operations follow their operands, and take them as their results lie.
typedef struct rule {
  void (*assign)(kiln_layouts *c, ir_op *op), (*take)(kiln_layouts *c, ir_op *op);
} rule;

static rule rule_of(ir_opcode code) {
  switch (code) {
  case IR_STORE: return (rule){.assign = assign_memory, .take = take_store};
  case IR_LOAD:
  case IR_ATOMIC:
  case IR_CAS: return (rule){.assign = assign_memory, .take = take_result};
  case IR_REDUCE: return (rule){.assign = assign_reduce, .take = take_reduce};
  case IR_SCAN: return (rule){.assign = assign_scan, .take = take_scan};
  case IR_SORT: return (rule){.assign = assign_sort, .take = take_sort};
  case IR_GATHER: return (rule){.assign = assign_gather, .take = take_gather};
  case IR_SCATTER: return (rule){.assign = assign_scatter, .take = take_scatter};
  case IR_DOT: return (rule){.assign = assign_dot, .take = take_dot};
  case IR_ASM: return (rule){.assign = assign_asm, .take = take_result};
  case IR_ASSERT: return (rule){.take = take_assert};
  case IR_PRINT: return (rule){.take = take_print};
  case IR_EXPAND:
  case IR_BROADCAST:
  case IR_RESHAPE:
  case IR_TRANS:
  case IR_JOIN:
  case IR_SPLIT: return (rule){.take = take_elements};
  case IR_FOR: return (rule){.assign = assign_for, .take = take_initials};
  case IR_WHILE: return (rule){.assign = assign_while, .take = take_initials};
  case IR_IF: return (rule){.assign = assign_sides};
  case IR_YIELD: return (rule){.take = take_end};
  case IR_COND: return (rule){.take = take_end};
  case IR_ROLES: return (rule){.assign = assign_sides};
  case IR_MMA: return (rule){.assign = assign_mma, .take = take_sums};
  case IR_MMA_WAIT:
  case IR_CLUSTER_SUM:
  case IR_CLUSTER_SCATTER: return (rule){.assign = assign_mma, .take = take_sums};
  case IR_STAGE:
  case IR_PUT: return (rule){.take = take_sums};
  case IR_FETCH: return (rule){.assign = assign_fetch, .take = take_fetch};
  case IR_SLOT_LOAD: return (rule){.assign = assign_slot_load};
  case IR_SLOT_STORE: return (rule){.assign = assign_slot_store, .take = take_slot_store};
  default: return (rule){0};
  }
}

static void assign_block(kiln_layouts *c, ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) {
    const rule r = rule_of(op->code);
    if (r.assign) r.assign(c, op);
    else if (ir_has(op->code, IR_EACH)) assign_elementwise(c, op);
  }
}

/// Where a thread has no room for its part of a tile, the kernel gets as many warps as leave it an eighth of what is
/// allowed, or as a block may have.
static void find_room(ir_kernel *kernel, const kiln_fetch_machine *machine) {
  const uint64_t most = (uint64_t)KILN_MOST_TILE_REGISTERS
                        << 5; // of a warp: the same for any number of lanes
  uint64_t words = 0;         // registers of 32 bits that the largest tile takes in all lanes of a block
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    for (uint32_t i = 0; i < op->result_count; i++) {
      const ir_type type = op->results[i].type;
      if (!type.rank || type.is_view || type.slots) continue;
      const uint64_t own =
          ((uint64_t)(type.pointer ? 32 : ir_type_bits(type)) << ir_log2_elements(type)) / 32;
      if (own > words) words = own;
    }
  }
  if (words / kernel->warps <= most) return;
  while (words / kernel->warps > most / 8 && 2u * kernel->warps <= machine->threads >> machine->lanes)
    kernel->warps *= 2;
}

static kiln_status open_layouts(kiln_layouts *c, ir_kernel *kernel, const kiln_fetch_machine *machine,
                                kiln_error *err) {
  const unsigned warps = kernel->warps, most = machine->threads >> machine->lanes;
  if (!warps || warps & (warps - 1))
    return kiln_fail(err, KILN_STATUS_LIMIT, "expected a power of two of warps, found %u", warps);
  if (warps > most) kernel->warps = (uint16_t)most; // one written for lanes of 32 on wider waves
  const bool has_roles = kernel->body->last && kernel->body->last->code == IR_ROLES;
  if (!has_roles) find_room(kernel, machine);
  *c = (kiln_layouts){.arena = kernel->arena,
                      .kernel = kernel,
                      .machine = *machine,
                      .facts = kiln_facts_compute(kernel->arena, kernel),
                      .lanes = machine->lanes,
                      .warps = (unsigned)__builtin_ctz(kernel->warps)};
  const uint32_t count = ir_number(kernel);
  kiln_layout_notes *notes = KILN_NEW_ARRAY(kernel->arena, kiln_layout_notes, count);
  c->notes = KILN_NEW_ARRAY(kernel->arena, kiln_layout_notes *, count);
  for (uint32_t i = 0; i < count; i++) c->notes[i] = &notes[i];
  return KILN_OK;
}

/// Sets ir_value.layout of all homes and ir_kernel.layouts. Numbers the kernel and counts uses. LIMIT where
/// the number of warps is no power of two; more of them than a block of the machine holds become as many, and too
/// few for the largest tile become more.
kiln_status kiln_pass_layouts(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  const kiln_fetch_machine *machine = &context->machine;
  kiln_layouts *c = KILN_NEW(kernel->arena, kiln_layouts);
  KILN_TRY(open_layouts(c, kernel, machine, err));
  ir_count_uses(kernel);
  kiln_layouts_collect(c);
  kiln_layouts_note_feeds(c);
  want_lines_of_sums(c);
  assign_block(c, kernel->body);
  for (ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    const rule r = rule_of(op->code);
    op->operand_layouts = NULL;
    if (r.take) r.take(c, op);
    else if (ir_has(op->code, IR_EACH)) take_result(c, op);
  }
  ir_walk(kernel->body, kiln_slots_place, c);
  kernel->layouts = c;
  return KILN_OK;
}
