// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Breaks what headers promise, one promise at a time, and shows that an assert or the verifier sees it. Each
// row quotes its promise, which must still stand in the header.
#ifndef KILN_CHECKED
#define KILN_CHECKED // asserts of inline functions in headers, in this file
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/ir/attrs.h"
#include "compiler/ir/scalar.h"
#include "compiler/passes/gpu/layouts/layouts.h"
#include "compiler/passes/gpu/ring.h"
#include "compiler/passes/stages.h"
#include "tests/harness.h"

/// x[i] += n times, for i < 128: a kernel with a loop that carries a tile, and a branch.
typedef struct plan {
  kiln_arena *arena;
  ir_kernel *kernel;
  ir_builder b; // at the end of the body
  ir_value *x, *n;
  ir_op *lanes, *load, *loop, *branch, *store;
  kiln_target target;
  kiln_error err;
} plan;

static ir_type tile(kiln_scalar scalar, unsigned log2) {
  return (ir_type){.scalar = (uint8_t)scalar, .rank = 1, .log2 = {(uint8_t)log2}};
}

/// A block that ends in the yield of one value.
static ir_block *yielding(plan *p, ir_value *value) {
  ir_block *block = KILN_NEW(p->arena, ir_block);
  ir_yield(&(ir_builder){.arena = p->arena, .block = block}, &value, 1);
  return block;
}

static plan make(void) {
  plan p = {.arena = kiln_arena_create()};
  CHECK_OK(kiln_target_parse("sm_90a", &p.target, &p.err), p.err);
  p.kernel = ir_kernel_create(p.arena, "k");
  p.x = ir_add_param(p.kernel,
                     &(ir_param){.name = "x", .type = ir_pointer_type(KILN_F32), .access = IR_ACCESS_INOUT});
  p.n = ir_add_param(p.kernel, &(ir_param){.name = "n", .type = ir_scalar_type(KILN_I32)});
  p.b = (ir_builder){.arena = p.arena, .block = p.kernel->body};
  ir_value *i = ir_iota(&p.b, 7);
  p.lanes = i->def;
  ir_value *at = ir_binary(&p.b, IR_PTRADD, 0, ir_splat(&p.b, p.x, i->type), i);
  p.load = ir_emit(&p.b, IR_LOAD, NULL, &at, 1, NULL, NULL, 0);
  ir_block *body = KILN_NEW(p.arena, ir_block);
  ir_block_arg(p.arena, body, ir_scalar_type(KILN_I32));
  ir_value *sum = ir_block_arg(p.arena, body, tile(KILN_F32, 7));
  ir_builder in = {.arena = p.arena, .block = body};
  ir_value *next = ir_binary(&in, IR_ADD, 0, sum, ir_const_like(&in, sum->type, 1));
  ir_yield(&in, &next, 1);
  ir_value *zero = ir_const_int(&p.b, KILN_I32, 0), *one = ir_const_int(&p.b, KILN_I32, 1);
  ir_value *first = &p.load->results[0];
  p.loop = ir_emit(&p.b, IR_FOR, NULL, (ir_value *[]){zero, p.n, one, first}, 4, NULL, &body, 1);
  ir_value *last = &p.loop->results[0], *condition = ir_compare(&p.b, IR_LT, 0, zero, p.n);
  ir_block *sides[2] = {yielding(&p, last), yielding(&p, first)};
  p.branch = ir_emit(&p.b, IR_IF, NULL, &condition, 1, NULL, sides, 2);
  p.store = ir_emit(&p.b, IR_STORE, NULL, (ir_value *[]){at, &p.branch->results[0]}, 2, NULL, NULL, 0);
  CHECK_INT(p.b.error.status, KILN_OK);
  CHECK_OK(ir_verify(p.kernel, "making", &p.err), p.err);
  return p;
}

static kiln_status verify(plan *p) { return ir_verify(p->kernel, "test", &p->err); }

