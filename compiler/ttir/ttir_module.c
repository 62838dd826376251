// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A module: where its functions stand, and a kernel built out of one of them.
#include <stdio.h>
#include <string.h>

#include "compiler/ttir/ttir_reader.h"

static bool occurs(const ttir_module *module, const char *text) {
  return memmem(module->text, module->size, text, strlen(text)) != NULL;
}

// `-> T` or `-> (T, U)`: types are known from what the body returns.
static void skip_results(ttir_reader *r) {
  if (r->lex.token.kind != TTIR_ARROW) return;
  ttir_lex_next(&r->lex);
  if (ttir_peek(r, '(')) {
    if (!ttir_lex_skip_group(&r->lex)) ttir_error(r, "expected ')' after the result types");
  } else {
    ttir_read_type(r, false);
  }
}

static void skip_group(ttir_reader *r, const char *what) {
  if (!ttir_lex_skip_group(&r->lex)) ttir_error(r, "expected the end of %s, found the end of the text", what);
}

// After the word tt.func.
static void find_function(ttir_reader *r, ttir_module *module) {
  ttir_function f = {.is_public = true};
  if (ttir_accept_word(r, "private")) f.is_public = false;
  else ttir_accept_word(r, "public");
  ttir_token name = ttir_take(r, TTIR_SYMBOL, "the name of a function");
  f.name = kiln_arena_text(module->arena, name.at, name.length);
  f.length = name.length;
  f.params = r->lex;
  if (!ttir_peek(r, '(')) {
    ttir_expect(r, '(');
    return;
  }
  skip_group(r, "the parameters");
  skip_results(r);
  if (ttir_accept_word(r, "attributes")) {
    ttir_dictionary attributes = {.count = 0};
    ttir_read_dictionary(r, &attributes);
  }
  f.body = r->lex;
  if (ttir_peek(r, '{')) skip_group(r, "the function");
  else if (f.is_public) ttir_expect(r, '{');
  ttir_skip_loc(r);
  if (r->failed) return;
  KILN_GROW(module->arena, module->functions, module->function_count, module->function_capacity);
  module->functions[module->function_count++] = f;
}

// `#loc7 = loc(..)` or `#loop_annotation = #llvm.loop_annotation<..>`, hints to another optimizer. Each
// stands on one line.
static void read_alias(ttir_reader *r) {
  uint32_t line = r->lex.token.line;
  ttir_lex_next(&r->lex);
  ttir_expect(r, '=');
  if (ttir_peek_word(r, "loc")) {
    ttir_skip_loc(r);
    return;
  }
  const ttir_token *value = &r->lex.token;
  bool is_hint = value->kind == TTIR_ALIAS && value->length > 5 && memcmp(value->at, "llvm.", 5) == 0;
  if (!is_hint)
    ttir_error(r, "expected aliases of locations and of #llvm hints only; others belong to TTGIR");
  while (r->lex.token.kind != TTIR_END && r->lex.token.line == line) ttir_lex_next(&r->lex);
}

static void find_functions(ttir_reader *r, ttir_module *module) {
  bool wrapped = false;
  for (;;) {
    if (r->failed || r->lex.token.kind == TTIR_END) return;
    r->line = r->lex.token.line;
    if (ttir_accept_word(r, "tt.func")) find_function(r, module);
    else if (!wrapped && ttir_accept_word(r, "module")) {
      if (ttir_peek_word(r, "attributes"))
        ttir_error(r, "a module with attributes is TTGIR; expected TTIR, which Triton writes next to it");
      if (r->lex.token.kind == TTIR_SYMBOL) ttir_lex_next(&r->lex);
      ttir_expect(r, '{');
      wrapped = true;
    } else if (wrapped && ttir_accept(r, '}')) ttir_skip_loc(r);
    else if (r->lex.token.kind == TTIR_ALIAS) {
      read_alias(r);
    } else ttir_take(r, TTIR_END, "module, tt.func or a location alias");
  }
}

ttir_module *ttir_open(kiln_arena *arena, const char *file, const char *text, size_t size,
                       kiln_diagnostics *d) {
  ttir_module *module = KILN_NEW(arena, ttir_module);
  *module = (ttir_module){.arena = arena, .file = file, .text = text, .size = size};
  ttir_reader *r = KILN_NEW(arena, ttir_reader);
  r->module = module;
  r->arena = arena;
  r->d = d;
  if (size > UINT32_MAX / 2) {
    ttir_error(r, "expected a text below 2 GiB, found %zu bytes", size);
    return NULL;
  }
  module->has_blocks = occurs(module, "cf.cond_br") || occurs(module, "cf.br ");
  ttir_lex_open(&r->lex, text, size);
  find_functions(r, module);
  if (r->failed) return NULL;
  module->publics = KILN_NEW_ARRAY(arena, uint32_t, module->function_count);
  for (uint32_t i = 0; i < module->function_count; i++)
    if (module->functions[i].is_public) module->publics[module->public_count++] = i;
  r->line = 1;
  if (module->public_count == 0)
    ttir_error(r, "expected a public tt.func, found none among %u functions", module->function_count);
  return r->failed ? NULL : module;
}

