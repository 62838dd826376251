// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares the GPU lowering with the reference interpreter: products, and loops of them.
#include "tests/codegen/gpu_sim_case.h"

CASE(dot_f16, .grid = {1, 1, 1}, .arguments = {4096, 4096, 4096}, .tolerance = 1e-3,
     .text = KERNEL("dot_f16"))

CASE(dot_f32, .grid = {1, 1, 1}, .arguments = {512, 1024, 2048}, .tolerance = 1e-4, .text = KERNEL("dot_f32"))

CASE(dot_bf16_batched, .grid = {1, 1, 1}, .arguments = {4096, 4096, 2048}, .tolerance = 1e-2,
     .text = KERNEL("dot_bf16_batched"))

CASE(dot_tf32, .grid = {1, 1, 1}, .arguments = {1024, 1024, 1024}, .tolerance = 1e-3,
     .text = KERNEL("dot_tf32"))

CASE(dot_i8, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024}, .text = KERNEL("dot_i8"))

#define WARPS \
  "@config(warps = 1) @config(warps = 2) @config(warps = 4) @config(warps = 8) @config(warps = 16) "
#define FP8_DOT(left, right)                                                          \
  "kiln 1\n"                                                                          \
  "kernel product(a: in *" left " @align(16), b: in *" right                          \
  " @align(16), c: out *f32 @align(16)) @grid(1) " WARPS "{\n"                        \
  "  let i = iota(32)\n"                                                              \
  "  let k = iota(64)\n"                                                              \
  "  let x = load(a + (i[:, _] * 64 + k[_, :]))\n"                                    \
  "  let y = load(b + (i[:, _] * 64 + k[_, :]))\n"                                    \
  "  store(c + (i[:, _] * 32 + i[_, :]), dot(x, trans(y), full(f32[32, 32], 0.5)))\n" \
  "}\n"
CASE(dot_e4m3, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024}, .tolerance = 1e-5, .target = "sm_89",
     .text = FP8_DOT("e4m3", "e4m3"))
CASE(dot_e5m2, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024}, .tolerance = 1e-5, .target = "sm_90a",
     .text = FP8_DOT("e5m2", "e5m2"))
CASE(dot_e4m3_e5m2, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024}, .tolerance = 1e-5, .target = "sm_90",
     .text = FP8_DOT("e4m3", "e5m2"))
CASE(dot_e5m2_e4m3, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024}, .tolerance = 1e-5, .target = "sm_90a",
     .text = FP8_DOT("e5m2", "e4m3"))
CASE(dot_fp8_widened, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024}, .tolerance = 1e-5,
     .text = FP8_DOT("e4m3", "e5m2"))

CASE(dot_f16_k8, .grid = {1, 1, 1}, .arguments = {128, 64, 128}, .tolerance = 1e-3,
     .text = KERNEL("small_dot"))
CASE(dot_f16_sm_75, .grid = {1, 1, 1}, .arguments = {128, 64, 128}, .tolerance = 1e-3, .target = "sm_75",
     .text = KERNEL("small_dot"))
CASE(dot_f16_sm_70, .grid = {1, 1, 1}, .arguments = {128, 64, 128}, .tolerance = 1e-3, .target = "sm_70",
     .text = KERNEL("small_dot"))

CASE(dot_f64, .grid = {1, 1, 1}, .arguments = {64, 64, 64}, .tolerance = 1e-12, .text = KERNEL("dot_f64"))

CASE(gemm_loop, .grid = {2, 2, 1}, .arguments = {8192, 8192, 16384, 128, 128, 64}, .tolerance = 1e-2,
     .text = KERNEL("gemm_loop"))

CASE(attention, .grid = {2, 2, 1}, .arguments = {16384, 16384, 16384, 16384, 256, 2, 128, 1},
     .tolerance = 2e-2, .text = KERNEL("attention"))

/// Operands that fit one by one, and some that do not even do that.
TEST(gpu_sim, operands_of_dots_go_one_after_another) {
  const sim_case c = {.grid = {1, 1, 1},
                      .arguments = {4096, 4096, 4096},
                      .tolerance = 1e-3,
                      .text = KERNEL("operands_of_dots_go_one_after_another")};
  run_config(&c, 0, &(sim_options){.max_shared = 8192});
  run_config(&c, 0, &(sim_options){.max_shared = 4096, .reverse = true});
}

