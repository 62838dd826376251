// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a module: directives, variables, heads of kernels; then places its variables.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ptx/machine.h"
#include "tools/ptx/parser.h"

const ptx_type_facts ptx_types[PTX_TYPE_COUNT] = {
#define TYPE(name, bits, kind) {#name, bits, PTX_CLASS_##kind},
#include "tools/ptx/modifiers.def"
#undef TYPE
};

enum { MOST_REGISTERS = 1 << 20, SHARED_GAP = 128, MOST_TARGETS = 1024 };

ptx_type ptx_type_named(const char *text, uint32_t length) {
  for (uint32_t k = 1; k < PTX_TYPE_COUNT; k++)
    if (strlen(ptx_types[k].name) == length && !memcmp(ptx_types[k].name, text, length)) return (ptx_type)k;
  return PTX_TYPE_none;
}

const ptx_variable *ptx_find_variable(const ptx_module *module, const char *text, uint32_t length) {
  for (uint32_t k = module->variable_count; k-- > 0;)
    if (strlen(module->variables[k].name) == length && !memcmp(module->variables[k].name, text, length))
      return &module->variables[k];
  return NULL;
}

int32_t ptx_label_number(ptx_parser *p, const char *text, uint32_t length) {
  for (uint32_t k = 0; k < p->label_count; k++)
    if (p->labels[k].length == length && !memcmp(p->labels[k].name, text, length)) return (int32_t)k;
  KILN_GROW(p->module->arena, p->labels, p->label_count, p->label_capacity);
  p->labels[p->label_count] = (ptx_label){text, length, PTX_NONE, p->lex.token.line, NULL, 0};
  return (int32_t)p->label_count++;
}

static ptx_type expect_type(ptx_parser *p) {
  ptx_type type =
      p->lex.token.kind == TOKEN_DOT ? ptx_type_named(p->lex.token.text, p->lex.token.length) : PTX_TYPE_none;
  if (!type)
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "expected a type, found '%.*s'", (int)p->lex.token.length,
             p->lex.token.text);
  ptx_next(&p->lex);
  return type;
}

// ------------------------------------------------------------------------------------------- variables

static void parse_values(ptx_parser *p, const ptx_variable *v, uint32_t bytes) {
  uint8_t *memory = v->size ? ptx_memory_bytes(p->module->memory, v->address, v->size, true) : NULL;
  uint64_t at = 0;
  bool has_braces = ptx_take(&p->lex, TOKEN_PUNCTUATION, "{");
  do {
    uint64_t number = p->lex.token.number;
    if (p->lex.token.number_bits && p->lex.token.number_bits != 8 * bytes)
      ptx_fail(&p->lex, KILN_STATUS_UNSUPPORTED, "a value of %u bits in a variable of %u",
               p->lex.token.number_bits, 8 * bytes);
    if (p->lex.token.number_bits) ptx_next(&p->lex);
    else number = ptx_expect_integer(&p->lex, "a number");
    if (!memory || at + bytes > v->size)
      ptx_fail(&p->lex, KILN_STATUS_SOURCE, "more values than the variable has elements");
    else memcpy(memory + at, &number, bytes);
    at += bytes;
  } while (has_braces && ptx_take(&p->lex, TOKEN_PUNCTUATION, ","));
  if (has_braces) ptx_expect(&p->lex, "}");
}

