// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the table of operations x types x machines, made from ops.def and legality.def, with the builder
// and the expansion: what the table calls native or expanded can be built and is native after lowering, and
// the builder refuses what the table refuses. The table is written to legality.txt in the build folder.
#include "compiler/passes/lower/legality.h"
#include "tests/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const target_names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "sm_70",
                                           "sm_75",     "sm_80",     "sm_90a",    "gfx906",  "gfx90a",
                                           "gfx942",    "gfx1030",   "gfx1100",   "gfx1200"};
enum { TARGETS = sizeof target_names / sizeof *target_names };
static const char marks[] = {
    [KILN_LEGAL_NATIVE] = 'n', [KILN_LEGAL_EXPANDED] = 'e', [KILN_LEGAL_REFUSED] = '-'};

static kiln_target target_of(const char *name) {
  kiln_target target;
  kiln_error err = {0};
  if (kiln_target_parse(name, &target, &err) != KILN_OK) FAIL("%s", err.text);
  return target;
}

/// Operations on elements: those of which the table has a row a type.
static bool is_listed(ir_opcode code) {
  unsigned rule = ir_ops[code].rule, effect = ir_ops[code].effect;
  bool elementwise = rule == IR_RULE_SAME || rule == IR_RULE_BOOL,
       lanes = rule == IR_RULE_REDUCE || rule == IR_RULE_SCAN;
  return effect == IR_PURE && (elementwise || lanes || rule == IR_RULE_DOT) &&
         !(ir_ops[code].classes & KILN_CLASS_POINTER && code == IR_HINT);
}

static ir_value *parameter(ir_kernel *k, ir_type type) {
  ir_builder b = {.arena = k->arena, .block = k->body};
  ir_type pointer = type;
  pointer.pointer = 1;
  ir_value *p = ir_add_param(k, &(ir_param){.name = "p", .type = ir_element(pointer)});
  ir_value *pointers = ir_splat(&b, p, pointer);
  ir_op *load = ir_emit(&b, IR_LOAD, NULL, &pointers, 1, NULL, NULL, 0);
  return load ? &load->results[0] : NULL;
}

/// A kernel with the one operation, its result stored; NULL when the builder refuses it.
static ir_kernel *single(kiln_arena *arena, ir_opcode code, kiln_scalar scalar, uint32_t flags) {
  ir_kernel *k = ir_kernel_create(arena, "single");
  ir_builder b = {.arena = arena, .block = k->body};
  ir_type tile = {.scalar = (uint8_t)scalar, .rank = 2, .log2 = {4, 4}}, sum = tile;
  ir_value *operands[3];
  ir_attrs attrs = {.flags = flags, .kind = code == IR_REDUCE || code == IR_SCAN ? IR_COMBINE_MAX : 0};
  if (ir_type_class(tile) == KILN_CLASS_BOOL && attrs.kind) attrs.kind = IR_COMBINE_AND;
  if (code == IR_DOT) sum.scalar = scalar == KILN_I8 ? KILN_I32 : scalar == KILN_F64 ? KILN_F64 : KILN_F32;
  uint32_t count = (uint32_t)ir_ops[code].least;
  for (uint32_t i = 0; i < count; i++) operands[i] = parameter(k, code == IR_DOT && i == 2 ? sum : tile);
  ir_op *op = ir_emit(&b, code, &attrs, operands, count, NULL, NULL, 0);
  if (!op) return NULL;
  ir_type result = op->results[0].type, pointer = result;
  pointer.pointer = 1;
  ir_value *out =
      ir_splat(&b, ir_add_param(k, &(ir_param){.name = "out", .type = ir_element(pointer)}), pointer);
  ir_emit(&b, IR_STORE, NULL, (ir_value *[]){out, &op->results[0]}, 2, NULL, NULL, 0);
  return k;
}

static void check_native(ir_op *op, void *context) {
  if (kiln_legality_of(op, context).legal != KILN_LEGAL_NATIVE) FAIL("%s is left", ir_ops[op->code].text);
}