/// A `while` whose test ends in `code`.
static kiln_status make_while(plan *p, ir_opcode code) {
  ir_block *regions[2] = {KILN_NEW(p->arena, ir_block), NULL};
  ir_value *v = ir_block_arg(p->arena, regions[0], ir_scalar_type(KILN_I32));
  ir_builder in = {.arena = p->arena, .block = regions[0]};
  ir_value *ends[2] = {ir_compare(&in, IR_LT, 0, v, v), v};
  if (code == IR_COND) ir_emit(&in, IR_COND, NULL, ends, 2, NULL, NULL, 0);
  else ir_yield(&in, &v, 1);
  regions[1] = KILN_NEW(p->arena, ir_block);
  ir_value *passed = ir_block_arg(p->arena, regions[1], ir_scalar_type(KILN_I32));
  ir_yield(&(ir_builder){.arena = p->arena, .block = regions[1]}, &passed, 1);
  ir_op *made = ir_emit(&p->b, IR_WHILE, NULL, &p->n, 1, NULL, regions, 2);
  if (made) ir_while_test(made);
  return made ? verify(p) : KILN_STATUS_INTERNAL;
}

// ------------------------------------------------------------------------------- structure of a kernel

static kiln_status break_prev(plan *p) {
  p->store->prev = p->load;
  return verify(p);
}
static kiln_status break_last(plan *p) {
  p->kernel->body->last = p->load;
  return verify(p);
}
static kiln_status break_block(plan *p) {
  p->store->block = p->loop->regions[0];
  return verify(p);
}
static kiln_status break_parent(plan *p) {
  p->loop->regions[0]->parent = p->branch;
  return verify(p);
}
static kiln_status break_body_parent(plan *p) {
  p->kernel->body->parent = p->loop;
  return verify(p);
}
static kiln_status break_def(plan *p) {
  p->load->results[0].def = p->loop;
  return verify(p);
}
static kiln_status break_index(plan *p) {
  p->load->results[0].index = 1;
  return verify(p);
}
static kiln_status break_argument_def(plan *p) {
  p->n->def = p->load;
  return verify(p);
}
static kiln_status break_argument_block(plan *p) {
  p->n->block = p->loop->regions[0];
  return verify(p);
}
static kiln_status break_argument_index(plan *p) {
  p->n->index = 0;
  return verify(p);
}
static kiln_status break_scope(plan *p) {
  p->store->operands[1] = ir_loop_args(p->loop)[0];
  return verify(p);
}
static kiln_status break_order(plan *p) {
  ir_move(p->load, p->kernel->body, NULL);
  return verify(p);
}
static kiln_status break_end(plan *p) {
  ir_yield(&p->b, NULL, 0);
  return verify(p);
}
static kiln_status break_terminator(plan *p) {
  ir_remove(ir_loop_next(p->loop));
  return verify(p);
}
static kiln_status break_yield(plan *p) {
  ir_loop_next(p->loop)->operands[0] = p->n;
  return verify(p);
}
static kiln_status break_branch(plan *p) {
  ir_if_end(p->branch, 1)->operand_count = 0;
  return verify(p);
}
static kiln_status break_while(plan *p) {
  CHECK_INT(make_while(p, IR_COND), KILN_OK);
  return make_while(p, IR_YIELD);
}
static kiln_status break_combiner(plan *p) {
  ir_block *region = KILN_NEW(p->arena, ir_block);
  ir_value *a = ir_block_arg(p->arena, region, ir_scalar_type(KILN_F32));
  ir_yield(&(ir_builder){.arena = p->arena, .block = region}, &a, 1);
  const ir_attrs attrs = {.kind = IR_COMBINE_REGION};
  ir_value *operand = &p->load->results[0];
  return ir_emit(&p->b, IR_REDUCE, &attrs, &operand, 1, NULL, &region, 1) ? verify(p) : KILN_STATUS_INTERNAL;
}
static kiln_status break_region_count(plan *p) {
  p->store->region_count = 1;
  p->store->regions = p->loop->regions;
  p->loop->regions[0]->parent = p->store;
  p->loop->region_count = 0;
  return verify(p);
}