size_t ttir_kernel_count(const ttir_module *module) { return module->public_count; }

const ttir_function *ttir_find_function(const ttir_module *module, const char *name, uint32_t length) {
  for (uint32_t i = 0; i < module->function_count; i++)
    if (module->functions[i].length == length && memcmp(module->functions[i].name, name, length) == 0)
      return &module->functions[i];
  return NULL;
}

// ----------------------------------------------------------------------------------------- kernels

// `%x: T {tt.divisibility = 16 : i32} loc(..)`
static void read_param(ttir_reader *r, ir_kernel *kernel) {
  ttir_token name = ttir_take(r, TTIR_VALUE, "a parameter");
  ttir_type type = ttir_colon_type(r);
  ttir_dictionary facts = {.count = 0};
  ttir_read_dictionary(r, &facts);
  ttir_skip_loc(r);
  if (r->failed) return;
  if (type.type.rank && !type.type.is_view) {
    ttir_error(r, "parameter %%%.*s: expected a scalar, a pointer or a descriptor, found a tensor",
               (int)name.length, name.at);
    return;
  }
  ir_param param = {.name = kiln_arena_text(r->arena, name.at, name.length), .type = type.type};
  int64_t divisible = ttir_entry_int(&facts, "tt.divisibility", 0);
  bool power = divisible > 1 && (divisible & (divisible - 1)) == 0;
  if (type.type.pointer && power && divisible <= 4096) param.align = (uint32_t)divisible;
  else if (type.type.is_view) param.align = param.rows = TTIR_DESCRIPTOR_BYTES;
  else if (!type.type.pointer && divisible > 1 && ir_type_class(type.type) == KILN_CLASS_INT)
    param.div = divisible;
  param.within = type.type.pointer && ttir_entry_int(&facts, "tt.pointer_range", 0) == 32;
  ir_value *value = ir_add_param(kernel, &param);
  ttir_define(r, name, &value, 1);
}

static void read_kernel(ttir_reader *r, const ttir_function *f, ir_kernel *kernel) {
  r->lex = f->params;
  r->line = r->lex.token.line;
  ttir_expect(r, '(');
  while (!r->failed && !ttir_peek(r, ')')) {
    r->line = r->lex.token.line;
    read_param(r, kernel);
    if (!ttir_accept(r, ',')) break;
  }
  ttir_expect(r, ')');
  if (r->failed) return;
  r->lex = f->body;
  r->b = (ir_builder){.arena = r->arena, .block = kernel->body};
  ir_value *returned[TTIR_MAX_VALUES];
  ttir_expect(r, '{');
  if (ttir_body(r, returned) != 0) ttir_error(r, "a kernel returns nothing; found values");
}

static void set_facts(ir_kernel *kernel, const ttir_facts *facts) {
  kernel->warps = (uint16_t)(facts->warps ? facts->warps : TTIR_DEFAULT_WARPS);
  kernel->stages = (uint16_t)(facts->stages ? facts->stages : TTIR_DEFAULT_STAGES);
  kernel->max_registers = (uint16_t)facts->max_registers;
  kernel->fp_strict = facts->no_fusion;
}

ir_kernel *ttir_build(const ttir_module *module, size_t index, const ttir_facts *facts, kiln_arena *arena,
                      kiln_diagnostics *d) {
  const ttir_function *f = &module->functions[module->publics[index]];
  ir_kernel *kernel = ir_kernel_create(arena, f->name);
  ttir_reader *r = KILN_NEW(arena, ttir_reader);
  kiln_error err = {0};
  r->module = module;
  r->arena = arena;
  r->d = d;
  r->old_e4m3 = facts->is_cuda;
  read_kernel(r, f, kernel);
  if (r->failed) return NULL;
  set_facts(kernel, facts);
  ttir_set_access(kernel, arena);
  if (ir_verify(kernel, "ttir", &err) != KILN_OK) {
    r->line = f->params.token.line;
    ttir_error(r, "%s", err.text);
    return NULL;
  }
  return kernel;
}
