// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inline PTX to steps: declarations of registers, blocks, comments and instructions whose names and operands
// fit a row of ptx.def.
#include "compiler/passes/lower/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const ptx_type types[] = {
#define PTX_TYPE(name, bits, lanes, kind, lane) {name, bits, lanes, kind, KILN_##lane},
#include "compiler/passes/lower/ptx.def"
};

static const ptx_row rows[] = {
#define PTX_ROW(name, kinds, bits, may, must, operands, meaning, code) \
  {name, kinds, bits, may, must, operands, PTX_##meaning, IR_##code},
#include "compiler/passes/lower/ptx.def"
};

static const struct {
  char name[12];
  uint32_t bit;
} modifiers[] = {
#define PTX_MODIFIER(name, bit) {name, bit},
#include "compiler/passes/lower/ptx.def"
};

static const ptx_compare compares[] = {
#define PTX_COMPARE(name, predicate, unordered, is_unsigned) {name, IR_##predicate, unordered, is_unsigned},
#include "compiler/passes/lower/ptx.def"
};

#define PTX_TYPE(n, ...) _Static_assert(sizeof n <= sizeof types->name, "it has room: " n);
#define PTX_ROW(n, kinds, bits, may, must, places, ...)                                   \
  _Static_assert(sizeof n <= sizeof rows->name && sizeof places <= sizeof rows->operands, \
                 "both have room: " n);
#define PTX_MODIFIER(n, bit) _Static_assert(sizeof n <= sizeof modifiers->name, "it has room: " n);
#define PTX_COMPARE(n, ...) _Static_assert(sizeof n <= sizeof compares->name, "it has room: " n);
#include "compiler/passes/lower/ptx.def"

static const struct {
  const char *name;
  ptx_special special;
  uint8_t bits;
} specials[] = {{"%globaltimer", PTX_GLOBALTIMER, 64}, {"%smid", PTX_SMID, 32}};

#define COUNT(table) (sizeof(table) / sizeof *(table))

typedef struct word {
  const char *at;
  unsigned length;
} word;

typedef struct reader {
  ptx_program *p;
  const char *at;
  unsigned outputs, inputs;
  uint8_t depth;
} reader;

static bool is_word(word w, const char *text) {
  return strlen(text) == w.length && !memcmp(w.at, text, w.length);
}

// ------------------------------------------------------------------------------------------- words

static void skip(reader *r) {
  for (;; r->at++) {
    while (isspace((unsigned char)*r->at)) r->at++;
    bool is_line = r->at[0] == '/' && r->at[1] == '/', is_block = r->at[0] == '/' && r->at[1] == '*';
    if (!is_line && !is_block) return;
    const char *end = strstr(r->at + 2, is_line ? "\n" : "*/");
    if (!end) {
      r->at += strlen(r->at);
      return;
    }
    r->at = is_line ? end : end + 1;
  }
}

static bool accept(reader *r, char c) {
  skip(r);
  return *r->at == c && r->at++;
}

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '%' || c == '$'; }

static word take_name(reader *r) {
  skip(r);
  word w = {r->at, 0};
  while (in_name(w.at[w.length])) w.length++;
  r->at += w.length;
  return w;
}

static bool fault(reader *r, word w) {
  if (!r->p->fault) r->p->fault = w.at, r->p->fault_length = w.length;
  return false;
}

static bool fault_here(reader *r) {
  skip(r);
  word w = {r->at, *r->at != 0};
  while (in_name(w.at[0]) && in_name(w.at[w.length])) w.length++;
  return fault(r, w);
}

// --------------------------------------------------------------------------------------- registers

/// The number at the end of a name, which `a<2>` declares; false where there is none or it has a leading
/// zero.
static bool split_number(word w, unsigned *out_stem, long *out_number) {
  unsigned stem = w.length;
  while (stem && isdigit((unsigned char)w.at[stem - 1])) stem--;
  if (stem == w.length || w.length - stem > 4 || (w.at[stem] == '0' && w.length - stem > 1)) return false;
  *out_stem = stem;
  *out_number = strtol(w.at + stem, NULL, 10);
  return true;
}

static int find_register(const reader *r, word w) {
  const ptx_program *p = r->p;
  unsigned stem = 0;
  long number = 0;
  bool is_numbered = split_number(w, &stem, &number);
  if (w.at[0] == '$')
    return is_numbered && stem == 1 && number < (long)(r->outputs + r->inputs) ? (int)number : -1;
  for (unsigned i = p->register_count; i-- > r->outputs + r->inputs;) {
    const ptx_register *one = &p->registers[i];
    unsigned length = one->number < 0 ? w.length : stem;
    if (!one->name || one->length != length || memcmp(one->name, w.at, length)) continue;
    if (one->number < 0 || (is_numbered && one->number == number)) return (int)i;
  }
  return -1;
}

