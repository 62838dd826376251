// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Common subexpressions: a pure operation equal to one that is visible from its place is replaced by it.
//
// Needs nothing. Keeps the first of equal operations where it stands. The table is only searched for equal
// operations, so its order has no effect.
#include "compiler/passes/pass.h"

#include <string.h>

typedef struct entry {
  ir_op *op;          // arena
  struct entry *next; // same bucket, earlier first
  uint32_t bucket;
} entry;

typedef struct merging {
  kiln_arena *scratch;
  entry **buckets;
  uint32_t mask;
  entry **scope; // entries in order of insertion, so that a block's can be taken out again
  uint32_t count, capacity;
  bool changed;
} merging;

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static uint32_t hash_op(const ir_op *op) {
  uint64_t hash = mix(op->code, op->attrs.bits);
  hash = mix(hash, (uint64_t)op->attrs.flags << 16 | (unsigned)op->attrs.kind << 8 | op->attrs.axis);
  for (uint32_t i = 0; i < op->operand_count; i++) hash = mix(hash, (uintptr_t)op->operands[i]);
  const ir_type *type = &op->results[0].type;
  hash = mix(hash, (uint64_t)type->scalar << 8 | type->rank);
  return (uint32_t)(hash >> 32);
}

static bool equal(const ir_op *a, const ir_op *b) {
  if (a->code != b->code || a->operand_count != b->operand_count || a->result_count != b->result_count)
    return false;
  if (!ir_attrs_equal(a->code, &a->attrs, &b->attrs)) return false;
  if (memcmp(a->operands, b->operands, a->operand_count * sizeof(ir_value *))) return false;
  for (uint32_t i = 0; i < a->result_count; i++)
    if (!ir_type_equal(a->results[i].type, b->results[i].type)) return false;
  return true;
}

static ir_op *find_or_add(merging *m, ir_op *op) {
  uint32_t bucket = hash_op(op) & m->mask;
  for (entry *e = m->buckets[bucket]; e; e = e->next)
    if (equal(e->op, op)) return e->op;
  entry *e = KILN_NEW(m->scratch, entry);
  *e = (entry){op, m->buckets[bucket], bucket};
  m->buckets[bucket] = e;
  KILN_GROW(m->scratch, m->scope, m->count, m->capacity);
  m->scope[m->count++] = e;
  return NULL;
}

static void merge_block(merging *m, ir_block *block);

/// Combiners stay closed: nothing in them is replaced by a value from outside.
static void merge_region(merging *m, const ir_op *op, ir_block *region) {
  if (op->code != IR_REDUCE && op->code != IR_SCAN) {
    merge_block(m, region);
    return;
  }
  merging inner = {.scratch = m->scratch, .mask = 63, .buckets = KILN_NEW_ARRAY(m->scratch, entry *, 64)};
  merge_block(&inner, region);
  m->changed |= inner.changed;
}

static void merge_block(merging *m, ir_block *block) {
  uint32_t outer = m->count;
  for (ir_op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
    for (uint32_t i = 0; i < op->region_count; i++) merge_region(m, op, op->regions[i]);
    if (ir_ops[op->code].effect != IR_PURE || op->region_count || !op->result_count) continue;
    ir_op *same = find_or_add(m, op);
    if (!same) continue;
    for (uint32_t i = 0; i < op->result_count; i++) ir_forward(&op->results[i], &same->results[i]);
    ir_remove(op);
    m->changed = true;
  }
  while (m->count > outer) {
    entry *e = m->scope[--m->count];
    m->buckets[e->bucket] = e->next;
  }
}

kiln_status kiln_pass_cse(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  merging m = {.scratch = kiln_arena_create()};
  if (!m.scratch) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a pass");
  uint32_t size = 64, values = ir_number(kernel);
  while (size < values) size *= 2;
  m.buckets = KILN_NEW_ARRAY(m.scratch, entry *, size);
  m.mask = size - 1;
  merge_block(&m, kernel->body);
  kiln_arena_destroy(m.scratch);
  context->changed |= m.changed;
  return KILN_OK;
}