void ptx_parse_variable(ptx_parser *p, ptx_space space, bool is_extern) {
  ptx_lexer *l = &p->lex;
  ptx_module *m = p->module;
  ptx_variable v = {.space = space};
  uint64_t align = ptx_take(l, TOKEN_DOT, "align") ? ptx_expect_integer(l, "an alignment") : 0;
  ptx_type type = expect_type(p);
  uint64_t count = 1, bytes = ptx_bits(type) / 8;
  if (align > 1 << 16 || (align & (align - 1)))
    ptx_fail(l, KILN_STATUS_SOURCE, "expected a power of two up to 65536");
  v.align = (uint32_t)(align ? align : bytes ? bytes : 1);
  v.name = ptx_token_text(p);
  ptx_next(l);
  while (ptx_take(l, TOKEN_PUNCTUATION, "[")) {
    uint64_t extent = ptx_is(l, TOKEN_PUNCTUATION, "]") ? 0 : ptx_expect_integer(l, "an extent");
    v.is_dynamic |= !extent && is_extern;
    if (extent > 1u << 30 || count * extent > 1u << 30)
      ptx_fail(l, KILN_STATUS_SOURCE, "expected at most 2^30 elements");
    else count *= extent;
    ptx_expect(l, "]");
  }
  v.size = count * bytes;
  if (l->status == KILN_OK && (space == SPACE_GLOBAL || space == SPACE_CONST)) {
    v.address = ptx_memory_alloc(m->memory, v.size, true);
    if (!v.address)
      ptx_fail(l, KILN_STATUS_OUT_OF_MEMORY, "no memory for %llu bytes", (unsigned long long)v.size);
    else if (v.size) memset(ptx_memory_bytes(m->memory, v.address, v.size, true), 0, v.size);
  }
  if (space == SPACE_LOCAL && p->kernel) {
    v.address = (p->kernel->local_bytes + v.align - 1) / v.align * v.align;
    p->kernel->local_bytes = (uint32_t)(v.address + v.size);
  }
  KILN_GROW(m->arena, m->variables, m->variable_count, m->variable_capacity);
  m->variables[m->variable_count++] = v;
  if (l->status == KILN_OK && ptx_take(l, TOKEN_PUNCTUATION, "=")) parse_values(p, &v, (uint32_t)bytes);
  ptx_expect(l, ";");
}

// Shared variables one after another with gaps that nothing may touch; dynamic ones share the end.
static uint32_t place_shared(ptx_module *m) {
  uint64_t at = 0, most = 16;
  for (uint32_t k = 0; k < m->variable_count; k++) {
    ptx_variable *v = &m->variables[k];
    if (v->space != SPACE_SHARED) continue;
    if (v->align > most) most = v->align;
    if (v->is_dynamic) continue;
    v->address = (at + v->align - 1) / v->align * v->align;
    at = v->address + v->size + SHARED_GAP;
  }
  at = (at + most - 1) / most * most;
  for (uint32_t k = 0; k < m->variable_count; k++)
    if (m->variables[k].space == SPACE_SHARED && m->variables[k].is_dynamic) m->variables[k].address = at;
  return (uint32_t)at;
}

static void resolve(const ptx_module *m, ptx_operand *o) {
  for (uint32_t k = 0; o->kind == OPERAND_VECTOR && k < o->count; k++) resolve(m, &o->items[k]);
  if (o->kind == OPERAND_NONE || o->variable < 0) return;
  o->immediate += m->variables[o->variable].address;
  o->variable = PTX_NONE;
}

static void resolve_all(ptx_module *m) {
  uint32_t end = place_shared(m);
  for (uint32_t k = 0; k < m->kernel_count; k++) {
    ptx_kernel *kernel = &m->kernels[k];
    kernel->shared_bytes = kernel->dynamic_offset = end;
    for (uint32_t c = 0; c < kernel->code_count; c++)
      for (uint32_t n = 0; n < kernel->code[c].operand_count; n++) resolve(m, &kernel->code[c].operands[n]);
  }
}

// --------------------------------------------------------------------------------------------- kernels

