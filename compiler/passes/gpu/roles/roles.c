// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One warp group copies, the others compute.
//
// Loads that arrive together and feed one product are a site. A site has a ring: slots in shared memory and
// two arrays of barriers, `full` and `empty`. The body is there twice. The producer keeps copies and what
// their indices need:
//
//   bar_wait empty[slot], phase;  bar_expect full[slot], bytes;  copy ... full[slot];  advance
//
// The consumers keep everything else, their products read the slot:
//
//   bar_wait full[slot], phase;  mma ...;  bar_arrive empty[slot];  advance
//
// The position in a ring is a pair (slot, phase), carried through loops and branches like any value. Both
// sides run the same loops with the same bounds, so short and empty loops need nothing special, and a ring is
// never drained: sites that read tiles of one kind in different loops share one.
//
// A barrier's phase is one bit, so all warps have to have seen a slot filled before it is filled again. Where a
// product follows the wait, one thread of a warp group releases the slot: the product ends when all four warps have
// come to it. A slot that is waited for in front of a loop may have no product at all, and each warp releases it.
//
// A load that several products of its block read is held in its slot from the first to the last of them. A
// computed operand that a product wants the other way round has two slots and no barriers: all consumers put
// their parts there and meet, and who has met them again no longer reads the slot of the time before.
//
// Where a program's accumulators are too many for one block, the blocks of a cluster share it: each has some
// of the rows and columns of the results. What several blocks need of an operand, each of them copies a part
// of to all of them, and a slot is empty when the consumers of all blocks have released it.
//
// Parts of sums that blocks exchange after a loop may leave room for fewer slots than are wanted. They then
// lie over the slots: consumers of all blocks say that they have read these before anything is sent, and the
// producer waits after the loop until what was sent has been read. Before consumers say so they wait until
// the producers have seen it of the program before, since a block without iterations has nothing else to wait
// for.
//
// Copies may have to wait for what the consumers write (roles_order.c).
//
// Needs mapped loads (pass promote). Afterwards the kernel's body is `alloc`s and one `roles`.
#include <string.h>

#include "compiler/passes/gpu/roles/roles_inner.h"

// ------------------------------------------------------------- positions through loops and branches

/// The rings that a block's text moves on, as a set.
static unsigned rings_within(const splitting *s, ir_block *block) {
  unsigned rings = 0;
  for (const ir_op *op = ir_next(block, NULL); op; op = ir_next(block, op)) {
    if (op->code == IR_VIEW_LOAD && op->attrs.access.is_mapped)
      rings |= 1u << s->sites[op->attrs.access.site - 1].ring;
    if (op->code == IR_BARRIER && s->meets && s->is_producer) rings |= 1u << s->order;
    for (unsigned i = 0; op->code == IR_DOT && i < s->product_count; i++)
      if (s->products[i].dot == op && s->products[i].how.put) rings |= 1u << s->products[i].ring;
  }
  return rings;
}

/// The parts of the positions of a set of rings, in order; those of single slots have no slot number.
static unsigned parts_of(splitting *s, unsigned set, ir_value **out[2 * MAX_RINGS]) {
  unsigned count = 0;
  for (unsigned i = 0; i < s->ring_count; i++) {
    if (!(set >> i & 1)) continue;
    if (s->rings[i].ring.slots > 1) out[count++] = &s->at[i].slot;
    out[count++] = &s->at[i].phase;
  }
  return count;
}

static ir_value **joined(splitting *s, ir_value **from, uint32_t count, ir_value **const *more, unsigned n) {
  ir_value **out = KILN_NEW_ARRAY(s->kernel->arena, ir_value *, count + n);
  if (count) memcpy(out, from, count * sizeof *out);
  for (unsigned i = 0; i < n; i++) out[count + i] = *more[i];
  return out;
}

static void extend_end(splitting *s, ir_block *block, ir_value **const *parts, unsigned n) {
  ir_op *end = ir_terminator(block);
  end->operands = joined(s, end->operands, end->operand_count, parts, n);
  end->operand_count += n;
}

