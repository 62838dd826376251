// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPU lowering against the reference interpreter: kernels in the language are lowered for a simulated
// GPU, run there thread by thread, and every byte of their memory is compared. Both thread orders are run.
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/middle/pipeline.h"
#include "tests/codegen/gpu_sim.inc"

enum { MAX_ARGUMENTS = 12 };

/// One kernel and how it is called. `arguments[i]`: elements of a buffer, or the value of a scalar. Integers
/// in buffers are below `bound`.
typedef struct sim_case {
  const char *text;
  long long arguments[MAX_ARGUMENTS];
  uint32_t grid[3];
  double tolerance; ///< relative to 1 + |value|; 0: bit for bit
  uint32_t bound;
  const char *target; ///< NULL: sm_80
} sim_case;

static ir_kernel *lower(const char *text, kiln_arena *arena, const kiln_target *target, uint32_t config) {
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options options = {.all_configs = true};
  kiln_buffer message = {0};
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", text, strlen(text), &options, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, config, 0, target, &d) : NULL;
  if (kernel) return kernel;
  kiln_diagnostics_print(&d, text, strlen(text), &message);
  kiln_buffer_u8(&message, 0);
  FAIL("%s", (char *)message.bytes);
}

static uint32_t config_count(const char *text, kiln_arena *arena) {
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options options = {.all_configs = true};
  kiln_unit *unit = kiln_unit_open(arena, "case.kiln", text, strlen(text), &options, &d);
  return unit ? kiln_unit_interface(unit, 0)->config_count : 1;
}

static void fill(uint8_t *bytes, kiln_scalar scalar, size_t count, uint32_t bound, uint64_t *seed) {
  unsigned size = kiln_scalars[scalar].bytes;
  bool is_float = kiln_scalars[scalar].type_class & (KILN_CLASS_FLOAT | KILN_CLASS_FP8);
  for (size_t i = 0; i < count; i++) {
    uint64_t r = kiln_test_random(seed) >> 11, bits;
    if (is_float) bits = ir_float_to_bits(scalar, ((double)(r % 65) - 32) / 16, true);
    else bits = scalar == KILN_I1 ? r & 1 : bound ? r % bound : r % 201 - 100;
    memcpy(bytes + i * size, &bits, size);
  }
}

static void compare(const sim_case *c, const uint8_t *got, const uint8_t *want, kiln_scalar scalar,
                    size_t count, uint32_t param) {
  unsigned size = kiln_scalars[scalar].bytes;
  for (size_t i = 0; i < count; i++) {
    uint64_t a = 0, b = 0;
    memcpy(&a, got + i * size, size);
    memcpy(&b, want + i * size, size);
    if (a == b) continue;
    bool is_float = kiln_scalars[scalar].type_class == KILN_CLASS_FLOAT;
    double x = is_float ? ir_bits_to_float(scalar, a) : (double)a,
           y = is_float ? ir_bits_to_float(scalar, b) : (double)b;
    if (is_float && isnan(x) && isnan(y)) continue;
    if (is_float && fabs(x - y) <= c->tolerance * (1 + fabs(y))) continue;
    FAIL("parameter %u, element %zu: %.9g, expected %.9g", param, i, x, y);
  }
}

/// The packed arguments of a run with buffers of its own.
typedef struct call {
  uint8_t args[MAX_ARGUMENTS * 8];
  uint8_t *buffers[MAX_ARGUMENTS];
} call;

static void open_call(const sim_case *c, const ir_kernel *kernel, call *out) {
  uint32_t offset = 0;
  uint64_t seed = 42;
  memset(out, 0, sizeof *out);
  for (uint32_t i = 0; i < kernel->param_count; i++) {
    ir_type t = kernel->params[i].type;
    uint32_t size = t.pointer ? 8 : kiln_scalars[t.scalar].bytes;
    offset = (offset + size - 1) / size * size;
    uint64_t value = (uint64_t)c->arguments[i];
    if (t.pointer) {
      size_t bytes = (size_t)c->arguments[i] * kiln_scalars[t.scalar].bytes;
      out->buffers[i] = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
      CHECK(out->buffers[i] != NULL);
      fill(out->buffers[i], t.scalar, (size_t)c->arguments[i], c->bound, &seed);
      value = (uint64_t)(uintptr_t)out->buffers[i];
    } else if (t.scalar == KILN_F32) {
      value = ir_float_to_bits(KILN_F32, (double)c->arguments[i], false);
    }
    memcpy(out->args + offset, &value, size);
    offset += size;
  }
}