static void parse_parameter(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  ptx_kernel *kernel = p->kernel;
  uint32_t align = 0;
  if (!ptx_take(l, TOKEN_DOT, "param")) ptx_fail(l, KILN_STATUS_SOURCE, "expected '.param'");
  if (ptx_take(l, TOKEN_DOT, "align")) align = (uint32_t)ptx_expect_integer(l, "an alignment");
  uint32_t size = ptx_bits(expect_type(p)) / 8;
  if (!align) align = size ? size : 1;
  if (ptx_take(l, TOKEN_DOT, "ptr")) { // what the pointer points to: a promise to the assembler
    while (l->token.kind == TOKEN_DOT) {
      bool has_number = ptx_is(l, TOKEN_DOT, "align");
      ptx_next(l);
      if (has_number) ptx_expect_integer(l, "an alignment");
    }
  }
  const char *name = ptx_token_text(p);
  ptx_next(l);
  if (ptx_take(l, TOKEN_PUNCTUATION, "[")) {
    size *= (uint32_t)ptx_expect_integer(l, "an extent");
    ptx_expect(l, "]");
  }
  if (align > 4096 || (align & (align - 1)) || size > 1 << 16)
    ptx_fail(l, KILN_STATUS_SOURCE, "a parameter of %u bytes, aligned to %u", size, align);
  if (l->status != KILN_OK) return;
  uint32_t offset = (kernel->parameter_bytes + align - 1) / align * align;
  KILN_GROW(p->module->arena, kernel->parameters, kernel->parameter_count, kernel->parameter_capacity);
  kernel->parameters[kernel->parameter_count++] = (ptx_parameter){name, offset, size};
  kernel->parameter_bytes = offset + size;
}

static void parse_extents(ptx_parser *p, uint32_t *out) {
  for (uint32_t axis = 0; axis < 3; axis++) out[axis] = 1;
  uint32_t axis = 0;
  do out[axis++] = (uint32_t)ptx_expect_integer(&p->lex, "a number");
  while (axis < 3 && ptx_take(&p->lex, TOKEN_PUNCTUATION, ","));
}

static void parse_bounds(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  while (l->token.kind == TOKEN_DOT) {
    bool is_exact = ptx_is(l, TOKEN_DOT, "reqntid");
    if (is_exact || ptx_is(l, TOKEN_DOT, "maxntid")) {
      ptx_next(l);
      parse_extents(p, p->kernel->block);
      p->kernel->is_block_exact |= is_exact;
    } else if (ptx_take(l, TOKEN_DOT, "minnctapersm")) {
      p->kernel->least_blocks = (uint32_t)ptx_expect_integer(l, "a number");
    } else if (ptx_take(l, TOKEN_DOT, "maxnreg")) {
      p->kernel->most_registers = (uint32_t)ptx_expect_integer(l, "a number");
    } else if (ptx_take(l, TOKEN_DOT, "maxclusterrank")) {
      ptx_expect_integer(l, "a number");
    } else if (ptx_take(l, TOKEN_DOT, "reqnctapercluster")) {
      parse_extents(p, p->kernel->cluster);
    } else if (ptx_take(l, TOKEN_DOT, "explicitcluster")) {
      p->kernel->is_cluster_explicit = true;
    } else {
      ptx_fail(l, KILN_STATUS_UNSUPPORTED, "'.%.*s' is not known here", (int)l->token.length, l->token.text);
    }
  }
}

static void parse_registers(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  ptx_kernel *kernel = p->kernel;
  uint32_t bits = ptx_bits(expect_type(p));
  do {
    ptx_symbol s = {.name = l->token.text, .length = l->token.length, .count = 1, .bits = bits};
    ptx_next(l);
    if (ptx_take(l, TOKEN_PUNCTUATION, "<")) {
      uint64_t count = ptx_expect_integer(l, "a count");
      s.is_range = true;
      s.count = count < MOST_REGISTERS ? (uint32_t)count : MOST_REGISTERS;
      ptx_expect(l, ">");
    }
    if (kernel->register_count + (uint64_t)s.count > MOST_REGISTERS) {
      ptx_fail(l, KILN_STATUS_LIMIT, "more than %d registers", MOST_REGISTERS);
      return;
    }
    s.first = (int32_t)kernel->register_count;
    for (uint32_t k = 0; k < s.count; k++) {
      KILN_GROW(p->module->arena, kernel->register_bits, kernel->register_count, kernel->register_capacity);
      kernel->register_bits[kernel->register_count++] = (uint8_t)bits;
    }
    KILN_GROW(p->module->arena, p->symbols, p->symbol_count, p->symbol_capacity);
    p->symbols[p->symbol_count++] = s;
  } while (ptx_take(l, TOKEN_PUNCTUATION, ","));
  ptx_expect(l, ";");
}

