// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads one instruction: guard, opcode, modifiers by the tables, operands by the shape of the opcode's row.
#include <stdio.h>
#include <string.h>

#include "tools/ptx/handlers.h"
#include "tools/ptx/parser.h"

typedef struct modifier {
  const char *text;
  uint32_t group, value;
} modifier;
static const modifier modifiers[] = {
#define MODIFIER(text, group, value) {text, M_##group, value},
#include "tools/ptx/modifiers.def"
#undef MODIFIER
};
static const char *const words[] = {
    NULL,
#define WORD(name) #name,
#include "tools/ptx/modifiers.def"
#undef WORD
};
static const char *const specials[] = {
#define SPECIAL(name, text) text,
#include "tools/ptx/specials.def"
#undef SPECIAL
};

static bool same(const char *text, uint32_t length, const char *word) {
  return strlen(word) == length && !memcmp(text, word, length);
}

// ------------------------------------------------------------------------------------------ modifiers

static void set_modifier(ptx_instruction *i, uint32_t group, uint32_t value) {
  switch (group) {
  case M_ROUND: i->rounding = (ptx_rounding)value; break;
  case M_INTEGRAL: i->rounding = (ptx_rounding)value, i->is_integral = true; break;
  case M_FTZ: i->ftz = true; break;
  case M_SAT: i->sat = true; break;
  case M_APPROX: i->approx = true, i->full = value == 2; break;
  case M_HALF: i->half = (ptx_half)value; break;
  case M_COMPARE: i->compare = (ptx_compare)value; break;
  case M_BOOL: i->boolean = (ptx_word)value; break;
  case M_SPACE: *(i->space ? &i->to_space : &i->space) = (ptx_space)value; break;
  case M_VECTOR: i->vector = (uint8_t)value; break;
  case M_ORDER: i->order = (ptx_order)value, i->is_volatile |= value == ORDER_NONE; break;
  case M_SCOPE: i->scope = (ptx_scope)value; break;
  case M_SYNC: i->has_sync = true; break;
  case M_ALIGNED: i->is_aligned = true; break;
  case M_COUNT: i->count = (uint8_t)value; break;
  case M_TRANS: i->is_trans = true; break;
  case M_LAYOUT: i->layouts = (uint8_t)(i->layouts << 1 | value); break;
  case M_CARRY: i->carries = true; break;
  case M_NAN: i->keeps_nan = true; break;
  case M_TO: i->is_to = true; break;
  case M_MODE: i->mode = (uint8_t)value; break;
  case M_RELU: i->is_relu = true; break;
  case M_MULTICAST: i->is_multicast = true; break;
  default: break; // caches and .uni change no result
  }
}

static bool take_table_modifier(ptx_instruction *i, const char *text, uint32_t length) {
  for (uint32_t k = 0; k < sizeof modifiers / sizeof *modifiers; k++)
    if (modifiers[k].group & i->op->groups && same(text, length, modifiers[k].text)) {
      set_modifier(i, modifiers[k].group, modifiers[k].value);
      return true;
    }
  return false;
}

static bool take_word(ptx_instruction *i, const char *text, uint32_t length) {
  for (uint32_t k = 1; i->op->groups & M_WORD && k < sizeof words / sizeof *words; k++)
    if (i->word_count < PTX_WORDS && same(text, length, words[k])) {
      i->words[i->word_count++] = (ptx_word)k;
      return true;
    }
  return false;
}

// m16n8k16, m8n8
static bool take_shape(ptx_instruction *i, const char *text, uint32_t length) {
  char copy[32];
  int used = 0, m = 0, n = 0, k = 0;
  if (!(i->op->groups & M_SHAPE) || length >= sizeof copy || *text != 'm') return false;
  memcpy(copy, text, length);
  copy[length] = 0;
  if (sscanf(copy, "m%dn%dk%d%n", &m, &n, &k, &used) < 3 && sscanf(copy, "m%dn%d%n", &m, &n, &used) < 2)
    return false;
  if ((uint32_t)used != length) return false;
  i->shape[0] = (uint16_t)m, i->shape[1] = (uint16_t)n, i->shape[2] = (uint16_t)k;
  return true;
}