// ------------------------------------------------------------------------------------ types, parameters

static kiln_status break_unused_extent(plan *p) {
  p->load->results[0].type.log2[1] = 3;
  return verify(p);
}
static kiln_status break_argument_extent(plan *p) {
  p->kernel->params[1].type.log2[0] = p->n->type.log2[0] = 3;
  return verify(p);
}
static kiln_status break_dropped(plan *p) {
  p->lanes->results[0].type.log2[0] = IR_DROPPED;
  return verify(p);
}
static kiln_status break_size(plan *p) {
  p->lanes->results[0].type.log2[0] = IR_MAX_LOG2_ELEMENTS + 1;
  return verify(p);
}
static kiln_status break_rank(plan *p) {
  p->lanes->results[0].type.rank = IR_MAX_RANK + 1;
  return verify(p);
}
static kiln_status break_depth(plan *p) {
  p->kernel->params[0].type.pointer = p->x->type.pointer = 3;
  return verify(p);
}
static kiln_status break_memory_parameter(plan *p) {
  p->kernel->params[1].type.slots = p->n->type.slots = 2;
  return verify(p);
}
static kiln_status break_warps(plan *p) {
  p->kernel->warps = 3;
  return verify(p);
}
static kiln_status break_parameter_count(plan *p) {
  p->kernel->param_count--;
  return verify(p);
}
static kiln_status break_parameter_type(plan *p) {
  p->kernel->params[1].type.scalar = KILN_I64;
  return verify(p);
}
static kiln_status break_align(plan *p) {
  p->kernel->params[0].align = 24;
  return verify(p);
}
static kiln_status break_within(plan *p) {
  p->kernel->params[1].within = true;
  return verify(p);
}
static kiln_status break_rows(plan *p) {
  p->kernel->params[0].rows = 16;
  return verify(p);
}
static kiln_status break_stage(plan *p) {
  ir_type given = ir_memory_type(tile(KILN_F32, 7), 1);
  CHECK(!ir_emit(&p->b, IR_ALLOC, NULL, NULL, 0, &given, NULL, 0));
  return p->b.error.status;
}
static kiln_status break_slots(plan *p) {
  (void)p;
  ir_memory_type(tile(KILN_F32, 7), 256); // a number of 8 bits
  return KILN_OK;
}

// --------------------------------------------------------------------------------------------- editing

static kiln_status forward_to_nothing(plan *p) {
  ir_forward(p->n, NULL);
  return KILN_OK;
}
static kiln_status forward_to_itself(plan *p) {
  ir_forward(p->n, p->n);
  return KILN_OK;
}
static kiln_status forward_to_another_type(plan *p) {
  ir_forward(p->n, p->x);
  return KILN_OK;
}
static kiln_status leave_a_forward(plan *p) {
  ir_forward(&p->branch->results[0], &p->loop->results[0]);
  return verify(p);
}
static kiln_status remove_twice(plan *p) {
  ir_remove(p->store);
  ir_remove(p->store);
  return KILN_OK;
}
static kiln_status remove_what_is_used(plan *p) {
  ir_remove(p->load);
  return verify(p);
}
static kiln_status move_before_another_block(plan *p) {
  ir_move(p->store, p->kernel->body, ir_loop_next(p->loop));
  return KILN_OK;
}
static kiln_status build_before_another_block(plan *p) {
  p->b.before = ir_loop_next(p->loop);
  ir_const_int(&p->b, KILN_I32, 1);
  return KILN_OK;
}

// ---------------------------------------------------------------------------- parts of operations, rows

