// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks PTX of kernels in the language: what must be in it, on which processors it assembles, and which
// limits are errors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/codegen.h"
#include "compiler/front.h"
#include "tests/harness.h"
#include "tests/codegen/llvm_rows.h"

#define KERNEL(name) kiln_test_text("tests/codegen/nvptx_kernels/" name ".kiln")

static const char ptxas[] = "/usr/local/cuda/bin/ptxas";
static const char *const assembled[] = {"sm_75", "sm_80",  "sm_86",   "sm_87",   "sm_89",
                                        "sm_90", "sm_90a", "sm_100a", "sm_103f", "sm_120"},
                         *const rest[] = {"sm_88",  "sm_100",  "sm_100f", "sm_103",  "sm_103a",
                                          "sm_110", "sm_110a", "sm_110f", "sm_120a", "sm_120f",
                                          "sm_121", "sm_121a", "sm_121f"};

static kiln_status compile(const char *source, const char *target_name, kiln_artifact *out, kiln_error *err) {
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options front = {0};
  kiln_codegen_options options;
  kiln_buffer message = {0};
  kiln_target target;
  CHECK_OK(kiln_target_parse(target_name, &target, err), *err);
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", source, strlen(source), &front, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
  if (!kernel) {
    kiln_diagnostics_print(&d, source, strlen(source), &message);
    kiln_buffer_u8(&message, 0);
    FAIL("%s", (char *)message.bytes);
  }
  kiln_codegen_options_init(&options);
  options.output = KILN_FORMAT_PTX;
  kiln_status status = kiln_codegen(kernel, &target, &options, out, err);
  kiln_arena_destroy(arena);
  return status;
}

static char *ptx(const char *source, const char *target_name, kiln_code_info *out_info) {
  kiln_artifact artifact = {0};
  kiln_error err = {KILN_OK, ""};
  CHECK_OK(compile(source, target_name, &artifact, &err), err);
  char *text = malloc(artifact.code.size + 1);
  CHECK(text != NULL);
  memcpy(text, artifact.code.bytes, artifact.code.size);
  text[artifact.code.size] = 0;
  if (out_info) *out_info = artifact.info;
  kiln_artifact_deinit(&artifact);
  return text;
}

/// Where ptxas is not installed, does nothing: `end_assembled` says so.
static void assemble(const char *text, const char *target_name) {
  char *report = NULL, path[400];
  if (access(ptxas, X_OK)) return;
  snprintf(path, sizeof path, "%s/kernel.ptx", kiln_test_folder());
  kiln_test_write(path, text, strlen(text));
  if (kiln_test_run(&report, "%s --gpu-name %s %s -o /dev/null", ptxas, target_name, path))
    FAIL("ptxas for %s: %s", target_name, report);
  free(report);
}

/// The last call of a test that assembles.
static void end_assembled(void) {
  if (access(ptxas, X_OK)) SKIP("ptxas is not installed: the text is checked, not assembled");
}

/// On every processor that the assembler knows; sm_70 is only compiled.
static void on_each(const char *source, const char *const *targets, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!llvm_has(targets[i])) continue;
    char *text = ptx(source, targets[i], NULL);
    assemble(text, targets[i]);
    free(text);
  }
}

static void everywhere(const char *source) {
  free(ptx(source, "sm_70", NULL));
  on_each(source, assembled, sizeof assembled / sizeof *assembled);
  if (kiln_test_full()) on_each(source, rest, sizeof rest / sizeof *rest);
}

TEST(nvptx_source, atomics_have_order_and_scope) {
  char *out = ptx(KERNEL("atomics"), "sm_90", NULL);
  CHECK_PART(out, "atom.relaxed.gpu.global.add.u32");
  CHECK_PART(out, "atom.acq_rel.sys.global.max.s32");
  CHECK_PART(out, "add.noftz.bf16");
  CHECK_PART(out, "red.relaxed.cta.global.add.f64");
  CHECK_PART(out, "atom.acquire.gpu.global.cas.b32");
  CHECK_PART(out, "atom.release.gpu.global.exch.b32");
  free(out);
  everywhere(KERNEL("atomics"));
  end_assembled();
}