static void parse_modifiers(ptx_parser *p, ptx_instruction *i) {
  char spelling[160];
  int used = snprintf(spelling, sizeof spelling, "%s", i->op->name);
  for (; p->lex.token.kind == TOKEN_DOT; ptx_next(&p->lex)) {
    const char *text = p->lex.token.text;
    uint32_t length = p->lex.token.length;
    ptx_type type = i->op->groups & M_TYPE ? ptx_type_named(text, length) : PTX_TYPE_none;
    if (ptx_types[type].kind == PTX_CLASS_INTEGERS && !(i->op->groups & M_INTEGERS)) type = PTX_TYPE_none;
    if (type && i->type_count < PTX_TYPES) i->types[i->type_count++] = type;
    else if (!take_table_modifier(i, text, length) && !take_word(i, text, length) &&
             !take_shape(i, text, length))
      ptx_fail(&p->lex, KILN_STATUS_UNSUPPORTED, "'%s' with '.%.*s' is not known here", i->op->name,
               (int)length, text);
    if (used + (int)length + 2 < (int)sizeof spelling)
      used += snprintf(spelling + used, sizeof spelling - (size_t)used, ".%.*s", (int)length, text);
  }
  i->spelling = kiln_arena_text(p->module->arena, spelling, (size_t)used);
}

// -------------------------------------------------------------------------------------------- operands

static const ptx_symbol *find_register(const ptx_parser *p, const char *text, uint32_t length, int32_t *out) {
  uint32_t digits = length;
  while (digits && text[digits - 1] >= '0' && text[digits - 1] <= '9') digits--;
  uint64_t number = 0;
  for (uint32_t k = digits; k < length && k < digits + 9; k++)
    number = 10 * number + (uint64_t)(text[k] - '0');
  for (uint32_t k = p->symbol_count; k-- > 0;) {
    const ptx_symbol *s = &p->symbols[k];
    if (!s->is_range && s->length == length && !memcmp(s->name, text, length)) return *out = s->first, s;
    if (s->is_range && digits < length && s->length == digits && !memcmp(s->name, text, digits) &&
        number < s->count)
      return *out = s->first + (int32_t)number, s;
  }
  return NULL;
}

static bool find_parameter(const ptx_kernel *kernel, const char *text, uint32_t length, uint64_t *out) {
  for (uint32_t k = 0; k < kernel->parameter_count; k++)
    if (same(text, length, kernel->parameters[k].name)) return *out = kernel->parameters[k].offset, true;
  return false;
}

// A variable's or parameter's address, which is known when the module is complete.
static bool parse_symbol(ptx_parser *p, ptx_operand *o) {
  const ptx_token *t = &p->lex.token;
  const ptx_variable *v;
  if (find_parameter(p->kernel, t->text, t->length, &o->immediate)) {
    o->space = SPACE_PARAM;
  } else if ((v = ptx_find_variable(p->module, t->text, t->length))) {
    o->variable = (int32_t)(v - p->module->variables);
    o->space = v->space;
  } else {
    return false;
  }
  ptx_next(&p->lex);
  return true;
}

static bool parse_special(ptx_parser *p, ptx_operand *o) {
  char text[32];
  const char *begin = p->lex.token.text;
  uint32_t length = p->lex.token.length;
  if (*begin != '%' || length >= sizeof text - 3) return false;
  ptx_lexer before = p->lex;
  memcpy(text, begin, length);
  ptx_next(&p->lex);
  if (p->lex.token.kind == TOKEN_DOT && p->lex.token.length == 1) {
    text[length++] = '.';
    text[length++] = *p->lex.token.text;
    ptx_next(&p->lex);
  }
  for (int32_t k = 0; k < SPECIAL_COUNT; k++)
    if (same(text, length, specials[k])) {
      o->kind = OPERAND_SPECIAL;
      o->index = k;
      return true;
    }
  p->lex = before;
  return false;
}

static void parse_number(ptx_parser *p, ptx_operand *o) {
  bool is_negative = ptx_take(&p->lex, TOKEN_PUNCTUATION, "-");
  const ptx_token *t = &p->lex.token;
  if (t->kind != TOKEN_NUMBER) {
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "expected an operand, found '%.*s'",
             (int)(t->length < 40 ? t->length : 40), t->text);
    return;
  }
  o->kind = OPERAND_IMMEDIATE;
  o->immediate = t->number;
  o->immediate_bits = t->number_bits;
  if (is_negative) o->immediate = t->number_bits ? t->number ^ 1ull << (t->number_bits - 1) : 0 - t->number;
  ptx_next(&p->lex);
}