static kiln_status ask_bounds(plan *p) {
  ir_for_lower(p->branch);
  return KILN_OK;
}
static kiln_status ask_counter(plan *p) {
  ir_for_counter(p->branch);
  return KILN_OK;
}
static kiln_status ask_initials(plan *p) {
  ir_loop_initials(p->store);
  return KILN_OK;
}
static kiln_status ask_next(plan *p) {
  ir_loop_next(p->branch);
  return KILN_OK;
}
static kiln_status ask_test(plan *p) {
  ir_while_test(p->loop);
  return KILN_OK;
}
static kiln_status ask_third_side(plan *p) {
  ir_if_end(p->branch, 2);
  return KILN_OK;
}
static kiln_status ask_extents(plan *p) {
  ir_view_extents(p->load);
  return KILN_OK;
}
static kiln_status ask_indices(plan *p) {
  ir_view_indices(p->load);
  return KILN_OK;
}
static kiln_status ask_view_part(plan *p) {
  ir_view_part(p->load);
  return KILN_OK;
}
static kiln_status ask_count_of_no_view(plan *p) {
  ir_view_count(p->load, 0);
  return KILN_OK;
}
static kiln_status ask_staged(plan *p) {
  ir_staged_type(p->store);
  return KILN_OK;
}
/// A row of the table that has a text, or none.
static const ir_attr_info *row_of(bool has_text) {
  for (unsigned code = 0; code < IR_OPCODE_COUNT; code++)
    for (const ir_attr_info *row = ir_next_attr(code, NULL); row; row = ir_next_attr(code, row))
      if ((row->form == IR_ATTR_TEXT) == has_text && (has_text || row->size == 1)) return row;
  FAIL("no row");
}
static kiln_status get_text_as_number(plan *p) {
  ir_attr_get(&p->load->attrs, row_of(true));
  return KILN_OK;
}
static kiln_status get_number_as_text(plan *p) {
  ir_attr_text(&p->load->attrs, row_of(false));
  return KILN_OK;
}
static kiln_status set_number_as_text(plan *p) {
  ir_attr_set_text(&p->load->attrs, row_of(false), "text");
  return KILN_OK;
}
static kiln_status set_too_much(plan *p) {
  ir_attr_set(&p->load->attrs, row_of(false), 256);
  return KILN_OK;
}
static kiln_status evaluate_a_load(plan *p) {
  CHECK(!kiln_scalar_knows(p->load->code));
  kiln_scalar_eval(p->load, (uint64_t[]){0});
  return KILN_OK;
}
static kiln_status combine_by_region(plan *p) {
  (void)p;
  kiln_scalar_combine(IR_COMBINE_REGION, KILN_F32, 0, 0, 0);
  return KILN_OK;
}

// ------------------------------------------------------------------------------------- layouts, passes

