// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Structured control flow. Carried scalars are stack slots, which LLVM turns into registers; carried tiles
// are buffers, but for those that grow by the same amount each turn, such as tiles of pointers: they are
// computed from the number of the turn.
//
// A new value of a carried tile goes into its buffer at once when nothing pulls the old one under another
// index or in a later loop; else it is written aside and copied when all new values are there.
#include "compiler/codegen/host/host.h"

#define B h->builder

/// Carried values: a stack slot, a buffer or a step each.
typedef struct carried {
  LLVMValueRef *slots;   // NULL for a tile
  host_buffer **buffers; // NULL for a scalar and for what has a step
  LLVMValueRef *steps;   // i64; NULL: carried
  uint32_t count;
} carried;

static void prepare(host *h, carried *c, const ir_value *results, uint32_t count) {
  c->count = count;
  if (!c->steps) c->steps = KILN_NEW_ARRAY(h->arena, LLVMValueRef, count + 1);
  c->slots = KILN_NEW_ARRAY(h->arena, LLVMValueRef, count + 1);
  c->buffers = KILN_NEW_ARRAY(h->arena, host_buffer *, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    if (c->steps[i]) continue;
    if (results[i].type.rank) c->buffers[i] = host_buffer_create(h, results[i].type);
    else c->slots[i] = host_stack(h, host_element_type(h, results[i].type));
  }
}

static void bind(host *h, const carried *c, ir_value *v, uint32_t i) {
  host_value *info = host_info(v);
  if (c->buffers[i]) {
    info->buffer = c->buffers[i];
    return;
  }
  info->lanes =
      (host_lanes){LLVMBuildLoad2(B, host_element_type(h, v->type), c->slots[i], ""), 0, HOST_UNIFORM};
  info->has_lanes = true;
}

static LLVMValueRef scalar_of(ir_value *v) { return host_info(v)->lanes.value; }

// --------------------------------------------------------------------------------- new tile values

/// New value `i` may overwrite its buffer in the loop that computes it: whoever reads the old one does so in
/// that loop too, at the same index.
static bool can_overwrite(host *h, const carried *c, ir_value *const *values, uint32_t i) {
  for (uint32_t k = 0; k < c->count; k++) {
    if (!values[k]->type.rank) continue;
    const host_reads r = host_reads_of(h, values[k], c->buffers[i]);
    bool together = k == i || ir_log2_elements(values[k]->type) == ir_log2_elements(values[i]->type);
    if (r.moved || (r.any && !together)) return false;
  }
  return true;
}

static void keep_into(host *h, ir_value *v, host_buffer *buffer, bool aside) {
  host_root root = {.kind = HOST_ROOT_KEEP, .value = v, .buffer = buffer, .binds = aside, .carries = !aside};
  host_add_root(h, &root, v->type, 0);
}

/// Keeps all values with `bits` index bits whose `way` is wanted, in one loop.
enum { STAYS, OVERWRITES, ASIDE };
static void keep_all(host *h, const carried *c, ir_value *const *values, const uint8_t *ways, uint8_t way,
                     unsigned bits) {
  for (uint32_t i = 0; i < c->count; i++)
    if (ways[i] == way && ir_log2_elements(values[i]->type) == bits)
      keep_into(h, values[i], c->buffers[i], false);
  host_flush(h);
}

static bool is_carried(const carried *c, const host_buffer *buffer) {
  for (uint32_t i = 0; i < c->count; i++)
    if (c->buffers[i] == buffer) return true;
  return false;
}

/// Moves `values` into slots and buffers. All of them are read before any is written.
static void assign(host *h, const carried *c, ir_value *const *values) {
  uint8_t *ways = KILN_NEW_ARRAY(h->arena, uint8_t, c->count + 1);
  host_buffer **before = KILN_NEW_ARRAY(h->arena, host_buffer *, c->count + 1);
  uint32_t tiles = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    before[i] = host_info(values[i])->buffer;
    if (!c->buffers[i] || before[i] == c->buffers[i]) continue;
    ways[i] = tiles++ < HOST_MAX_ROOTS && can_overwrite(h, c, values, i) ? OVERWRITES : ASIDE;
  }
  host_flush(h);
  for (uint32_t i = 0; i < c->count; i++) {
    if (ways[i] != ASIDE || (before[i] && !is_carried(c, before[i]))) continue;
    keep_into(h, values[i], host_buffer_create(h, values[i]->type), true);
    host_flush(h);
  }
  for (unsigned way = OVERWRITES; way <= ASIDE; way++)
    for (unsigned bits = 0; tiles && bits <= IR_MAX_LOG2_ELEMENTS; bits++)
      keep_all(h, c, values, ways, way, bits);
  for (uint32_t i = 0; i < c->count; i++) {
    host_info(values[i])->buffer = before[i]; // a copy made inside a region stands for the value there only
    if (c->slots[i]) LLVMBuildStore(B, scalar_of(values[i]), c->slots[i]);
  }
}

