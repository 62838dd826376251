// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the metadata of the kernel library's AMDGPU code objects with what the compiler reports, on
// every processor and mode.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen/amdgpu/amdgpu.h"
#include "tests/codegen/amdgpu_kernels.h"

// The argument block as Kernel ABI 1 has it: each argument of the object lies in a parameter, at the place of
// one of its parts.
static void check_arguments(const compiled *c) {
  const kiln_interface *f = c->interface;
  uint32_t at = 0;
  for (uint32_t p = 0; p < f->param_count; p++) {
    uint32_t parts = f->params[p].view_rank ? 1 + 2u * f->params[p].view_rank : 1,
             size = f->params[p].size / parts;
    for (uint32_t i = 0; i < parts; i++, at++) {
      CHECK(at < c->facts.arg_count);
      CHECK_INT(c->facts.args[at].offset, f->params[p].offset + i * size);
      CHECK_INT(c->facts.args[at].size, size);
    }
  }
  CHECK_INT(c->facts.arg_count, at); // no hidden arguments
  CHECK(c->facts.kernarg_bytes <= f->block_bytes && c->facts.kernarg_bytes + 8 > f->block_bytes);
}

static void check_object(const compiled *c, const char *what) {
  const kiln_code_info *info = &c->artifact.info;
  const kiln_processor *p = c->target.processor;
  char name[KILN_TARGET_NAME], id[128];
  CHECK_INT(info->format, KILN_FORMAT_HSACO);
  CHECK_TEXT(info->target, kiln_target_name(&c->target, name));
  CHECK_INT(c->facts.wave, c->target.wave);
  CHECK_INT(info->wave, c->target.wave);
  CHECK_INT(c->facts.max_threads, info->block_threads);
  CHECK_INT(c->facts.lds_bytes + info->dynamic_shared, info->shared_bytes);
  CHECK(info->shared_bytes <= p->shared_bytes);
  CHECK_INT(c->facts.vgprs, info->registers);
  CHECK_INT(c->facts.sgprs, info->scalar_registers);
  CHECK_INT(4 * (c->facts.vgpr_spills + c->facts.sgpr_spills), info->spill_bytes);
  CHECK_INT(c->facts.code_object, c->target.code_object);
  CHECK(!c->facts.dynamic_stack);
  if (info->spill_bytes == 0 && c->facts.private_bytes != 0)
    FAIL("%s for %s: %u private bytes without a spill", what, name, c->facts.private_bytes);
  snprintf(id, sizeof id, "amdgcn-amd-amdhsa--%s%s%s", p->name,
           c->target.sramecc == KILN_MODE_ON    ? ":sramecc+"
           : c->target.sramecc == KILN_MODE_OFF ? ":sramecc-"
                                                : "",
           c->target.xnack == KILN_MODE_ON    ? ":xnack+"
           : c->target.xnack == KILN_MODE_OFF ? ":xnack-"
                                              : "");
  CHECK_TEXT(c->facts.target, id);
  check_arguments(c);
}

static const struct {
  const char *file, *name;
} kernels[] = {{"elementwise", "add[T=f32]"},
               {"softmax", "softmax[T=bf16]"},
               {"gemm", "gemm[T=f16,ACT=0,BIAS=true]"},
               {"search", "histogram"},
               {"transpose", "transpose[T=f32]"}};
enum { KERNELS = sizeof kernels / sizeof *kernels };

TEST(amdgpu, metadata_agrees_on_every_processor) {
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    const kiln_processor *p = kiln_processor_at(i);
    if (p->family != KILN_FAMILY_AMDGPU || !llvm_has(p->name)) continue;
    for (size_t k = 0; k < KERNELS; k++) {
      compiled c = compile(kernels[k].file, kernels[k].name, p->name);
      check_object(&c, kernels[k].name);
      release(&c);
    }
  }
}