/// Runs the passes until `pass`.
static ir_value *laid_out(plan *p, const char *pass) {
  kiln_stage stage = {.target = p->target, .refusals = {.arena = p->arena}};
  const kiln_stage_run run = {.stage = &stage, .until = pass};
  CHECK_OK(kiln_stage_finish(&run, p->kernel, &p->err), p->err);
  ir_value *loaded = NULL;
  for (ir_op *op = p->kernel->body->first; op; op = op->next)
    if (op->code == IR_LOAD) loaded = &op->results[0];
  CHECK(loaded && loaded->layout);
  return loaded;
}
static kiln_layout *layout_of(plan *p) {
  ir_value *loaded = laid_out(p, "layouts");
  CHECK_OK(kiln_form_verify(p->kernel, &p->target, KILN_FORM_LAYOUTS, &p->err), p->err);
  kiln_layout *copy = kiln_arena_copy(p->arena, loaded->layout, sizeof *copy);
  loaded->layout = copy;
  return copy;
}
static kiln_status verify_layouts(plan *p) {
  return kiln_form_verify(p->kernel, &p->target, KILN_FORM_LAYOUTS, &p->err);
}
static kiln_status break_reach(plan *p) {
  kiln_layout *l = layout_of(p);
  l->basis[l->registers] = 0;
  return verify_layouts(p);
}
static kiln_status break_register(plan *p) {
  kiln_layout *l = layout_of(p);
  memmove(l->basis + 1, l->basis, (LAYOUT_MAX_PLACES - 1) * sizeof *l->basis);
  l->registers++;
  l->basis[0] = 0;
  return verify_layouts(p);
}
static kiln_status break_block_of_layout(plan *p) {
  layout_of(p)->warps++;
  return verify_layouts(p);
}
static kiln_status break_layout_bits(plan *p) {
  layout_of(p)->bits--;
  return verify_layouts(p);
}
static kiln_status break_unused_basis(plan *p) {
  kiln_layout *l = layout_of(p);
  l->basis[layout_places(l)] = 1;
  return verify_layouts(p);
}
static kiln_status break_places(plan *p) {
  layout_of(p)->registers = LAYOUT_MAX_PLACES;
  return verify_layouts(p);
}
static kiln_status break_variable(plan *p) {
  layout_of(p);
  for (ir_op *op = p->kernel->body->first; op; op = op->next)
    if (op->code == IR_FOR) op->results[0].layout = NULL;
  return verify_layouts(p);
}
static kiln_status break_converted(plan *p) {
  laid_out(p, "conversions");
  CHECK_OK(kiln_form_verify(p->kernel, &p->target, KILN_FORM_CONVERTED, &p->err), p->err);
  for (ir_op *op = p->kernel->body->first; op; op = op->next) {
    if (op->code != IR_STORE) continue;
    kiln_layout *other = kiln_arena_copy(p->arena, op->operand_layouts[1], sizeof *other);
    other->basis[0] = op->operand_layouts[1]->basis[1], other->basis[1] = op->operand_layouts[1]->basis[0];
    op->operand_layouts[1] = other;
  }
  return kiln_form_verify(p->kernel, &p->target, KILN_FORM_CONVERTED, &p->err);
}
static kiln_status break_operand_layouts(plan *p) {
  laid_out(p, "conversions");
  for (ir_op *op = p->kernel->body->first; op; op = op->next)
    if (op->code == IR_FOR) op->operand_layouts[0] = op->operand_layouts[3];
  return kiln_form_verify(p->kernel, &p->target, KILN_FORM_CONVERTED, &p->err);
}
static kiln_status convert_between_sizes(plan *p) {
  (void)p;
  const kiln_layout from = layout_whole(7, 5, 2), to = layout_whole(8, 5, 2);
  layout_convert(&from, &to);
  return KILN_OK;
}
static kiln_status convert_from_part(plan *p) {
  (void)p;
  kiln_layout from = layout_whole(7, 5, 2), to = from;
  from.basis[3] = 0;
  layout_convert(&from, &to);
  return KILN_OK;
}
static kiln_status mask_of_no_axis(plan *p) {
  (void)p;
  layout_axis_mask(tile(KILN_F32, 7), 1);
  return KILN_OK;
}
static kiln_status solve_too_many(plan *p) {
  (void)p;
  uint32_t vectors[33] = {0}, set;
  layout_solve(vectors, 33, 0, &set);
  return KILN_OK;
}
static kiln_status add_a_fifth_tile(plan *p) {
  (void)p;
  kiln_ring ring = {.slots = 2};
  for (int i = 0; i <= KILN_RING_TILES; i++) kiln_ring_add(&ring, tile(KILN_F32, 7));
  return KILN_OK;
}

