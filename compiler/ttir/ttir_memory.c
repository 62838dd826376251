// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pointers, loads, stores and atomics, barriers, facts, assembly.
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

// A word of the text and our number for it.
typedef struct keyword {
  const char *word;
  uint8_t value;
} keyword;

static uint8_t read_keyword(ttir_reader *r, const keyword *table, size_t count, const char *what) {
  ttir_token word = ttir_take(r, TTIR_WORD, what);
  for (size_t i = 0; i < count; i++)
    if (strlen(table[i].word) == word.length && memcmp(table[i].word, word.at, word.length) == 0) return table[i].value;
  if (!r->failed) ttir_error(r, "unknown %s '%.*s'", what, (int)word.length, word.at);
  return 0;
}

static const keyword caches[] = {
    {"none", IR_CACHE_DEFAULT}, {"ca", IR_CACHE_CA}, {"cg", IR_CACHE_CG}, {"cv", IR_CACHE_CV},
    {"wb", IR_CACHE_WB},        {"cs", IR_CACHE_CS}, {"wt", IR_CACHE_WT},
};
static const keyword evictions[] = {
    {"evict_normal", IR_EVICT_NORMAL}, {"evict_first", IR_EVICT_FIRST}, {"evict_last", IR_EVICT_LAST},
};
static const keyword orders[] = {
    {"relaxed", IR_ORDER_RELAXED}, {"acquire", IR_ORDER_ACQUIRE}, {"release", IR_ORDER_RELEASE}, {"acq_rel", IR_ORDER_ACQ_REL},
};
static const keyword scopes[] = {{"gpu", IR_SCOPE_GPU}, {"cta", IR_SCOPE_CTA}, {"sys", IR_SCOPE_SYSTEM}};

#define COUNT(table) (sizeof(table) / sizeof *(table))

// `cacheModifier = cg evictionPolicy = evict_last {isVolatile = true}`, in any order.
static void read_hints(ttir_reader *r, ir_attrs *attrs) {
  while (!r->failed) {
    if (ttir_accept_word(r, "cacheModifier")) {
      ttir_expect(r, '=');
      attrs->cache = read_keyword(r, caches, COUNT(caches), "cache modifier");
    } else if (ttir_accept_word(r, "evictionPolicy")) {
      ttir_expect(r, '=');
      attrs->evict = read_keyword(r, evictions, COUNT(evictions), "eviction policy");
    } else break;
  }
  ttir_read_dictionary(r, &r->dictionary);
  if (ttir_entry_int(&r->dictionary, "isVolatile", 0)) attrs->flags |= IR_VOLATILE;
  if (ttir_entry_find(&r->dictionary, "boundaryCheck") && !r->failed) {
    int64_t list[1];
    if (ttir_entry_list(&r->dictionary, "boundaryCheck", list, 1))
      ttir_error(r, "%s: block pointers are not supported; Triton rewrites them before it writes TTIR", r->row->name);
  }
}

// tt.addptr %p, %i : PTR, INT
void ttir_form_addptr(ttir_reader *r, const ttir_row *row) {
  ir_value *v[2];
  if (!ttir_operands(r, v, 2)) return;
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  ttir_expect(r, ',');
  ttir_check_type(r, v[1], ttir_read_type(r, false).type);
  if (r->failed) return;
  if (ir_type_class(v[1]->type) == KILN_CLASS_INT && ir_type_bits(v[1]->type) < 32)
    v[1] = ir_cast(&r->b, v[1], KILN_I32, 0, IR_ROUND_NEAREST);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, NULL, v, 2, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// A mask or default that is a scalar stands for every lane.
static void spread_all(ttir_reader *r, ir_value **v, uint32_t from, uint32_t count) {
  for (uint32_t i = from; i < count; i++) v[i] = ttir_spread(r, v[i], v[0]->type);
}

// tt.load %p[, %mask[, %other]] hints : PTR
void ttir_form_load(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  uint32_t count = ttir_values(r, v, 3);
  read_hints(r, &attrs);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (r->failed) return;
  spread_all(r, v, 1, count);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// tt.store %p, %v[, %mask] hints : PTR
void ttir_form_store(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  uint32_t count = ttir_values(r, v, 3);
  read_hints(r, &attrs);
  ttir_check_type(r, v[0], ttir_colon_type(r).type);
  if (!r->failed && count < 2) ttir_error(r, "%s: expected a pointer and a value", row->name);
  if (r->failed) return;
  attrs.flags = 0;
  spread_all(r, v, 1, count);
  ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
}

// ---------------------------------------------------------------------------------------------------------------- atomics

static const struct {
  const char *word;
  uint8_t kind, flags;
} atomics[] = {
    {"add", IR_COMBINE_ADD, 0}, {"fadd", IR_COMBINE_ADD, 0}, {"and", IR_COMBINE_AND, 0},  {"or", IR_COMBINE_OR, 0},
    {"xor", IR_COMBINE_XOR, 0}, {"max", IR_COMBINE_MAX, 0},  {"min", IR_COMBINE_MIN, 0},  {"umax", IR_COMBINE_MAX, IR_UNSIGNED},
    {"umin", IR_COMBINE_MIN, IR_UNSIGNED}, {"exch", IR_COMBINE_XCHG, 0},
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
  attrs->order = read_keyword(r, orders, COUNT(orders), "memory order");
  ttir_expect(r, ',');
  attrs->scope = read_keyword(r, scopes, COUNT(scopes), "memory scope");
  ttir_expect(r, ',');
}

// `{..} : (PTR, T, ..) -> T`
static void read_atomic_types(ttir_reader *r, ir_value *const *v, uint32_t count) {
  ttir_read_dictionary(r, &r->dictionary);
  ttir_expect(r, ':');
  ttir_expect(r, '(');
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, v[i], ttir_read_type(r, false).type);
  }
  ttir_expect(r, ')');
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ttir_read_type(r, false);
}