static void parse_loc(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  p->file = (uint32_t)ptx_expect_integer(l, "a file");
  p->line = (uint32_t)ptx_expect_integer(l, "a line");
  p->column = (uint32_t)ptx_expect_integer(l, "a column");
  uint32_t line = l->token.line;
  if (ptx_take(l, TOKEN_PUNCTUATION, ",")) // , function_name LABEL, inlined_at ...: up to the end of the line
    while (l->token.kind != TOKEN_END && l->token.line == line) ptx_next(l);
}

static void skip_to_semicolon(ptx_parser *p) {
  while (p->lex.token.kind != TOKEN_END && !ptx_take(&p->lex, TOKEN_PUNCTUATION, ";")) ptx_next(&p->lex);
}

/// `NAME: .branchtargets A, B;`, after the word.
static void parse_targets(ptx_parser *p) {
  int32_t found[MOST_TARGETS];
  uint32_t count = 0;
  ptx_label *list = p->last_label == PTX_NONE ? NULL : &p->labels[p->last_label];
  if (!list || list->target != (int32_t)p->kernel->code_count)
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "expected a label before '.branchtargets'");
  do {
    if (count == MOST_TARGETS) ptx_fail(&p->lex, KILN_STATUS_LIMIT, "more than %d targets", MOST_TARGETS);
    else found[count++] = ptx_label_number(p, p->lex.token.text, p->lex.token.length);
    ptx_next(&p->lex);
  } while (p->lex.status == KILN_OK && ptx_take(&p->lex, TOKEN_PUNCTUATION, ","));
  ptx_expect(&p->lex, ";");
  if (p->lex.status != KILN_OK) return;
  list = &p->labels[p->last_label]; // naming labels may have moved them
  list->targets = kiln_arena_copy(p->module->arena, found, count * sizeof *found);
  list->target_count = count;
}

static void parse_body_directive(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  if (ptx_take(l, TOKEN_DOT, "reg")) parse_registers(p);
  else if (ptx_take(l, TOKEN_DOT, "loc")) parse_loc(p);
  else if (ptx_take(l, TOKEN_DOT, "local")) ptx_parse_variable(p, SPACE_LOCAL, false);
  else if (ptx_take(l, TOKEN_DOT, "shared")) ptx_parse_variable(p, SPACE_SHARED, false);
  else if (ptx_take(l, TOKEN_DOT, "branchtargets")) parse_targets(p);
  else if (ptx_take(l, TOKEN_DOT, "pragma")) skip_to_semicolon(p);
  else if (ptx_take(l, TOKEN_DOT, "param")) skip_to_semicolon(p); // of a call: parse_given
  else
    ptx_fail(l, KILN_STATUS_UNSUPPORTED, "'.%.*s' is not known in a kernel", (int)l->token.length,
             l->token.text);
}

static bool parse_label(ptx_parser *p) {
  ptx_lexer before = p->lex;
  if (p->lex.token.kind != TOKEN_NAME) return false;
  ptx_token name = p->lex.token;
  ptx_next(&p->lex);
  if (!ptx_take(&p->lex, TOKEN_PUNCTUATION, ":")) {
    p->lex = before;
    return false;
  }
  int32_t number = ptx_label_number(p, name.text, name.length);
  if (p->labels[number].target != PTX_NONE)
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "label '%.*s' is there already", (int)name.length, name.text);
  p->labels[number].target = (int32_t)p->kernel->code_count;
  p->last_label = number;
  return true;
}

/// `st.param.b64 [paramK], VALUE;`, after the first word: what a call is given. Parameters of calls are nowhere; of the
/// first two the parser keeps what is stored to them.
static void parse_given(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  while (l->token.kind == TOKEN_DOT) ptx_next(l);
  ptx_expect(l, "[");
  const unsigned number = l->token.length == 6 ? (unsigned)(l->token.text[5] - '0') : 2;
  ptx_next(l);
  ptx_expect(l, "]");
  ptx_expect(l, ",");
  if (number < 2) p->given[number] = l->token;
  skip_to_semicolon(p);
}

