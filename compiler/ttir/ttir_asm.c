// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads inline assembly of Triton IR. An operation of ours has one result; one with several is repeated for
// each, its text rewritten so that the registers of the other results are local to it. That asks for
// assembly without side effects, in PTX.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "compiler/ttir/ttir_forms.h"

enum { MAX_RESULTS = 8, MAX_REGISTERS = 64, MAX_PACK = 16 }; // of the pack: as much as the IR holds

typedef struct assembly {
  const char *text, *constraints;
  int64_t pack;
  bool is_pure;
  ir_value *operands[TTIR_MAX_VALUES];
  uint32_t operand_count;
  ir_type types[MAX_RESULTS];
  uint32_t result_count;
  unsigned first[MAX_RESULTS + 1]; ///< number of the first register of each result
} assembly;

// Registers of one instance for `pack` elements: small ones share 32 bits.
static unsigned registers_of(ir_type type, int64_t pack) {
  unsigned bits = ir_type_bits(type), each = bits < 32 ? 32 / bits : 1,
           count = type.rank ? (unsigned)pack : 1;
  return count < each ? 1 : count / each;
}

// The width that PTX declares for an operand of that constraint; NULL when it is no register of PTX.
static const char *width_of(const char *constraint) {
  static const struct {
    char letter;
    const char *width;
  } widths[] = {{'r', ".b32"}, {'f', ".f32"}, {'l', ".b64"}, {'d', ".f64"}, {'h', ".b16"}, {'c', ".b16"}};
  while (*constraint == '=' || *constraint == '&') constraint++;
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    if (widths[i].letter == *constraint) return widths[i].width;
  return NULL;
}

// Cuts the constraints at their commas; returns how many there are, those of results first in `out_outputs`.
static unsigned cut(ttir_reader *r, const char *text, const char **out, unsigned *out_outputs) {
  unsigned count = 0;
  char *copy = kiln_arena_text(r->arena, text, strlen(text));
  *out_outputs = 0;
  for (char *at = copy; at && count < MAX_REGISTERS; count++) {
    char *comma = strchr(at, ',');
    if (comma) *comma++ = 0;
    while (*at == ' ') at++;
    out[count] = at;
    if (*at == '=' && *out_outputs == count) ++*out_outputs;
    at = comma;
  }
  return count;
}

typedef struct writer {
  char *text;
  size_t size, capacity;
} writer;

static void put(writer *w, const char *text) {
  size_t length = strlen(text);
  if (w->size + length >= w->capacity) return; // the caller counted
  memcpy(w->text + w->size, text, length + 1);
  w->size += length;
}

// The text for result `index`: its registers are $0.., those of other results local names, and operands
// follow.
static const char *text_for(ttir_reader *r, const assembly *a, unsigned index, const char **constraints,
                            unsigned outputs) {
  unsigned first = a->first[index], end = a->first[index + 1];
  writer w = {.capacity = strlen(a->text) * 6 + 48 * (outputs + 1)};
  w.text = kiln_arena_alloc(r->arena, w.capacity);
  put(&w, "{ ");
  char piece[64];
  for (unsigned i = 0; i < outputs; i++) {
    if (i >= first && i < end) continue;
    snprintf(piece, sizeof piece, ".reg %s kiln_out%u; ", width_of(constraints[i]), i);
    put(&w, piece);
  }
  for (const char *at = a->text; *at;) {
    unsigned number = 0;
    piece[0] = *at++, piece[1] = 0;
    if (piece[0] == '$' && *at == '$') {
      put(&w, "$$");
      at++;
      continue;
    }
    if (piece[0] == '$' && isdigit((unsigned char)*at)) {
      while (isdigit((unsigned char)*at) && number < 1000) number = number * 10 + (unsigned)(*at++ - '0');
      if (number >= outputs) snprintf(piece, sizeof piece, "$%u", number - outputs + (end - first));
      else if (number >= first && number < end) snprintf(piece, sizeof piece, "$%u", number - first);
      else snprintf(piece, sizeof piece, "kiln_out%u", number);
    }
    put(&w, piece);
  }
  put(&w, " }");
  return w.text;
}