/// `op` made anew with `operands` and more results; the regions move over.
static void remake(splitting *s, ir_op *op, ir_value **operands, uint32_t count, ir_value **const *parts,
                   unsigned n) {
  s->b.block = op->block, s->b.before = op, s->b.place = op->place;
  uint32_t regions = op->region_count;
  ir_op *made = ir_emit(&s->b, op->code, &op->attrs, operands, count, NULL, op->regions, regions);
  if (!made) return;
  for (uint32_t i = 0; i < op->result_count; i++) op->results[i].forward = &made->results[i];
  for (unsigned i = 0; i < n; i++) *parts[i] = &made->results[op->result_count + i];
  op->region_count = 0;
  ir_remove(op);
}

static void rewrite_block(splitting *s, ir_block *block);

static void rewrite_for(splitting *s, ir_op *op) {
  ir_value **parts[2 * MAX_RINGS] = {NULL};
  unsigned n = parts_of(s, rings_within(s, op->regions[0]), parts);
  ir_value **operands = joined(s, op->operands, op->operand_count, parts, n);
  for (unsigned i = 0; i < n; i++)
    *parts[i] = ir_block_arg(s->kernel->arena, op->regions[0], ir_scalar_type(KILN_I32));
  rewrite_block(s, op->regions[0]);
  if (!n) return;
  extend_end(s, op->regions[0], parts, n);
  remake(s, op, operands, op->operand_count + n, parts, n);
}

static void rewrite_if(splitting *s, ir_op *op) {
  ir_value **parts[2 * MAX_RINGS] = {NULL};
  position before[MAX_RINGS];
  unsigned n = parts_of(s, rings_within(s, op->regions[0]) | rings_within(s, op->regions[1]), parts);
  memcpy(before, s->at, sizeof before);
  for (unsigned r = 0; r < 2; r++) {
    memcpy(s->at, before, sizeof before);
    rewrite_block(s, op->regions[r]);
    extend_end(s, op->regions[r], parts, n);
  }
  if (n) remake(s, op, op->operands, op->operand_count, parts, n);
}

// --------------------------------------------------------------------------------------------- walk

static bool is_within(const ir_op *op, const ir_op *outer) {
  for (; op; op = op->block->parent)
    if (op == outer) return true;
  return false;
}

static void pass_on(ir_op *op) {
  op->results[0].forward = op->operands[0];
  ir_remove(op);
}

/// Over the slots: the next program's copies wait for it. Consumers of a block without iterations have
/// nothing to wait for in their loop: were they two programs ahead, the producer would take the wrong phase
/// for its own. So they say it again only when the producers have seen the time before. They wait for that in
/// front of the exchange, whose barrier then keeps the group's leader from saying it before each of its warps
/// has gone on: a warp that came later would find the next phase over, and wait for good.
static void exchange(splitting *s, ir_op *op) {
  ir_value *phase = op->operands[1];
  if (s->is_producer) {
    roles_before(s, op);
    roles_emit_barrier(s, IR_BAR_WAIT, s->taken, ir_const_int(&s->b, KILN_I32, 0), phase);
    roles_emit_arrival(s, s->passed, ir_const_int(&s->b, KILN_I32, 0), false);
    pass_on(op);
    return;
  }
  roles_before(s, op);
  ir_value *before = ir_binary_int(&s->b, IR_XOR, 0, phase, 1);
  roles_emit_barrier(s, IR_BAR_WAIT, s->passed, ir_const_int(&s->b, KILN_I32, 0), before);
  roles_after(s, op);
  roles_emit_arrival(s, s->taken, ir_const_int(&s->b, KILN_I32, 0), false);
}

static void rewrite_block(splitting *s, ir_block *block) {
  ir_op *seen[MAX_SITES * MAX_LOADS] = {NULL};
  for (ir_op *op = block->first, *next; op; op = next) {
    next = op->next;
    bool ends[MAX_SITES] = {false};
    for (unsigned i = 0; !s->is_producer && i < s->site_count; i++) {
      const site *x = &s->sites[i];
      ends[i] = op->region_count && x->loads[0]->block == block && x->dot->block && x->dot->block != block &&
                is_within(x->dot, op);
    }
    const bool is_mapped = ir_is_mapped(op);
    if (op->code == IR_FOR) rewrite_for(s, op);
    else if (op->code == IR_IF) rewrite_if(s, op);
    else if (op->code == IR_VIEW_LOAD && is_mapped) roles_load(s, op, seen);
    else if (op->code == IR_DOT && !s->is_producer) roles_consume(s, op);
    else if (op->code == IR_BARRIER && s->meets) roles_meet(s, op);
    else if (op->code == IR_CLUSTER_SCATTER && s->taken) exchange(s, op);
    else if ((op->code == IR_CLUSTER_SUM || op->code == IR_CLUSTER_SCATTER) && s->is_producer) pass_on(op);
    else if (roles_is_staged(op) && !s->is_producer) roles_stage(s, op);
    // Slots of loads whose product stands deeper are released after the loop that has it.
    for (unsigned i = 0; i < s->site_count; i++) {
      if (!ends[i]) continue;
      s->b.block = block, s->b.before = next;
      roles_release(s, &s->sites[i]);
    }
  }
}