/// One instruction that stands for a call, of `text`.
static void parse_in_place_of_call(ptx_parser *p, const char *text) {
  const ptx_lexer after = p->lex;
  p->lex.at = text, p->lex.end = text + strlen(text);
  ptx_next(&p->lex);
  p->lex.token.line = after.token.line, p->lex.token.column = after.token.column;
  ptx_parse_instruction(p);
  const kiln_status status = p->lex.status;
  p->lex = after;
  p->lex.status = status;
}

/// Calls of functions of the driver: of the one that ends a kernel whose assert has failed, read as `trap` (what it is told
/// is only printed), and of its printf.
static bool parse_call(ptx_parser *p) {
  ptx_lexer *l = &p->lex, before = *l;
  if (ptx_take(l, TOKEN_NAME, "st") && ptx_is(l, TOKEN_DOT, "param")) {
    parse_given(p);
    return true;
  }
  *l = before;
  if (!ptx_take(l, TOKEN_NAME, "call")) return false;
  ptx_take(l, TOKEN_DOT, "uni");
  if (ptx_take(l, TOKEN_PUNCTUATION, "(")) { // the result, which nobody takes
    ptx_next(l);
    ptx_expect(l, ")");
    ptx_expect(l, ",");
  }
  const bool prints = ptx_is(l, TOKEN_NAME, "vprintf");
  if (!prints && !ptx_is(l, TOKEN_NAME, "__assertfail"))
    ptx_fail(l, KILN_STATUS_UNSUPPORTED, "calls of '%.*s' are not supported", (int)l->token.length,
             l->token.text);
  else if (prints)
    parse_in_place_of_call(p, kiln_arena_format(p->module->arena, "vprintf.u64 %.*s, %.*s;",
                                                (int)p->given[0].length, p->given[0].text,
                                                (int)p->given[1].length, p->given[1].text));
  else parse_in_place_of_call(p, "trap;");
  skip_to_semicolon(p);
  return true;
}

// Statements up to the brace that closes the body; inner braces are scopes of registers.
static void parse_body(ptx_parser *p) {
  uint32_t scopes[64], depth = 0;
  ptx_lexer *l = &p->lex;
  ptx_expect(l, "{");
  for (;;) {
    if (l->token.kind == TOKEN_END) {
      ptx_fail(l, KILN_STATUS_SOURCE, "expected '}'");
      return;
    }
    if (ptx_take(l, TOKEN_PUNCTUATION, "{")) {
      if (depth == 64) ptx_fail(l, KILN_STATUS_SOURCE, "more than 64 open braces");
      else scopes[depth++] = p->symbol_count;
    } else if (ptx_take(l, TOKEN_PUNCTUATION, "}")) {
      if (!depth) return;
      p->symbol_count = scopes[--depth];
    } else if (l->token.kind == TOKEN_DOT) {
      parse_body_directive(p);
    } else if (!ptx_take(l, TOKEN_PUNCTUATION, ";") && !parse_label(p) && !parse_call(p)) {
      ptx_parse_instruction(p);
    }
  }
}

static int32_t target_of(ptx_parser *p, int32_t number) {
  const ptx_label *label = &p->labels[number];
  if (label->target == PTX_NONE)
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "label '%.*s' is nowhere", (int)label->length, label->name);
  return label->target;
}

/// The targets of a brx as items of its operand.
static void resolve_list(ptx_parser *p, ptx_operand *o) {
  const ptx_label *list = &p->labels[o->index];
  if (!list->target_count)
    ptx_fail(&p->lex, KILN_STATUS_SOURCE, "'%.*s' is no list of targets", (int)list->length, list->name);
  o->count = list->target_count;
  o->items = kiln_arena_alloc(p->module->arena, (o->count ? o->count : 1) * sizeof *o->items);
  for (uint32_t k = 0; k < o->count; k++)
    o->items[k] = (ptx_operand){.index = target_of(p, list->targets[k])};
}