static kiln_status view_from_a_branch(plan *p) {
  const ir_type view = {.scalar = KILN_F32, .is_view = true, .rank = 1, .log2 = {7}};
  ir_value *v = ir_add_param(p->kernel, &(ir_param){.name = "v", .type = view, .access = IR_ACCESS_IN});
  ir_value *at = ir_const_int(&p->b, KILN_I64, 0);
  CHECK(ir_emit(&p->b, IR_VIEW_LOAD, NULL, (ir_value *[]){v, at}, 2, NULL, NULL, 0));
  CHECK_INT(verify(p), KILN_OK);
  return kiln_form_verify(p->kernel, &p->target, KILN_FORM_OPEN_VIEWS, &p->err);
}
static kiln_status view_by_no_map(plan *p) {
  const ir_type type = {.scalar = KILN_F32, .is_view = true, .rank = 1, .log2 = {7}};
  ir_value *at = ir_const_int(&p->b, KILN_I64, 0);
  ir_op *view = ir_emit(&p->b, IR_VIEW, NULL, (ir_value *[]){p->x, at, at}, 3, &type, NULL, 0);
  CHECK(view);
  ir_emit(&p->b, IR_VIEW_LOAD, NULL, (ir_value *[]){&view->results[0], at}, 2, NULL, NULL, 0);
  CHECK_INT(verify(p), KILN_OK);
  CHECK_OK(kiln_form_verify(p->kernel, &p->target, KILN_FORM_OPEN_VIEWS, &p->err), p->err);
  return kiln_form_verify(p->kernel, &p->target, KILN_FORM_POINTERS, &p->err);
}
static kiln_status not_expanded(plan *p) {
  ir_value *half = ir_cast(&p->b, &p->load->results[0], KILN_E4M3, 0, IR_ROUND_NEAREST);
  CHECK(half && kiln_target_parse("sm_80", &p->target, &p->err) == KILN_OK);
  CHECK_INT(verify(p), KILN_OK);
  return kiln_form_verify(p->kernel, &p->target, KILN_FORM_LEGAL, &p->err);
}
static kiln_status broken_pass(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  kernel->warps = 0;
  return KILN_OK;
}
static kiln_status run_a_broken_pass(plan *p) {
  const kiln_pass pass = {"broken", KILN_WHEN_ALL, KILN_FORM_CANONICAL, KILN_FORM_CANONICAL, broken_pass};
  kiln_pass_context context = kiln_pass_context_of(&p->target);
  return kiln_run_pass(&pass, p->kernel, &context, &(kiln_pass_options){.verify = true}, &p->err);
}
static kiln_status no_family(plan *p) {
  (void)p;
  kiln_target_info_of((kiln_family)KILN_FAMILY_COUNT);
  return KILN_OK;
}

// --------------------------------------------------------------------------------------------- the list

