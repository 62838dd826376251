// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks PTX of kernels made with the builder: what the text has to contain, and that the vendor's
// assembler accepts it if it is installed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/codegen.h"
#include "tests/harness.h"

static const char ptxas[] = "/usr/local/cuda/bin/ptxas";
static kiln_arena *arena;
static ir_kernel *kernel;
static ir_builder b;

static void open_kernel(unsigned warps) {
  arena = kiln_arena_create();
  kernel = ir_kernel_create(arena, "kernel_under_test");
  kernel->warps = (uint16_t)warps;
  b = (ir_builder){.arena = arena, .block = kernel->body};
}

static ir_value *pointer_param(const char *name, kiln_scalar scalar, ir_access access) {
  ir_param p = {.name = name, .type = ir_pointer_type(scalar), .access = (uint8_t)access, .align = 16};
  return ir_add_param(kernel, &p);
}

static ir_value *int_param(const char *name) {
  ir_param p = {.name = name, .type = ir_scalar_type(KILN_I32)};
  return ir_add_param(kernel, &p);
}

static ir_type tile(kiln_scalar scalar, unsigned log2) {
  ir_type t = ir_scalar_type(scalar);
  t.rank = 1;
  t.log2[0] = (uint8_t)log2;
  return t;
}

static ir_value *pointers(ir_value *base, ir_value *offsets) {
  ir_value *tile_of = ir_splat(&b, base, ir_with_element(offsets->type, base->type));
  return ir_binary(&b, IR_PTRADD, 0, tile_of, offsets);
}

static ir_value *load(ir_value *p, ir_value *mask) {
  ir_op *op = ir_emit(&b, IR_LOAD, NULL, (ir_value *[2]){p, mask}, mask ? 2 : 1, NULL, NULL, 0);
  return op ? &op->results[0] : NULL;
}

static void store(ir_value *p, ir_value *v, ir_value *mask) {
  ir_emit(&b, IR_STORE, NULL, (ir_value *[3]){p, v, mask}, mask ? 3 : 2, NULL, NULL, 0);
}

/// Compiles for a processor; the PTX, to be freed.
static char *compile(const char *target_name, kiln_code_info *out_info) {
  kiln_target target;
  kiln_error err = {KILN_OK, ""};
  kiln_artifact artifact = {0};
  kiln_codegen_options options;
  if (b.error.status != KILN_OK) FAIL("building: %s", b.error.text);
  CHECK_OK(kiln_target_parse(target_name, &target, &err), err);
  kiln_codegen_options_init(&options);
  options.output = KILN_FORMAT_PTX;
  CHECK_OK(kiln_codegen(kernel, &target, &options, &artifact, &err), err);
  char *text = malloc(artifact.code.size + 1);
  CHECK(text != NULL);
  memcpy(text, artifact.code.bytes, artifact.code.size);
  text[artifact.code.size] = 0;
  if (out_info) *out_info = artifact.info;
  kiln_artifact_deinit(&artifact);
  return text;
}

/// Gives the text to ptxas; its report must not name spills. The last call of a test: without ptxas it is
/// skipped.
static void assemble(const char *text, const char *target_name) {
  char *report = NULL;
  if (access(ptxas, X_OK)) SKIP("ptxas is not installed: the text is checked, not assembled");
  char path[400];
  snprintf(path, sizeof path, "%s/kernel.ptx", kiln_test_folder());
  kiln_test_write(path, text, strlen(text));
  int status = kiln_test_run(&report, "%s -v --warn-on-spills --gpu-name %s %s -o /dev/null", ptxas,
                             target_name, path);
  if (status != 0) FAIL("ptxas: %s", report);
  if (!strstr(report, " 0 bytes spill stores")) FAIL("spills: %s", report);
  free(report);
}

/// z = x + y over BLOCK elements a program, masked when `n` says so.
static void build_add(unsigned log2, bool is_masked, int64_t div) {
  open_kernel(4);
  ir_value *x = pointer_param("x", KILN_F32, IR_ACCESS_IN), *y = pointer_param("y", KILN_F32, IR_ACCESS_IN),
           *z = pointer_param("z", KILN_F32, IR_ACCESS_OUT);
  ir_value *n = int_param("n");
  kernel->params[3].div = div;
  ir_op *pid = ir_emit(&b, IR_PID, NULL, NULL, 0, NULL, NULL, 0);
  ir_value *start =
      ir_binary(&b, IR_MUL, 0, &pid->results[0], ir_const_int(&b, KILN_I32, (int64_t)1 << log2));
  ir_value *i = ir_binary(&b, IR_ADD, 0, ir_splat(&b, start, tile(KILN_I32, log2)), ir_iota(&b, log2));
  ir_value *live = is_masked ? ir_compare(&b, IR_LT, 0, i, ir_splat(&b, n, i->type)) : NULL;
  ir_value *sum = ir_binary(&b, IR_ADD, 0, load(pointers(x, i), live), load(pointers(y, i), live));
  store(pointers(z, i), sum, live);
}