TEST(nvptx_source, halves_are_swapped) {
  static const char *const processors[] = {"sm_70", "sm_90"};
  const char *source = KERNEL("halves_are_swapped");
  for (size_t i = 0; i < sizeof processors / sizeof *processors; i++) {
    char *out = ptx(source, processors[i], NULL);
    CHECK_INT(kiln_test_count(out, ".cas.b16"), 3);
    CHECK_INT(kiln_test_count(out, ".cas.b32"), 0);
    CHECK_PART(out, "atom.acquire.gpu.global.cas.b16");
    free(out);
  }
  everywhere(source);
  end_assembled();
}

/// From sm_90 on one instruction adds up to 16 bytes, where a mask does not cut them and nobody asks what was there.
/// On others, and for other types, it is one for each element.
TEST(nvptx_source, neighbours_are_added_together) {
  const char *source = KERNEL("neighbours_are_added_together");
  char *out = ptx(source, "sm_90", NULL);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.v4.f32"), 2);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.noftz.v4.bf16"), 2);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.noftz.v4.f16"), 2);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.u32"), 8);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.f32"), 8);
  CHECK_INT(kiln_test_count(out, "atom.relaxed.gpu.global.add.f32"), 8);
  free(out);
  out = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.f32"), 16);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.noftz.f16"), 8);
  free(out);
  everywhere(source);
  end_assembled();
}

/// Several ordered atomics a thread: one fence on each side, and no answer is waited for.
TEST(nvptx_source, atomics_of_a_tile_share_fences) {
  const char *source = KERNEL("atomics_of_a_tile_share_fences");
  char *out = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(out, "fence.acq_rel.gpu"), 2);
  CHECK_INT(kiln_test_count(out, "red.relaxed.gpu.global.add.f32"), 8);
  CHECK_INT(kiln_test_count(out, "atom."), 0);
  free(out);
  everywhere(source);
  end_assembled();
}

/// sm_90 has sums and products of bf16, two in a word; before, and under `@fp(ftz)`, they are f32's.
TEST(nvptx_source, sums_of_bf16_come_in_pairs) {
  static const char *const sums[] = {"add.rn.bf16x2", "sub.rn.bf16x2", "mul.rn.bf16x2"};
  const char *source = KERNEL("sums_of_bf16_come_in_pairs");
  char *out = ptx(source, "sm_90", NULL), flushed[2048];
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) CHECK_INT(kiln_test_count(out, sums[i]), 4);
  CHECK_INT(kiln_test_count(out, "cvt.rn.bf16"), 0);
  free(out);
  out = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(out, "cvt.rn.bf16x2.f32"), 12);
  free(out);
  const char *grid = strstr(source, "@grid");
  snprintf(flushed, sizeof flushed, "%.*s@fp(ftz) %s", (int)(grid - source), source, grid);
  out = ptx(flushed, "sm_90", NULL);
  CHECK_INT(kiln_test_count(out, "cvt.rn.bf16x2.f32"), 12);
  free(out);
  everywhere(source);
  end_assembled();
}

/// An exact dot of f32 reads four steps of a row or column at a time: of eight sums of a thread two rows and four columns.
TEST(nvptx_source, plain_dots_read_vectors) {
  const char *source = KERNEL("plain_dots_read_vectors");
  char *out = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(out, "fma.rn.f32"), 256);
  CHECK_INT(kiln_test_count(out, "ld.shared.v4."), 48);
  CHECK_INT(kiln_test_count(out, "ld.shared.f32") + kiln_test_count(out, "ld.shared.b32"), 0);
  CHECK_INT(kiln_test_count(out, "bra"), 0);
  free(out);
  everywhere(source);
  end_assembled();
}

/// Operands that are computed with before the product: the loads of the next round stand before this round's
/// products all the same.
TEST(nvptx_source, loads_behind_arithmetic_go_ahead) {
  const char *source = KERNEL("loads_behind_arithmetic_go_ahead");
  char *out = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(out, "ld.global.v4"), 8); // 4 before the loop, 4 of the next round in it
  const char *last = NULL;
  for (const char *at = out; (at = strstr(at, "ld.global.v4")); at++) last = at;
  CHECK(last && strstr(last, "fma.rn.f32"));
  free(out);
  everywhere(source);
  end_assembled();
}