static void parse_operand(ptx_parser *p, ptx_operand *o, bool is_label);

// [base + offset]; base: a register, a variable, a parameter, or a number.
static void parse_address(ptx_parser *p, ptx_operand *o) {
  ptx_lexer *l = &p->lex;
  ptx_expect(l, "[");
  o->kind = OPERAND_ADDRESS;
  if (l->token.kind == TOKEN_NAME) {
    const ptx_symbol *s = find_register(p, l->token.text, l->token.length, &o->index);
    if (s && s->bits != 32 && s->bits != 64)
      ptx_fail(l, KILN_STATUS_SOURCE, "an address in a register of %u bits", s->bits);
    if (s) ptx_next(l);
    else if (!parse_symbol(p, o))
      ptx_fail(l, KILN_STATUS_SOURCE, "'%.*s' is not declared", (int)l->token.length, l->token.text);
  } else {
    o->immediate = ptx_expect_integer(l, "an address");
  }
  while (ptx_is(l, TOKEN_PUNCTUATION, "+") || ptx_is(l, TOKEN_PUNCTUATION, "-")) {
    bool is_minus = ptx_is(l, TOKEN_PUNCTUATION, "-");
    ptx_next(l);
    uint64_t number = ptx_expect_integer(l, "an offset");
    o->immediate += is_minus ? 0 - number : number;
  }
  if (ptx_take(l, TOKEN_PUNCTUATION, ",")) { // coordinates of a tensor
    ptx_operand coordinates;
    parse_operand(p, &coordinates, false);
    if (coordinates.kind != OPERAND_VECTOR) ptx_fail(l, KILN_STATUS_SOURCE, "expected coordinates in braces");
    o->items = coordinates.items;
    o->count = coordinates.kind == OPERAND_VECTOR ? coordinates.count : 0;
  }
  ptx_expect(l, "]");
}

static void parse_vector(ptx_parser *p, ptx_operand *o) {
  ptx_operand items[128];
  uint32_t count = 0;
  ptx_expect(&p->lex, "{");
  do {
    if (count == 128) ptx_fail(&p->lex, KILN_STATUS_SOURCE, "expected at most 128 elements");
    else parse_operand(p, &items[count++], false);
  } while (ptx_take(&p->lex, TOKEN_PUNCTUATION, ","));
  ptx_expect(&p->lex, "}");
  o->kind = OPERAND_VECTOR;
  o->count = count;
  o->items = kiln_arena_copy(p->module->arena, items, count * sizeof *items);
}

static void parse_name(ptx_parser *p, ptx_operand *o, bool is_label) {
  ptx_lexer *l = &p->lex;
  o->kind = OPERAND_REGISTER;
  if (is_label) {
    o->kind = OPERAND_LABEL;
    o->index = ptx_label_number(p, l->token.text, l->token.length);
    ptx_next(l);
  } else if (ptx_take(l, TOKEN_NAME, "_")) {
    o->kind = OPERAND_SINK;
    if (ptx_take(l, TOKEN_PUNCTUATION, "|")) {
      if (!find_register(p, l->token.text, l->token.length, &o->second))
        ptx_fail(l, KILN_STATUS_SOURCE, "'%.*s' is not declared", (int)l->token.length, l->token.text);
      ptx_next(l);
    }
  } else if (find_register(p, l->token.text, l->token.length, &o->index)) {
    ptx_next(l);
    if (!ptx_take(l, TOKEN_PUNCTUATION, "|")) return;
    if (!ptx_take(l, TOKEN_NAME, "_") && !find_register(p, l->token.text, l->token.length, &o->second))
      ptx_fail(l, KILN_STATUS_SOURCE, "'%.*s' is not declared", (int)l->token.length, l->token.text);
    else if (o->second >= 0) ptx_next(l);
  } else if (ptx_is(l, TOKEN_NAME, "WARP_SZ")) {
    ptx_next(l);
    o->kind = OPERAND_IMMEDIATE, o->immediate = PTX_LANES;
  } else if (!parse_special(p, o)) {
    o->kind = OPERAND_IMMEDIATE;
    if (!parse_symbol(p, o))
      ptx_fail(l, KILN_STATUS_SOURCE, "'%.*s' is not declared", (int)l->token.length, l->token.text);
    else if (ptx_take(l, TOKEN_PUNCTUATION, "+")) o->immediate += ptx_expect_integer(l, "an offset");
  }
}