static void run_config(const sim_case *c, uint32_t config, const sim_options *options) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {KILN_OK, ""};
  kiln_target target;
  call reference, simulated;
  CHECK_OK(kiln_target_parse(c->target ? c->target : "sm_80", &target, &err), err);
  ir_kernel *kernel = lower(c->text, arena, &target, config), *plain = lower(c->text, arena, &target, config);
  open_call(c, kernel, &reference);
  open_call(c, kernel, &simulated);
  CHECK_OK(kiln_interpret(plain, reference.args, c->grid, NULL, &err), err);
  CHECK_OK(kiln_middle(kernel, &target, &err), err);
  sim_run(kernel, &target, simulated.args, c->grid, options);
  for (uint32_t i = 0; i < plain->param_count; i++) {
    if (!plain->params[i].type.pointer) continue;
    compare(c, simulated.buffers[i], reference.buffers[i], plain->params[i].type.scalar,
            (size_t)c->arguments[i], i);
    free(simulated.buffers[i]);
    free(reference.buffers[i]);
  }
  kiln_arena_destroy(arena);
}

static void run_case(const sim_case *c) {
  kiln_arena *arena = kiln_arena_create();
  uint32_t count = config_count(c->text, arena);
  for (uint32_t config = 0; config < (count ? count : 1); config++)
    for (unsigned way = 0; way < 3; way++)
      run_config(c, config, &(sim_options){.reverse = way == 1, .wide = way == 2});
  kiln_arena_destroy(arena);
}

#define CASE(name, ...)                      \
  TEST(gpu_sim, name) {                      \
    static const sim_case c = {__VA_ARGS__}; \
    run_case(&c);                            \
  }

#define WARPS \
  "@config(warps = 1) @config(warps = 2) @config(warps = 4) @config(warps = 8) @config(warps = 16) "

CASE(add, .grid = {3, 1, 1}, .arguments = {1000, 1000, 1000, 1000},
     .text = "kiln 1\n"
             "kernel add(x: in *f32 @align(16), y: in *f32 @align(16), z: out *f32 @align(16), n: i32) "
             "@grid(3) " WARPS "{\n"
             "  let i = pid(0) * 512 + iota(512)\n"
             "  store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n)\n"
             "}\n")

CASE(small_tile, .grid = {1, 1, 1}, .arguments = {8, 8},
     .text = "kiln 1\n"
             "kernel small(x: in *f32, z: inout *f32) @grid(1) " WARPS "{\n"
             "  let i = iota(8)\n"
             "  store(z + i, load(z + i) + load(x + i))\n"
             "}\n")