static const char *constraints_for(ttir_reader *r, const assembly *a, unsigned index,
                                   const char **constraints, unsigned count, unsigned outputs) {
  writer w = {.capacity = strlen(a->constraints) + 1};
  w.text = kiln_arena_alloc(r->arena, w.capacity);
  w.text[0] = 0;
  for (unsigned i = 0; i < count; i++) {
    if (i < outputs && (i < a->first[index] || i >= a->first[index + 1])) continue;
    if (w.size) put(&w, ",");
    put(&w, constraints[i]);
  }
  return w.text;
}

static void give_one(ttir_reader *r, const assembly *a, const char *text, const char *constraints,
                     ir_type to) {
  ir_attrs attrs = {.assembly = {text, constraints, (uint8_t)a->pack, a->is_pure}};
  ir_op *op = ttir_emit(r, IR_ASM, &attrs, a->operands, a->operand_count, &to);
  if (op) ttir_give(r, &op->results[0]);
}

static void give_several(ttir_reader *r, assembly *a) {
  const char *constraints[MAX_REGISTERS];
  unsigned outputs, count = cut(r, a->constraints, constraints, &outputs);
  for (uint32_t i = 0; i < a->result_count; i++)
    a->first[i + 1] = a->first[i] + registers_of(a->types[i], a->pack);
  unsigned expected = a->first[a->result_count];
  bool fits = outputs == expected && count < MAX_REGISTERS;
  for (unsigned i = 0; fits && i < count; i++)
    fits = constraints[i][0] != '~' && !isdigit((unsigned char)constraints[i][0]) && width_of(constraints[i]);
  if (!fits)
    ttir_error(
        r, "%s with several results: expected %u constraints of PTX registers for them, found %u in '%.80s'",
        r->row->name, expected, outputs, a->constraints);
  else if (!a->is_pure)
    ttir_error(r, "%s with several results is supported when it has no side effects", r->row->name);
  for (uint32_t i = 0; i < a->result_count && !r->failed; i++)
    give_one(r, a, text_for(r, a, i, constraints, outputs),
             constraints_for(r, a, i, constraints, count, outputs), a->types[i]);
}

// `%x, %y : T, U -> V, W`, or `-> V` without operands
static void read_types(ttir_reader *r, assembly *a) {
  if (r->lex.token.kind == TTIR_VALUE) {
    a->operand_count = ttir_values(r, a->operands, TTIR_MAX_VALUES);
    ttir_expect(r, ':');
  }
  for (uint32_t i = 0; i < a->operand_count && !r->failed; i++) {
    if (i) ttir_expect(r, ',');
    ttir_check_type(r, a->operands[i], ttir_read_type(r, false).type);
  }
  if (a->operand_count == 0) ttir_accept(r, ':');
  if (r->lex.token.kind == TTIR_ARROW) ttir_lex_next(&r->lex);
  do {
    if (a->result_count == MAX_RESULTS)
      ttir_error(r, "%s: expected at most %d results", r->row->name, MAX_RESULTS);
    else a->types[a->result_count++] = ttir_read_type(r, false).type;
  } while (!r->failed && ttir_accept(r, ','));
}

// Triton up to 3.8 wrote waiting for the launch before as assembly. Launches here do not overlap.
static bool is_dependency(const char *text) { return strncmp(text, "griddepcontrol.", 15) == 0; }

// tt.elementwise_inline_asm "text" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %x : T -> U
void ttir_form_asm(ttir_reader *r, const ttir_row *row) {
  assembly *a = KILN_NEW(r->arena, assembly);
  ttir_token text = ttir_take(r, TTIR_STRING, "the text of inline assembly");
  ttir_read_dictionary(r, &r->dictionary);
  read_types(r, a);
  if (r->failed) return;
  a->pack = ttir_entry_int(&r->dictionary, "packed_element", 1);
  a->constraints = ttir_entry_text(r, &r->dictionary, "constraints");
  a->text = ttir_unquote(r->arena, text.at, text.length);
  a->is_pure = ttir_entry_int(&r->dictionary, "pure", 0);
  if (a->pack < 1 || a->pack > MAX_PACK || !a->constraints)
    ttir_error(r, "%s: expected constraints and a packed_element of 1 to %d, found %lld", row->name, MAX_PACK,
               (long long)a->pack);
  else if (is_dependency(a->text) && a->result_count == 1) ttir_give(r, ttir_splat_bits(r, a->types[0], 0));
  else if (a->result_count > 1) give_several(r, a);
  else give_one(r, a, a->text, a->constraints, a->types[0]);
}
