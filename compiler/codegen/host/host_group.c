// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups: roots of one iteration space become one loop nest over chunks of a few vectors.
//
// Loop order: index bits that a reduction runs over are counted innermost, so that its accumulators live in
// registers. When masks can be tested as a whole, a chunk has two bodies: all lanes live, and masked.
#include "compiler/analysis/provenance.h"
#include "compiler/codegen/host/host.h"

#include <string.h>

#include "base/check.h"

#define B h->builder

enum { MAX_MASKS = 8, MAX_VISITED = 256, MAX_RUNS = 8, MANY_VALUES = 32 };

bool host_waits(const host *h, const ir_op *op) {
  if (!h->open) return false;
  for (uint32_t i = 0; i < op->operand_count; i++)
    if (host_info(op->operands[i])->ready == h->open->id) return true;
  return false;
}

// ----------------------------------------------------------------------- what a root reads, lazily

/// Values under maps that were seen, and what was looked for.
typedef struct visit {
  ir_value *values[MAX_VISITED];
  host_map maps[MAX_VISITED];
  uint32_t count;
  ir_value *masks[MAX_MASKS];
  host_map mask_maps[MAX_MASKS];
  uint32_t mask_count;
  const host_group *writes; // stores whose order with loads is asked for
  const ir_op *later;       // a store that would join the loop of loads before it in the text; NULL: none
  bool overflow, conflict;
} visit;

static bool same_map(const host_map *a, const host_map *b) {
  return a->count == b->count && !memcmp(a->from, b->from, a->count);
}

static bool seen(visit *w, ir_value *v, const host_map *map) {
  for (uint32_t i = 0; i < w->count; i++)
    if (w->values[i] == v && same_map(&w->maps[i], map)) return true;
  if (w->count == MAX_VISITED) {
    w->overflow = true;
    return true;
  }
  w->values[w->count] = v;
  w->maps[w->count++] = *map;
  return false;
}

static void see_mask(visit *w, ir_value *v, const host_map *map) {
  for (uint32_t i = 0; i < w->mask_count; i++)
    if (w->masks[i] == v && same_map(&w->mask_maps[i], map)) return;
  if (w->mask_count == MAX_MASKS || host_info(v)->has_load) w->overflow = true;
  else w->masks[w->mask_count] = v, w->mask_maps[w->mask_count++] = *map;
}

static bool is_identity(const host_map *map, unsigned bits) {
  host_map want = host_identity(bits);
  return same_map(map, &want);
}

static bool is_one_parameter(const ir_op *first, const ir_op *second) {
  return kiln_param_of(first->operands[0]) == kiln_param_of(second->operands[0]);
}

/// Through one parameter, or what may be one.
static bool may_be_one(const ir_op *first, const ir_op *second) {
  const int from = kiln_param_of(first->operands[0]), to = kiln_param_of(second->operands[0]);
  return from < 0 || to < 0 || from == to;
}

// A load that comes after stores of the group in the text must see them, and one that comes before a store
// must not see it: elements of one loop take turns.
static void see_load(const host *h, visit *w, const ir_op *load, const host_map *map) {
  if (w->later && load->number < w->later->number && may_be_one(load, w->later) &&
      host_conflict(h, load, w->later, is_identity(map, h->open->bits)))
    w->conflict = true;
  for (uint32_t i = 0; w->writes && i < w->writes->root_count; i++) {
    const ir_op *store = w->writes->roots[i].op;
    if (w->writes->roots[i].kind != HOST_ROOT_STORE || store->number > load->number) continue;
    // Element by element an earlier store is seen where it is the load's own; other buffers may overlap.
    const bool in_place = is_identity(map, w->writes->bits) && is_one_parameter(load, store);
    if (host_conflict(h, load, store, in_place)) w->conflict = true;
  }
}

static void visit_value(const host *h, visit *w, ir_value *v, const host_map *map) {
  const ir_op *op = v->def;
  const host_value *info = host_info(v);
  if (info->has_lanes || info->buffer || !op || !v->type.rank || seen(w, v, map) || !host_is_lazy(op)) return;
  if (op->code == IR_LOAD) {
    see_load(h, w, op, map);
    if (op->operand_count > 1) see_mask(w, op->operands[1], map);
  }
  for (uint32_t i = 0; i < op->operand_count; i++) {
    host_map inner = host_operand_map(op, i, v->index, map);
    visit_value(h, w, op->operands[i], &inner);
  }
}