TEST(amdgpu, metadata_agrees_in_every_mode) {
  static const char *const targets[] = {"gfx906:v4",
                                        "gfx90a:xnack+",
                                        "gfx90a:xnack-",
                                        "gfx942:sramecc+:xnack-",
                                        "gfx942:sramecc-:xnack+",
                                        "gfx908:sramecc+",
                                        "gfx1100:wave64",
                                        "gfx1201:wave64",
                                        "gfx1100:v6",
                                        "gfx1030:v4",
                                        "gfx9-generic:xnack+"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    for (size_t k = 0; k < KERNELS; k++) {
      compiled c = compile(kernels[k].file, kernels[k].name, targets[i]);
      check_object(&c, kernels[k].name);
      release(&c);
    }
}

/// Code that spills while registers are left is lowered again, from the same kernel: that must find nothing
/// that the first lowering left in it.
TEST(amdgpu, what_is_lowered_again_is_the_same) {
  static const char name[] = "gemm_general[T=f32,TA=false,TB=true,BETA=true]";
  compiled first = compile("gemm", name, "gfx942"), second = compile("gemm", name, "gfx942");
  CHECK_INT(first.artifact.code.size, second.artifact.code.size);
  CHECK(!memcmp(first.artifact.code.bytes, second.artifact.code.bytes, first.artifact.code.size));
  release(&first), release(&second);
}

TEST(amdgpu, same_input_same_bytes) {
  for (size_t k = 0; k < KERNELS; k++) {
    compiled a = compile(kernels[k].file, kernels[k].name, "gfx942"),
             other = compile(kernels[k].file, kernels[k].name, "gfx1100");
    compiled b = compile(kernels[k].file, kernels[k].name, "gfx942");
    CHECK(a.artifact.code.size == b.artifact.code.size);
    CHECK(memcmp(a.artifact.code.bytes, b.artifact.code.bytes, a.artifact.code.size) == 0);
    release(&a), release(&b), release(&other);
  }
}

// Disassemblers and readers of the LLVM tools take the object.
TEST(amdgpu, llvm_tools_accept_the_objects) {
  static const char *const targets[] = {"gfx90a", "gfx942",  "gfx1100", "gfx1201", "gfx11-generic",
                                        "gfx950", "gfx1010", "gfx1153", "gfx1250", "gfx9-4-generic"};
  kiln_test_need("llvm-readelf-22");
  kiln_test_need("llvm-objdump-22");
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    if (!llvm_has(targets[i])) continue;
    compiled c = compile("gemm", "gemm[T=f16,ACT=0,BIAS=true]", targets[i]);
    char path[300], *out = NULL;
    snprintf(path, sizeof path, "%s/kernel.hsaco", kiln_test_folder());
    kiln_test_write(path, c.artifact.code.bytes, c.artifact.code.size);
    CHECK_INT(kiln_test_run(&out, "llvm-readelf-22 --all %s", path), 0);
    CHECK(strstr(out, ".kd") && strstr(out, "amdhsa.kernels") && !strstr(out, "warning"));
    free(out);
    CHECK_INT(kiln_test_run(&out, "llvm-objdump-22 -d %s", path), 0);
    CHECK(strstr(out, "s_endpgm"));
    CHECK(strstr(out, "<unknown>") == NULL);
    free(out);
    release(&c);
  }
}