static void resolve_labels(ptx_parser *p) {
  for (uint32_t k = 0; k < p->kernel->code_count; k++) {
    ptx_instruction *i = &p->kernel->code[k];
    for (uint32_t n = 0; n < i->operand_count; n++) {
      if (i->operands[n].kind != OPERAND_LABEL) continue;
      p->lex.token.line = i->line, p->lex.token.column = i->column;
      if (n) resolve_list(p, &i->operands[n]);
      else i->operands[n].index = target_of(p, i->operands[n].index);
    }
  }
}

void ptx_parse_kernel(ptx_parser *p, bool is_entry) {
  ptx_lexer *l = &p->lex;
  ptx_module *m = p->module;
  KILN_GROW(m->arena, m->kernels, m->kernel_count, m->kernel_capacity);
  p->kernel = &m->kernels[m->kernel_count];
  *p->kernel = (ptx_kernel){.name = ptx_token_text(p), .is_entry = is_entry};
  p->symbol_count = p->label_count = p->file = 0;
  p->last_label = PTX_NONE;
  ptx_next(l);
  if (!is_entry) ptx_fail(l, KILN_STATUS_UNSUPPORTED, "functions are not supported, kernels are");
  if (ptx_take(l, TOKEN_PUNCTUATION, "(") && !ptx_take(l, TOKEN_PUNCTUATION, ")")) {
    do parse_parameter(p);
    while (ptx_take(l, TOKEN_PUNCTUATION, ","));
    ptx_expect(l, ")");
  }
  parse_bounds(p);
  parse_body(p);
  if (l->status == KILN_OK) {
    ptx_token before = l->token;
    resolve_labels(p);
    if (l->status == KILN_OK) {
      l->token = before;
      ptx_find_entries(p->kernel);
    }
    m->kernel_count++;
  }
  p->kernel = NULL;
}

// ---------------------------------------------------------------------------------------------- module

static void parse_file(ptx_parser *p) {
  uint64_t number = ptx_expect_integer(&p->lex, "a file's number");
  if (number < p->module->file_count && p->lex.token.kind == TOKEN_TEXT)
    p->module->files[number] = ptx_token_text(p);
  ptx_next(&p->lex);
  while (ptx_take(&p->lex, TOKEN_PUNCTUATION, ",")) ptx_next(&p->lex); // timestamp, size
}

static void skip_section(ptx_parser *p) {
  while (p->lex.token.kind != TOKEN_END && !ptx_is(&p->lex, TOKEN_PUNCTUATION, "{")) ptx_next(&p->lex);
  while (p->lex.token.kind != TOKEN_END && !ptx_take(&p->lex, TOKEN_PUNCTUATION, "}")) ptx_next(&p->lex);
}

static void parse_directive(ptx_parser *p) {
  ptx_lexer *l = &p->lex;
  bool is_extern = false;
  for (bool more = true; more;) {
    bool here = ptx_take(l, TOKEN_DOT, "extern");
    is_extern |= here;
    more = here || ptx_take(l, TOKEN_DOT, "visible") || ptx_take(l, TOKEN_DOT, "weak") ||
           ptx_take(l, TOKEN_DOT, "common");
  }
  if (ptx_take(l, TOKEN_DOT, "version") || ptx_take(l, TOKEN_DOT, "address_size")) {
    ptx_next(l);
  } else if (ptx_take(l, TOKEN_DOT, "target")) {
    do ptx_next(l);
    while (ptx_take(l, TOKEN_PUNCTUATION, ","));
  } else if (ptx_take(l, TOKEN_DOT, "file")) {
    parse_file(p);
  } else if (ptx_take(l, TOKEN_DOT, "section")) {
    skip_section(p);
  } else if (ptx_take(l, TOKEN_DOT, "pragma")) {
    skip_to_semicolon(p);
  } else if (ptx_take(l, TOKEN_DOT, "entry")) {
    ptx_parse_kernel(p, true);
  } else if (is_extern && ptx_is(l, TOKEN_DOT, "func")) {
    skip_to_semicolon(p);
  } else if (ptx_take(l, TOKEN_DOT, "func")) {
    ptx_parse_kernel(p, false);
  } else if (ptx_take(l, TOKEN_DOT, "global")) {
    ptx_parse_variable(p, SPACE_GLOBAL, is_extern);
  } else if (ptx_take(l, TOKEN_DOT, "const")) {
    ptx_parse_variable(p, SPACE_CONST, is_extern);
  } else if (ptx_take(l, TOKEN_DOT, "shared")) {
    ptx_parse_variable(p, SPACE_SHARED, is_extern);
  } else {
    ptx_fail(l, KILN_STATUS_UNSUPPORTED, "expected a directive, found '%.*s'",
             (int)(l->token.length < 40 ? l->token.length : 40), l->token.text);
  }
}