static void visit_root(const host *h, visit *w, const host_root *root, const host_map *map) {
  if (root->kind == HOST_ROOT_KEEP) {
    visit_value(h, w, root->value, map);
    return;
  }
  if (root->kind == HOST_ROOT_PACK) {
    visit_value(h, w, root->value, &root->packing->order);
    return;
  }
  if (root->kind == HOST_ROOT_STORE && root->op->operand_count > 2) see_mask(w, root->op->operands[2], map);
  for (uint32_t i = 0; i < root->op->operand_count; i++) visit_value(h, w, root->op->operands[i], map);
}

// --------------------------------------------------------------------------------------- gathering

/// The store would overtake, by some elements, what the open loop loads or stores.
static bool overtakes(const host *h, const ir_op *store) {
  visit *w = KILN_NEW(h->arena, visit);
  const host_map map = host_identity(h->open->bits);
  w->later = store;
  for (uint32_t i = 0; i < h->open->root_count && !w->conflict; i++) {
    const host_root *other = &h->open->roots[i];
    if (other->kind == HOST_ROOT_STORE && may_be_one(other->op, store) &&
        host_conflict(h, other->op, store, true))
      return true;
    visit_root(h, w, other, &map);
  }
  return w->conflict || (w->overflow && w->count == MAX_VISITED);
}

static bool order_matters(const host *h, const host_root *root, ir_type space) {
  if (root->kind == HOST_ROOT_STORE && overtakes(h, root->op)) return true;
  visit *w = KILN_NEW(h->arena, visit);
  host_map map = host_identity(ir_log2_elements(space));
  bool any = false;
  for (uint32_t i = 0; i < h->open->root_count; i++) any |= h->open->roots[i].kind == HOST_ROOT_STORE;
  if (!any) return false;
  w->writes = h->open;
  visit_root(h, w, root, &map);
  return w->conflict || (w->overflow && w->count == MAX_VISITED);
}

static bool fits(const host *h, const host_root *root, ir_type space, uint32_t reduced) {
  const host_group *g = h->open;
  if (!g || g->bits != ir_log2_elements(space) || g->root_count == HOST_MAX_ROOTS) return false;
  if (reduced && g->reduced && g->reduced != reduced) return false;
  return !order_matters(h, root, space);
}

void host_add_root(host *h, const host_root *root, ir_type space, uint32_t reduced) {
  if (!fits(h, root, space, reduced)) {
    host_flush(h);
    h->open = KILN_NEW(h->arena, host_group);
    h->open->id = ++h->group_count;
    h->open->bits = (uint8_t)ir_log2_elements(space);
  }
  host_group *g = h->open;
  g->reduced |= reduced;
  uint8_t row = space.rank ? space.log2[space.rank - 1] : 0;
  if (row > g->row_bits) g->row_bits = row;
  if (root->packing) {
    g->splits |= root->packing->splits;
    g->lanes_log2 = root->packing->lanes_log2;
    g->lanes_exact = root->packing->turned != NULL;
  }
  g->roots[g->root_count++] = *root;
}

// ----------------------------------------------------------------------------------------- a chunk

static void emit_assert(host *h, const host_root *root, const host_map *map) {
  KILN_ASSERT(root->op);
  LLVMValueRef all = host_all_true(h, root->op->operands[0], map);
  LLVMValueRef before = LLVMBuildLoad2(B, h->i1, root->begun, "");
  LLVMBuildStore(B, LLVMBuildAnd(B, before, all, ""), root->begun);
}