// ----------------------------------------------------------------------------------------- if, for

static void region(host *h, ir_block *block, const carried *results, uint32_t skip) {
  uint64_t mark = h->scratch_at;
  const host_binding *bindings = h->bindings;
  host_block_emit(h, block);
  host_flush(h);
  if (h->status == KILN_OK) assign(h, results, ir_terminator(block)->operands + skip);
  host_unbind(h, bindings);
  h->scratch_at = mark;
}

static void bind_results(host *h, const carried *c, ir_op *op) {
  for (uint32_t i = 0; i < op->result_count; i++) bind(h, c, &op->results[i], i);
}

void host_if(host *h, ir_op *op) {
  carried c = {0};
  host_flush(h);
  prepare(h, &c, op->results, op->result_count);
  LLVMBasicBlockRef yes = host_block(h, "then"), no = host_block(h, "else"), done = host_block(h, "endif");
  LLVMBuildCondBr(B, scalar_of(ir_if_condition(op)), yes, no);
  for (unsigned side = 0; side < 2; side++) {
    LLVMPositionBuilderAtEnd(B, side ? no : yes);
    region(h, op->regions[side], &c, 0);
    LLVMBuildBr(B, done);
  }
  LLVMPositionBuilderAtEnd(B, done);
  bind_results(h, &c, op);
}

// The count of turns is computed first: hi may be the largest integer, so that the counter must not run past
// it.
static LLVMValueRef turn_count(host *h, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step) {
  LLVMTypeRef type = LLVMTypeOf(lo);
  LLVMValueRef one = LLVMConstInt(type, 1, false), zero = LLVMConstInt(type, 0, false);
  LLVMValueRef some = LLVMBuildICmp(B, LLVMIntSLT, lo, hi, "");
  LLVMValueRef last = LLVMBuildSub(B, LLVMBuildSub(B, hi, lo, ""), one, "");
  LLVMValueRef safe = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntSGT, step, zero, ""), step, one, "");
  LLVMValueRef count = LLVMBuildAdd(B, LLVMBuildUDiv(B, last, safe, ""), one, "");
  return LLVMBuildSelect(B, some, count, zero, "");
}

const ir_value *host_growth(const ir_value *arg, const ir_value *yielded) {
  const ir_op *op = yielded->def;
  int64_t constant;
  if (!arg->type.rank || !op || (op->code != IR_PTRADD && op->code != IR_ADD) || op->block != arg->block)
    return NULL;
  const ir_value *more = op->operands[1];
  if (op->code == IR_ADD && more == arg) more = op->operands[0];
  else if (op->operands[0] != arg) return NULL;
  if (op->code == IR_ADD && ir_type_class(arg->type) != KILN_CLASS_INT) return NULL;
  return ir_constant_int(more, &constant) || (more->def && more->def->code == IR_SPLAT) ? more : NULL;
}

/// What the yielded value adds to argument `arg`: a constant or a scalar from outside the loop, or NULL.
static LLVMValueRef step_of(host *h, const ir_value *arg, const ir_value *yielded) {
  const ir_value *more = host_growth(arg, yielded);
  int64_t constant;
  if (!more) return NULL;
  if (ir_constant_int(more, &constant)) return host_i64(h, constant);
  const host_value *scalar = host_info(more->def->operands[0]);
  if (!scalar->has_lanes || scalar->lanes.form != HOST_UNIFORM) return NULL;
  return LLVMBuildSExt(B, scalar->lanes.value, h->i64, "");
}

static void find_steps(host *h, carried *c, const ir_op *op) {
  c->steps = KILN_NEW_ARRAY(h->arena, LLVMValueRef, op->result_count + 1);
  for (uint32_t i = 0; i < op->result_count; i++) {
    ir_value *init = ir_loop_initials(op)[i];
    c->steps[i] = step_of(h, ir_loop_args(op)[i], ir_loop_next(op)->operands[i]);
    if (c->steps[i] && (host_info(init)->has_load || host_info(init)->cost > HOST_COST_CHEAP))
      host_keep_now(h, init);
  }
}