kiln_status ptx_module_create(ptx_memory *memory, const char *name, const char *text, size_t size,
                              ptx_module **out, kiln_error *err) {
  enum { FILES = 4096 };
  *out = NULL;
  kiln_arena *arena = kiln_arena_create();
  ptx_module *m = KILN_NEW(arena, ptx_module);
  *m = (ptx_module){.arena = arena, .memory = memory, .name = kiln_arena_text(arena, name, strlen(name))};
  m->files = KILN_NEW_ARRAY(arena, const char *, FILES);
  m->file_count = FILES;
  ptx_parser p = {.module = m};
  ptx_lexer_init(&p.lex, m->name, kiln_arena_text(arena, text, size), size, err);
  while (p.lex.token.kind != TOKEN_END) parse_directive(&p);
  if (p.lex.status != KILN_OK) {
    ptx_module_destroy(m);
    return p.lex.status;
  }
  resolve_all(m);
  *out = m;
  return KILN_OK;
}

void ptx_module_destroy(ptx_module *m) {
  if (!m) return;
  for (uint32_t k = 0; k < m->variable_count; k++)
    if (m->variables[k].space == SPACE_GLOBAL || m->variables[k].space == SPACE_CONST)
      ptx_memory_free(m->memory, m->variables[k].address);
  kiln_arena_destroy(m->arena);
}

bool ptx_module_kernel(const ptx_module *module, uint32_t index, ptx_kernel_facts *out) {
  if (index >= module->kernel_count) return false;
  const ptx_kernel *k = &module->kernels[index];
  *out = (ptx_kernel_facts){.name = k->name,
                            .parameter_count = k->parameter_count,
                            .parameter_bytes = k->parameter_bytes,
                            .is_block_exact = k->is_block_exact,
                            .shared_bytes = k->shared_bytes};
  memcpy(out->block, k->block, sizeof out->block);
  return true;
}

bool ptx_module_parameter(const ptx_module *module, uint32_t kernel, uint32_t parameter, uint32_t *out_offset,
                          uint32_t *out_size) {
  if (kernel >= module->kernel_count || parameter >= module->kernels[kernel].parameter_count) return false;
  *out_offset = module->kernels[kernel].parameters[parameter].offset;
  *out_size = module->kernels[kernel].parameters[parameter].size;
  return true;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void ptx_module_census(const ptx_module *module,
                       void (*take)(void *context, const char *name, uint32_t count), void *context) {
  size_t count = 0, at = 0;
  for (uint32_t k = 0; k < module->kernel_count; k++) count += module->kernels[k].code_count;
  const char **names = kiln_arena_array(module->arena, count + 1, sizeof *names);
  for (uint32_t k = 0; k < module->kernel_count; k++)
    for (uint32_t c = 0; c < module->kernels[k].code_count; c++)
      names[at++] = module->kernels[k].code[c].spelling;
  qsort(names, count, sizeof *names, by_text);
  for (size_t begin = 0, end; begin < count; begin = end) {
    for (end = begin; end < count && !strcmp(names[begin], names[end]); end++) continue;
    take(context, names[begin], (uint32_t)(end - begin));
  }
}