#define CARRIED(k)                                                                                           \
  .grid = {1, 1, 1}, .arguments = {5120, 5120, 1024, k}, .tolerance = 1e-2,                                  \
  .text =                                                                                                    \
      "kiln 1\n"                                                                                             \
      "kernel carried(a: in *f32 @align(16), b: in *f32 @align(16), c: out *f32, K: i32 @div(8)) @grid(1)\n" \
      "  @config(warps = 1) @config(warps = 4) {\n"                                                          \
      "  let i = iota(32)\n"                                                                                 \
      "  let k = iota(16)\n"                                                                                 \
      "  var acc = zeros(f32[32, 32])\n"                                                                     \
      "  for n in 0 .. K step 16 {\n"                                                                        \
      "    let live = (n + k < K)[_, :] & (i >= 0)[:, _]\n"                                                  \
      "    let x = load(a + n + (i[:, _] * 160 + k[_, :]), live)\n"                                          \
      "    let y = load(b + n * 32 + (k[:, _] * 32 + i[_, :]))\n"                                            \
      "    acc = dot(select(live, x + 1.0, zeros(f32[32, 16])), y * 0.5, acc, prec = ieee)\n"                \
      "  }\n"                                                                                                \
      "  store(c + (i[:, _] * 32 + i[_, :]), acc)\n"                                                         \
      "}\n"
CASE(carried_ten_times, CARRIED(160))
CASE(carried_once, CARRIED(16))
CASE(carried_partly_masked, CARRIED(72))
CASE(carried_never, CARRIED(0))

#define RING_OF(type, sum, k, promise, mask)                                                                \
  .grid = {1, 1, 1}, .arguments = {5120, 5120, 1024, k}, .tolerance = 1e-2,                                 \
  .text =                                                                                                   \
      "kiln 1\n"                                                                                            \
      "kernel ring(a: in *" type " @align(16), b: in *" type " @align(16), c: out *" sum ", K: i32" promise \
      ") @grid(1)\n"                                                                                        \
      "  @config(warps = 1, stages = 2) @config(warps = 4, stages = 3) @config(warps = 8, stages = 4) {\n"  \
      "  let i = iota(32)\n"                                                                                \
      "  let k = iota(32)\n"                                                                                \
      "  var p = a + (i[:, _] * 160 + k[_, :])\n"                                                           \
      "  var q = b + (k[:, _] * 32 + i[_, :])\n"                                                            \
      "  var acc = zeros(" sum "[32, 32])\n"                                                                \
      "  for n in 0 .. K step 32 {\n"                                                                       \
      "    let x = load(p, (" mask ")[_, :] & (i >= 0)[:, _])\n"                                            \
      "    acc = dot(x, load(q), acc)\n"                                                                    \
      "    p = p + 32\n"                                                                                    \
      "    q = q + 32 * 32\n"                                                                               \
      "  }\n"                                                                                               \
      "  store(c + (i[:, _] * 32 + i[_, :]), acc)\n"                                                        \
      "}\n"
#define RING(k) RING_OF("f16", "f32", k, " @div(8)", "n + k < K")
CASE(ring_of_ten, RING(160))
CASE(ring_of_one, RING(16))
CASE(ring_partly_masked, RING(72))
CASE(ring_not_entered, RING(0))
// Rows that end in the middle of a piece; the bound may be far below.
CASE(ring_that_ends_anywhere, RING_OF("f16", "f32", 155, "", "n + k < K"))
CASE(ring_of_a_part, RING_OF("bf16", "f32", 3, "", "n + k < K"))
CASE(ring_of_bytes, RING_OF("i8", "i32", 77, "", "n + k < K"))
CASE(ring_with_wide_bounds, RING_OF("f16", "f32", 150, "", "(n + k) as i64 < K as i64 - 9"))
CASE(ring_with_two_bounds, RING_OF("f16", "f32", 150, "", "(n + k < K) & (k < K - n - 7)"))
CASE(ring_with_nothing_left, RING_OF("f16", "f32", 150, "", "k < K - 200 - n"))

// Rows that begin anywhere, at words and at pairs of words: elements come one by one or in pieces shorter
// than the rows that matrix loads read. The reduced index is contiguous in both operands, in none, in one.
#define STRIDES(type, sum, promise, stride, left, right)                                                   \
  .grid = {1, 1, 1}, .arguments = {12000, 12000, 4096, 150, stride}, .tolerance = 1e-2,                    \
  .text =                                                                                                  \
      "kiln 1\n"                                                                                           \
      "kernel strides(a: in *" type " @align(16), b: in *" type " @align(16), c: out *" sum                \
      ", K: i32, s: i32" promise ") @grid(1)\n"                                                            \
      "  @config(warps = 1, stages = 2) @config(warps = 4, stages = 3) @config(warps = 4, stages = 1) {\n" \
      "  let i = iota(64)\n"                                                                               \
      "  let k = iota(32)\n"                                                                               \
      "  var acc = zeros(" sum "[64, 64])\n"                                                               \
      "  for n in 0 .. K step 32 {\n"                                                                      \
      "    let live = n + k < K\n"                                                                         \
      "    acc = dot(" left ", " right ", acc)\n"                                                          \
      "  }\n"                                                                                              \
      "  store(c + (i[:, _] * 64 + i[_, :]), acc)\n"                                                       \
      "}\n"