static void parse_operand(ptx_parser *p, ptx_operand *o, bool is_label) {
  ptx_lexer *l = &p->lex;
  *o = (ptx_operand){.index = PTX_NONE, .second = PTX_NONE, .variable = PTX_NONE};
  o->is_negated = ptx_take(l, TOKEN_PUNCTUATION, "!");
  if (ptx_is(l, TOKEN_PUNCTUATION, "[")) parse_address(p, o);
  else if (ptx_is(l, TOKEN_PUNCTUATION, "{")) parse_vector(p, o);
  else if (l->token.kind == TOKEN_NAME) parse_name(p, o, is_label);
  else parse_number(p, o);
}

// ---------------------------------------------------------------------------------------------- checks

// Bits of a register that the letter wants; 0: any. The letters are those of opcodes.def.
static uint32_t wanted_bits(const ptx_instruction *i, char letter) {
  uint32_t bits = ptx_bits(i->types[0]), wide = i->half == HALF_WIDE ? 2 : 1;
  switch (letter) {
  case 'd':
  case 's':
  case 'T':
  case 't':
  case 'q': return bits;
  case 'D':
  case 'S': return bits * wide;
  case 'e':
  case 'c': return ptx_bits(i->types[i->type_count > 1 ? 1 : 0]);
  case 'u':
  case 'U':
  case 'w':
  case 'W': return 32;
  case 'p':
  case 'P': return 1;
  default: return 0;
  }
}

static void check_register(ptx_parser *p, const ptx_instruction *i, char letter, int32_t index) {
  uint32_t have = p->kernel->register_bits[index], want = wanted_bits(i, letter);
  bool is_of_memory = letter == 'r' || letter == 'v',
       may_be_wider = is_of_memory || (i->op->groups & M_INTEGRAL);
  if (is_of_memory) want = ptx_bits(i->types[0]);
  if (want == 8 && have == 16) return; // there are no registers of 8 bits for arithmetic
  if (want && (may_be_wider ? have < want : have != want))
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "'%s' wants a register of %u bits here, found one of %u",
             i->spelling, want, have);
}

static void check_kind(ptx_parser *p, const ptx_instruction *i, char letter, const ptx_operand *o) {
  bool is_fine = true;
  bool is_value = o->kind == OPERAND_REGISTER || o->kind == OPERAND_IMMEDIATE || o->kind == OPERAND_SPECIAL;
  switch (letter) {
  case 'a': is_fine = o->kind == OPERAND_ADDRESS; break;
  case 'x': break;
  case 'l': is_fine = o->kind == OPERAND_LABEL; break;
  case 'V': is_fine = o->kind == OPERAND_VECTOR || o->kind == OPERAND_REGISTER; break;
  case 'r':
  case 'T':
  case 'm':
    is_fine = o->kind == OPERAND_REGISTER || o->kind == OPERAND_VECTOR || o->kind == OPERAND_SINK;
    break;
  case 'v':
  case 't':
  case 'n': is_fine = is_value || o->kind == OPERAND_VECTOR; break;
  case 'd':
  case 'D':
  case 'U':
  case 'P':
  case 'W':
  case 'q': is_fine = o->kind == OPERAND_REGISTER || o->kind == OPERAND_SINK; break;
  default: is_fine = is_value; break;
  }
  if (!is_fine) ptx_fail(&p->lex, KILN_STATUS_SOURCE, "'%s' does not take such an operand here", i->spelling);
  if (o->kind == OPERAND_REGISTER) check_register(p, i, letter, o->index);
  if (o->kind != OPERAND_VECTOR || !strchr("rvTt", letter)) return;
  for (uint32_t k = 0; k < o->count; k++)
    if (o->items[k].kind == OPERAND_REGISTER) check_register(p, i, letter, o->items[k].index);
  if (o->count != (i->vector ? i->vector : 1u))
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "'%s' wants %u elements, found %u", i->spelling,
             i->vector ? i->vector : 1u, o->count);
}