// -------------------------------------------------------------------------------------------- split

/// Consumers of all blocks that share the program arrive in this one's memory: it stays until they have
/// released all slots.
static void drain(splitting *s) {
  for (unsigned i = 0; i < s->ring_count; i++)
    for (unsigned slot = 0; !s->rings[i].is_put && !s->rings[i].is_order && slot < s->rings[i].ring.slots;
         slot++) {
      roles_emit_barrier(s, IR_BAR_WAIT, s->rings[i].empty, s->at[i].slot, s->at[i].phase);
      roles_advance(s, i);
    }
}

/// So do blocks that exchange sums: to say that they have read what this one sent or, over the slots, that
/// their producers have seen that. Each group waits for what it is told: another may be two programs behind,
/// and its barrier is then in a phase of the same parity.
static void end_exchange(splitting *s, const ir_op *op) {
  const ir_value *turn = ir_resolve(op->operands[1]);
  ir_value *all = &turn->block->parent->results[turn->index - 1];
  ir_value *last = ir_binary_int(&s->b, IR_XOR, 0, all, 1);
  bool is_overlaid = op->attrs.cluster.is_overlaid;
  if (is_overlaid && s->spread == 1) return;
  ir_value *operands[3] = {is_overlaid ? s->passed : op->operands[4], ir_const_int(&s->b, KILN_I32, 0), last};
  ir_emit(&s->b, IR_BAR_WAIT, &(ir_attrs){.arrive = {.is_own = !is_overlaid}}, operands, 3, NULL, NULL, 0);
}

static void write_role(splitting *s, ir_block *block, bool is_producer) {
  s->is_producer = is_producer;
  s->b.block = block, s->b.before = block->first;
  for (unsigned i = 0; i < s->ring_count; i++) {
    s->at[i].slot = ir_const_int(&s->b, KILN_I32, 0);
    s->at[i].phase = ir_const_int(&s->b, KILN_I32, is_producer && !s->rings[i].is_order ? 1 : 0);
  }
  rewrite_block(s, block);
  s->b.block = block, s->b.before = NULL;
  if (is_producer && s->spread > 1) drain(s);
  if (!is_producer && s->staged) ir_emit(&s->b, IR_STAGE_WAIT, NULL, NULL, 0, NULL, NULL, 0);
  for (unsigned i = 0; !is_producer && i < s->exchange_count; i++) end_exchange(s, s->exchanges[i]);
  ir_yield(&s->b, NULL, 0);
}

/// Blocks that share a processor: one group of consumers leaves its units idle while it waits or ends a
/// program, so as many as have room. More groups fill them alone. The assembler (ptxas 13, C7602) wants that
/// the registers that threads start with hold a whole instruction.
static unsigned choose_blocks(const splitting *s, const kiln_target *target) {
  enum { MOST_BLOCKS = 4, INSTRUCTION = 26 };
  if (s->groups > 1) return 1;
  unsigned needed = 0, widest = 0;
  for (unsigned i = 0; i < s->product_count; i++) { // accumulators of the block of text that has most
    kiln_sums sums = {0};
    for (unsigned j = 0; j < s->product_count; j++)
      if (s->products[j].dot->block == s->products[i].dot->block)
        kiln_count_sums(&sums, s->kernel, s->products[j].dot, &s->products[j].how);
    if (kiln_most_sums(&sums) > needed) needed = kiln_most_sums(&sums);
  }
  needed += KILN_SPARE_REGISTERS;
  for (unsigned i = 0; i < s->product_count; i++) // accumulators: 64 rows, all columns of a group
    if (s->products[i].how.columns / 2 > widest) widest = s->products[i].how.columns / 2;
  widest += INSTRUCTION;
  unsigned blocks = kiln_blocks_within(s->machine, target, s->top + EXCHANGE_BYTES);
  if (blocks > MOST_BLOCKS) blocks = MOST_BLOCKS;
  while (blocks > 1 && (kiln_consumer_registers(s->machine, 1, blocks) < needed ||
                        kiln_start_registers(s->machine, 1, blocks) < widest))
    blocks--;
  return blocks;
}