#define ALONG(p) "load(" p " + i[:, _] * s + (n + k)[_, :], live[_, :] & (i >= 0)[:, _])"
#define ACROSS(p) "load(" p " + (n + k)[:, _] * s + i[_, :], live[:, _] & (i >= 0)[_, :])"
CASE(strides_of_odd_bytes, STRIDES("f16", "f32", "", 155, ALONG("a"), "trans(" ALONG("b") ")"))
CASE(strides_of_odd_bytes_across, STRIDES("bf16", "f32", "", 77, "trans(" ACROSS("a") ")", ACROSS("b")))
CASE(strides_of_odd_bytes_one,
     STRIDES("f16", "f32", "", 79, "trans(" ACROSS("a") ")", "trans(" ALONG("b") ")"))
CASE(strides_of_words, STRIDES("f16", "f32", " @div(2)", 154, ALONG("a"), "trans(" ALONG("b") ")"))
CASE(strides_of_words_across, STRIDES("f16", "f32", " @div(2)", 78, "trans(" ACROSS("a") ")", ACROSS("b")))
CASE(strides_of_two_words, STRIDES("bf16", "f32", " @div(4)", 156, ALONG("a"), "trans(" ALONG("b") ")"))
CASE(strides_of_bytes, STRIDES("i8", "i32", "", 155, ALONG("a"), "trans(" ALONG("b") ")"))
CASE(strides_of_four_bytes, STRIDES("i8", "i32", " @div(4)", 156, ALONG("a"), "trans(" ALONG("b") ")"))
CASE(strides_of_four_bytes_across,
     STRIDES("i8", "i32", " @div(4)", 76, "trans(" ACROSS("a") ")", ACROSS("b")))
CASE(strides_of_words_tf32, STRIDES("f32", "f32", "", 155, ALONG("a"), "trans(" ALONG("b") ")"))

#define PRODUCT_OF(type, sum, rows, columns, reduced, left, right)                                      \
  "kiln 1\n"                                                                                            \
  "kernel k(a: in *" type " @align(16), b: in *" type " @align(16), c: out *" sum                       \
  " @align(16), K: i32) @grid(1) "                                                                      \
  "@config(warps = 2) @config(warps = 4) @config(warps = 4, stages = 1) {\n"                            \
  "  let m = iota(" rows ")\n  let n = iota(" columns ")\n  let k = iota(" reduced ")\n"                \
  "  var acc = zeros(" sum "[" rows ", " columns "])\n"                                                 \
  "  for i in 0 .. K step " reduced " {\n"                                                              \
  "    acc = dot(load(a + " left ", (k + i < K)[_, :]), load(b + " right ", (k + i < K)[:, _]), acc)\n" \
  "  }\n"                                                                                               \
  "  store(c + (m * " columns ")[:, _] + n[_, :], acc)\n"                                               \
  "}\n"

#define RIGHT_ALONG(type, sum, m, n, k) \
  PRODUCT_OF(type, sum, m, n, k, "(m * 160)[:, _] + (k + i)[_, :]", "((k + i) * " n ")[:, _] + n[_, :]")
#define LEFT_ALONG(type, sum, m, n, k) \
  PRODUCT_OF(type, sum, m, n, k, "m[:, _] + ((k + i) * " m ")[_, :]", "(k + i)[:, _] + (n * 160)[_, :]")
#define NONE_ALONG(type, sum, m, n, k) \
  PRODUCT_OF(type, sum, m, n, k, "(m * 160)[:, _] + (k + i)[_, :]", "(k + i)[:, _] + (n * 160)[_, :]")

/// Two slots as emission lays them out, with 64 lanes: rows with free bytes between them, swizzled ones, one
/// slot; matrices that turn as they are read, and that don't.
static void run_slots(const char *text, int64_t elements, int64_t sums, int64_t k) {
  const sim_case c = {.text = text,
                      .target = "gfx950",
                      .grid = {1, 1, 1},
                      .arguments = {elements, elements, sums, k},
                      .tolerance = 1e-6};
  for (uint32_t config = 0; config < 3; config++)
    run_config(&c, config, &(sim_options){.reverse = config != 1, .turned = true, .max_shared = 64 * 1024});
}

