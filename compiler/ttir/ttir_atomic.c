// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads atomics of Triton IR. Triton after 3.8 has loads, stores and polls of its own; they are made of
// read-modify-writes that change nothing or keep nothing.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const ttir_keyword orders[] = {
    {"relaxed", IR_ORDER_RELAXED},
    {"acquire", IR_ORDER_ACQUIRE},
    {"release", IR_ORDER_RELEASE},
    {"acq_rel", IR_ORDER_ACQ_REL},
};
static const ttir_keyword scopes[] = {{"gpu", IR_SCOPE_GPU}, {"cta", IR_SCOPE_CTA}, {"sys", IR_SCOPE_SYSTEM}};

static const struct {
  const char *word;
  uint8_t kind, flags;
} atomics[] = {
    {"add", IR_COMBINE_ADD, 0},
    {"fadd", IR_COMBINE_ADD, 0},
    {"and", IR_COMBINE_AND, 0},
    {"or", IR_COMBINE_OR, 0},
    {"xor", IR_COMBINE_XOR, 0},
    {"max", IR_COMBINE_MAX, 0},
    {"min", IR_COMBINE_MIN, 0},
    {"umax", IR_COMBINE_MAX, IR_UNSIGNED},
    {"umin", IR_COMBINE_MIN, IR_UNSIGNED},
    {"exch", IR_COMBINE_XCHG, 0},
};

static void read_atomic_kind(ttir_reader *r, ir_attrs *attrs) {
  ttir_token word = ttir_take(r, TTIR_WORD, "what the atomic does");
  for (size_t i = 0; i < COUNT(atomics); i++)
    if (strlen(atomics[i].word) == word.length && memcmp(atomics[i].word, word.at, word.length) == 0) {
      attrs->kind = atomics[i].kind;
      attrs->flags = atomics[i].flags;
      return;
    }
  if (!r->failed) ttir_error(r, "%s: unknown kind '%.*s'", r->row->name, (int)word.length, word.at);
}

// `acq_rel, gpu, `
static void read_order(ttir_reader *r, ir_attrs *attrs) {
  attrs->order = ttir_read_keyword(r, orders, COUNT(orders), "memory order");
  ttir_expect(r, ',');
  attrs->scope = ttir_read_keyword(r, scopes, COUNT(scopes), "memory scope");
  ttir_expect(r, ',');
}