static void emit_roots(host *h, host_group *g, const host_map *map) {
  for (uint32_t i = 0; i < g->root_count; i++)
    if (g->roots[i].carries) host_pull(h, g->roots[i].value, map);
  for (uint32_t i = 0; i < g->root_count; i++) {
    host_root *root = &g->roots[i];
    const ir_op *op = root->op ? root->op : root->value->def;
    LLVMMetadataRef place = op ? kiln_llvm_lines_at(h->lines, B, op) : NULL;
    switch (root->kind) {
    case HOST_ROOT_STORE: host_store(h, root->op, map); break;
    case HOST_ROOT_KEEP: host_buffer_store(h, root->buffer, map, host_pull(h, root->value, map)); break;
    case HOST_ROOT_REDUCE: host_reduce_chunk(h, root, map); break;
    case HOST_ROOT_ASSERT: emit_assert(h, root, map); break;
    case HOST_ROOT_PACK: host_pack_chunk(h, root); break;
    }
    if (op) kiln_llvm_lines_back(h->lines, B, place);
  }
}

static void emit_body(host *h, host_group *g, const host_map *map, bool live) {
  host_point point = *h->point, *outer = h->point;
  point.id = ++h->point_count;
  point.live = live;
  h->point = &point;
  emit_roots(h, g, map);
  h->point = outer;
}

static LLVMValueRef all_masks(host *h, const visit *w) {
  LLVMValueRef all = LLVMConstInt(h->i1, 1, false);
  for (uint32_t i = 0; i < w->mask_count; i++)
    all = LLVMBuildAnd(B, all, host_all_true(h, w->masks[i], &w->mask_maps[i]), "");
  return all;
}

static void emit_chunk(host *h, host_group *g, const visit *w) {
  host_map map = host_identity(g->bits);
  if (!w->mask_count || w->overflow || !h->point->lanes_log2) {
    emit_body(h, g, &map, false);
    return;
  }
  LLVMBasicBlockRef live = host_block(h, "live"), masked = host_block(h, "masked"),
                    next = host_block(h, "next");
  LLVMBuildCondBr(B, all_masks(h, w), live, masked);
  LLVMPositionBuilderAtEnd(B, live);
  emit_body(h, g, &map, true);
  LLVMBuildBr(B, next);
  LLVMPositionBuilderAtEnd(B, masked);
  emit_body(h, g, &map, false);
  LLVMBuildBr(B, next);
  LLVMPositionBuilderAtEnd(B, next);
}

// ------------------------------------------------------------------------------------------- loops

typedef struct run {
  uint8_t first, count;
  bool reduced;
} run;

/// Splits the bits above the lanes where a row ends and where reduced bits begin or end; highest first,
/// reduced ones last.
static unsigned split_runs(const host_group *g, unsigned lanes_log2, run out[MAX_RUNS]) {
  run all[MAX_RUNS];
  unsigned count = 0, ordered = 0;
  for (unsigned b = lanes_log2; b < g->bits;) {
    unsigned end = b + 1;
    bool reduced = g->reduced >> b & 1;
    while (end < g->bits && (g->reduced >> end & 1) == reduced && end != g->row_bits &&
           !(g->splits >> end & 1))
      end++;
    all[count++] = (run){(uint8_t)b, (uint8_t)(end - b), reduced};
    b = end;
  }
  for (unsigned pass = 0; pass < 2; pass++)
    for (unsigned i = count; i-- > 0;)
      if (all[i].reduced == (pass == 1)) out[ordered++] = all[i];
  return count;
}

/// Vectors of 4-byte elements: two at once hide latencies, four when a reduction would wait for its
/// accumulator, one when there is enough to do anyway and more would only be more code.
static unsigned chunk_log2(const host *h, const host_group *g, const visit *w) {
  unsigned log2 = host_log2(h->vector_bytes / 4);
  if (w->count <= MANY_VALUES) log2 += g->reduced & 1 ? 2 : 1;
  if (g->lanes_log2 && (g->lanes_exact || log2 > g->lanes_log2)) log2 = g->lanes_log2;
  return log2 > g->bits ? g->bits : log2;
}

static void begin_states(host *h, host_group *g) {
  for (uint32_t i = 0; i < g->root_count; i++)
    if (g->roots[i].kind == HOST_ROOT_REDUCE) host_reduce_begin(h, &g->roots[i]);
}

static void end_states(host *h, host_group *g) {
  for (uint32_t i = 0; i < g->root_count; i++) {
    if (g->roots[i].kind == HOST_ROOT_REDUCE) host_reduce_end(h, &g->roots[i], g);
    if (g->roots[i].kind == HOST_ROOT_PACK) host_pack_end(h, &g->roots[i]);
  }
}

