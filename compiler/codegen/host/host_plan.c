// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which lazy tiles are kept in memory where they are defined, and which are computed again wherever they are
// pulled.
//
// Kept: loads that a later write could change before the last pull; what regions use, unless it is cheap;
// what costs more than reading it back and is pulled by several loops, or again and again by one.
#include "compiler/analysis/provenance.h"
#include "compiler/codegen/host/host.h"

enum {
  COST_CHEAP = HOST_COST_CHEAP,
  COST_KEEP = 40,
  COST_CAST = 4,
  COST_FLOAT = 3,
  COST_INT = 1,
  COST_MAX = 1 << 20
};

// -------------------------------------------------------------------------------------- properties

enum { SAME, MOVED, REPEATS };
enum { EACH = -1 };
static const struct {
  uint8_t role, index;
  int8_t cost;
  bool is_given;
} rows[IR_OPCODE_COUNT] = {
#define HOST_OP(code, role, index, cost, emit) [IR_##code] = {HOST_##role, index, cost, true},
#include "compiler/codegen/host/host_ops.def"
#undef HOST_OP
};

host_role host_role_of(const ir_op *op) {
  host_role role = rows[op->code].is_given      ? (host_role)rows[op->code].role
                   : kiln_element_has(op->code) ? HOST_LAZY
                                                : HOST_NOW;
  const ir_type *space = op->result_count ? &op->results[0].type : NULL;
  if (role == HOST_LAZY && (!space || !space->rank)) return HOST_NOW; // a scalar
  if (role == HOST_ROOT && !op->operands[0]->type.rank) return HOST_ALONE;
  return role;
}

bool host_is_lazy(const ir_op *op) { return host_role_of(op) == HOST_LAZY; }

bool host_keeps_index(const ir_op *op) {
  if (rows[op->code].index == REPEATS)
    return ir_log2_elements(op->operands[0]->type) == ir_log2_elements(op->results[0].type);
  return rows[op->code].index == SAME;
}

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

void host_set_ready(const ir_op *op) {
  uint32_t ready = 0, moved = 0;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const host_value *x = host_info(op->operands[i]);
    ready = max_u32(ready, x->ready);
    moved = max_u32(moved, x->ready_moved);
  }
  if (!host_keeps_index(op)) ready = max_u32(ready, moved);
  for (uint32_t i = 0; i < op->result_count; i++) {
    host_info(&op->results[i])->ready = ready;
    host_info(&op->results[i])->ready_moved = moved;
  }
}

static bool has_address(const ir_op *op) {
  return op->code == IR_LOAD || op->code == IR_STORE || op->code == IR_ATOMIC || op->code == IR_CAS;
}

bool host_conflict(const host *h, const ir_op *load, const ir_op *write, bool in_place) {
  int from = kiln_param_of(load->operands[0]),
      to = has_address(write) ? kiln_param_of(write->operands[0]) : -1;
  if (from >= 0 && from != to && h->kernel->params[from].noalias) return false;
  if (!in_place || write->code != IR_STORE || from < 0 || to < 0) return true;
  return from == to && load->operands[0] != write->operands[0];
}

// ------------------------------------------------------------------------------------------- users

static void add_user(host *h, ir_value *v, ir_op *user) {
  host_value *info = host_info(v);
  KILN_GROW(h->arena, info->users, info->user_count, info->user_capacity);
  info->users[info->user_count++] = user;
}

static void add_value(host *h, ir_value *v) { v->slot = KILN_NEW(h->arena, host_value); }

static void add_block(host *h, ir_block *block) {
  for (uint32_t i = 0; i < block->arg_count; i++) add_value(h, block->args[i]);
  for (ir_op *op = block->first; op; op = op->next) {
    for (uint32_t i = 0; i < op->operand_count; i++) add_user(h, op->operands[i], op);
    for (uint32_t i = 0; i < op->result_count; i++) add_value(h, &op->results[i]);
    for (uint32_t i = 0; i < op->region_count; i++) add_block(h, op->regions[i]);
  }
}

// -------------------------------------------------------------------------------------------- cost

static uint32_t own_cost(const ir_op *op) {
  ir_type type = op->operand_count ? op->operands[0]->type : op->results[0].type;
  bool real = ir_type_class(type) == KILN_CLASS_FLOAT;
  if (rows[op->code].is_given && rows[op->code].cost != EACH) return (uint32_t)rows[op->code].cost;
  if (op->code != IR_CAST) return real ? COST_FLOAT : COST_INT;
  return real || ir_type_class(op->results[0].type) == KILN_CLASS_FLOAT ? COST_CAST : COST_INT;
}

