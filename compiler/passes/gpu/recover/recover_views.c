// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles of pointers become accesses of views where that is the same: operands of products, and stores.
//
// The address of a tile is brought into a sum of products of scalars and lanes (iota along an axis):
//
//   base + (lane0 + row) * stride0 + (lane1 + column) * stride1 + index * stride ...
//
// What multiplies a lane is the axis' stride; it and the base must be known at launch. Row and column are
// read from what bounds the axis: a mask `lane + row < extent`, or an offset taken modulo an extent. An axis
// without a bound has all lanes. Other terms are axes outside the tile. Pointers, and numbers, that a loop
// carries and advances by a constant amount are sums over the loop's counter.
//
// A view has no places before its beginning, so row, column and index must not be negative. Elements that the
// mask takes away must be zero or undefined.
//
// Views whose base is such a sum (descriptors made for a head or a batch) get the other terms as axes, too.
//
// An offset modulo an extent loads other rows where the view has zeros. This is the same only when nothing
// that depends on such rows is stored: their way is followed to stores whose masks hold the same bound. So it
// is of offsets that are another number from the extent on, `where(row < M, row, 0)`, `min(row, M - 1)`.
//
// Integers are exact in these sums. What the source computes in 32 bits wraps around, so the launch tests
// that it does not, where ranges do not show it (recover_claims).
//
//   recover_sums, recover_bounds   sums, and what is known of them
//   recover_values, recover_limits values as sums; what bounds an axis
//   recover_claims                 what the launch must test
//   recover_masked                 whether elements beyond a modulo reach memory
//   recover_address, recover_emit  addresses as accesses of views, and their operations
//   recover_bases                  bases of views
#include "compiler/passes/gpu/gpu.h"
#include "compiler/passes/gpu/recover/recover_inner.h"

static bool is_candidate(const ir_op *op) {
  ir_type type = op->operands[0]->type;
  return type.rank == RANK && type.pointer == 1 && type.scalar != KILN_I1 && !(op->attrs.flags & IR_VOLATILE);
}

static void recover_load(recovering *r, ir_op *load) {
  limit limits[RANK] = {{.is_set = false}};
  address a;
  uint64_t other;
  r->claim_count = 0;
  if (!is_candidate(load)) return;
  if (load->operand_count > 2 && (!ir_constant_bits(load->operands[2], &other) || other)) return;
  if (load->operand_count > 1 && !recover_limits(r, load->operands[1], limits)) return;
  if (!recover_address(r, load->operands[0], limits, &a)) return;
  for (unsigned i = 0; i < RANK; i++)
    if (limits[i].is_modulo && !recover_is_unwanted_beyond(r, load, i, &limits[i])) return;
  if (!recover_test_claims(r, load, limits, load->operands[0]->type)) return;
  ir_value *operands[1 + MOST_AXES];
  uint32_t count = recover_emit_access(r, load, &a, operands);
  ir_op *made = ir_emit(&r->b, IR_VIEW_LOAD, &load->attrs, operands, count, NULL, NULL, 0);
  if (made && a.is_turned)
    made = ir_emit(&r->b, IR_TRANS, &(ir_attrs){.perm = {1, 0}}, (ir_value *[]){&made->results[0]}, 1, NULL,
                   NULL, 0);
  if (!made) return;
  ir_forward(&load->results[0], &made->results[0]);
  ir_remove(load);
  r->count++;
}

static void recover_store(recovering *r, ir_op *store) {
  limit limits[RANK] = {{.is_set = false}};
  address a;
  r->claim_count = 0;
  if (!is_candidate(store)) return;
  if (store->operand_count > 2 && !recover_limits(r, store->operands[2], limits)) return;
  if (!recover_address(r, store->operands[0], limits, &a) || a.is_turned) return;
  if (limits[0].is_modulo || limits[1].is_modulo) return;
  if (!recover_test_claims(r, store, limits, store->operands[0]->type)) return;
  ir_value *operands[2 + MOST_AXES];
  uint32_t count = recover_emit_access(r, store, &a, operands);
  operands[count++] = store->operands[1];
  if (ir_emit(&r->b, IR_VIEW_STORE, &store->attrs, operands, count, NULL, NULL, 0)) ir_remove(store);
  r->count++;
}

typedef struct accesses {
  kiln_arena *arena;
  ir_op **list;
  uint32_t count, capacity;
} accesses;

static void add_access(accesses *all, ir_op *op) {
  for (uint32_t i = 0; i < all->count; i++)
    if (all->list[i] == op) return;
  KILN_GROW(all->arena, all->list, all->count, all->capacity);
  all->list[all->count++] = op;
}

unsigned kiln_gpu_recover_views(ir_kernel *kernel, kiln_unrecovered *out_left) {
  kiln_arena *scratch = kiln_arena_create();
  accesses all = {.arena = scratch}, views = {.arena = scratch};
  recovering r = {.kernel = kernel, .scratch = scratch, .b = {.arena = kernel->arena}};
  ir_block *body = kernel->body;
  // Loads of products first: stores still have the masks that a modulo needs.
  for (ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    for (unsigned i = 0; op->code == IR_DOT && i < 2; i++) {
      ir_op *from = op->operands[i]->def;
      while (from && from->code == IR_TRANS) from = from->operands[0]->def;
      if (from && from->code == IR_LOAD) add_access(&all, from);
    }
  }
  uint32_t loads = all.count;
  const bool has_products = ir_find(body, IR_DOT);
  for (ir_op *op = ir_next(body, NULL); op; op = ir_next(body, op)) {
    if (op->code == IR_STORE && loads) add_access(&all, op);
    if (op->code == IR_VIEW && op->operands[0]->def && has_products) add_access(&views, op);
  }
  if (loads || views.count) r.facts = kiln_facts_compute(scratch, kernel);
  for (uint32_t i = 0; i < views.count; i++) recover_base(&r, views.list[i]);
  kiln_unrecovered left = {0};
  for (uint32_t i = 0; i < all.count; i++) {
    const unsigned before = r.count;
    const bool may = is_candidate(all.list[i]);
    (i < loads ? recover_load : recover_store)(&r, all.list[i]);
    left.count += may && r.count == before;
  }
  left.fewer_programs = r.has_failed;
  kiln_arena_destroy(scratch);
  if (r.count) ir_apply_forwards(kernel);
  if (out_left) *out_left = left;
  return r.count;
}