static const struct {
  const char *header, *promise;
  kiln_status (*plant)(plan *p); // returns what the verifier says, where an assert does not end it
} promises[] = {
#define IR "compiler/ir/ir.h"
    {IR, "A block is a list of operations.", break_prev},
    {IR, "A block is a list of operations.", break_last},
    {IR, "A block is a list of operations.", break_block},
    {IR, "NULL for a kernel's body", break_body_parent},
    {IR, "An operation with regions holds one block a region", break_parent},
    {IR, "An operation with regions holds one block a region", break_region_count},
    {IR, "NULL for a block argument", break_argument_def},
    {IR, "of a block argument, else NULL", break_argument_block},
    {IR, "which result or argument", break_index},
    {IR, "which result or argument", break_argument_index},
    {IR, "ir_op *def;", break_def},
    {IR, "values of outer blocks are visible in inner ones", break_scope},
    {IR, "types by ir_infer, dominance, terminators, region shapes", break_order},
    {IR, "There is no return: the body just ends.", break_end},
    {IR, "region 0 (iv, carried...) ends in yield(carried...)", break_terminator},
    {IR, "region 0 (iv, carried...) ends in yield(carried...)", break_yield},
    {IR, "regions 0 then, 1 else, both end in yield(values...)", break_branch},
    {IR, "region 0 (carried...) ends in cond(c, passed...)", break_while},
    {IR, "region 0 (a0..an-1, b0..bn-1, scalars) ends in yield(n)", break_combiner},
    {IR, "A type is a value; unused bytes are zero", break_unused_extent},
    {IR, "A type is a value; unused bytes are zero", break_argument_extent},
    {IR, "log2 of an axis of a view's tile that is written `_`", break_dropped},
    {IR, "IR_MAX_LOG2_ELEMENTS = 20", break_size},
    {IR, "rank; ///< 0: not a tile", break_rank},
    {IR, "0: the scalar itself, 1: *T, 2: **T", break_depth},
    {IR, "Only machine operations make and take such types", break_memory_parameter},
    {IR, "warps (or waves) a program instance; at least 1, a power of two", break_warps},
    {IR, "`body` is a block whose arguments are the parameters in order", break_parameter_count},
    {IR, "`body` is a block whose arguments are the parameters in order", break_parameter_type},
    {IR, "pointer alignment in bytes, a power of two; 0: that of the element", break_align},
    {IR, "a pointer: offsets from it to what is accessed, in bytes, are below 2^31", break_within},
    {IR, "a view: all strides but the last are multiples of so many bytes, a power of two", break_rows},
    {IR, "may emit operations of the machine stage: passes for GPUs alone say so", break_stage},
    {IR, "shared memory of that many tiles", break_slots},
    {IR, "Makes `to` stand for `from`, which has the same type.", forward_to_nothing},
    {IR, "Makes `to` stand for `from`, which has the same type.", forward_to_itself},
    {IR, "Makes `to` stand for `from`, which has the same type.", forward_to_another_type},
    {IR, "Rewrites every operand through its forward link.", leave_a_forward},
    {IR, "Takes `op` out of its block.", remove_twice},
    {IR, "Its results must be unused or forwarded.", remove_what_is_used},
    {IR, "or at the end of `block` when position is NULL", move_before_another_block},
    {IR, "Appends operations to `block`, or before `before` when that is set.", build_before_another_block},
    {IR, "operands of a `for` before the carried values", ask_bounds},
    {IR, "What stands where in loops and branches", ask_counter},
    {IR, "Operands of a loop, and arguments of its first region, before the carried values.", ask_initials},
    {IR, "The region whose end goes into the next turn.", ask_next},
    {IR, "The test of a `while`: its terminator", ask_test},
    {IR, "The terminator of a branch: which 0 `then`, 1 `else`.", ask_third_side},
    {IR, "Of a `view`, one an axis: extents and strides.", ask_extents},
    {IR, "Of an access through a view, one an axis.", ask_indices},
    {IR, "Which operand of the `view` that made its operand a `view_base`, `dim` or `view_stride` is.",
     ask_view_part},
    {IR, "Elements of an access along axis `axis` of its view", ask_count_of_no_view},
    {IR, "stages of the tile of its view", ask_staged},
#define ATTRS "compiler/ir/attrs.h"
    {ATTRS, "A field that holds a number.", get_text_as_number},
    {ATTRS, "A field that holds a number.", set_too_much},
    {ATTRS, "A field that holds a text, of a row of form TEXT", get_number_as_text},
    {ATTRS, "A field that holds a text, of a row of form TEXT", set_number_as_text},
#define SCALAR "compiler/ir/scalar.h"
    {SCALAR, "True when kiln_scalar_eval knows the operation", evaluate_a_load},
    {SCALAR, "Two elements by a named combiner", combine_by_region},
#define LAYOUTS "compiler/passes/gpu/layouts/layouts.h"
    {LAYOUTS, "each layout reaches every element of its tile", break_reach},
    {LAYOUTS, "no register holds what another one has", break_register},
    {LAYOUTS, "fits the block", break_block_of_layout},
    {LAYOUTS, "each layout reaches every element of its tile", break_layout_bits},
    {LAYOUTS, "what loops and branches carry has one layout", break_variable},
    {LAYOUTS, "every operand lies as it is taken", break_converted},
    {IR, "NULL for what is no tile.", break_operand_layouts},
    {"compiler/ir/ir_layout.h", "unused entries are zero", break_unused_basis},
    {"compiler/ir/ir_layout.h", "at most LAYOUT_MAX_PLACES together", break_places},
#define LAYOUT "compiler/layout/layout.h"
    {LAYOUT, "Both layouts have the same element bits, lanes and warps", convert_between_sizes},
    {LAYOUT, "`from` is complete", convert_from_part},
    {LAYOUT, "Bits of an axis as a mask.", mask_of_no_axis},
    {LAYOUT, "The combination of `vectors` that gives `target`, as a set of indices", solve_too_many},
    {"compiler/passes/gpu/ring.h", "Adds a tile to what a slot holds", add_a_fifth_tile},
#define PASS "compiler/passes/pass.h"
    {PASS, "no parameter, carried value or result of a branch is a view", view_from_a_branch},
    {PASS, "no views but those of accesses through tensor maps", view_by_no_map},
    {PASS, "no operation that legality.def calls expanded", not_expanded},
    {PASS, "A pass gets a verified kernel with all forwards applied and leaves one", run_a_broken_pass},
    {"compiler/target_info.h", "kiln_target_info_of", no_family},
};
enum { PROMISES = sizeof promises / sizeof *promises };