TEST(gpu_sim, slots_and_turned_reads) {
  static const struct {
    const char *text;
    unsigned rows, columns; ///< of a step of A, of B
    bool turns;
  } rows[] = {{RIGHT_ALONG("f16", "f32", "64", "64", "32"), 64, 64, true},
              {RIGHT_ALONG("i8", "i32", "64", "64", "64"), 64, 64, true},
              {RIGHT_ALONG("i8", "i32", "64", "32", "64"), 64, 32, true},
              {RIGHT_ALONG("i8", "i32", "32", "128", "32"), 32, 128, true},
              {LEFT_ALONG("f16", "f32", "64", "128", "64"), 64, 128, true},
              {LEFT_ALONG("i8", "i32", "64", "128", "64"), 64, 128, true},
              {NONE_ALONG("f16", "f32", "128", "64", "64"), 128, 64, false},
              {NONE_ALONG("i8", "i32", "128", "64", "64"), 128, 64, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const unsigned larger = rows[i].rows > rows[i].columns ? rows[i].rows : rows[i].columns;
    sim_turned = 0;
    run_slots(rows[i].text, larger * 160, rows[i].rows * rows[i].columns, 150);
    CHECK(rows[i].turns == (sim_turned > 0));
  }
}

/// Results that are parts of longer rows, by views and by pointers: columns end anywhere, rows are any
/// distance apart, and where both are multiples of 16 bytes vectors are written.
static void check_rows(const char *type, unsigned rows, unsigned columns, unsigned distance, bool is_div,
                       bool is_view, bool is_turned) {
  char text[1200];
  const char *view = is_turned
                         ? "store(view(c, [N, M], [ldc, 1], [64, 32]), [pid(1) * 64, pid(0) * 32], trans(r))"
                         : "store(view(c, [M, N], [ldc, 1], [32, 64]), [pid(0) * 32, pid(1) * 64], r)",
             *pointers = is_turned
                             ? "store(c + n[:, _] * ldc + m[_, :], trans(r), (n < N)[:, _] & (m < M)[_, :])"
                             : "store(c + m[:, _] * ldc + n[_, :], r, (m < M)[:, _] & (n < N)[_, :])";
  snprintf(text, sizeof text,
           "kiln 1\nkernel k(a: in *f16 @align(16), b: in *f16 @align(16), c: inout *%s%s, M: i32%s, N: "
           "i32%s, ldc: i32%s)\n"
           "  @grid(cdiv(M, 32), cdiv(N, 64)) @config(warps = 4) @config(warps = 1)\n{\n"
           "  let m = pid(0) * 32 + iota(32)\n  let n = pid(1) * 64 + iota(64)\n"
           "  let x = load(view(a, [M, 32], [32, 1], [32, 32]), [pid(0) * 32, 0])\n"
           "  let y = load(view(b, [N, 32], [32, 1], [64, 32]), [pid(1) * 64, 0])\n"
           "  let r = dot(x, trans(y), zeros(f32[32, 64])) as %s\n  %s\n}\n",
           type, is_div ? " @align(16)" : "", is_div && is_turned ? " @div(8)" : "",
           is_div && !is_turned ? " @div(8)" : "", is_div ? " @div(8)" : "", type, is_view ? view : pointers);
  unsigned lines = is_turned ? columns : rows, ends = is_turned ? rows : columns;
  sim_case c = {
      .text = text,
      .arguments = {rows * 32, columns * 32, (lines - 1) * distance + ends, rows, columns, distance},
      .grid = {(rows + 31) / 32, (columns + 63) / 64, 1},
      .tolerance = 0.01};
  run_case(&c);
}

TEST(gpu_sim, parts_of_rows) {
  static const char *const types[] = {"bf16", "f16", "f32", "i32", "i8", "e4m3"};
  uint64_t seed = 1;
  for (unsigned i = 0; i < 24; i++) {
    bool is_div = i & 1, is_turned = i & 4;
    unsigned rows = 1 + (unsigned)(kiln_test_random(&seed) >> 20) % 40,
             columns = 1 + (unsigned)(kiln_test_random(&seed) >> 20) % 80;
    if (is_div && is_turned) rows = (rows + 7) / 8 * 8;
    if (is_div && !is_turned) columns = (columns + 7) / 8 * 8;
    unsigned distance = (is_turned ? rows : columns) + (unsigned)(kiln_test_random(&seed) >> 20) % 65;
    if (is_div) distance = (distance + 7) / 8 * 8;
    check_rows(types[i % 6], rows, columns, distance, is_div, i & 2, is_turned);
  }
}