static void check_cell(ir_opcode code, kiln_scalar scalar, uint32_t flags, const kiln_target *target) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  ir_kernel *k = single(arena, code, scalar, flags);
  bool refused = kiln_op_legality(code, scalar, false, flags, target).legal == KILN_LEGAL_REFUSED;
  bool narrower = (code == IR_MULHI && kiln_scalars[scalar].bits < 32) ||
                  (code == IR_DOT && kiln_scalars[scalar].type_class == KILN_CLASS_INT);
  if (refused && k)
    FAIL("%s on %s: refused by the table, not by the builder", ir_ops[code].text,
         kiln_scalars[scalar].spelling);
  if (!refused && !k && !narrower)
    FAIL("%s on %s: refused by the builder, not by the table", ir_ops[code].text,
         kiln_scalars[scalar].spelling);
  if (k) {
    kiln_pass_context context = kiln_pass_context_of(target);
    if (kiln_pass_expand(k, &context, &err) != KILN_OK)
      FAIL("%s on %s: %s", ir_ops[code].text, kiln_scalars[scalar].spelling, err.text);
    if (ir_verify(k, "expand", &err) != KILN_OK) FAIL("%s", err.text);
    ir_walk(k->body, check_native, (void *)target);
  }
  kiln_arena_destroy(arena);
}

TEST(legality, the_table_is_what_builder_and_expansion_do) {
  for (size_t t = 0; t < TARGETS; t++) {
    kiln_target target = target_of(target_names[t]);
    for (unsigned code = 0; code < IR_TILE_COUNT; code++)
      for (unsigned scalar = 0; is_listed((ir_opcode)code) && scalar < KILN_SCALAR_COUNT; scalar++)
        for (uint32_t flags = 0; flags <= IR_PRECISE; flags += IR_PRECISE)
          check_cell((ir_opcode)code, (kiln_scalar)scalar, flags, &target);
  }
}

static void print_row(FILE *out, const char *first, const char *second,
                      char (*cell)(const kiln_target *, const void *), const void *context) {
  fprintf(out, "%-8s %-5s", first, second);
  for (size_t t = 0; t < TARGETS; t++) {
    kiln_target target = target_of(target_names[t]);
    fprintf(out, " %*c", (int)strlen(target_names[t]), cell(&target, context));
  }
  fprintf(out, "\n");
}

static char op_cell(const kiln_target *target, const void *context) {
  const unsigned *key = context;
  return marks[kiln_op_legality((ir_opcode)key[0], (kiln_scalar)key[1], false, 0, target).legal];
}

static char cast_cell(const kiln_target *target, const void *context) {
  const unsigned *key = context;
  return marks[kiln_cast_legality((kiln_scalar)key[0], (kiln_scalar)key[1], target).legal];
}

TEST(legality, the_table_is_written) {
  char path[512];
  const char *build = getenv("KILN_BUILD");
  snprintf(path, sizeof path, "%s/legality.txt", build ? build : ".");
  FILE *out = fopen(path, "w");
  if (!out) SKIP("cannot write %s", path);
  fprintf(out, "n native, e expanded, - not defined for the type\n%-8s %-5s", "", "");
  for (size_t t = 0; t < TARGETS; t++) fprintf(out, " %s", target_names[t]);
  fprintf(out, "\n");
  for (unsigned code = 0; code < IR_TILE_COUNT; code++)
    for (unsigned scalar = 0; is_listed((ir_opcode)code) && scalar < KILN_SCALAR_COUNT; scalar++)
      print_row(out, ir_ops[code].text, kiln_scalars[scalar].spelling, op_cell, (unsigned[]){code, scalar});
  for (unsigned from = 0; from < KILN_SCALAR_COUNT; from++)
    for (unsigned to = 0; to < KILN_SCALAR_COUNT; to++)
      if (from != to)
        print_row(out, kiln_scalars[from].spelling, kiln_scalars[to].spelling, cast_cell,
                  (unsigned[]){from, to});
  CHECK_INT(fclose(out), 0);
}

// Tables keep their texts in rows: one as long as its place would have no end.
TEST(legality, names_in_tables_end) {
  static const kiln_family all[] = {KILN_FAMILY_HOST, KILN_FAMILY_NVPTX, KILN_FAMILY_AMDGPU};
  size_t forms = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const kiln_target_info *info = kiln_target_info_of(all[i]);
    const kiln_family_info *family = kiln_family_of(all[i]);
    CHECK(memchr(family->name, 0, sizeof family->name) && memchr(family->maker, 0, sizeof family->maker));
    for (size_t f = 0; f < info->form_count; f++, forms++)
      CHECK(memchr(info->forms[f].name, 0, sizeof info->forms[f].name) != NULL);
  }
  CHECK(forms > 50);
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_host_processor *host = kiln_host_processor_of(kiln_processor_at(i));
    CHECK(memchr(host->arch, 0, sizeof host->arch) && memchr(host->cpu, 0, sizeof host->cpu) &&
          memchr(host->features, 0, sizeof host->features));
  }
  for (unsigned i = 0; i < KILN_SCALAR_COUNT; i++)
    CHECK(memchr(kiln_scalars[i].spelling, 0, sizeof kiln_scalars[i].spelling) != NULL);
}