/// A header without the marks of its comments and with one blank between words.
static char *words_of(const char *path) {
  char *text = kiln_test_read(path, NULL), *out = text;
  if (!text) FAIL("%s cannot be read", path);
  for (const char *at = text; *at; at++) {
    const bool is_mark = *at == '/' && at[1] == '/';
    while (is_mark && (at[1] == '/' || at[1] == '<')) at++;
    const char c = is_mark || *at == '\n' ? ' ' : *at;
    if (c != ' ' || (out > text && out[-1] != ' ')) *out++ = c;
  }
  *out = 0;
  return text;
}

/// Whether the promise stands there, blanks and comment marks aside.
static bool is_promised(const char *header, const char *promise) {
  char *text = words_of(header), wanted[200], *out = wanted;
  for (const char *at = promise; *at; at++) // marks in the quotation
    if (strncmp(at, "///< ", 5)) *out++ = *at;
    else at += 4;
  *out = 0;
  const bool stands = strstr(text, wanted) != NULL;
  free(text);
  return stands;
}

TEST(promises, stand_in_their_headers) {
  for (unsigned i = 0; i < PROMISES; i++)
    if (!is_promised(promises[i].header, promises[i].promise))
      FAIL("%s no longer says \"%s\"", promises[i].header, promises[i].promise);
}

/// Breaks one in a process of its own; `out` gets what it says.
static bool is_seen(unsigned i, char *out, size_t size) {
  int ends[2], status;
  CHECK(!pipe(ends));
  fflush(NULL);
  const pid_t child = fork();
  if (!child) {
    dup2(ends[1], STDERR_FILENO);
    plan p = make();
    const kiln_status verified = promises[i].plant(&p);
    if (verified != KILN_OK) fprintf(stderr, "verifier: %s%s", p.err.text, p.b.error.text);
    _exit(verified == KILN_STATUS_INTERNAL ? 0 : 1);
  }
  close(ends[1]);
  size_t used = 0;
  for (ssize_t got; used + 1 < size && (got = read(ends[0], out + used, size - 1 - used)) > 0;)
    used += (size_t)got;
  out[used] = 0;
  close(ends[0]);
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGABRT && strstr(out, "internal fault: ");
  return WEXITSTATUS(status) == 0;
}

TEST(promises, each_that_is_broken_is_seen) {
  char text[1000];
  unsigned missed = 0;
  for (unsigned i = 0; i < PROMISES; i++) {
    const bool seen = is_seen(i, text, sizeof text);
    if (!seen || getenv("KILN_TEST_VERBOSE"))
      printf("%s %u: %s: \"%s\": %s\n", seen ? "seen" : "MISSED", i, promises[i].header, promises[i].promise,
             text);
    missed += !seen;
  }
  if (missed) FAIL("%u of %d broken promises are not seen", missed, PROMISES);
}
