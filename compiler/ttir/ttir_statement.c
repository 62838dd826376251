// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads one statement: results, operation, attributes, location.
#include "compiler/ttir/ttir_forms.h"

enum { MAX_GROUPS = 64 };

// Names on the left of an operation: `%a, %b:2 =`.
typedef struct left_side {
  ttir_token names[MAX_GROUPS];
  uint32_t counts[MAX_GROUPS];
  uint32_t groups, values;
} left_side;

static void read_left(ttir_reader *r, left_side *left) {
  left->groups = left->values = 0;
  if (r->lex.token.kind != TTIR_VALUE) return;
  do {
    ttir_token name = ttir_take(r, TTIR_VALUE, "a result");
    int64_t count = ttir_accept(r, ':') ? ttir_integer(r) : 1;
    if (r->failed) return;
    if (left->groups == MAX_GROUPS || count < 1 || count > TTIR_MAX_VALUES) {
      ttir_error(r, "expected 1 to %d results in at most %d names", TTIR_MAX_VALUES, MAX_GROUPS);
      return;
    }
    left->names[left->groups] = name;
    left->counts[left->groups++] = (uint32_t)count;
    left->values += (uint32_t)count;
  } while (ttir_accept(r, ','));
  ttir_expect(r, '=');
}

static void define_left(ttir_reader *r, const left_side *left) {
  if (r->failed || left->groups == 0) return;
  if (left->values != r->result_count) {
    ttir_error(r, "%s: expected %u names for its results, found %u", r->row->name, r->result_count,
               left->values);
    return;
  }
  uint32_t at = 0;
  for (uint32_t i = 0; i < left->groups; i++) {
    ttir_define(r, left->names[i], r->results + at, left->counts[i]);
    at += left->counts[i];
  }
}

// True when the statement at the look-ahead ends a block; nothing is read then.
static bool ends_block(const ttir_reader *r) {
  static const char *const words[] = {"tt.return", "cf.br", "cf.cond_br", "tt.map_elementwise.return"};
  if (r->lex.token.kind != TTIR_WORD) return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (ttir_token_is(&r->lex.token, words[i])) return true;
  return false;
}

static void handle(ttir_reader *r, const ttir_row *row) {
  switch ((ttir_form)row->form) {
#define FORM(name)            \
  case TTIR_FORM_##name:      \
    ttir_form_##name(r, row); \
    return;
#include "compiler/ttir/ttir_forms.def"
#undef FORM
  }
}

static void statement(ttir_reader *r) {
  left_side left;
  ir_place outer = r->b.place; // an operation with regions is made after them
  r->line = r->lex.token.line;
  r->row = NULL;
  r->result_count = 0;
  r->dictionary.count = 0;
  if (++r->read > TTIR_MAX_READ) {
    ttir_error(r, "a kernel has more than %d operations after inlining", TTIR_MAX_READ);
    return;
  }
  read_left(r, &left);
  uint32_t line = r->lex.token.line;
  r->line = line;
  r->b.place = (ir_place){.line = line, .column = (uint32_t)(r->lex.token.start - r->lex.line_start) + 1};
  ttir_token name = r->lex.token.kind == TTIR_STRING ? ttir_take(r, TTIR_STRING, "")
                                                     : ttir_take(r, TTIR_WORD, "an operation");
  if (r->failed) return;
  const ttir_row *row = ttir_find_row(name.at, name.length);
  if (!row) {
    ttir_error(r, "operation '%.*s' is not supported", (int)(name.length > 80 ? 80 : name.length), name.at);
    return;
  }
  r->row = row;
  handle(r, row);
  ttir_builder_error(r);
  r->row = row; // regions inside have used both
  r->line = line;
  ttir_skip_loc(r);
  ttir_hint_result(r);
  define_left(r, &left);
  r->b.place = outer;
}

void ttir_statements(ttir_reader *r) {
  while (!r->failed && r->lex.token.kind != TTIR_END && r->lex.token.kind != TTIR_BLOCK &&
         !ttir_peek(r, '}') && !ends_block(r))
    statement(r);
}