static void set_cost(const ir_op *op) {
  uint32_t cost = own_cost(op);
  bool load = op->code == IR_LOAD;
  for (uint32_t i = 0; i < op->operand_count; i++) {
    const host_value *x = host_info(op->operands[i]);
    if (!op->operands[i]->type.rank) continue;
    cost += x->cost;
    load |= x->has_load;
  }
  for (uint32_t i = 0; i < op->result_count; i++) {
    host_info(&op->results[i])->cost = cost > COST_MAX ? COST_MAX : cost;
    host_info(&op->results[i])->has_load = load;
  }
}

// Whether the last two axes of a tile are swapped with respect to memory.
static bool is_swapped(const host *h, const ir_op *op) {
  unsigned r = op->results[0].type.rank;
  if (r < 2) return false;
  if (op->code == IR_LOAD) {
    const kiln_fact *fact = kiln_fact_of(h->facts, op->operands[0]);
    return !fact->contiguity[r - 1] && fact->contiguity[r - 2];
  }
  if (op->code == IR_TRANS)
    return op->attrs.perm[r - 1] == r - 2 && op->attrs.perm[r - 2] == r - 1 &&
           !host_info(op->operands[0])->swapped;
  bool any = false;
  for (uint32_t i = 0; kiln_element_has(op->code) && i < op->operand_count; i++)
    any |= host_info(op->operands[i])->swapped;
  return any;
}

// ----------------------------------------------------------------------- which loops there will be

static bool contains_effect(const ir_op *op) {
  if (op->code == IR_BARRIER || (ir_ops[op->code].effect == IR_WRITE && op->code != IR_ASSERT)) return true;
  for (uint32_t r = 0; r < op->region_count; r++)
    for (const ir_op *inner = op->regions[r]->first; inner; inner = inner->next)
      if (contains_effect(inner)) return true;
  return false;
}

// Walks a block as emission will and writes the number of the loop of each root, and of the loop open at each
// other operation.
typedef struct simulation {
  uint32_t group;
  int bits; // of the open loop; -1: none
  unsigned axis_first;
} simulation;

static bool waits_for(const ir_op *op, uint32_t group) {
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (host_info(op->operands[i])->ready == group) return true;
  return false;
}

static void simulate_op(simulation *s, const ir_op *op, uint32_t *group_of) {
  host_role role = host_role_of(op);
  if (role == HOST_LAZY) host_set_ready(op);
  else if (role == HOST_ROOT) {
    int bits = (int)ir_log2_elements(op->operands[0]->type);
    if (bits != s->bits || waits_for(op, s->group)) s->group++;
    s->bits = bits;
    for (uint32_t i = 0; i < op->result_count; i++) host_info(&op->results[i])->ready = s->group;
  } else if (role == HOST_ALONE || waits_for(op, s->group)) {
    s->group++;
    s->bits = -1;
  }
  group_of[op->number] = s->group;
}

// ------------------------------------------------------------------------------------------ decide

static ir_op *ancestor_in(ir_op *op, const ir_block *block) {
  while (op->block != block) op = op->block->parent;
  return op;
}

typedef struct uses {
  uint32_t last, first_group, last_group;
  bool in_place, nested, moved;
} uses;

static void merge(uses *u, uint32_t last, bool in_place, uint32_t first_group, uint32_t last_group) {
  if (last > u->last) u->in_place = in_place;
  else if (last == u->last) u->in_place &= in_place;
  u->last = max_u32(u->last, last);
  if (first_group < u->first_group) u->first_group = first_group;
  u->last_group = max_u32(u->last_group, last_group);
}

static void merge_lazy(uses *u, const ir_op *user, uint32_t group) {
  bool same = host_keeps_index(user);
  for (uint32_t i = 0; i < user->result_count; i++) {
    const host_value *x = host_info(&user->results[i]);
    if (!x->user_count) continue;
    if (!same && user->code != IR_TRANS) u->moved = true;
    if (x->keep) merge(u, user->number, same, group, group);
    else merge(u, x->last, same && x->last_in_place, x->first_group, x->last_group);
    u->moved |= x->moved && !x->keep;
  }
}

// What a loop makes grow is computed from what it began with, wherever it is pulled after the loop.
static void merge_grown(uses *u, const ir_value *v, const ir_op *loop) {
  for (uint32_t i = 0; loop->code == IR_FOR && i < loop->result_count; i++) {
    const host_value *x = host_info(&loop->results[i]);
    if (x->user_count && ir_loop_initials(loop)[i] == v &&
        host_growth(ir_loop_args(loop)[i], ir_loop_next(loop)->operands[i]))
      merge(u, x->last, false, x->first_group, x->last_group);
  }
}