// Which matrix instruction a processor's product is made of.
TEST(amdgpu, products_use_the_matrix_unit) {
  static const struct {
    const char *target, *kernel, *instruction;
  } cases[] = {
      {"gfx908", "gemm[T=f16,ACT=0,BIAS=true]", "v_mfma_f32_32x32x8f16"},
      {"gfx90a", "gemm[T=bf16,ACT=0,BIAS=true]", "v_mfma_f32_32x32x8bf16_1k"},
      {"gfx942", "gemm[T=bf16,ACT=0,BIAS=true]", "v_mfma_f32_32x32x8_bf16"},
      {"gfx942", "gemm[T=f32,ACT=0,BIAS=true]", "v_mfma_f32_32x32x2_f32"},
      {"gfx1100", "gemm[T=f16,ACT=0,BIAS=true]", "v_wmma_f32_16x16x16_f16"},
      {"gfx1201", "gemm[T=bf16,ACT=0,BIAS=true]", "v_wmma_f32_16x16x16_bf16"},
      {"gfx942", "gemm_tf32", "v_mfma_f32_32x32x4_xf32"},
      {"gfx942", "gemm_tf32", "0xffffe000"}, // operands are rounded: the unit cuts them off
      {"gfx950", "gemm_tf32", "v_mfma_f32_32x32x2_f32"},
      {"gfx1100", "gemm_i8", "v_wmma_i32_16x16x16_iu8"},
      {"gfx942", "gemm_i8", "v_mfma_i32_32x32x16_i8"},
      {"gfx9-4-generic", "gemm_i8", "v_mfma_i32_32x32x16_i8"},
      {"gfx950", "gemm[T=f16,ACT=0,BIAS=true]", "v_mfma_f32_32x32x16_f16"},
      {"gfx950", "gemm[T=bf16,ACT=0,BIAS=true]", "v_mfma_f32_32x32x16_bf16"},
      {"gfx950", "gemm_i8", "v_mfma_i32_32x32x32_i8"},
      {"gfx950", "gemm_fp8[S=e4m3,T=e4m3,FAST=false]", "v_mfma_f32_32x32x64_f8f6f4"},
      {"gfx1250", "gemm[T=f32,ACT=0,BIAS=true]", "v_wmma_f32_16x16x4_f32"},
      {"gfx1250", "gemm[T=bf16,ACT=0,BIAS=true]", "v_wmma_f32_16x16x32_bf16"},
      {"gfx1250", "gemm_i8", "v_wmma_i32_16x16x64_iu8"},
      {"gfx1250", "gemm_fp8[S=e5m2,T=e4m3,FAST=false]", "v_wmma_f32_16x16x64_bf8_fp8"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compiled c = {.is_best = false};
    kiln_error err = {0};
    if (!llvm_has(cases[i].target)) continue;
    if (try_compile(&c, "gemm", cases[i].kernel, cases[i].target, KILN_FORMAT_ASM, &err) != KILN_OK)
      FAIL("%s: %s", cases[i].target, err.text);
    kiln_buffer_u8(&c.artifact.code, 0);
    if (!strstr((const char *)c.artifact.code.bytes, cases[i].instruction))
      FAIL("%s for %s has no %s", cases[i].kernel, cases[i].target, cases[i].instruction);
    release(&c);
  }
}

// One product of exactly one instruction's size, by hand.
static ir_value *emit(ir_builder *b, ir_opcode code, const ir_attrs *attrs, ir_value *x, ir_value *y,
                      ir_value *z) {
  static const ir_attrs none;
  ir_value *operands[3] = {x, y, z};
  ir_op *op = ir_emit(b, code, attrs ? attrs : &none, operands, z ? 3 : y ? 2 : 1, NULL, NULL, 0);
  if (!op) FAIL("%s", b->error.text);
  return op->result_count ? op->results : NULL;
}

// pointer + row * 2^columns + column for a tile of 2^rows x 2^columns
static ir_value *places(ir_builder *b, ir_value *pointer, unsigned rows, unsigned columns) {
  ir_type tile = {.scalar = KILN_I32, .rank = 2, .log2 = {(uint8_t)rows, (uint8_t)columns}};
  ir_value *r = ir_expand(b, ir_iota(b, rows), 1), *c = ir_expand(b, ir_iota(b, columns), 0);
  r = ir_binary(b, IR_MUL, 0, r, ir_const_like(b, r->type, (double)(1u << columns)));
  ir_value *at = ir_binary(b, IR_ADD, 0, ir_broadcast(b, r, tile), ir_broadcast(b, c, tile));
  return emit(b, IR_PTRADD, NULL, ir_splat(b, pointer, ir_with_element(tile, pointer->type)), at, NULL);
}

/// `columns`: how many of the result are stored; 0: all.
static ir_kernel *product(kiln_arena *arena, const kiln_matrix_form *f, unsigned columns) {
  ir_kernel *k = ir_kernel_create(arena, "product");
  ir_builder b = {.arena = arena, .block = k->body};
  kiln_scalar scalars[3] = {f->from_left, f->from_right, f->accumulator};
  ir_value *p[3];
  k->warps = 1;
  for (int i = 0; i < 3; i++) {
    ir_param param = {.name = "p",
                      .type = ir_pointer_type(scalars[i]),
                      .access = i < 2 ? IR_ACCESS_IN : IR_ACCESS_OUT,
                      .noalias = true,
                      .align = 16};
    p[i] = ir_add_param(k, &param);
  }
  ir_attrs dot = {.precision = f->precision};
  ir_type sums = {.scalar = f->accumulator, .rank = 2, .log2 = {f->m, f->n}};
  ir_value *left = emit(&b, IR_LOAD, NULL, places(&b, p[0], f->m, f->k), NULL, NULL);
  ir_value *right = emit(&b, IR_LOAD, NULL, places(&b, p[1], f->k, f->n), NULL, NULL);
  ir_value *sum = emit(&b, IR_DOT, &dot, left, right, ir_const_like(&b, sums, 0));
  ir_value *mask = NULL;
  if (columns) {
    ir_type bits = {.scalar = KILN_I1, .rank = 2, .log2 = {f->m, f->n}};
    ir_value *c = ir_expand(&b, ir_iota(&b, f->n), 0);
    mask = ir_broadcast(&b, ir_compare(&b, IR_LT, 0, c, ir_const_like(&b, c->type, columns)), bits);
  }
  emit(&b, IR_STORE, NULL, places(&b, p[2], f->m, f->n), sum, mask);
  return k;
}

static const struct {
  kiln_matrix unit;
  const char *target;
} matrix_processors[] = {{KILN_MATRIX_MFMA_908, "gfx908"},         {KILN_MATRIX_MFMA_90A, "gfx90a"},
                         {KILN_MATRIX_MFMA_942, "gfx942"},         {KILN_MATRIX_WMMA_11, "gfx1100"},
                         {KILN_MATRIX_WMMA_12, "gfx1200"},         {KILN_MATRIX_MFMA_950, "gfx950"},
                         {KILN_MATRIX_MFMA_9_4, "gfx9-4-generic"}, {KILN_MATRIX_WMMA_1250, "gfx1250"}};

typedef void check_product(const kiln_matrix_form *f, const char *target, const char *assembly);

// Calls `check` for every row of AMD in the table and every processor of its units.
static void each_product(unsigned columns, check_product *check) {
  for (size_t i = 0; i < kiln_amdgpu_info.form_count; i++)
    for (size_t u = 0; u < sizeof matrix_processors / sizeof *matrix_processors; u++) {
      const kiln_matrix_form *f = &kiln_amdgpu_info.forms[i];
      if (!(f->units >> matrix_processors[u].unit & 1) || !llvm_has(matrix_processors[u].target)) continue;
      kiln_arena *arena = kiln_arena_create();
      kiln_target target;
      kiln_error err = {0};
      kiln_codegen_options options;
      kiln_artifact artifact;
      CHECK_OK(kiln_target_parse(matrix_processors[u].target, &target, &err), err);
      kiln_codegen_options_init(&options);
      options.output = KILN_FORMAT_ASM;
      if (kiln_codegen(product(arena, f, columns), &target, &options, &artifact, &err) != KILN_OK)
        FAIL("%s on %s: %s", f->name, matrix_processors[u].target, err.text);
      kiln_buffer_u8(&artifact.code, 0);
      check(f, matrix_processors[u].target, (const char *)artifact.code.bytes);
      kiln_artifact_deinit(&artifact);
      kiln_arena_destroy(arena);
    }
}

static const char *first_product(const kiln_matrix_form *f, const char *assembly) {
  return strstr(assembly, strstr(f->name, "mfma") ? "v_mfma_" : "v_wmma_");
}

static void check_instruction(const kiln_matrix_form *f, const char *target, const char *assembly) {
  const char *at = first_product(f, assembly);
  char size[40];
  snprintf(size, sizeof size, "%ux%ux%u", 1u << f->m, 1u << f->n, 1u << f->k);
  if (!at || !strstr(at, size) || strstr(at, size) > strchr(at, '\n'))
    FAIL("%s on %s: no instruction of %s", f->name, target, size);
}

// Every row of the table is reachable and is an instruction that LLVM knows: an exact product on a processor
// of its unit.
TEST(amdgpu, every_matrix_form_is_an_instruction) { each_product(0, check_instruction); }

static void check_place(const kiln_matrix_form *f, const char *target, const char *assembly) {
  static const char *const fewer[] = {"saveexec", "v_cmpx"};
  const char *at = first_product(f, assembly);
  CHECK(at != NULL);
  bool is_guarded = false;
  for (size_t i = 0; i < 2; i++) {
    const char *guard = strstr(assembly, fewer[i]);
    is_guarded |= guard != NULL;
    if (guard && guard < at) FAIL("%s on %s stands behind %s", f->name, target, fewer[i]);
  }
  CHECK(is_guarded); // the stores are
}

// LLVM sinks what it does not know to depend on the lanes that run into the branch of its only user. Where
// some lanes do not store, the product and what it reads were made by the others alone. Seed 4 of the
// generated kernels showed it under emulation.
TEST(amdgpu, products_are_made_by_all_lanes) { each_product(9, check_place); }

// What holds a kernel to half of the registers is for products only; others have all from the start, so that
// one that needs them is not compiled twice.
TEST(amdgpu, kernels_without_products_have_all_registers_at_once) {
  static const struct {
    const char *file, *kernel, *target;
    bool is_held;
  } cases[] = {{"gemm", "gemm[T=bf16,ACT=0,BIAS=true]", "gfx90a", true},
               {"gemm", "gemm[T=bf16,ACT=0,BIAS=true]", "gfx942", true},
               {"gemm", "gemm[T=bf16,ACT=0,BIAS=true]", "gfx1100", false},
               {"softmax", "softmax[T=f32]", "gfx90a", false},
               {"softmax", "softmax[T=f32]", "gfx942", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    compiled c = {.is_best = false};
    kiln_error err = {0};
    if (try_compile(&c, cases[i].file, cases[i].kernel, cases[i].target, KILN_FORMAT_LLVM, &err) != KILN_OK)
      FAIL("%s: %s", cases[i].target, err.text);
    kiln_buffer_u8(&c.artifact.code, 0);
    const char *text = (const char *)c.artifact.code.bytes;
    bool is_held = strstr(text, "amdgpu-agpr-alloc") || strstr(text, "amdgpu-no-agpr");
    if (is_held != cases[i].is_held)
      FAIL("%s for %s is %sheld to half", cases[i].kernel, cases[i].target, is_held ? "" : "not ");
    release(&c);
  }
}

static unsigned count_of(const char *text, const char *word) {
  unsigned count = 0;
  for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) count++;
  return count;
}

// Sorting with columns has keys of 64 bits: a pair is compared once, and both halves are chosen by that.
TEST(amdgpu, keys_of_two_words_are_compared_once) {
  static const char *const targets[] = {"gfx942", "gfx1100"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    compiled c = {.is_best = false};
    kiln_error err = {0};
    CHECK_OK(try_compile(&c, "sort", "argsort_rows[T=f32]", targets[i], KILN_FORMAT_ASM, &err), err);
    kiln_buffer_u8(&c.artifact.code, 0);
    const char *text = (const char *)c.artifact.code.bytes;
    unsigned once = count_of(text, "v_cmp_lt_i64"), again = count_of(text, "v_cmp_gt_i64");
    if (!once || 4 * again > once) FAIL("%s: %u and %u comparisons", targets[i], once, again);
    release(&c);
  }
}

// Tiles that a thread's registers do not hold, masked, so that each load is a branch: they are reduced a part
// at a time. That the results are right is shown under emulation.
TEST(amdgpu, reductions_of_large_tiles_do_not_spill) {
  static const char *const targets[] = {"gfx906",  "gfx942",         "gfx1100", "gfx1201",
                                        "gfx908",  "gfx90a",         "gfx950",  "gfx9-4-generic",
                                        "gfx1030", "gfx1100:wave64", "gfx1250"};
  static const char *const cases[] = {"reduce_large_block",  "reduce_large_rows",   "reduce_large_columns",
                                      "reduce_large[T=f32]", "reduce_large[T=f16]", "reduce_large[T=i32]"};
  size_t target_count = kiln_test_full() ? sizeof targets / sizeof *targets : 4,
         case_count = kiln_test_full() ? sizeof cases / sizeof *cases : 2;
  for (size_t t = 0; t < target_count; t++)
    for (size_t k = 0; k < case_count && llvm_has(targets[t]); k++) {
      compiled c = compile("../tests/emulation/cases", cases[k], targets[t]);
      if (c.facts.vgpr_spills || c.facts.sgpr_spills)
        FAIL("%s for %s: %u and %u registers spilled", cases[k], targets[t], c.facts.vgpr_spills,
             c.facts.sgpr_spills);
      release(&c);
    }
}

// Loads `count` tiles of 64 x 256 f32, then stores them all.
static ir_kernel *copies(kiln_arena *arena, unsigned count, unsigned warps) {
  ir_kernel *k = ir_kernel_create(arena, "copies");
  ir_builder b = {.arena = arena, .block = k->body};
  ir_value *from[8], *to[8], *loaded[8];
  k->warps = (uint16_t)warps;
  for (unsigned i = 0; i < 2 * count; i++) {
    ir_param param = {.name = "p",
                      .type = ir_pointer_type(KILN_F32),
                      .access = i < count ? IR_ACCESS_IN : IR_ACCESS_OUT,
                      .noalias = true,
                      .align = 16};
    (i < count ? from : to)[i % count] = ir_add_param(k, &param);
  }
  for (unsigned i = 0; i < count; i++)
    loaded[i] = emit(&b, IR_LOAD, NULL, places(&b, from[i], 6, 8), NULL, NULL);
  for (unsigned i = 0; i < count; i++) emit(&b, IR_STORE, NULL, places(&b, to[i], 6, 8), loaded[i], NULL);
  return k;
}

// A tile takes 64 registers of a thread with four waves of 64, so five need more than half of the file, and
// two of 128 with waves of 32: then, and only then, LLVM is told that one wave is what fits.
TEST(amdgpu, tiles_that_leave_no_room_for_a_second_wave) {
  static const struct {
    const char *target;
    unsigned count, warps;
    bool is_alone;
  } cases[] = {{"gfx90a", 5, 4, true},  {"gfx942", 5, 4, true},    {"gfx950", 5, 4, true},
               {"gfx942", 4, 4, false}, {"gfx942", 5, 8, false},   {"gfx942", 8, 8, false},
               {"gfx908", 5, 4, false}, {"gfx1100", 5, 16, false}, {"gfx1100", 2, 4, true},
               {"gfx1201", 2, 4, true}, {"gfx1100", 1, 4, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_arena *arena = kiln_arena_create();
    kiln_target target;
    kiln_error err = {0};
    kiln_codegen_options options;
    kiln_artifact artifact;
    CHECK_OK(kiln_target_parse(cases[i].target, &target, &err), err);
    kiln_codegen_options_init(&options);
    options.output = KILN_FORMAT_LLVM;
    ir_kernel *kernel = copies(arena, cases[i].count, cases[i].warps);
    if (kiln_codegen(kernel, &target, &options, &artifact, &err) != KILN_OK)
      FAIL("%s: %s", cases[i].target, err.text);
    kiln_buffer_u8(&artifact.code, 0);
    bool is_alone = strstr((const char *)artifact.code.bytes, "\"amdgpu-waves-per-eu\"=\"1,1\"") != NULL;
    if (is_alone != cases[i].is_alone)
      FAIL("%s, %u tiles, %u warps: %d", cases[i].target, cases[i].count, cases[i].warps, is_alone);
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(arena);
  }
}

// Without a matrix instruction operands lie in shared memory; what is too large for it goes there in parts of
// the reduced index, so each part is written after a barrier of its own. No processor of either family is
// refused such a product.
TEST(amdgpu, operands_larger_than_shared_memory_go_there_in_parts) {
  static const struct {
    const char *target, *barrier;
    kiln_scalar scalar;
    uint8_t side, k;
    unsigned parts;
  } cases[] = {
      {"gfx1100", "s_barrier\n", KILN_F32, 7, 6, 1}, {"gfx1100", "s_barrier\n", KILN_F32, 7, 7, 2},
      {"gfx1030", "s_barrier\n", KILN_F32, 7, 7, 2}, {"gfx1201", "s_barrier_wait", KILN_F32, 7, 7, 2},
      {"gfx1100", "s_barrier\n", KILN_F64, 6, 8, 4}, {"gfx1201", "s_barrier_wait", KILN_F64, 6, 8, 4},
      {"sm_86", "bar.sync", KILN_F32, 7, 7, 2},      {"sm_75", "bar.sync", KILN_F64, 6, 8, 4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const kiln_matrix_form f = {.from_left = cases[i].scalar,
                                .from_right = cases[i].scalar,
                                .accumulator = cases[i].scalar,
                                .precision = IR_PREC_IEEE,
                                .m = cases[i].side,
                                .n = cases[i].side,
                                .k = cases[i].k};
    kiln_arena *arena = kiln_arena_create();
    kiln_target target;
    kiln_error err = {0};
    kiln_codegen_options options;
    kiln_artifact artifact;
    CHECK_OK(kiln_target_parse(cases[i].target, &target, &err), err);
    kiln_codegen_options_init(&options);
    options.output = target.processor->family == KILN_FAMILY_NVPTX ? KILN_FORMAT_PTX : KILN_FORMAT_ASM;
    ir_kernel *kernel = product(arena, &f, 0);
    kernel->warps = 16;
    if (kiln_codegen(kernel, &target, &options, &artifact, &err) != KILN_OK)
      FAIL("%s: %s", cases[i].target, err.text);
    kiln_buffer_u8(&artifact.code, 0);
    unsigned barriers = count_of((const char *)artifact.code.bytes, cases[i].barrier);
    if (artifact.info.shared_bytes > target.processor->shared_bytes)
      FAIL("%s: %u bytes", cases[i].target, artifact.info.shared_bytes);
    if (barriers < 2 * cases[i].parts - 1)
      FAIL("%s: %u barriers for %u parts", cases[i].target, barriers, cases[i].parts);
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(arena);
  }
}

// What a device has for atomics on its own memory, and no loop: from 20 on LLVM makes one unless it is told
// where the memory is, and a fifth spelling of that would be dropped without a word. Whole systems may lack
// some of it.
TEST(amdgpu, atomics_of_a_device_are_instructions) {
  static const struct {
    const char *target, *instruction;
    ir_combine kind;
    kiln_scalar scalar;
  } cases[] = {{"gfx908", "global_atomic_add_f32", IR_COMBINE_ADD, KILN_F32},
               {"gfx90a", "global_atomic_add_f32", IR_COMBINE_ADD, KILN_F32},
               {"gfx90a", "global_atomic_add_f64", IR_COMBINE_ADD, KILN_F64},
               {"gfx90a", "global_atomic_max_f64", IR_COMBINE_MAX, KILN_F64},
               {"gfx950", "global_atomic_add_f64", IR_COMBINE_ADD, KILN_F64},
               {"gfx1100", "global_atomic_add_f32", IR_COMBINE_ADD, KILN_F32},
               {"gfx1201", "global_atomic_add_f32", IR_COMBINE_ADD, KILN_F32},
               {"gfx1250", "global_atomic_add_f32", IR_COMBINE_ADD, KILN_F32},
               {"gfx906", "global_atomic_and", IR_COMBINE_AND, KILN_I32},
               {"gfx1100", "global_atomic_max_i32", IR_COMBINE_MAX, KILN_I32},
               {"gfx942", "global_atomic_xor_x2", IR_COMBINE_XOR, KILN_I64}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (unsigned scope = IR_SCOPE_GPU; scope <= IR_SCOPE_CTA && llvm_has(cases[i].target); scope++) {
      kiln_arena *arena = kiln_arena_create();
      kiln_target target;
      kiln_error err = {0};
      kiln_codegen_options options;
      kiln_artifact artifact;
      ir_kernel *k = ir_kernel_create(arena, "atomic");
      ir_builder b = {.arena = arena, .block = k->body};
      ir_param p = {.name = "p", .type = ir_pointer_type(cases[i].scalar), .access = IR_ACCESS_ACCUM};
      ir_param v = {.name = "v", .type = ir_scalar_type(cases[i].scalar)};
      ir_value *at = ir_add_param(k, &p), *value = ir_add_param(k, &v);
      ir_attrs how = {.kind = (uint8_t)cases[i].kind, .scope = (uint8_t)scope};
      emit(&b, IR_ATOMIC, &how, at, value, NULL);
      CHECK_OK(kiln_target_parse(cases[i].target, &target, &err), err);
      kiln_codegen_options_init(&options);
      options.output = KILN_FORMAT_ASM;
      CHECK_OK(kiln_codegen(k, &target, &options, &artifact, &err), err);
      kiln_buffer_u8(&artifact.code, 0);
      const char *text = (const char *)artifact.code.bytes;
      if (!strstr(text, cases[i].instruction) || strstr(text, "cmpswap"))
        FAIL("%s, scope %u: no %s, or a loop", cases[i].target, scope, cases[i].instruction);
      kiln_artifact_deinit(&artifact);
      kiln_arena_destroy(arena);
    }
}

// 64 bits, whatever the addresses lead to. The table of operations showed it under emulation.
TEST(amdgpu, addresses_are_swapped_whole) {
  static const struct {
    const char *target, *instruction;
    kiln_format format;
  } cases[] = {{"gfx942", "global_atomic_cmpswap_x2", KILN_FORMAT_ASM},
               {"gfx1100", "global_atomic_cmpswap_b64", KILN_FORMAT_ASM},
               {"sm_80", "cas.b64", KILN_FORMAT_PTX}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_arena *arena = kiln_arena_create();
    kiln_target target;
    kiln_error err = {0};
    kiln_codegen_options options;
    kiln_artifact artifact;
    ir_kernel *k = ir_kernel_create(arena, "swap");
    ir_builder b = {.arena = arena, .block = k->body};
    ir_type type = ir_pointer_type(KILN_F32);
    type.pointer++;
    ir_value *at = ir_add_param(k, &(ir_param){.name = "p", .type = type, .access = IR_ACCESS_INOUT});
    ir_value *expected = emit(&b, IR_LOAD, NULL, at, NULL, NULL);
    emit(&b, IR_CAS, NULL, at, expected, expected);
    CHECK_OK(kiln_target_parse(cases[i].target, &target, &err), err);
    kiln_codegen_options_init(&options);
    options.output = cases[i].format;
    CHECK_OK(kiln_codegen(k, &target, &options, &artifact, &err), err);
    kiln_buffer_u8(&artifact.code, 0);
    if (!strstr((const char *)artifact.code.bytes, cases[i].instruction))
      FAIL("%s: no %s", cases[i].target, cases[i].instruction);
    kiln_artifact_deinit(&artifact);
    kiln_arena_destroy(arena);
  }
}