// tt.atomic_rmw fadd, acq_rel, gpu, %p, %v[, %mask] : (..) -> T
void ttir_form_atomic(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  read_atomic_kind(r, &attrs);
  ttir_expect(r, ',');
  read_order(r, &attrs);
  uint32_t count = ttir_values(r, v, 3);
  read_atomic_types(r, v, count);
  if (!r->failed && count < 2) ttir_error(r, "%s: expected a pointer and a value", row->name);
  if (r->failed) return;
  spread_all(r, v, 2, count);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// tt.atomic_cas acq_rel, gpu, %p, %expected, %desired : (..) -> T
void ttir_form_cas(ttir_reader *r, const ttir_row *row) {
  ir_value *v[3];
  ir_attrs attrs = {0};
  read_order(r, &attrs);
  if (!ttir_operands(r, v, 3)) return;
  read_atomic_types(r, v, 3);
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, 3, NULL);
  if (op) ttir_give(r, &op->results[0]);
}

// ------------------------------------------------------------------------------------------------------- order, facts, escape

// gpu.barrier; ttg.barrier local
void ttir_form_barrier(ttir_reader *r, const ttir_row *row) {
  while (r->lex.token.kind == TTIR_WORD && r->lex.token.line == r->line && !ttir_peek_word(r, "loc")) {
    ttir_lex_next(&r->lex); // the memories it orders: ours orders all
    ttir_accept(r, '|');
  }
  ttir_read_dictionary(r, &r->dictionary);
  ttir_emit(r, (ir_opcode)row->code, NULL, NULL, 0, NULL);
}

// llvm.intr.assume %c : i1
void ttir_form_assume(ttir_reader *r, const ttir_row *row) {
  ir_value *v = ttir_value(r);
  ttir_read_dictionary(r, &r->dictionary);
  ttir_check_type(r, v, ttir_colon_type(r).type);
  if (!r->failed) ttir_emit(r, (ir_opcode)row->code, NULL, &v, 1, NULL);
}

// tt.assert %c, "message" : T
void ttir_form_assert(ttir_reader *r, const ttir_row *row) {
  ir_value *v = ttir_value(r);
  ttir_expect(r, ',');
  ttir_token text = ttir_take(r, TTIR_STRING, "the message of an assertion");
  ttir_read_dictionary(r, &r->dictionary);
  ir_type type = ttir_colon_type(r).type;
  ttir_check_type(r, v, type);
  if (r->failed) return;
  ir_attrs attrs = {.text = ttir_unquote(r->arena, text.at, text.length)};
  bool integer = ir_type_class(type) == KILN_CLASS_INT;
  if (integer) v = ir_compare(&r->b, IR_NE, 0, v, ttir_splat_bits(r, type, 0));
  ttir_builder_error(r);
  if (!r->failed) ttir_emit(r, (ir_opcode)row->code, &attrs, &v, 1, NULL);
}

// tt.print "prefix" {hex = false, ..} : %a, %b : T, U. It changes no result, so the kernel is taken without it, with a warning.
void ttir_form_print(ttir_reader *r, const ttir_row *row) {
  ir_value *v[TTIR_MAX_VALUES];
  uint32_t count = 0;
  ttir_take(r, TTIR_STRING, "the prefix of a print");
  ttir_read_dictionary(r, &r->dictionary);
  if (ttir_accept(r, ':')) {
    count = ttir_values(r, v, TTIR_MAX_VALUES);
    ttir_expect(r, ':');
  }
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, v[i], ttir_read_type(r, false).type);
  }
  if (!r->failed) kiln_diagnose(r->d, KILN_WARNING, r->module->file, (ir_place){.line = r->line}, "%s is left out", row->name);
}

// tt.elementwise_inline_asm "text" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %x : T -> U
void ttir_form_asm(ttir_reader *r, const ttir_row *row) {
  ir_value *v[TTIR_MAX_VALUES];
  uint32_t count = 0;
  ttir_token text = ttir_take(r, TTIR_STRING, "the text of inline assembly");
  ttir_read_dictionary(r, &r->dictionary);
  if (r->lex.token.kind == TTIR_VALUE) count = ttir_values(r, v, TTIR_MAX_VALUES);
  ttir_expect(r, ':');
  for (uint32_t i = 0; i < count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, v[i], ttir_read_type(r, false).type);
  }
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  ir_type to = ttir_read_type(r, false).type;
  if (ttir_peek(r, ',')) ttir_error(r, "%s with several results is not supported", row->name);
  if (r->failed) return;
  int64_t pack = ttir_entry_int(&r->dictionary, "packed_element", 1);
  const char *constraints = ttir_entry_text(r, &r->dictionary, "constraints");
  if (pack < 1 || pack > 128 || !constraints) {
    ttir_error(r, "%s: expected constraints and a packed_element of 1 to 128, found %lld", row->name, (long long)pack);
    return;
  }
  ir_attrs attrs = {.text = ttir_unquote(r->arena, text.at, text.length), .constraints = constraints, .pack = (uint8_t)pack,
                    .flags = ttir_entry_int(&r->dictionary, "pure", 0) ? IR_ASM_PURE : 0};
  ir_op *op = ttir_emit(r, (ir_opcode)row->code, &attrs, v, count, &to);
  if (op) ttir_give(r, &op->results[0]);
}
