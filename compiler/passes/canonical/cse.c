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

/// The operation that is visible and equal to `op`; NULL: there is none, and `op` is the first.
static ir_op *find_or_add(merging *m, ir_op *op) {
  uint64_t hash = mix(op->code, op->attrs.bits);
  hash = mix(hash, (uint64_t)op->attrs.flags << 16 | (unsigned)op->attrs.kind << 8 | op->attrs.axis);
  for (uint32_t i = 0; i < op->operand_count; i++) hash = mix(hash, (uintptr_t)op->operands[i]);
  const ir_type *type = &op->results[0].type;
  hash = mix(hash, (uint64_t)type->scalar << 8 | type->rank);
  uint32_t bucket = (uint32_t)(hash >> 32) & m->mask;
  for (entry *e = m->buckets[bucket]; e; e = e->next) {
    ir_op *other = e->op;
    bool equal = other->code == op->code && other->operand_count == op->operand_count &&
                 other->result_count == op->result_count &&
                 ir_attrs_equal(op->code, &other->attrs, &op->attrs) &&
                 !memcmp(other->operands, op->operands, op->operand_count * sizeof(ir_value *));
    for (uint32_t i = 0; equal && i < op->result_count; i++)
      equal = ir_type_equal(other->results[i].type, op->results[i].type);
    if (equal) return other;
  }
  entry *e = KILN_NEW(m->scratch, entry);
  *e = (entry){op, m->buckets[bucket], bucket};
  m->buckets[bucket] = e;
  KILN_GROW(m->scratch, m->scope, m->count, m->capacity);
  m->scope[m->count++] = e;
  return NULL;
}

static void merge_block(merging *m, ir_block *block) {
  uint32_t outer = m->count;
  for (ir_op *op = block->first, *next; op; op = next) {
    next = op->next;
    for (uint32_t i = 0; i < op->operand_count; i++) op->operands[i] = ir_resolve(op->operands[i]);
    // Combiners stay closed: nothing in them is replaced by a value from outside.
    const bool is_closed = op->code == IR_REDUCE || op->code == IR_SCAN;
    for (uint32_t i = 0; i < op->region_count; i++) {
      merging inner = {.scratch = m->scratch, .mask = 63};
      if (is_closed) inner.buckets = KILN_NEW_ARRAY(m->scratch, entry *, 64);
      merge_block(is_closed ? &inner : m, op->regions[i]);
      m->changed |= inner.changed;
    }
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
  (void)err;
  merging m = {.scratch = kiln_arena_create()};
  uint32_t size = 64, values = ir_number(kernel);
  while (size < values) size *= 2;
  m.buckets = KILN_NEW_ARRAY(m.scratch, entry *, size);
  m.mask = size - 1;
  merge_block(&m, kernel->body);
  kiln_arena_destroy(m.scratch);
  context->changed |= m.changed;
  return KILN_OK;
}