// tt.atomic_rmw fadd, acq_rel, gpu, %p, %v[, %mask] : (..) -> T
void ttir_form_atomic(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  read_atomic_kind(r, &attrs);
  ttir_expect(r, ',');
  read_order(r, &attrs);
  uint32_t count = ttir_values(r, v, 3);
  ttir_read_operand_types(r, v, count);
  if (!r->failed && count < 2) ttir_error(r, "%s: expected a pointer and a value", row->name);
  if (r->failed) return;
  ttir_spread_all(r, v, 2, count);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// tt.atomic_cas acq_rel, gpu, %p, %expected, %desired : (..) -> T
void ttir_form_cas(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  read_order(r, &attrs);
  if (!ttir_operands(r, v, 3)) return;
  ttir_read_operand_types(r, v, 3);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, 3, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// ------------------------------------------------------------------------- loads, stores and polls

ir_type ttir_bits_of(ir_type type) {
  static const uint8_t by_bytes[] = {[1] = KILN_I8, [2] = KILN_I16, [4] = KILN_I32, [8] = KILN_I64};
  return ir_scalar_type((kiln_scalar)by_bytes[kiln_scalars[type.scalar].bytes]);
}

// A pointer (or tile of them) to numbers that atomics work on, as one to integers of that width; NULL with an
// error for others.
static ir_value *integers_at(ttir_reader *r, ir_value *pointer) {
  if (r->failed) return NULL;
  ir_type to = ir_pointee(pointer->type);
  unsigned bits = pointer->type.pointer == 1 ? ir_type_bits(to) : 0;
  if (bits != 32 && bits != 64) {
    ttir_error(r, "%s: expected a pointer to numbers of 32 or 64 bits", r->row->name);
    return NULL;
  }
  return ir_bitcast(&r->b, pointer, ir_pointer_type((kiln_scalar)ttir_bits_of(to).scalar));
}

// The numbers at `pointer`, as integers: an or with zero.
static ir_value *fetch(ttir_reader *r, ir_value *pointer, ir_value *mask, ir_attrs attrs) {
  ttir_builder_error(r);
  if (r->failed || !pointer) return NULL;
  ir_value *v[3] = {pointer, ttir_splat_bits(r, ir_pointee(pointer->type), 0), mask};
  attrs.kind = IR_COMBINE_OR;
  ttir_spread_all(r, v, 1, mask ? 3 : 2);
  ir_op *op = ttir_emit(r, IR_ATOMIC, &attrs, v, mask ? 3 : 2, NULL);
  return op ? &op->results[0] : NULL;
}

// tt.atomic_load acquire, gpu, %p[, %mask] : (PTR, i1) -> T
void ttir_form_atomic_load(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[2] = {NULL, NULL};
  ir_attrs attrs = {0};
  read_order(r, &attrs);
  uint32_t count = ttir_values(r, v, 2);
  ttir_read_operand_types(r, v, count);
  ir_value *got = fetch(r, integers_at(r, v[0]), v[1], attrs);
  if (!r->failed)
    ttir_give(r, got->type.scalar == v[0]->type.scalar
                     ? got
                     : ir_bitcast(&r->b, got, ir_scalar_type((kiln_scalar)v[0]->type.scalar)));
}

// tt.atomic_store release, gpu, %p, %v[, %mask] : PTR
void ttir_form_atomic_store(ttir_reader *r, const ttir_row *row) {
  (void)row;
  ir_value *v[3];
  ir_attrs attrs = {.kind = IR_COMBINE_XCHG};
  read_order(r, &attrs);
  uint32_t count = ttir_values(r, v, 3);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (!r->failed && count < 2) ttir_error(r, "%s: expected a pointer and a value", row->name);
  ir_value *pointer = integers_at(r, v[0]);
  if (r->failed) return;
  if (v[1]->type.scalar != ttir_bits_of(v[1]->type).scalar)
    v[1] = ir_bitcast(&r->b, v[1], ttir_bits_of(v[1]->type));
  v[0] = pointer;
  ttir_builder_error(r);
  if (r->failed) return;
  ttir_spread_all(r, v, 1, count);
  ttir_emit(r, IR_ATOMIC, &attrs, v, count, NULL);
}

// A loop that reads until the number is `expected` or `rounds` (i64; NULL: no limit) are over. The result
// says whether it is.
static ir_value *poll_until(ttir_reader *r, ir_value *pointer, ir_value *expected, ir_value *rounds,
                            ir_attrs attrs) {
  ir_block *blocks[2];
  ir_value *v[3] = {NULL};
  uint32_t count = rounds ? 1 : 0;
  ttir_region before = ttir_open_region(r);
  blocks[0] = before.block;
  ir_value *left = rounds ? ir_block_arg(r->arena, before.block, rounds->type) : NULL,
           *got = fetch(r, pointer, NULL, attrs);
  v[0] = v[2] = got ? ir_compare(&r->b, IR_NE, 0, got, expected) : NULL;
  v[1] = left;
  ttir_builder_error(r);
  if (left && !r->failed)
    v[0] = ir_binary(&r->b, IR_AND, 0, v[0],
                     ir_compare(&r->b, IR_GT, 0, left, ttir_splat_bits(r, left->type, 0)));
  ttir_builder_error(r);
  ttir_emit(r, IR_COND, NULL, v, rounds ? 3 : 1, NULL);
  ttir_close_region(r, &before);
  ttir_region after = ttir_open_region(r);
  blocks[1] = after.block;
  if (rounds) {
    left = ir_block_arg(r->arena, after.block, rounds->type);
    ir_block_arg(r->arena, after.block, ir_scalar_type(KILN_I1));
    if (!r->failed) left = ir_binary(&r->b, IR_SUB, 0, left, ttir_splat_bits(r, left->type, 1));
  }
  ttir_emit(r, IR_YIELD, NULL, &left, count, NULL);
  ttir_close_region(r, &after);
  ir_op *loop = ttir_emit_regions(r, IR_WHILE, NULL, &rounds, count, blocks, 2);
  ir_value *one = ttir_splat_bits(r, ir_scalar_type(KILN_I1), 1);
  return loop && rounds && !r->failed ? ir_binary(&r->b, IR_XOR, 0, &loop->results[1], one) : one;
}

// tt.atomic_poll acquire, gpu, %p, %expected[ timeout %t] : PTR, T -> i1. There is no clock, so a timeout of
// t nanoseconds becomes t / 64 reads, which take longer than that on any GPU.
void ttir_form_atomic_poll(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2], *rounds = NULL;
  ir_attrs attrs = {0};
  read_order(r, &attrs);
  if (!ttir_operands(r, v, 2)) return;
  if (ttir_accept_word(r, "timeout")) rounds = ttir_value(r);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  ttir_expect(r, ',');
  ttir_check_type(r, v[1], ttir_read_type(r, false).type);
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ttir_read_type(r, false);
  if (rounds) ttir_check_type(r, rounds, ir_scalar_type(KILN_I64));
  if (!r->failed && v[0]->type.rank) ttir_error(r, "%s: expected one pointer", row->name);
  ir_value *pointer = integers_at(r, v[0]);
  if (rounds && !r->failed)
    rounds = ir_binary(&r->b, IR_SHR, IR_UNSIGNED, rounds, ttir_splat_bits(r, rounds->type, 6));
  ttir_builder_error(r);
  if (!r->failed) ttir_give(r, poll_until(r, pointer, v[1], rounds, attrs));
}