static bool declare(reader *r, word w, int number, unsigned bits) {
  ptx_program *p = r->p;
  if (p->register_count == PTX_MAX_REGISTERS || !w.length || w.at[0] == '$') return fault(r, w);
  p->registers[p->register_count++] = (ptx_register){.name = w.at,
                                                     .length = (uint16_t)w.length,
                                                     .number = (int16_t)number,
                                                     .bits = (uint8_t)bits,
                                                     .depth = r->depth};
  return true;
}

static const ptx_type *find_type(word w) {
  for (size_t i = 0; i < COUNT(types); i++)
    if (is_word(w, types[i].name)) return &types[i];
  return NULL;
}

/// `.reg .b32 a<2>, b;` after the word `.reg`
static bool read_declaration(reader *r) {
  if (!accept(r, '.')) return fault_here(r);
  word w = take_name(r);
  const ptx_type *type = find_type(w);
  if (!type) return fault(r, w);
  do {
    w = take_name(r);
    if (!accept(r, '<')) {
      if (!declare(r, w, -1, type->bits)) return false;
      continue;
    }
    char *end;
    skip(r);
    long count = strtol(r->at, &end, 10);
    r->at = end;
    if (count < 1 || count > PTX_MAX_REGISTERS || !accept(r, '>')) return fault(r, w);
    for (int i = 0; i < count; i++)
      if (!declare(r, w, i, type->bits)) return false;
  } while (accept(r, ','));
  return accept(r, ';') || fault_here(r);
}

// ---------------------------------------------------------------------------------------- operands

static bool read_number(reader *r, ptx_operand *out) {
  char *end;
  bool is_negative = accept(r, '-');
  const char *at = r->at;
  out->kind = PTX_NUMBER;
  if (at[0] == '0' && strchr("fFdD", at[1]) && at[1]) {
    bool is_single = at[1] == 'f' || at[1] == 'F';
    uint64_t bits = strtoull(at + 2, &end, 16);
    if (end - at != (is_single ? 10 : 18)) return false;
    out->is_real = true;
    out->real = ir_bits_to_float(is_single ? KILN_F32 : KILN_F64, bits);
  } else {
    out->bits = strtoull(at, &end, 0);
    if (*end == '.' || ((*end == 'e' || *end == 'E') && strncmp(at, "0x", 2) != 0))
      out->is_real = true, out->real = strtod(at, &end);
    if (*end == 'U') end++;
  }
  if (end == at || in_name(*end)) return false;
  if (is_negative) out->bits = 0 - out->bits, out->real = -out->real;
  r->at = end;
  return true;
}

static bool read_register(reader *r, ptx_operand *out) {
  word w = take_name(r);
  int number = is_word(w, "_") ? -1 : find_register(r, w);
  if (out->count == PTX_MAX_PARTS || (number < 0 && !is_word(w, "_"))) return fault(r, w);
  out->kind = PTX_REGISTERS;
  out->registers[out->count++] = (int16_t)number;
  return true;
}

static bool read_operand(reader *r, ptx_operand *out) {
  *out = (ptx_operand){0};
  skip(r);
  if (isdigit((unsigned char)*r->at) || *r->at == '-') return read_number(r, out) || fault_here(r);
  for (size_t i = 0; i < COUNT(specials); i++) {
    size_t length = strlen(specials[i].name);
    if (strncmp(r->at, specials[i].name, length) != 0 || in_name(r->at[length])) continue;
    out->kind = PTX_SPECIAL;
    out->bits = specials[i].special;
    r->at += length;
    return true;
  }
  bool is_vector = accept(r, '{');
  do
    if (!read_register(r, out)) return false;
  while (accept(r, is_vector ? ',' : '|'));
  return !is_vector || accept(r, '}') || fault_here(r);
}

// ------------------------------------------------------------------------------------ instructions

/// All registers of sources have values by now; destinations have them from here on.
static bool settle(reader *r, const ptx_step *s) {
  for (unsigned i = 1; i < s->count; i++)
    for (unsigned j = 0; j < s->operands[i].count; j++) {
      int number = s->operands[i].registers[j];
      if (number < 0 || !r->p->registers[number].written) return false;
    }
  for (unsigned j = 0; j < s->operands[0].count; j++)
    if (s->operands[0].registers[j] >= 0) r->p->registers[s->operands[0].registers[j]].written = true;
  return true;
}