static void bind_all(host *h, const carried *c, const ir_op *op, ir_value **values, LLVMValueRef turns) {
  for (uint32_t i = 0; i < c->count; i++) {
    if (!c->steps[i]) {
      bind(h, c, values[i], i);
      continue;
    }
    host_induction *x = KILN_NEW(h->arena, host_induction);
    *x = (host_induction){ir_loop_initials(op)[i], turns, c->steps[i]};
    host_info(values[i])->induction = x;
  }
}

void host_for(host *h, ir_op *op) {
  carried c = {0};
  host_flush(h);
  find_steps(h, &c, op);
  prepare(h, &c, op->results, op->result_count);
  assign(h, &c, ir_loop_initials(op));
  host_dot_before(h, op);
  LLVMValueRef lo = scalar_of(ir_for_lower(op)), step = scalar_of(ir_for_step(op));
  LLVMTypeRef type = LLVMTypeOf(lo);
  LLVMValueRef count = turn_count(h, lo, scalar_of(ir_for_upper(op)), step),
               zero = LLVMConstInt(type, 0, false);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(B), loop = host_block(h, "for"),
                    done = host_block(h, "endfor");
  LLVMValueRef all = LLVMBuildZExtOrBitCast(B, count, h->i64, "");
  LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntNE, count, zero, ""), loop, done);
  LLVMPositionBuilderAtEnd(B, loop);
  LLVMValueRef turn = LLVMBuildPhi(B, type, "");
  LLVMAddIncoming(turn, &zero, &before, 1);
  host_set_scalar(ir_for_counter(op), LLVMBuildAdd(B, lo, LLVMBuildMul(B, turn, step, ""), ""));
  bind_all(h, &c, op, ir_loop_args(op), LLVMBuildZExtOrBitCast(B, turn, h->i64, ""));
  region(h, ir_loop_body(op), &c, 0);
  LLVMValueRef next = LLVMBuildAdd(B, turn, LLVMConstInt(type, 1, false), "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(B);
  LLVMAddIncoming(turn, &next, &latch, 1);
  LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntNE, next, count, ""), loop, done);
  LLVMPositionBuilderAtEnd(B, done);
  ir_value **results = KILN_NEW_ARRAY(h->arena, ir_value *, op->result_count + 1);
  for (uint32_t i = 0; i < op->result_count; i++) results[i] = &op->results[i];
  bind_all(h, &c, op, results, all);
  host_dot_after(h, op);
}

// Carried values enter region 0; what it passes on are the arguments of region 1 and the results.
void host_while(host *h, ir_op *op) {
  ir_block *before = op->regions[0], *after = ir_loop_body(op);
  carried in = {0}, passed = {0};
  host_wait wait;
  bool waits = host_wait_is(h, op);
  host_flush(h);
  prepare(h, &passed, op->results, op->result_count);
  ir_value *kinds = KILN_NEW_ARRAY(h->arena, ir_value, op->operand_count + 1);
  for (uint32_t i = 0; i < op->operand_count; i++) kinds[i].type = op->operands[i]->type;
  prepare(h, &in, kinds, op->operand_count);
  assign(h, &in, op->operands);
  host_dot_before(h, op);
  if (waits) host_wait_begin(h, &wait);
  LLVMBasicBlockRef head = host_block(h, "while"), body = host_block(h, "do"),
                    done = host_block(h, "endwhile");
  LLVMBuildBr(B, head);
  LLVMPositionBuilderAtEnd(B, head);
  for (uint32_t i = 0; i < in.count; i++) bind(h, &in, before->args[i], i);
  region(h, before, &passed, 1);
  LLVMValueRef more = scalar_of(ir_cond_condition(ir_while_test(op)));
  LLVMBuildCondBr(B, more ? more : LLVMConstInt(h->i1, 0, false), body, done);
  LLVMPositionBuilderAtEnd(B, body);
  if (waits) host_wait_turn(h, &wait);
  for (uint32_t i = 0; i < passed.count; i++) bind(h, &passed, after->args[i], i);
  region(h, after, &in, 0);
  LLVMBuildBr(B, head);
  LLVMPositionBuilderAtEnd(B, done);
  if (waits) host_wait_end(h, &wait);
  bind_results(h, &passed, op);
  host_dot_after(h, op);
}