TEST(nvptx_source, cache_hints) {
  const char *source = KERNEL("cache_hints");
  char *text = ptx(source, "sm_90", NULL); // PTX 7.4 and later have eviction priorities
  CHECK_PART(text, "ld.global.nc.L1::evict_first.v4.b32");
  CHECK_PART(text, "ld.global.cg.v4.b32");
  CHECK_PART(text, "ld.volatile.global");
  CHECK_PART(text, "st.global.cs.v4.b32");
  CHECK_PART(text, "st.global.L1::evict_last.v4.b32");
  free(text);
  everywhere(source);
  end_assembled();
}

TEST(nvptx_source, inline_assembly) {
  const char *source = KERNEL("inline_assembly");
  char *text = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(text, "add.rn.f16x2"), 4);
  CHECK_PART(text, "%clock");
  free(text);
  everywhere(source);
  end_assembled();
}

// Every thread keeps its share of a tile that is sorted, however long: the whole of it would not fit into its
// registers.
TEST(nvptx_source, sorts_are_shared_by_all_threads) {
  const char *source = KERNEL("sorts_are_shared_by_all_threads");
  char *text = ptx(source, "sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, ".local"), 0);
  CHECK(strstr(text, "shfl.sync") && strstr(text, "bar.sync"));
  CHECK(kiln_test_count(text, "ld.global") >= 8 &&
        kiln_test_count(text, "ld.global") <= 32); // 32 elements a thread
  assemble(text, "sm_90a");
  free(text);
  end_assembled();
}

// One atomic an element and no branch: what names none is added behind the tile. The constant 1 stays one, for which ptxas
// has an instruction that takes the equal indices of a warp together. Where a layout repeats the tile, one part adds.
TEST(nvptx_source, scatters_are_one_atomic_an_element) {
  static const struct {
    const char *count, *value;
    int atomics, guards;
  } rows[] = {{"4096", "1", 32, 1}, {"4096", "b", 32, 1}, {"64", "1", 1, 2}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char source[512];
    snprintf(source, sizeof source,
             "kiln 1\n"
             "kernel k(x: in *i32 @align(16), y: out *i32 @align(16)) @grid(1) @config(warps = 4) {\n"
             "  let b = load(x + iota(%s))\n"
             "  store(y + iota(1024), scatter(zeros(i32[1024]), b, %s))\n"
             "}\n",
             rows[i].count, rows[i].value);
    char *text = ptx(source, "sm_90a", NULL);
    CHECK_INT(kiln_test_count(text, "atom.shared.add.u32"), rows[i].atomics);
    CHECK_INT(kiln_test_count(text, "], 1;"), rows[i].value[0] == '1' ? rows[i].atomics : 0);
    CHECK_INT(kiln_test_count(text, "bra"), rows[i].guards);
    assemble(text, "sm_90a");
    free(text);
  }
  end_assembled();
}

// The code of a long row is no longer than that of a short one but for the exchange between warps: ptxas took
// 1.2 s for 4,096 keys of 64 bits in straight code.
TEST(nvptx_source, sorts_are_loops) {
  static const char *const rows[] = {"512", "8192"};
  int lines[2];
  for (unsigned i = 0; i < 2; i++) {
    char source[512];
    snprintf(source, sizeof source,
             "kiln 1\n"
             "kernel k(x: in *f32 @align(16), y: out *i32 @align(16)) @grid(1) @config(warps = %d) {\n"
             "  let v, from = sort(load(x + iota(%s)), indices = true)\n"
             "  store(y + iota(%s), from)\n"
             "}\n",
             i ? 16 : 1, rows[i], rows[i]);
    char *text = ptx(source, "sm_80", NULL);
    lines[i] = kiln_test_count(text, "\n");
    assemble(text, "sm_80");
    free(text);
  }
  CHECK(lines[1] < lines[0] + 200);
  end_assembled();
}

// LLVM 22's straight-line strength reduction makes one product and 15 sums of these: it compares all pairs of
// such values, of which a product of matrices has hundreds, and took up to nine tenths of the time to PTX.
TEST(nvptx_source, strengths_are_not_reduced) {
  const char *source = KERNEL("strengths_are_not_reduced");
  char *text = ptx(source, "sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, "mul.lo.s32") + kiln_test_count(text, "mad.lo.s32"), 16);
  free(text);
  end_assembled();
}

// Offsets of 32 bits that cannot wrap, as their bounds say: rows of a loop's tile are one address and
// constants, and LLVM's loop strength reduction makes no others of it.
TEST(nvptx_source, rows_are_constants_apart) {
  const char *source = KERNEL("rows_are_constants_apart");
  char *text = ptx(source, "sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, "ld.global"), 8);
  CHECK(strstr(text, "+6144]") && strstr(text, "+43008]"));
  free(text);
  end_assembled();
}

// Keys of 64 bits, of 512 elements with 16 a thread: the registers of a thread by 63 comparisons, then one
// loop for runs of all lengths, of 5 stages between lanes and 4 stages of 8 within. ptxas compares twice for
// a minimum and a maximum, so there is no maximum.
TEST(nvptx_source, keys_of_64_bits_are_compared_once) {
  const char *source = KERNEL("keys_of_64_bits_are_compared_once");
  char *text = ptx(source, "sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, "min.s64"), 63 + 4 * 8);
  CHECK_INT(kiln_test_count(text, "setp.gt.s64"), 5 * 16);
  CHECK_INT(kiln_test_count(text, "max.s64"), 0);
  assemble(text, "sm_90a");
  free(text);
  end_assembled();
}

// The number in the PTX is the one that interpreter and host report.
TEST(nvptx_source, asserts_say_which_operation) {
  const char *source = KERNEL("asserts_say_which_operation");
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("sm_80", &target, &err), err);
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", source, strlen(source), NULL, &d);
  ir_kernel *kernel = kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d);
  char *text = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(text, "__assertfail, "), 2);
  CHECK_PART(text, "trap;");
  for (uint32_t line = 6; line <= 7; line++) { // of the two asserts
    uint32_t number = 0;
    char piece[40];
    while (number < 100 && kiln_operation_place(kernel, number).line != line) number++;
    // The assert is the last operation of its line.
    while (kiln_operation_place(kernel, number + 1).line == line) number++;
    snprintf(piece, sizeof piece, "st.param.b32 \t[param2], %u;", number);
    if (strstr(text, "[param2+0]")) snprintf(piece, sizeof piece, "[param2+0], %u;", number); // LLVM 19
    CHECK_PART(text, piece);
  }
  // LLVM numbers the calls of a process.
  char *again = ptx(source, "sm_80", NULL);
  CHECK_TEXT(again, text);
  free(again);
  free(text);
  kiln_arena_destroy(arena);
  everywhere(source);
  end_assembled();
}

TEST(nvptx_source, matrix_products_use_the_matrix_unit) {
  kiln_code_info info;
  char *text = ptx(KERNEL("gemm"), "sm_80", &info);
  CHECK_INT(info.block_threads, 256);
  CHECK_INT(kiln_test_count(text, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 64);
  CHECK_PART(text, "cvt.rn.bf16x2.f32");
  CHECK_PART(text, "cp.async.cg.shared.global");
  CHECK_PART(text, "ldmatrix.sync.aligned.m8n8.x4.shared.b16");
  assemble(text, "sm_80");
  free(text);
  end_assembled();
}

// Rows that begin at any element: loaded one by one, but in pairs, written as words and read by matrix loads.
TEST(nvptx_source, odd_strides_are_read_by_matrix_loads) {
  const char *source = KERNEL("odd_strides_are_read_by_matrix_loads");
  char *text = ptx(source, "sm_80", NULL);
  CHECK_INT(kiln_test_count(text, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
            8); // two steps, two of rows, two of columns
  CHECK_INT(kiln_test_count(text, "cp.async.c"), 0);
  assemble(text, "sm_80");
  free(text);
  end_assembled();
}

#define FP8_GEMM(left, right, m, n, k)                                                          \
  "kiln 1\n"                                                                                    \
  "kernel gemm(a: in *" left " @align(16), b: in *" right                                       \
  " @align(16), c: out *f32 @align(16), K: i32 @div(64)) @grid(1) {\n"                          \
  "  let A = view(a, [" #m ", K], [K, 1], [" #m ", " #k "])\n"                                  \
  "  let B = view(b, [" #n ", K], [K, 1], [" #n ", " #k "])\n"                                  \
  "  let C = view(c, [" #m ", " #n "], [" #n ", 1], [" #m ", " #n "])\n"                        \
  "  var acc = zeros(f32[" #m ", " #n "])\n"                                                    \
  "  for k in 0 .. K step " #k " { acc = dot(load(A, [0, k]), trans(load(B, [0, k])), acc) }\n" \
  "  store(C, [0, 0], acc)\n"                                                                   \
  "}\n"

// Sums of fp8 products are kept in f32 between instructions: each starts from zero. From shared memory on
// sm_90a: 64 rows for each of two groups, since one has too few registers, two steps of 32.
TEST(nvptx_source, fp8_products_use_the_matrix_unit) {
  static const char *const sources[] = {
      FP8_GEMM("e4m3", "e4m3", 128, 128, 64), FP8_GEMM("e4m3", "e5m2", 128, 128, 64),
      FP8_GEMM("e5m2", "e4m3", 128, 128, 64), FP8_GEMM("e5m2", "e5m2", 128, 128, 64)};
  static const char *const forms[] = {"f32.e4m3.e4m3.f32", "f32.e4m3.e5m2.f32", "f32.e5m2.e4m3.f32",
                                      "f32.e5m2.e5m2.f32"};
  static const char *const targets[] = {"sm_89", "sm_90", "sm_90a"};
  for (unsigned i = 0; i < 4; i++) {
    char wanted[80], from_memory[80];
    snprintf(wanted, sizeof wanted, "mma.sync.aligned.m16n8k32.row.col.%s", forms[i]);
    snprintf(from_memory, sizeof from_memory, "wgmma.mma_async.sync.aligned.m64n128k32.%.13s", forms[i]);
    for (unsigned t = 0; t < 3; t++) {
      char *text = ptx(sources[i], targets[t], NULL);
      CHECK_INT(kiln_test_count(text, wanted), t < 2 ? 8 * 4 * 2 : 0);
      CHECK_INT(kiln_test_count(text, from_memory), t < 2 ? 0 : 2);
      CHECK_PART(text, ".version 8.4");
      free(text);
    }
    everywhere(sources[i]);
  }
  end_assembled();
}

// Both types fit f16 and bf16, which older matrix units have; so do tiles smaller than one fp8 instruction.
// On sm_90a groups of four warps multiply from shared memory. Each sum of at most 128 products is added in
// f32, unless the source asks for the fast form.
TEST(nvptx_source, products_from_shared_memory) {
  static const struct {
    const char *type, *sum, *more, *form;
    unsigned k, count, adds;
  } rows[] = {{"bf16", "f32", "", "m64n128k16.f32.bf16.bf16", 64, 4, 0},
              {"f16", "f32", "", "m64n128k16.f32.f16.f16", 64, 4, 0},
              {"e4m3", "f32", "", "m64n128k32.f32.e4m3.e4m3", 128, 4, 64},
              {"e5m2", "f32", ", prec = fast", "m64n128k32.f32.e5m2.e5m2", 128, 4, 0},
              {"e4m3", "f32", ", prec = fast", "m64n128k32.f32.e4m3.e4m3", 256, 8, 0},
              {"i8", "i32", "", "m64n128k32.s32.s8.s8", 128, 4, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char source[1000], form[100];
    kiln_code_info info;
    snprintf(source, sizeof source,
             "kiln 1\n"
             "kernel k(a: in *%s @align(16), b: in *%s @align(16), c: out *%s @align(16), K: i32 @div(16)) "
             "@grid(1) @warps(8) {\n"
             "  let A = view(a, [128, K], [K, 1], [128, %u])\n"
             "  let B = view(b, [128, K], [K, 1], [128, %u])\n"
             "  let C = view(c, [128, 128], [128, 1], [128, 128])\n"
             "  var s = zeros(%s[128, 128])\n"
             "  for k in 0 .. K step %u { s = dot(load(A, [0, k]), trans(load(B, [0, k])), s%s) }\n"
             "  store(C, [0, 0], s)\n"
             "}\n",
             rows[i].type, rows[i].type, rows[i].sum, rows[i].k, rows[i].k, rows[i].sum, rows[i].k,
             rows[i].more);
    char *text = ptx(source, "sm_90a", &info);
    snprintf(form, sizeof form, "wgmma.mma_async.sync.aligned.%s", rows[i].form);
    CHECK_INT(kiln_test_count(text, form), rows[i].count);
    CHECK_INT(kiln_test_count(text, "wgmma.mma_async"), rows[i].count);
    CHECK_INT(kiln_test_count(text, "add.rn.f32"), rows[i].adds);
    CHECK_INT(kiln_test_count(text, "mma.sync"), 0);
    CHECK_INT(info.block_threads, 8 * 32 + 128);
    assemble(text, "sm_90a");
    free(text);
  }
  end_assembled();
}

/// Where `first` stands last is before where `then` stands first.
static void check_order(const char *text, const char *first, const char *then) {
  const char *last = NULL, *behind = strstr(text, then);
  for (const char *at = text; (at = strstr(at, first)); at++) last = at;
  if (!last || !behind || last > behind) FAIL("expected %s in front of %s in\n%s", first, then, text);
}

/// What starts and ends a program of a cluster is waited for by others: where its tiles are is computed
/// before the blocks have met, and before the products; blocks that meet to begin order no memory
/// besides their barriers, and only those that exchange sums meet to end.
TEST(nvptx_source, blocks_of_a_cluster_meet_late) {
  static const char *const paths[] = {"tests/passes/spread.kiln", "tests/passes/split.kiln"};
  for (unsigned i = 0; i < 2; i++) {
    char *source = kiln_test_read(paths[i], NULL);
    CHECK(source != NULL);
    char *text = ptx(source, "sm_90a", NULL);
    CHECK_INT(kiln_test_count(text, "barrier.cluster.arrive.relaxed;"), 1);
    CHECK_INT(kiln_test_count(text, "barrier.cluster.arrive"), 1);
    CHECK(strstr(text, "div.u32") < strstr(text, "barrier.cluster.wait;"));
    check_order(text, "div.u32", "wgmma.mma_async");
    free(text);
    free(source);
  }
}

/// Two blocks side by side have 96 of the 192 columns each, and put them 96 apart. A store of all 256 would
/// be 128 apart, so such a kernel's blocks do not share a program.
TEST(nvptx_source, columns_are_stored_where_they_were_made) {
  static const char product[] =
      "kiln 1\n"
      "kernel p(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16), M: i32 @div(8), "
      "N: i32 @div(8), K: i32 @div(8))\n"
      "  @grid(cdiv(M, 128), cdiv(N, 192)) @config(warps = 16, stages = 4)\n"
      "{\n"
      "  let X = view(a, [M, K], [K, 1], [128, 64])\n"
      "  let Y = view(b, [N, K], [K, 1], [256, 64])\n"
      "  let C = view(c, [%s], [%s], [%s])\n"
      "  let m = pid(0) * 128\n"
      "  let n = pid(1) * 192\n"
      "  var acc = zeros(f32[128, 256])\n"
      "  for k in 0 .. K step 64 { acc = dot(load(X, [m, k]), trans(load(Y, [n, k], first = 192, axis = 0)), "
      "acc) }\n"
      "  store(C, [%s], %s%s)\n"
      "}\n";
  static const struct {
    bool is_turned, is_shared;
    const char *first;
  } rows[] = {{false, true, ", first = 192, axis = 1"},  {false, false, ""},
              {false, false, ", first = 176, axis = 1"}, {false, false, ", first = 64, axis = 0"},
              {true, true, ", first = 192, axis = 0"},   {true, false, ""}};
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    char source[1000];
    bool t = rows[i].is_turned;
    snprintf(source, sizeof source, product, t ? "N, M" : "M, N", t ? "M, 1" : "N, 1",
             t ? "256, 128" : "128, 256", t ? "n, m" : "m, n", t ? "trans(acc as bf16)" : "acc as bf16",
             rows[i].first);
    char *text = ptx(source, "sm_90a", NULL);
    if (!strstr(text, "m64n96k16") == rows[i].is_shared) FAIL("%s\n%s", source, text);
    free(text);
  }
}

// What all threads of a group do together stands once in the code: a copy for the one that sends, made where
// LLVM threads its branches, would wait for the others for ever. (Seen on a GPU: 64 x 64 tiles hung.)
TEST(nvptx_source, staged_stores_are_not_split) {
  char *text = ptx(KERNEL("staged_stores_are_not_split"), "sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, "stmatrix.sync.aligned"), 4);
  CHECK_INT(kiln_test_count(text, "wgmma.mma_async"), 4);
  CHECK_INT(kiln_test_count(text, "elect.sync"), 1);
  CHECK_INT(kiln_test_count(text, "bar.sync"), 2);
  CHECK_INT(kiln_test_count(text, "barrier.sync \t2, 256"), 3); // where roles begin, in each of three ways
  free(text);
}

/// A group stages 64 columns while the copy engine reads those before; what a loop gives that does not run
/// stands after everything, so that no program waits for zeros.
TEST(nvptx_source, nothing_holds_up_the_next_program) {
  char *text = ptx(KERNEL("nothing_holds_up_the_next_program"), "sm_90a", NULL);
  CHECK_INT(kiln_test_count(text, "cp.async.bulk.wait_group.read \t1"), 2);
  CHECK_INT(kiln_test_count(text, "bar.sync"), 7); // four parts, of which the second finds its slot free
  const char *products = strstr(text, "wgmma.mma_async"), *zeros = strstr(text, "0f00000000");
  CHECK(products && zeros && zeros > strstr(products, "stmatrix"));
  free(text);
}

TEST(nvptx_source, fp8_products_are_widened_elsewhere) {
  char *text = ptx(FP8_GEMM("e4m3", "e4m3", 128, 128, 64), "sm_80", NULL);
  CHECK_INT(kiln_test_count(text, "m16n8k32"), 0);
  CHECK(kiln_test_count(text, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") > 0);
  free(text);
  text = ptx(FP8_GEMM("e4m3", "e5m2", 64, 64, 16), "sm_90", NULL);
  CHECK_INT(kiln_test_count(text, "m16n8k32"), 0);
  CHECK(kiln_test_count(text, "mma.sync.aligned.m16n8k16.row.col.f32.") > 0);
  free(text);
  text = ptx(FP8_GEMM("e4m3", "e5m2", 64, 64, 16), "sm_90a", NULL);
  CHECK(kiln_test_count(text, "wgmma.mma_async.sync.aligned.m64n64k16.f32.") > 0);
  free(text);
  text = ptx(FP8_GEMM("e4m3", "e4m3", 64, 64, 64), "sm_70", NULL);
  CHECK_INT(kiln_test_count(text, "mma.sync"), 0);
  free(text);
}

TEST(nvptx_source, much_shared_memory_is_dynamic) {
  kiln_code_info info;
  char *text = ptx(KERNEL("gemm"), "sm_80", &info);
  CHECK(info.shared_bytes > 48 * 1024);
  CHECK_INT(info.dynamic_shared, info.shared_bytes);
  CHECK_PART(text, ".extern .shared");
  free(text);
}

static void expect_error(const char *source, const char *target, kiln_status want, const char *piece) {
  kiln_artifact artifact = {0};
  kiln_error err = {KILN_OK, ""};
  CHECK_INT(compile(source, target, &artifact, &err), want);
  CHECK_PART(err.text, piece);
}

TEST(nvptx_source, limits_are_errors_with_numbers) {
  expect_error("kiln 1\nkernel big(x: inout *f64) @grid(1) @config(warps = 1) {\n  let i = iota(1048576)\n  "
               "store(x + i, load(x + i) + 1.0)\n}\n",
               "sm_80", KILN_STATUS_LIMIT,
               "needs 2048 registers a thread at 32 warps, expected at most 1024");
  expect_error(
      "kiln 1\nkernel sorted(x: inout *i32) @grid(1) @config(warps = 4) {\n  let i = iota(32768)\n  "
      "store(x + i, sort(load(x + i)))\n}\n",
      "sm_90a", KILN_STATUS_LIMIT,
      "a sort of i32[32768] needs 256 registers a thread at 4 warps, expected at most 128; 8 warps have "
      "room");
}

/// Library functions of f32 that differ from each other only in the last bits of what the machine has.
static const char of_one_function[] =
    "kiln 1\nkernel k(x: *f32, y: out *f32) @warps(4) @grid(1) {\n  let i = iota(256)\n"
    "  store(y + i, %s(load(x + i)))\n}\n";

static char *ptx_of_function(const char *name) {
  char source[400];
  snprintf(source, sizeof source, of_one_function, name);
  return ptx(source, "sm_90a", NULL);
}

/// The machine's log2 is right to 2^-22 absolutely: log1p of 2^-20 had two bits left.
TEST(nvptx_source, log1p_is_not_made_of_the_machines_logarithm) {
  static const char *const names[] = {"log1p", "atanh"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *text = ptx_of_function(names[i]);
    if (strstr(text, "lg2.approx")) FAIL("%s is made of lg2.approx", names[i]);
    free(text);
  }
}

/// What is precise has the same bits on all machines, so nothing of it may be left to one's own functions.
TEST(nvptx_source, precise_functions_are_made_of_exact_operations) {
  static const char *const names[] = {"exp2", "log2", "sin", "cos", "tanh", "erf", "sqrt", "rsqrt"};
  static const char *const types[] = {"f32", "f16", "bf16"};
  for (size_t i = 0; i < 3 * sizeof names / sizeof *names; i++) {
    char source[400];
    snprintf(source, sizeof source,
             "kiln 1\nkernel k(x: *%s, y: out *%s) @warps(4) @grid(1) {\n  let i = iota(256)\n"
             "  store(y + i, %s(load(x + i), precise = true))\n}\n",
             types[i % 3], types[i % 3], names[i / 3]);
    char *text = ptx(source, "sm_90a", NULL);
    if (strstr(text, ".approx") || strstr(text, "div.full"))
      FAIL("%s of %s is approximated in\n%s", names[i / 3], types[i % 3], text);
    free(text);
  }
}

/// 1 + tanh(x) is compared with that of NVIDIA's library, whose steps these are.
TEST(nvptx_source, tanh_has_the_steps_of_the_vendors) {
  char *text = ptx_of_function("tanh");
  static const char *const pieces[] = {"ex2.approx", "0f4038AA3B", "0f3C80F082", "0fBD563CAE",
                                       "0f3E085941", "0fBEAAA9ED", "0f41102CB4", "0fC0000000"};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
    if (!strstr(text, pieces[i])) FAIL("expected %s in\n%s", pieces[i], text);
  free(text);
}

/// Both sides of erf share one polynomial: gelu is compared with NVIDIA's library, which does so.
TEST(nvptx_source, erf_is_one_polynomial) {
  char *text = ptx_of_function("erf");
  CHECK_INT(kiln_test_count(text, "ex2.approx"), 2);
  CHECK_INT(kiln_test_count(text, "fma.rn"), 2 * 7);
  free(text);
}

/// The last instruction before `before` that writes the register.
static const char *definition_of(const char *text, const char *before, const char *name) {
  const char *found = NULL;
  char pattern[16];
  snprintf(pattern, sizeof pattern, "%s,", name);
  for (const char *line = text; line < before; line = strchr(line, '\n') + 1) {
    const char *end = strchr(line, '\n'), *first = strchr(line, '%');
    if (first && first < end && !strncmp(first, pattern, strlen(pattern))) found = line;
  }
  return found;
}

/// Each store of fewer bits than its register has is of an integer: ptxas 12.8 and 12.9, and that of driver 580, convert
/// the value of a float that was computed in the register to an integer of so many bits.
static unsigned stores_of_parts(const char *text) {
  unsigned parts = 0;
  for (const char *at = text; (at = strstr(at, "st.global.b")); at++) {
    char name[12] = "", line[160] = "";
    unsigned bits = (unsigned)strtoul(at + strlen("st.global.b"), NULL, 10);
    const char *from = strstr(at, "], %") + strlen("], "), *by;
    sscanf(from, "%11[%a-z0-9]", name);
    bool is_part =
        (name[1] == 'r' && name[2] == 'd') ? bits < 64 : name[1] == 'r' && name[2] != 's' && bits < 32;
    if (!is_part) continue;
    parts++;
    by = definition_of(text, at, name);
    if (by) sscanf(by, " %159[^\n]", line);
    if (strstr(line, ".f32 ") || strstr(line, ".f64 ") || strstr(line, "cvt.rn.f32.") ||
        strstr(line, "cvt.rn.f64."))
      FAIL("%.40s of what `%s` computes", at, line);
  }
  return parts;
}

TEST(nvptx_source, low_bits_of_floats_are_moved_before_they_are_stored) {
  static const char *const targets[] = {"sm_75", "sm_90a"};
  unsigned parts = 0;
  for (size_t i = 0; i < 2 * 4; i++) {
    char path[400], *log = NULL;
    snprintf(path, sizeof path, "%s/low_bits.ptx", kiln_test_folder());
    if (!llvm_has(targets[i / 4])) continue;
    if (kiln_test_run(&log,
                      "%s/bin/kiln compile -q --no-cache -t %s --emit=ptx -k 'low_bits[KIND=%zu]' "
                      "tests/kernels/low_bits.kiln -o %s",
                      kiln_test_build(), targets[i / 4], i % 4, path))
      FAIL("%s", log);
    char *text = kiln_test_read(path, NULL);
    CHECK(text != NULL);
    parts += stores_of_parts(text);
    free(text);
    free(log);
  }
  CHECK(parts > 0);
}