static uses uses_of(const ir_value *v, const ir_block *block, const uint32_t *group_of) {
  uses u = {.first_group = UINT32_MAX};
  const host_value *info = host_info(v);
  for (uint32_t i = 0; i < info->user_count; i++) {
    ir_op *user = ancestor_in(info->users[i], block);
    uint32_t group = group_of[user->number];
    if (user != info->users[i]) {
      u.nested = true;
      merge(&u, user->number, false, group, group);
    } else if (host_is_lazy(user)) merge_lazy(&u, user, group);
    else {
      merge(&u, user->number, rows[user->code].role == HOST_ROOT, group, group);
      merge_grown(&u, v, user);
    }
  }
  return u;
}

static bool overwritten(const host *h, const ir_op *load, const uses *u) {
  for (const ir_op *op = load->next; op && op->number <= u->last; op = op->next)
    if (contains_effect(op) && host_conflict(h, load, op, op->number == u->last && u->in_place)) return true;
  return false;
}

static bool must_keep(const host *h, const ir_op *op, const host_value *info, const uses *u) {
  if (op->code == IR_LOAD && ((op->attrs.flags & IR_VOLATILE) || overwritten(h, op, u))) return true;
  if (u->nested) return info->has_load || info->cost > COST_CHEAP;
  return info->cost > COST_KEEP && (u->first_group != u->last_group || u->moved);
}

// When the last root pulls an argument of a region; a loop's new value may take its place then.
static void decide_args(const ir_block *block, const uint32_t *group_of) {
  for (uint32_t i = 0; i < block->arg_count; i++)
    if (host_info(block->args[i])->user_count)
      host_info(block->args[i])->last = uses_of(block->args[i], block, group_of).last;
}

static void decide(const host *h, const ir_op *op, const uint32_t *group_of) {
  for (uint32_t i = 0; i < op->result_count; i++) {
    host_value *info = host_info(&op->results[i]);
    if (!info->user_count) continue;
    uses u = uses_of(&op->results[i], op->block, group_of);
    info->last = u.last;
    info->last_in_place = u.in_place;
    info->first_group = u.first_group;
    info->last_group = u.last_group;
    info->moved = u.moved;
    info->keep = host_is_lazy(op) && must_keep(h, op, info, &u);
  }
}

static void plan_block(host *h, ir_block *block, uint32_t *group_of) {
  simulation s = {.group = 1, .bits = -1};
  for (ir_op *op = block->first; op; op = op->next) {
    if (host_is_lazy(op)) {
      set_cost(op);
      for (uint32_t i = 0; i < op->result_count; i++) host_info(&op->results[i])->swapped = is_swapped(h, op);
    }
    simulate_op(&s, op, group_of);
  }
  for (ir_op *op = block->last; op; op = op->prev) decide(h, op, group_of);
  decide_args(block, group_of);
  for (ir_op *op = block->first; op; op = op->next)
    for (uint32_t i = 0; i < op->region_count; i++) plan_block(h, op->regions[i], group_of);
}

// ---------------------------------------------------------------------------------------- the plan

static uint32_t count_ops(const ir_block *block) {
  uint32_t count = 0;
  for (const ir_op *op = block->first; op; op = op->next) {
    count++;
    for (uint32_t i = 0; i < op->region_count; i++) count += count_ops(op->regions[i]);
  }
  return count;
}

static void clear_ready(ir_block *block) {
  for (ir_op *op = block->first; op; op = op->next) {
    for (uint32_t i = 0; i < op->result_count; i++) {
      host_info(&op->results[i])->ready = 0;
      host_info(&op->results[i])->ready_moved = 0;
    }
    for (uint32_t i = 0; i < op->region_count; i++) clear_ready(op->regions[i]);
  }
}

void host_plan(host *h) {
  uint32_t *group_of = KILN_NEW_ARRAY(h->arena, uint32_t, count_ops(h->kernel->body) + 1);
  h->facts = kiln_facts_compute(h->arena, h->kernel);
  ir_number(h->kernel);
  add_block(h, h->kernel->body);
  plan_block(h, h->kernel->body, group_of);
  clear_ready(h->kernel->body);
}

// -------------------------------------------------------------------- reads of a buffer

// Values are shared, so each is walked twice at most.
static void find_reads(const host *h, const host_buffer *buffer, ir_value *v, bool moved, host_reads *out) {
  host_value *info = host_info(v);
  if (info->has_lanes || (info->mark == h->walk_count && (info->mark_moved || !moved))) return;
  info->mark_moved = moved;
  info->mark = h->walk_count;
  if (info->buffer) {
    out->any |= info->buffer == buffer;
    out->moved |= moved && info->buffer == buffer;
    return;
  }
  if (!v->def || !v->type.rank) return;
  for (uint32_t i = 0; i < v->def->operand_count; i++)
    find_reads(h, buffer, v->def->operands[i], moved || !host_keeps_index(v->def), out);
}

host_reads host_reads_of(host *h, ir_value *v, const host_buffer *buffer) {
  host_reads reads = {0};
  h->walk_count++;
  find_reads(h, buffer, v, false, &reads);
  return reads;
}