TEST(nvptx, vector_add_is_vectorised) {
  kiln_code_info info;
  build_add(10, false, 0);
  char *text = compile("sm_80", &info);
  CHECK_PART(text, "ld.global.v4");
  CHECK_PART(text, "st.global.v4");
  CHECK_PART(text, ".maxntid 128");
  CHECK_INT(info.block_threads, 128);
  CHECK_INT(info.shared_bytes, 0);
  assemble(text, "sm_80");
}

TEST(nvptx, masked_add_uses_predicates) {
  build_add(10, true, 16);
  char *text = compile("sm_90a", NULL);
  CHECK_PART(text, "ld.global.v4.b32");
  CHECK_NO_PART(text, "bra");
  assemble(text, "sm_90a");
}

TEST(nvptx, unknown_length_takes_vectors_where_all_lanes_are_live) {
  build_add(10, true, 0);
  char *text = compile("sm_75", NULL);
  CHECK_PART(text, "ld.global.v4");
  CHECK_PART(text, "st.global.v4");
  CHECK_PART(text, " ld.global.b32"); // the masked side
  assemble(text, "sm_75");
}

/// x < n & x != m, of a row of indices or a column of them.
static ir_value *two_conditions(ir_value *n, ir_value *m, unsigned axis, ir_type whole) {
  ir_value *x = ir_expand(&b, ir_iota(&b, 7), axis);
  ir_value *less = ir_compare(&b, IR_LT, 0, x, ir_splat(&b, n, x->type)),
           *other = ir_compare(&b, IR_NE, 0, x, ir_splat(&b, m, x->type));
  return ir_broadcast(&b, ir_binary(&b, IR_AND, 0, less, other), whole);
}

/// A thread has 16 rows of 8 columns, with two conditions each. Whether all hold asks each row and each
/// column once, not each of 128 elements for all four. Where a row is stored as a whole or not at all, as
/// beyond the last row of a tile, it is one store of 16 bytes too.
TEST(nvptx, conditions_of_rows_and_columns_are_asked_once) {
  enum { ROWS = 16, COLUMNS = 8, ELEMENTS = ROWS * COLUMNS };
  open_kernel(4);
  ir_value *y = pointer_param("y", KILN_F16, IR_ACCESS_OUT), *m = int_param("m"), *n = int_param("n");
  ir_type whole = {.scalar = KILN_I1, .rank = 2, .log2 = {7, 7}};
  ir_value *mask = ir_binary(&b, IR_AND, 0, two_conditions(m, n, 1, whole), two_conditions(n, m, 0, whole));
  ir_value *rows = ir_expand(&b, ir_iota(&b, 7), 1), *columns = ir_expand(&b, ir_iota(&b, 7), 0);
  ir_type offsets = ir_with_element(whole, ir_scalar_type(KILN_I32));
  rows = ir_binary(&b, IR_MUL, 0, rows, ir_splat(&b, ir_const_int(&b, KILN_I32, 512), rows->type));
  ir_value *at =
      ir_binary(&b, IR_ADD, 0, ir_broadcast(&b, rows, offsets), ir_broadcast(&b, columns, offsets));
  ir_type values = ir_with_element(whole, ir_scalar_type(KILN_F16));
  store(pointers(y, at), ir_splat(&b, ir_const_float(&b, KILN_F16, 1), values), mask);
  char *text = compile("sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, "st.global.v4"), 2 * ROWS);
  CHECK_INT(kiln_test_count(text, "{e6, e7}"),
            ROWS); // a row that is cut: its elements in one piece of assembly
  CHECK_INT(kiln_test_count(text, "+14], e7"), ROWS);
  CHECK(kiln_test_count(text, "and.pred") <= ROWS + COLUMNS + (ROWS + COLUMNS - 1) + ELEMENTS);
  CHECK_INT(kiln_test_count(text, "xor.pred"), COLUMNS - 1);
  assemble(text, "sm_90a");
}

/// The most divisions that stand between two accesses of memory.
static unsigned divisions_in_a_row(const char *text) {
  unsigned most = 0, count = 0;
  for (const char *line = text; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    const char *end = line + strcspn(line, "\n");
    const char *div = strstr(line, "div.s32"), *access_of = strstr(line, ".global.");
    if (div && div < end) count++;
    if (access_of && access_of < end) count = 0;
    if (count > most) most = count;
  }
  return most;
}

/// z = w[i / n]: all 512 offsets of a thread were alive before the first access.
TEST(nvptx, offsets_of_large_tiles_are_computed_where_they_are_needed) {
  open_kernel(4);
  ir_value *w = pointer_param("w", KILN_F32, IR_ACCESS_IN), *z = pointer_param("z", KILN_F32, IR_ACCESS_OUT);
  ir_value *n = int_param("n"), *i = ir_iota(&b, 16);
  ir_value *row = ir_binary(&b, IR_DIV, 0, i, ir_splat(&b, n, i->type));
  store(pointers(z, i), load(pointers(w, row), NULL), NULL);
  char *text = compile("sm_90a", NULL);
  unsigned most = divisions_in_a_row(text);
  if (most > 8) FAIL("%u divisions stand between two accesses", most);
  free(text);
}