CASE(row_sums, .grid = {2, 1, 1}, .arguments = {8192, 64, 64}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel sums(x: in *f32 @align(16), y: out *f32, z: out *f32) @grid(2) " WARPS "{\n"
             "  let r = pid(0) * 32 + iota(32)\n"
             "  let c = iota(128)\n"
             "  let t = load(x + (r[:, _] * 128 + c[_, :]))\n"
             "  store(y + r, reduce.add(t, 1))\n"
             "  store(z + r, reduce.max(t, 1))\n"
             "}\n")

CASE(column_sums, .grid = {1, 1, 1}, .arguments = {4096, 128, 1}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel sums(x: in *f32 @align(16), y: out *f32, z: out *f32) @grid(1) " WARPS "{\n"
             "  let t = load(x + (iota(32)[:, _] * 128 + iota(128)[_, :]))\n"
             "  let s = reduce.add(t, 0)\n"
             "  store(y + iota(128), s)\n"
             "  store(z, reduce.min(s, 0))\n"
             "}\n")

CASE(softmax, .grid = {4, 1, 1}, .arguments = {4096, 4096, 1000}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel softmax(x: in *f32 @align(16), y: out *f32 @align(16), cols: i32) @grid(4) " WARPS "{\n"
             "  let c = iota(1024)\n"
             "  let live = c < cols\n"
             "  let v = load(x + (pid(0) * cols + c), live, -inf)\n"
             "  let e = exp(v - reduce.max(v, 0))\n"
             "  store(y + (pid(0) * cols + c), e / reduce.add(e, 0), live)\n"
             "}\n")

CASE(scans, .grid = {1, 1, 1}, .arguments = {1024, 1024, 1024, 1024},
     .text = "kiln 1\n"
             "kernel scans(x: in *i32, y: out *i32, z: out *i32, w: out *i32) @grid(1) " WARPS "{\n"
             "  let i = iota(1024)\n"
             "  let t = load(x + i)\n"
             "  store(y + i, scan.add(t, 0))\n"
             "  store(z + i, scan.max(t, 0, reverse = true))\n"
             "  let two = reshape(t, [32, 32])\n"
             "  store(w + i, reshape(scan.add(two, 0), [1024]))\n"
             "}\n")

CASE(argmax, .grid = {1, 1, 1}, .arguments = {2048, 16, 16},
     .text = "kiln 1\n"
             "fn pick(v, i, w, j) {\n"
             "  let first = (v > w) | ((v == w) & i < j)\n"
             "  return select(first, v, w), select(first, i, j)\n"
             "}\n"
             "kernel argmax(x: in *f32, y: out *f32, z: out *i32) @grid(1) " WARPS "{\n"
             "  let r = iota(16)\n"
             "  let c = iota(128)\n"
             "  let t = load(x + (r[:, _] * 128 + c[_, :]))\n"
             "  let index = c[_, :] + zeros(i32[16, 128])\n"
             "  let top, at = reduce(pick, 1, t, index)\n"
             "  store(y + r, top)\n"
             "  store(z + r, at)\n"
             "}\n")

CASE(transpose, .grid = {1, 1, 1}, .arguments = {2048, 2048, 2048},
     .text = "kiln 1\n"
             "kernel transpose(x: in *f16 @align(16), y: out *f16 @align(16), z: out *f16) @grid(1) " WARPS
             "{\n"
             "  let r = iota(32)\n"
             "  let c = iota(64)\n"
             "  let t = load(x + (r[:, _] * 64 + c[_, :]))\n"
             "  store(y + (c[:, _] * 32 + r[_, :]), trans(t))\n"
             "  let a, b = split(reshape(t, [1024, 2]))\n"
             "  store(z + iota(2048), reshape(join(b, a), [2048]))\n"
             "}\n")

CASE(loop, .grid = {2, 1, 1}, .arguments = {4096, 512, 5}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel loop_sum(x: in *f32 @align(16), y: out *f32 @align(16), n: i32) @grid(2) " WARPS "{\n"
             "  let i = pid(0) * 256 + iota(256)\n"
             "  var p = x + i\n"
             "  var acc = zeros(f32[256])\n"
             "  var total = 0.0\n"
             "  for k in 0 .. n {\n"
             "    let v = load(p)\n"
             "    acc = acc + v * 0.5\n"
             "    total = total + reduce.add(v, 0)\n"
             "    p = p + 512\n"
             "    if k == 2 { acc = acc - 1.0 } else { acc = acc + total }\n"
             "  }\n"
             "  store(y + i, acc + total)\n"
             "}\n")

#define CARRIED_VIEWS                                                                                      \
  "kiln 1\n"                                                                                               \
  "kernel k(x: in *f32 @align(16), y: in *f32 @align(16), z: out *f32 @align(16), n: i32) @grid(2) " WARPS \
  "{\n"                                                                                                    \
  "  let X = view(x, [64, 16], [16, 1], [16, 16])\n"                                                       \
  "  let Y = view(y, [64, 16], [16, 1], [16, 16])\n"                                                       \
  "  var V = X\n"                                                                                          \
  "  var acc = zeros(f32[16, 16])\n"                                                                       \
  "  for i in 0 .. 4 {\n"                                                                                  \
  "    acc = acc + load(V, [i * 16, 0])\n"                                                                 \
  "    if i == n { V = Y } else { acc = acc * 2.0 }\n"                                                     \
  "  }\n"                                                                                                  \
  "  var p = x\n"                                                                                          \
  "  var j = 0\n"                                                                                          \
  "  while j < 3 {\n"                                                                                      \
  "    let W = view(p, [16, 16 - j], [16, 1], [16, 16])\n"                                                 \
  "    V = W\n"                                                                                            \
  "    acc = acc + load(V, [0, 0], 0.5)\n"                                                                 \
  "    p = p + 256\n"                                                                                      \
  "    j = j + 1\n"                                                                                        \
  "  }\n"                                                                                                  \
  "  let L = if n > 1 { yield view(y, [n + 3, 16], [16, 1], [16, 16]) } else { yield V }\n"                \
  "  acc = acc - load(L, [pid(0) * 2, 0])\n"                                                               \
  "  let Z = view(z, [32, 16], [16, 1], [16, 16])\n"                                                       \
  "  store(Z, [pid(0) * 16, 0], acc)\n"                                                                    \
  "}\n"
CASE(carried_views, .grid = {2, 1, 1}, .arguments = {1024, 1024, 512, 2}, .tolerance = 1e-5,
     .text = CARRIED_VIEWS)
CASE(carried_views_first, .grid = {2, 1, 1}, .arguments = {1024, 1024, 512, 0}, .tolerance = 1e-5,
     .text = CARRIED_VIEWS)

CASE(atomics, .grid = {2, 1, 1}, .arguments = {256, 16, 4, 256, 4}, .bound = 16,
     .text = "kiln 1\n"
             "kernel atomics(x: in *i32, counts: accum *i32, total: accum *i32, old: out *i32, lock: inout "
             "*i32) @grid(2) " WARPS "{\n"
             "  let i = iota(256)\n"
             "  let t = load(x + i)\n"
             "  let unused = atomic.add(counts + t, 1, i < 200)\n"
             "  let before = atomic.max(total, reduce.add(t, 0))\n"
             "  let mine = atomic.add(total + 1, 1)\n"
             "  let seen = cas(total + 2, 1000, mine)\n"
             "  let s = iota(4)\n"
             "  let o = atomic.xor(lock + s, s)\n"
             "  store(old + (iota(4) + 4 * pid(0)), o + seen)\n"
             "}\n")

CASE(exchange_of_halves, .grid = {1, 1, 1}, .arguments = {64, 64, 64, 64},
     .text = "kiln 1\n"
             "kernel exchange(h: inout *f16, b: inout *bf16, y: out *f16, z: out *bf16) @grid(1) " WARPS "{\n"
             "  let c = iota(64)\n"
             "  store(y + c, atomic.xchg(h + c, c as f16, c < 40))\n"
             "  store(z + c, atomic.xchg(b + c, c as bf16))\n"
             "}\n")

CASE(swaps_of_halves, .grid = {1, 1, 1}, .arguments = {64, 64, 64, 64, 64, 64},
     .text =
         "kiln 1\n"
         "kernel swaps(h: inout *f16, b: inout *bf16, s: inout *i16, y: out *f16, z: out *bf16, w: out *i16) "
         "@grid(1) " WARPS "{\n"
         "  let c = iota(64)\n"
         "  store(y + c, cas(h + c, select(c % 2 == 0, load(h + c), 7.0 as f16), c as f16))\n"
         "  store(z + c, cas(b + c, select(c % 2 == 0, load(b + c), 7.0 as bf16), c as bf16))\n"
         "  store(w + c, cas(s + c, select(c % 2 == 1, load(s + c), 7 as i16), c as i16))\n"
         "}\n")

CASE(
    dot_f16, .grid = {1, 1, 1}, .arguments = {4096, 4096, 4096}, .tolerance = 1e-3,
    .text =
        "kiln 1\n"
        "kernel product(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f32 @align(16)) @grid(1) " WARPS
        "{\n"
        "  let i = iota(64)\n"
        "  let x = load(a + (i[:, _] * 64 + i[_, :]))\n"
        "  let y = load(b + (i[:, _] * 64 + i[_, :]))\n"
        "  store(c + (i[:, _] * 64 + i[_, :]), dot(x, trans(y), dot(x, y)))\n"
        "}\n")

CASE(
    dot_f32, .grid = {1, 1, 1}, .arguments = {512, 1024, 2048}, .tolerance = 1e-4,
    .text =
        "kiln 1\n"
        "kernel product(a: in *f32 @align(16), b: in *f32 @align(16), c: out *f32 @align(16)) @grid(1) " WARPS
        "{\n"
        "  let i = iota(32)\n"
        "  let j = iota(64)\n"
        "  let k = iota(16)\n"
        "  let x = load(a + (i[:, _] * 16 + k[_, :]))\n"
        "  let y = load(b + (k[:, _] * 64 + j[_, :]))\n"
        "  store(c + (i[:, _] * 64 + j[_, :]), dot(x, y))\n"
        "}\n")

CASE(dot_bf16_batched, .grid = {1, 1, 1}, .arguments = {4096, 4096, 2048}, .tolerance = 1e-2,
     .text = "kiln 1\n"
             "kernel product(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16)) "
             "@grid(1) " WARPS "{\n"
             "  let i = iota(32)\n"
             "  let k = iota(64)\n"
             "  let e = iota(2) * 2048\n"
             "  let x = load(a + (e[:, _, _] + (i[:, _] * 64 + k[_, :])[_, :, :]))\n"
             "  let y = load(b + (e[:, _, _] + (k[:, _] * 32 + i[_, :])[_, :, :]))\n"
             "  let o = (iota(2) * 1024)[:, _, _] + (i[:, _] * 32 + i[_, :])[_, :, :]\n"
             "  store(c + o, dot(x, y) as bf16)\n"
             "}\n")

CASE(
    dot_tf32, .grid = {1, 1, 1}, .arguments = {1024, 1024, 1024}, .tolerance = 1e-3,
    .text =
        "kiln 1\n"
        "kernel product(a: in *f32 @align(16), b: in *f32 @align(16), c: out *f32 @align(16)) @grid(1) " WARPS
        "{\n"
        "  let i = iota(32)\n"
        "  let x = load(a + (i[:, _] * 32 + i[_, :]))\n"
        "  let y = load(b + (i[:, _] * 32 + i[_, :]))\n"
        "  store(c + (i[:, _] * 32 + i[_, :]), dot(x, y, zeros(f32[32, 32]), prec = tf32))\n"
        "}\n")

CASE(dot_i8, .grid = {1, 1, 1}, .arguments = {2048, 2048, 1024},
     .text =
         "kiln 1\n"
         "kernel product(a: in *i8 @align(16), b: in *i8 @align(16), c: out *i32 @align(16)) @grid(1) " WARPS
         "{\n"
         "  let i = iota(32)\n"
         "  let k = iota(64)\n"
         "  let x = load(a + (i[:, _] * 64 + k[_, :]))\n"
         "  let y = load(b + (i[:, _] * 64 + k[_, :]))\n"
         "  store(c + (i[:, _] * 32 + i[_, :]), dot(x, trans(y), zeros(i32[32, 32])))\n"
         "}\n")

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

#define SMALL_DOT                                                             \
  "kiln 1\n"                                                                  \
  "kernel product(a: in *f16, b: in *f16, c: out *f32) @grid(1) " WARPS "{\n" \
  "  let i = iota(16)\n"                                                      \
  "  let k = iota(8)\n"                                                       \
  "  let x = load(a + (i[:, _] * 8 + k[_, :]))\n"                             \
  "  let y = load(b + (k[:, _] * 8 + k[_, :]))\n"                             \
  "  store(c + (i[:, _] * 8 + k[_, :]), dot(x, y))\n"                         \
  "}\n"
CASE(dot_f16_k8, .grid = {1, 1, 1}, .arguments = {128, 64, 128}, .tolerance = 1e-3, .text = SMALL_DOT)
CASE(dot_f16_sm_75, .grid = {1, 1, 1}, .arguments = {128, 64, 128}, .tolerance = 1e-3, .target = "sm_75",
     .text = SMALL_DOT)
CASE(dot_f16_sm_70, .grid = {1, 1, 1}, .arguments = {128, 64, 128}, .tolerance = 1e-3, .target = "sm_70",
     .text = SMALL_DOT)

CASE(dot_f64, .grid = {1, 1, 1}, .arguments = {64, 64, 64}, .tolerance = 1e-12,
     .text = "kiln 1\n"
             "kernel product(a: in *f64, b: in *f64, c: inout *f64) @grid(1) " WARPS "{\n"
             "  let i = iota(8)\n"
             "  let p = i[:, _] * 8 + i[_, :]\n"
             "  store(c + p, dot(load(a + p), load(b + p), load(c + p)))\n"
             "}\n")

CASE(gemm_loop, .grid = {2, 2, 1}, .arguments = {8192, 8192, 16384, 128, 128, 64}, .tolerance = 1e-2,
     .text = "kiln 1\n"
             "kernel gemm(a: in *bf16 @align(16), b: in *bf16 @align(16), c: out *bf16 @align(16), M: i32, "
             "N: i32, K: i32 @div(16)) @grid(2, 2)\n" WARPS "{\n"
             "  let A = view(a, [M, K], [K, 1], [64, 32])\n"
             "  let B = view(b, [N, K], [K, 1], [64, 32])\n"
             "  let C = view(c, [M, N], [N, 1], [64, 64])\n"
             "  var acc = zeros(f32[64, 64])\n"
             "  for k in 0 .. K step 32 {\n"
             "    acc = dot(load(A, [pid(0) * 64, k]), trans(load(B, [pid(1) * 64, k])), acc)\n"
             "  }\n"
             "  store(C, [pid(0) * 64, pid(1) * 64], acc as bf16)\n"
             "}\n")

CASE(attention, .grid = {2, 2, 1}, .arguments = {16384, 16384, 16384, 16384, 256, 2, 128, 1},
     .tolerance = 2e-2,
     .text = "kiln 1\n"
             "fn online(s, v, acc, top, total) {\n"
             "  let t = max(top, reduce.max(s, 1))\n"
             "  let p = exp2(s - t[:, _])\n"
             "  let fade = exp2(top - t)\n"
             "  return dot(p as f16, v, acc * fade[:, _]), t, total * fade + reduce.add(p, 1)\n"
             "}\n"
             "kernel attention(q: in *f16 @align(16), k: in *f16 @align(16), v: in *f16 @align(16), o: out "
             "*f16 @align(16), lse: out *f32, heads: i32, S: i32, scale: f32)\n"
             "  @grid(2, 2) @config(warps = 1) @config(warps = 4) {\n"
             "  let Q = view(q, [heads, S, 64], [S * 64, 64, 1], [_, 64, 64])\n"
             "  let K = view(k, [heads, S, 64], [S * 64, 64, 1], [_, 32, 64])\n"
             "  let V = view(v, [heads, S, 64], [S * 64, 64, 1], [_, 32, 64])\n"
             "  let O = view(o, [heads, S, 64], [S * 64, 64, 1], [_, 64, 64])\n"
             "  let h = pid(1)\n"
             "  let m0 = pid(0) * 64\n"
             "  let rows = m0 + iota(64)\n"
             "  let qt = load(Q, [h, m0, 0])\n"
             "  var acc = zeros(f32[64, 64])\n"
             "  var top = full(f32[64], -inf)\n"
             "  var total = zeros(f32[64])\n"
             "  for n in 0 .. min(S, m0 + 64) step 32 {\n"
             "    let cols = n + iota(32)\n"
             "    let see = (cols < S)[_, :] & (rows[:, _] >= cols[_, :])\n"
             "    let s = select(see, dot(qt, trans(load(K, [h, n, 0]))) * (scale * 0.125), -inf)\n"
             "    acc, top, total = online(s, load(V, [h, n, 0]), acc, top, total)\n"
             "  }\n"
             "  store(O, [h, m0, 0], (acc / total[:, _]) as f16)\n"
             "  store(lse + h * S + rows, top + log2(total), rows < S)\n"
             "}\n")

CASE(nested_control, .grid = {2, 1, 1}, .arguments = {1024, 1024, 7}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel nested(x: in *f32 @align(16), y: out *f32 @align(16), n: i32) @grid(2) " WARPS "{\n"
             "  let i = pid(0) * 512 + iota(512)\n"
             "  let v = load(x + i)\n"
             "  let two = reshape(v, [16, 32])\n"
             "  var acc = two\n"
             "  var count = 0\n"
             "  while count < n {\n"
             "    for j in 0 .. count {\n"
             "      let s = reduce.add(acc, 1)\n"
             "      if j % 2 == 0 { acc = acc * 0.5 + s[:, _] * 0.01 } else { acc = acc - reduce.max(two, "
             "0)[_, :] * 0.1 }\n"
             "    }\n"
             "    count = count + 1\n"
             "  }\n"
             "  store(y + i, reshape(acc, [512]))\n"
             "}\n")

CASE(many_axes, .grid = {1, 1, 1}, .arguments = {4096, 4096, 512}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel axes(x: in *f32, y: out *f32, z: out *f32) @grid(1) " WARPS "{\n"
             "  let t = reshape(load(x + iota(4096)), [4, 2, 8, 4, 16])\n"
             "  let u = trans(t, [3, 0, 4, 2, 1])\n"
             "  store(y + reshape(iota(4096), [4, 4, 16, 8, 2]), u * 2.0)\n"
             "  store(z + reshape(iota(512), [4, 4, 16, 2]), reduce.add(u, 3))\n"
             "}\n")

CASE(integers, .grid = {1, 1, 1}, .arguments = {256, 256, 256, 256, 256},
     .text = "kiln 1\n"
             "kernel integers(x: in *i8, y: in *i16, a: out *i64, b: out *i32, c: out *i1) @grid(1) " WARPS
             "{\n"
             "  let i = iota(256)\n"
             "  let p = load(x + i) as i32\n"
             "  let q = load(y + i) as i32 | 1\n"
             "  store(a + i, (p as i64) * 1000003 / (q as i64) + ushr(q as i64, 3))\n"
             "  store(b + i, select(p > q, p % q, p << (q & 7)) + umulhi(p, q) + min(p, q) * max(p, -q))\n"
             "  store(c + i, (p < q) ^ (p == 3))\n"
             "}\n")

CASE(conversions, .grid = {1, 1, 1}, .arguments = {512, 512, 512, 512, 512, 512},
     .text = "kiln 1\n"
             "kernel conversions(x: in *f32, h: out *f16, b: out *bf16, d: out *f64, i: out *i32, e: out "
             "*e4m3) @grid(1) " WARPS "{\n"
             "  let k = iota(512)\n"
             "  let v = load(x + k) * 37.7\n"
             "  store(h + k, (v as f16) + (v * v) as f16)\n"
             "  store(b + k, v as bf16)\n"
             "  store(d + k, (v as f64) * 1.1)\n"
             "  store(i + k, (v * 1e8) as i32)\n"
             "  store(e + k, v as e4m3)\n"
             "}\n")

CASE(region_scan, .grid = {1, 1, 1}, .arguments = {512, 512, 512, 512}, .tolerance = 1e-4,
     .text = "kiln 1\n"
             "fn compose(a, b, c, d) { return a * c, b * c + d }\n"
             "kernel recurrence(x: in *f32, y: in *f32, p: out *f32, q: out *f32) @grid(1) " WARPS "{\n"
             "  let i = iota(8)[:, _] * 64 + iota(64)[_, :]\n"
             "  let a, b = scan(compose, 1, load(x + i) * 0.5, load(y + i))\n"
             "  store(p + i, a)\n"
             "  store(q + i, b)\n"
             "}\n")

CASE(pointer_tiles, .grid = {1, 1, 1}, .arguments = {1024, 256, 256}, .bound = 1024,
     .text = "kiln 1\n"
             "kernel picked(x: in *f32, index: in *i32, y: out *f32) @grid(1) " WARPS "{\n"
             "  let i = iota(256)\n"
             "  let at = load(index + i)\n"
             "  let v = load(x + at, at % 3 != 0, 7.0)\n"
             "  store(y + i, v, i != 5)\n"
             "}\n")

// Bits of the row in registers, lanes and warps, several rows, fewer elements than threads, all widths.
CASE(sorts, .grid = {2, 1, 1}, .arguments = {2048, 2048, 2048, 2048, 2048, 2048, 2048},
     .text =
         "kiln 1\n"
         "kernel order(x: in *f32 @align(16), h: in *bf16, l: in *i64, y: out *f32 @align(16), at: out *i32, "
         "z: out *bf16, m: out *i64) @grid(2) " WARPS "{\n"
         "  let i = pid(0) * 512 + iota(512)\n"
         "  let v, p = sort(load(x + i), indices = true)\n"
         "  store(y + i, v)\n"
         "  store(at + i, p)\n"
         "  store(z + i, sort(load(h + i), descending = true))\n"
         "  let r = pid(0) * 512 + iota(8)[:, _] * 64 + iota(64)[_, :]\n"
         "  store(m + r, sort(load(l + r)))\n"
         "  let w = 1024 + pid(0) * 512 + iota(32)[:, _] * 16 + iota(16)[_, :]\n"
         "  store(y + w, sort(load(x + w), descending = true))\n"
         "  let s = 1024 + pid(0) * 512 + iota(32)\n"
         "  store(z + s, sort(load(h + s)))\n"
         "}\n")

CASE(tops, .grid = {2, 1, 1}, .arguments = {8192, 8192, 8192, 8192, 8192, 8192}, .bound = 100,
     .text =
         "kiln 1\n"
         "kernel top(x: in *f32 @align(16), h: in *i16, y: out *f32, at: out *i32, z: out *i16, q: out *i32) "
         "@grid(2) " WARPS "{\n"
         "  let i = pid(0) * 2048 + iota(2048)\n"
         "  let v, p = topk(load(x + i), 8, indices = true)\n"
         "  let k = pid(0) * 8 + iota(8)\n"
         "  store(y + k, v)\n"
         "  store(at + k, p)\n"
         "  let w, s = topk(load(h + i), 64, indices = true)\n"
         "  let l = pid(0) * 64 + iota(64)\n"
         "  store(z + l, w)\n"
         "  store(q + l, s)\n"
         "  let r = iota(32)[:, _] * 64 + iota(64)[_, :]\n"
         "  let b = pid(0) * 32 + iota(32)\n"
         "  store(y + 64 + b[:, _], topk(load(x + r), 1))\n"
         "  store(z + 256 + b[:, _] * 16 + iota(16)[_, :], sort(load(h + r), first = 16))\n"
         "  store(z + 4096 + pid(0) * 512 + iota(512), topk(load(h + 4096 + iota(1024)), 512))\n"
         "}\n")

CASE(gathers, .grid = {2, 1, 1}, .arguments = {8192, 8192, 8192, 8192, 8192},
     .text =
         "kiln 1\n"
         "kernel gathers(x: in *f32 @align(16), n: in *i32 @align(16), l: in *i64, y: out *f32 @align(16), "
         "m: out *i64) @grid(2) " WARPS "{\n"
         "  let r = pid(0) * 2048 + iota(32)[:, _] * 64 + iota(64)[_, :]\n"
         "  let c = pid(0) * 512 + iota(32)[:, _] * 16 + iota(16)[_, :]\n"
         "  store(y + c, gather(load(x + r), load(n + c), 1))\n"
         "  store(m + r, gather(load(l + r), load(n + r), 0))\n"
         "  let i = pid(0) * 64 + iota(64)\n"
         "  store(y + 4096 + i, select(gather(load(x + i) > 0.0, load(n + i) * 3, 0), gather(load(x + i), i, "
         "0), "
         "7.0))\n"
         "}\n")

TEST(gpu_sim, large_conversions_go_in_parts) {
  static const sim_case c = {
      .grid = {1, 1, 1},
      .arguments = {8192, 8192},
      .text = "kiln 1\n"
              "kernel turn(x: in *f32 @align(16), y: out *f32 @align(16)) @grid(1) @config(warps = 4) {\n"
              "  let r = iota(64)\n"
              "  let c = iota(128)\n"
              "  store(y + (c[:, _] * 64 + r[_, :]), trans(load(x + (r[:, _] * 128 + c[_, :]))))\n"
              "}\n"};
  run_config(&c, 0, &(sim_options){.max_shared = 16384});
  run_config(&c, 0, &(sim_options){.max_shared = 8192, .reverse = true});
}

/// Operands that fit one by one, and some that do not even do that.
TEST(gpu_sim, operands_of_dots_go_one_after_another) {
  static const sim_case c = {
      .grid = {1, 1, 1},
      .arguments = {4096, 4096, 4096},
      .tolerance = 1e-3,
      .text = "kiln 1\n"
              "kernel product(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f32 @align(16)) @grid(1) "
              "@config(warps = 4) {\n"
              "  let i = iota(64)\n"
              "  let at = i[:, _] * 64 + i[_, :]\n"
              "  store(c + at, dot(load(a + at), load(b + at)))\n"
              "}\n"};
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

CASE(tiny_tiles, .grid = {2, 1, 1}, .arguments = {64, 64, 64}, .tolerance = 1e-5,
     .text = "kiln 1\n"
             "kernel tiny(x: in *f32, y: out *f32, z: out *i32) @grid(2) " WARPS "{\n"
             "  let one = load(x + iota(1) + pid(0))\n"
             "  let s = reduce.add(one, 0)\n"
             "  let two = load(x + iota(2)[:, _] + zeros(i32[2, 1]))\n"
             "  let t = reduce.max(two, 1)\n"
             "  let u = scan.add(two, 1) + reduce.add(t, 0)\n"
             "  store(y + (iota(2)[:, _] + 2 * pid(0)), u + s)\n"
             "  let p = dot(two, trans(two), zeros(f32[2, 2]))\n"
             "  store(y + (iota(2)[:, _] * 2 + iota(2)[_, :] + 8), p)\n"
             "  store(z + iota(1), scan.max(iota(1), 0) + 3)\n"
             "  store(z + 5, reduce.add(reshape(join(iota(4), iota(4) + 1), [8]), 0))\n"
             "}\n")

CASE(scalars, .grid = {3, 2, 1}, .arguments = {64, 64, 5},
     .text = "kiln 1\n"
             "kernel scalars(x: in *i32, y: inout *i32, n: i32) @grid(3, 2) " WARPS "{\n"
             "  let at = pid(0) + npid(0) * pid(1)\n"
             "  let v = load(x + at, at < n, 9)\n"
             "  let w = load(y + at + 20, volatile = true)\n"
             "  var best = v\n"
             "  var i = 0\n"
             "  while i < 3 & best > -50 {\n"
             "    best = min(best, load(x + at * 3 + i))\n"
             "    i = i + 1\n"
             "  }\n"
             "  store(y + at, best * 3 + w + i, at != 2)\n"
             "}\n")

#define PRODUCT_OF(rows, columns, reduced, left, right)                                                 \
  "kiln 1\n"                                                                                            \
  "kernel k(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f32 @align(16), K: i32) @grid(1) "    \
  "@config(warps = 2) @config(warps = 4) @config(warps = 4, stages = 1) {\n"                            \
  "  let m = iota(" rows ")\n  let n = iota(" columns ")\n  let k = iota(" reduced ")\n"                \
  "  var acc = zeros(f32[" rows ", " columns "])\n"                                                     \
  "  for i in 0 .. K step " reduced " {\n"                                                              \
  "    acc = dot(load(a + " left ", (k + i < K)[_, :]), load(b + " right ", (k + i < K)[:, _]), acc)\n" \
  "  }\n"                                                                                               \
  "  store(c + (m * " columns ")[:, _] + n[_, :], acc)\n"                                               \
  "}\n"

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
  static const char both[] =
      PRODUCT_OF("64", "64", "32", "(m * 160)[:, _] + (k + i)[_, :]", "((k + i) * 64)[:, _] + n[_, :]");
  static const char left[] =
      PRODUCT_OF("64", "128", "64", "m[:, _] + ((k + i) * 64)[_, :]", "(k + i)[:, _] + (n * 160)[_, :]");
  static const char none[] =
      PRODUCT_OF("128", "64", "64", "(m * 160)[:, _] + (k + i)[_, :]", "(k + i)[:, _] + (n * 160)[_, :]");
  run_slots(both, 64 * 160, 64 * 64, 150);
  run_slots(left, 128 * 160, 64 * 128, 150);
  CHECK(sim_turned > 0);
  sim_turned = 0;
  run_slots(none, 128 * 160, 128 * 64, 150);
  CHECK(!sim_turned);
}