static void open_loop(host *h, host_loop *loop, const run *r) {
  host_loop_begin(h, loop, (uint64_t)1 << r->count, 1);
  host_point_digit(h->point, loop->counter, r->first, r->count);
}

static void emit_nest(host *h, host_group *g, const visit *w, const run *runs, unsigned count) {
  host_loop loops[MAX_RUNS];
  unsigned outer = 0;
  for (; outer < count && !runs[outer].reduced; outer++) open_loop(h, &loops[outer], &runs[outer]);
  begin_states(h, g);
  for (unsigned i = outer; i < count; i++) open_loop(h, &loops[i], &runs[i]);
  emit_chunk(h, g, w);
  for (unsigned i = count; i-- > outer;) host_loop_end(h, &loops[i]);
  end_states(h, g);
  for (unsigned i = outer; i-- > 0;) host_loop_end(h, &loops[i]);
}

// ------------------------------------------------------------------------------------------- after

static void check_assert(host *h, const host_root *root) {
  LLVMBasicBlockRef fine = host_block(h, "asserted"), here = LLVMGetInsertBlock(B);
  LLVMValueRef number = LLVMConstInt(h->i32, 1 + ir_operation(root->op), false);
  kiln_buffer_u32(&h->asserts, 1 + ir_operation(root->op));
  kiln_buffer_u32(&h->asserts, (uint32_t)root->op->attrs.assertion.line);
  const char *text = root->op->attrs.assertion.text ? root->op->attrs.assertion.text : "";
  kiln_buffer_bytes(&h->asserts, text, strlen(text) + 1);
  LLVMBuildCondBr(B, LLVMBuildLoad2(B, h->i1, root->begun, ""), fine, h->fail);
  LLVMAddIncoming(LLVMGetFirstInstruction(h->fail), &number, &here, 1);
  LLVMPositionBuilderAtEnd(B, fine);
}

static void bind(host *h, ir_value *v, host_buffer *buffer) {
  host_value *info = host_info(v);
  host_binding *made = KILN_NEW(h->arena, host_binding);
  *made = (host_binding){h->bindings, info, info->buffer};
  h->bindings = made;
  info->buffer = buffer;
}

void host_unbind(host *h, const host_binding *until) {
  for (; h->bindings != until; h->bindings = h->bindings->next)
    h->bindings->value->buffer = h->bindings->before;
}

static void finish_roots(host *h, host_group *g) {
  for (uint32_t i = 0; i < g->root_count; i++) {
    const host_root *root = &g->roots[i];
    if (root->kind == HOST_ROOT_KEEP && root->binds) bind(h, root->value, root->buffer);
    if (root->kind == HOST_ROOT_ASSERT) check_assert(h, root);
  }
}

void host_flush(host *h) {
  host_group *g = h->open;
  if (!g) return;
  host_point point, *outer = h->point;
  run runs[MAX_RUNS];
  h->open = NULL;
  visit *w = KILN_NEW(h->arena, visit);
  host_map map = host_identity(g->bits);
  for (uint32_t i = 0; i < g->root_count; i++) visit_root(h, w, &g->roots[i], &map);
  unsigned lanes_log2 = chunk_log2(h, g, w);
  host_point_init(h, &point, lanes_log2);
  h->point = &point;
  for (uint32_t i = 0; i < g->root_count; i++)
    if (g->roots[i].kind == HOST_ROOT_ASSERT) {
      g->roots[i].begun = host_stack(h, h->i1);
      LLVMBuildStore(B, LLVMConstInt(h->i1, 1, false), g->roots[i].begun);
    }
  emit_nest(h, g, w, runs, split_runs(g, lanes_log2, runs));
  finish_roots(h, g);
  h->point = outer;
}

host_buffer *host_keep_now(host *h, ir_value *v) {
  host_value *info = host_info(v);
  if (info->buffer) return info->buffer;
  host_flush(h);
  host_root root = {
      .kind = HOST_ROOT_KEEP, .value = v, .buffer = host_buffer_create(h, v->type), .binds = true};
  host_add_root(h, &root, v->type, 0);
  host_flush(h);
  return root.buffer;
}