static unsigned bits_of(const reader *r, const ptx_operand *o) {
  unsigned bits = 0;
  for (unsigned i = 0; i < o->count; i++)
    bits += o->registers[i] < 0 ? 0 : r->p->registers[o->registers[i]].bits;
  if (o->kind == PTX_SPECIAL)
    for (size_t i = 0; i < COUNT(specials); i++)
      if (specials[i].special == o->bits) bits = specials[i].bits;
  return bits;
}

/// A plain register, or a number where a source stands, of so many bits.
static bool is_of(const reader *r, const ptx_operand *o, unsigned bits, bool is_source) {
  if (o->kind == PTX_NUMBER) return is_source;
  return o->kind == PTX_REGISTERS && o->count == 1 && o->registers[0] >= 0 && bits_of(r, o) == bits;
}

static bool fits_letter(const reader *r, const ptx_step *s, unsigned i) {
  const ptx_operand *o = &s->operands[i];
  unsigned bits = s->type->bits;
  switch (s->row->operands[i]) {
  case 'd':
  case 's': return is_of(r, o, bits, i > 0);
  case 'D':
  case 'S': return is_of(r, o, 2 * bits, i > 0);
  case 'u': return is_of(r, o, 32, i > 0);
  case 'p': return is_of(r, o, 1, false);
  case 'n': return o->kind == PTX_NUMBER && !o->is_real;
  case 'q':
    if (o->kind != PTX_REGISTERS || o->count > 2 || (s->type->lanes == 2 && o->count != 2)) return false;
    for (unsigned j = 0; j < o->count; j++)
      if (o->registers[j] >= 0 && r->p->registers[o->registers[j]].bits != 1) return false;
    return true;
  default: return false;
  }
}

/// Vectors on one side at most; both sides have as many bits.
static bool fits_move(const reader *r, const ptx_step *s) {
  const ptx_operand *to = &s->operands[0], *from = &s->operands[1];
  if (s->count != 2 || to->kind != PTX_REGISTERS || (to->count > 1 && from->count != 1)) return false;
  for (unsigned i = 1; i < to->count; i++) // `_` is as wide as its neighbours
    if (to->registers[i] >= 0 && to->registers[0] >= 0 &&
        r->p->registers[to->registers[i]].bits != r->p->registers[to->registers[0]].bits)
      return false;
  for (unsigned i = 1; i < from->count; i++)
    if (r->p->registers[from->registers[i]].bits != r->p->registers[from->registers[0]].bits) return false;
  if (to->count > 1)
    return to->registers[0] >= 0 && from->count == 1 &&
           to->count * r->p->registers[to->registers[0]].bits == s->type->bits &&
           bits_of(r, from) == s->type->bits;
  return bits_of(r, to) == s->type->bits && (from->kind == PTX_NUMBER || bits_of(r, from) == s->type->bits);
}

/// Which conversions there are, by the kinds of both types.
static bool fits_convert(const reader *r, const ptx_step *s) {
  const ptx_type *to = s->type, *from = s->from;
  bool packs = to->lanes == 2 && from->lanes == 1, to_int = to->kind & (UINT | SINT),
       from_int = from->kind & (UINT | SINT);
  uint32_t integral = RNI | RZI | RMI | RPI, round = s->modifiers & ROUND;
  if (s->count != (packs ? 3u : 2u) || to->kind & (PRED | BITS) || from->kind & (PRED | BITS | TF32))
    return false;
  for (unsigned i = 0; i < s->count; i++) {
    unsigned bits = i ? from->bits : to->bits, has = bits_of(r, &s->operands[i]);
    bool may_be_wider = (i ? from_int : to_int) && has >= bits;
    if (!is_of(r, &s->operands[i], bits, i > 0) && !(may_be_wider && is_of(r, &s->operands[i], has, false)))
      return false;
  }
  if (to_int || from_int) {
    if (to->lanes + from->lanes != 2) return false;
    if (to_int && from_int) return !round && !(s->modifiers & ~(uint32_t)SAT);
    return to_int ? (round & integral) == round && round : round == RN;
  }
  if (to->kind == TF32) return from->kind == FLOAT && from->bits == 32 && round == RNA;
  if (to->kind == FP8)
    return round == RN && s->modifiers & SATFINITE &&
           (packs ? from->kind == FLOAT && from->bits == 32 : from->kind == HALF && from->lanes == 2);
  if (from->kind == FP8) return to->kind == HALF && to->lanes == 2 && to->lane == KILN_F16 && round == RN;
  if (packs)
    return to->kind == HALF && from->kind == FLOAT && from->bits == 32 && (round == RN || round == RZ);
  if (to->lanes != 1) return false;
  bool is_narrower = kiln_scalars[to->lane].bits < kiln_scalars[from->lane].bits ||
                     (to->kind == HALF && from->kind == HALF && to != from);
  return is_narrower ? round == RN || round == RZ : !round || (to == from && (round & integral));
}