static kiln_status split(splitting *s, kiln_pass_context *context, kiln_error *err) {
  const kiln_target *target = context->target;
  ir_kernel *kernel = s->kernel;
  ir_number(kernel);
  ir_count_uses(kernel);
  kiln_spread spread = kiln_gpu_blocks_of_program(s->machine, kernel);
  s->spread = spread.blocks, s->columns = spread.columns;
  s->b = (ir_builder){.arena = kernel->arena, .block = kernel->body, .machine = true};
  roles_order(s);
  roles_find_sites(s);
  if (s->reason || !s->site_count) return KILN_STATUS_UNSUPPORTED;
  ir_number(kernel); // clears the slots that ir_clone maps by
  ir_block *producer = KILN_NEW(kernel->arena, ir_block), *consumer = KILN_NEW(kernel->arena, ir_block);
  ir_builder copy = {.arena = kernel->arena, .block = producer};
  for (const ir_op *op = kernel->body->first; op; op = op->next) ir_clone(&copy, op);
  for (ir_op *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    ir_move(op, consumer, NULL);
  }
  s->b = (ir_builder){.arena = kernel->arena, .block = kernel->body, .machine = true};
  if (!roles_alloc(s, target, consumer)) {
    s->reason = KILN_REASON_SLOTS;
    return KILN_STATUS_UNSUPPORTED;
  }
  s->blocks = choose_blocks(s, target);
  write_role(s, producer, true);
  write_role(s, consumer, false);
  s->b.block = kernel->body, s->b.before = NULL;
  ir_block *regions[2] = {producer, consumer};
  // What the producer gives up goes to the consumers, in steps of 8. One group of consumers that has a processor for
  // itself has enough as it is: 0.
  ir_attrs attrs = {.roles = {.resident = (uint8_t)s->blocks, .cluster = (uint8_t)s->split}};
  if (s->spread > 1) attrs.roles.spread = (uint8_t)s->spread, attrs.roles.is_beside = s->columns == 2;
  if (s->groups > 1 || s->blocks > 1) {
    attrs.roles.producer_registers = s->machine->producer_registers;
    attrs.roles.consumer_registers = kiln_consumer_registers(s->machine, s->groups / s->spread, s->blocks);
  }
  ir_emit(&s->b, IR_ROLES, &attrs, NULL, 0, NULL, regions, 2);
  if (s->b.error.status != KILN_OK) return kiln_fail(err, KILN_STATUS_INTERNAL, "roles: %s", s->b.error.text);
  ir_apply_forwards(kernel);
  for (ir_op *op = ir_next(producer, NULL), *next; op; op = next) {
    next = ir_next(producer, op);
    const bool is_copying = op->code == IR_COPY || op->code == IR_BAR_WAIT || op->code == IR_BAR_EXPECT ||
                            op->code == IR_BAR_ARRIVE;
    const bool has_effect = ir_ops[op->code].effect == IR_WRITE || ir_ops[op->code].effect == IR_FACT;
    if (has_effect && !is_copying && op->code != IR_ASM) ir_remove(op);
  }
  KILN_TRY(kiln_pass_simplify(kernel, context, err));
  producer = kernel->body->last->regions[0];
  for (const ir_op *op = ir_next(producer, NULL); op; op = ir_next(producer, op)) {
    const bool is_kept = op->code == IR_COPY || op->code == IR_ALLOC || op->code == IR_VIEW;
    for (uint32_t i = 0; !is_kept && i < op->result_count; i++)
      if (op->results[i].type.rank) s->reason = KILN_REASON_INDICES;
  }
  return s->reason ? KILN_STATUS_UNSUPPORTED : KILN_OK;
}

kiln_status kiln_pass_roles(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  splitting *s = KILN_NEW(kernel->arena, splitting);
  *s = (splitting){.kernel = kernel, .machine = kiln_matrix_machine_of(context->target)};
  s->groups = kernel->warps / s->machine->group_warps;
  kiln_status status = split(s, context, err);
  if (!s->reason) return status;
  kiln_refuse_others(context->refusals, s->reason);
  return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "%s: %s", kernel->name, kiln_reason_text(s->reason));
}