// A float written as f64 becomes one of the operand's width; an integer gets that width.
static void fit_immediate(const ptx_instruction *i, char letter, ptx_operand *o) {
  uint32_t want = wanted_bits(i, letter == 'v' ? 's' : letter);
  if (o->kind != OPERAND_IMMEDIATE || !want) return;
  if (o->immediate_bits == 64 && want == 32) {
    double wide;
    memcpy(&wide, &o->immediate, sizeof wide);
    float narrow = (float)wide;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    o->immediate = bits;
  }
  o->immediate &= ptx_mask_bits(want);
}

static void parse_part(ptx_parser *p, ptx_operand *o) {
  const ptx_token *t = &p->lex.token;
  if (t->kind != TOKEN_DOT || t->length >= sizeof o->part) return;
  memcpy(o->part, t->text, t->length);
  ptx_next(&p->lex);
}

static void parse_operands(ptx_parser *p, ptx_instruction *i) {
  const char *shape = i->op->shape;
  bool is_first = true;
  for (; *shape; shape++, is_first = false) {
    bool is_optional = shape[1] == '?';
    bool is_end = ptx_is(&p->lex, TOKEN_PUNCTUATION, ";");
    if (is_optional && is_end) break;
    if (!is_first) ptx_expect(&p->lex, ",");
    ptx_operand *o = &i->operands[i->operand_count++];
    parse_operand(p, o, *shape == 'l');
    if (*shape == 'W' || *shape == 'w') parse_part(p, o);
    if (p->lex.status != KILN_OK) return;
    check_kind(p, i, *shape, o);
    fit_immediate(i, *shape, o);
    shape += is_optional;
  }
  ptx_expect(&p->lex, ";");
}

static void parse_guard(ptx_parser *p, ptx_instruction *i) {
  ptx_lexer *l = &p->lex;
  i->guard = PTX_NONE;
  if (!ptx_take(l, TOKEN_PUNCTUATION, "@")) return;
  i->guard_negated = ptx_take(l, TOKEN_PUNCTUATION, "!");
  const ptx_symbol *s = find_register(p, l->token.text, l->token.length, &i->guard);
  if (!s || s->bits != 1)
    ptx_fail(l, KILN_STATUS_SOURCE, "expected a predicate, found '%.*s'", (int)l->token.length,
             l->token.text);
  ptx_next(l);
}

static bool is_mixed(const ptx_instruction *i) {
  return i->type_count == 2 && i->types[0] == PTX_TYPE_f32 &&
         (i->types[1] == PTX_TYPE_f16 || i->types[1] == PTX_TYPE_bf16);
}

void ptx_parse_instruction(ptx_parser *p) {
  ptx_kernel *kernel = p->kernel;
  ptx_lexer *l = &p->lex;
  ptx_instruction i = {.line = l->token.line,
                       .column = l->token.column,
                       .file = p->file,
                       .source_line = p->line,
                       .source_column = p->column};
  parse_guard(p, &i);
  for (uint32_t k = 0; k < ptx_opcode_count && !i.op; k++)
    if (l->token.kind == TOKEN_NAME && same(l->token.text, l->token.length, ptx_opcodes[k].name))
      i.op = &ptx_opcodes[k];
  if (!i.op) {
    ptx_fail(l, KILN_STATUS_UNSUPPORTED, "instruction '%.*s' is not known",
             (int)(l->token.length < 40 ? l->token.length : 40), l->token.text);
    return;
  }
  ptx_next(l);
  parse_modifiers(p, &i);
  uint32_t wanted = !(i.op->groups & M_TYPE) || i.op->shape[1] == '?' ? 0 : strchr(i.op->shape, 'c') ? 2 : 1;
  if (i.type_count < wanted && !(i.op->groups & M_SYNC && !strchr(i.op->shape, 's')))
    ptx_fail(l, KILN_STATUS_SOURCE, "'%s' wants %u types, found %u", i.spelling, wanted, i.type_count);
  if (strchr(i.op->shape, 'e') && i.type_count > 1 && !is_mixed(&i))
    ptx_fail(l, KILN_STATUS_SOURCE, "'%s': expected one type, or f32 with f16 or bf16", i.spelling);
  parse_operands(p, &i);
  if (l->status == KILN_OK && *i.op->shape == 'W' && !ptx_video_is_right(&i))
    ptx_fail(l, KILN_STATUS_SOURCE, "'%s' does not take these types and parts of operands", i.spelling);
  KILN_GROW(p->module->arena, kernel->code, kernel->code_count, kernel->code_capacity);
  kernel->code[kernel->code_count++] = i;
}