static bool fits(const reader *r, const ptx_step *s) {
  const ptx_row *row = s->row;
  if (!(row->kinds & s->from->kind) || !(row->bits & s->from->bits)) return false;
  if ((s->modifiers & ~row->may) || (s->modifiers & row->must) != row->must) return false;
  if ((s->from != s->type || s->type->kind == TF32) && row->meaning != PTX_CONVERT) return false;
  if (row->meaning == PTX_MOVE) return fits_move(r, s);
  if (row->meaning == PTX_CONVERT) return fits_convert(r, s);
  if ((row->may & COMPARE) && !(s->modifiers & COMPARE)) return false;
  if (row->meaning == PTX_FUNNEL && !(s->modifiers & (WRAP | CLAMP))) return false;
  if (s->count != strlen(row->operands)) return false;
  for (unsigned i = 0; i < s->count; i++)
    if (!fits_letter(r, s, i)) return false;
  return true;
}

/// One part of an instruction's name.
static bool read_part(ptx_step *s, word w, bool compares_too) {
  const ptx_type *type = find_type(w);
  if (type) {
    if (s->from) return false;
    if (s->type) s->from = type;
    else s->type = type;
    return true;
  }
  if (s->type) return false; // types come last
  for (size_t i = 0; compares_too && i < COUNT(compares); i++)
    if (is_word(w, compares[i].name) && !(s->modifiers & COMPARE)) {
      s->compare = &compares[i];
      s->modifiers |= COMPARE;
      return true;
    }
  for (size_t i = 0; i < COUNT(modifiers); i++)
    if (is_word(w, modifiers[i].name)) {
      s->modifiers |= modifiers[i].bit;
      return true;
    }
  return false;
}

static bool read_guard(reader *r, ptx_step *s) {
  s->guard = -1;
  if (!accept(r, '@')) return true;
  s->unless = accept(r, '!');
  word w = take_name(r);
  s->guard = (int16_t)find_register(r, w);
  return (s->guard >= 0 && r->p->registers[s->guard].bits == 1 && r->p->registers[s->guard].written) ||
         fault(r, w);
}

static bool read_step(reader *r) {
  ptx_program *p = r->p;
  if (p->step_count == PTX_MAX_STEPS) return fault_here(r);
  ptx_step *s = &p->steps[p->step_count];
  *s = (ptx_step){0};
  if (!read_guard(r, s)) return false;
  word name = take_name(r), whole = name;
  bool ok = name.length > 0;
  if (!ok) return fault_here(r);
  while (*r->at == '.') {
    r->at++;
    word part = take_name(r);
    ok = ok && read_part(s, part, is_word(name, "setp"));
    whole.length = (unsigned)(part.at + part.length - whole.at);
  }
  if (!ok || !s->type) return fault(r, whole);
  if (!s->from) s->from = s->type;
  for (ok = true; ok && (s->count == 0 || accept(r, ',')); s->count++) {
    if (s->count == PTX_MAX_OPERANDS) return fault(r, whole);
    ok = read_operand(r, &s->operands[s->count]);
  }
  if (!ok) return false;
  if (!accept(r, ';') && *r->at && *r->at != '}') return fault_here(r);
  for (size_t i = 0; i < COUNT(rows); i++) {
    s->row = &rows[i];
    if (!is_word(name, rows[i].name) || !fits(r, s) || !settle(r, s)) continue;
    p->step_count++;
    return true;
  }
  return fault(r, whole);
}

bool kiln_ptx_read(ptx_program *p, const char *text, unsigned outputs, unsigned inputs) {
  reader r = {.p = p, .at = text, .outputs = outputs, .inputs = inputs};
  p->register_count = outputs + inputs;
  p->step_count = 0;
  p->fault = NULL;
  for (unsigned i = 0; i < p->register_count; i++)
    p->registers[i].name = NULL, p->registers[i].written = i >= outputs, p->registers[i].depth = 0;
  for (skip(&r); *r.at; skip(&r)) {
    if (accept(&r, '{')) {
      if (r.depth++ == UINT8_MAX) return fault_here(&r);
    } else if (*r.at == '}' && r.depth) {
      r.at++;
      for (unsigned i = 0; i < r.p->register_count; i++)
        if (r.p->registers[i].depth == r.depth) r.p->registers[i].name = NULL;
      r.depth--;
    } else if (!accept(&r, ';') &&
               !(strncmp(r.at, ".reg", 4) == 0 && (r.at += 4) ? read_declaration(&r) : read_step(&r)))
      return false;
  }
  for (unsigned i = 0; i < outputs; i++)
    if (!p->registers[i].written) return fault_here(&r);
  return r.depth == 0 || fault_here(&r);
}
