// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests stores and sums by the copy engine to rows of which the kernel owns only a part, on the simulator
// of the GPU form.
#include "tests/compiler/machine_case.inc"

static uint32_t blocks_of(unsigned extent, unsigned tile) { return (extent + tile - 1) / tile; }

/// A part of the columns of C's rows, `N` of `ldc`. The engine writes 16 bytes at a time.
static const char part_of_rows[] =
    "kiln 1\nkernel p(a: in *bf16 @align(16), b: in *bf16 @align(16), c: %s *%s @align(16), M: i32, N: i32,\n"
    "    K: i32 @div(8), ldc: i64 @div(8))\n"
    "  @grid(cdiv(M, %u), cdiv(N, %u)) @config(warps = %u, stages = 2)\n{\n"
    "  let A = view(a, [M, K], [K, 1], [%u, 64])\n  let B = view(b, [N, K], [K, 1], [%u, 64])\n"
    "  var acc = zeros(f32[%u, %u])\n"
    "  for k in 0 .. K step 64 { acc = dot(load(A, [pid(0) * %u, k]), trans(load(B, [pid(1) * %u, k])), acc) "
    "}\n"
    "  %s\n}\n";

typedef struct part {
  unsigned m, n, warps, rows, columns, row; ///< tile; extents and row of C
  unsigned kind;                            ///< of the store
} part;

static void check_part(const part *p, uint64_t seed) {
  static const char *const stores[] = {
      "store(view(c, [M, N], [ldc, 1], [%u, %u]), [pid(0) * %u, pid(1) * %u], (acc + 1.0) as bf16)",
      "store(view(c, [N, M], [ldc, 1], [%u, %u]), [pid(1) * %u, pid(0) * %u], trans((acc + 1.0) as bf16))",
      "atomic.add(view(c, [M, N], [ldc, 1], [%u, %u]), [pid(0) * %u, pid(1) * %u], acc + 1.0)",
  };
  char text[2000], store[300];
  bool is_turned = p->kind == 1, adds = p->kind == 2;
  unsigned m = is_turned ? p->n : p->m, n = is_turned ? p->m : p->n;
  snprintf(store, sizeof store, stores[p->kind], m, n, m, n);
  snprintf(text, sizeof text, part_of_rows, adds ? "accum" : "out", adds ? "f32" : "bf16", p->m, p->n,
           p->warps, p->m, p->n, p->m, p->n, p->m, p->n, store);
  // N is the extent of rows of C: that of columns of the product, or of its rows where it is turned.
  unsigned rows = is_turned ? p->columns : p->rows, columns = is_turned ? p->rows : p->columns, k = 72;
  char name[NAME];
  snprintf(name, sizeof name, "kind %u, %u of rows of %u, %u rows", p->kind, p->columns, p->row, p->rows);
  sim_case c = {
      .name = name,
      .text = text,
      .schedules = 1,
      .arguments = {rows * k, columns * k, (p->rows - 1) * p->row + p->columns, rows, columns, k, p->row},
      .grid = {blocks_of(rows, p->m), blocks_of(columns, p->n), 1}};
  if (!check_case(&c, seed)) FAIL("%s does not take the GPU form", name);
}

/// Nothing is written after the columns of a row, nor after the last row, which ends with them.
TEST(gpu_rows, parts_of_rows) {
  static const part tiles[] = {{64, 64, 4}, {128, 64, 8}, {64, 128, 8}, {128, 128, 4}};
  uint64_t seed = 1;
  for (unsigned i = 0; i < 24; i++) {
    part p = tiles[(kiln_test_random(&seed) >> 20) % 4];
    p.kind = i % 3;
    p.rows = 1 + (kiln_test_random(&seed) >> 20) % 140;
    p.columns = 1 + (kiln_test_random(&seed) >> 20) % 140;
    p.row = (p.columns + 7) / 8 * 8 + 8 * ((kiln_test_random(&seed) >> 20) % 9);
    check_part(&p, i);
  }
}

// ------------------------------------------------------------------------------------- what the engine can't
// do

static void count_op(ir_op *op, void *context) {
  unsigned *counts = context;
  counts[0] += op->code == IR_COPY;
  counts[1] += op->code == IR_STAGE;
}

static const char columns[] =
    "kiln 1\nkernel p(a: in *bf16 @align(16), b: in *bf16 @align(16), c: inout *%s @align(16), M: i32, N: "
    "i32,\n"
    "    K: i32 @div(8), at: i32, whole: i32 @div(8), ldc: i64 @div(8))\n"
    "  @grid(1) @config(warps = 4, stages = 2)\n{\n"
    "  let A = view(a, [M, K], [K, 1], [64, 64])\n  let B = view(b, [N, K], [K, 1], [64, 64])\n"
    "  let C = view(c, [M, N], [ldc, 1], [64, 64])\n  var acc = zeros(f32[64, 64])\n"
    "  for k in 0 .. K step 64 { acc = dot(load(A, [0, %s]), trans(load(B, [0, k])), acc) }\n  %s\n}\n";

/// Loads that begin within 16 bytes of a row, stores that do, sums for other devices: none by the engine. Of
/// what it can do all is.
TEST(gpu_rows, columns_within_16_bytes) {
  static const struct {
    const char *type, *load, *store;
    unsigned copies; ///< a left operand that none copies is loaded by threads
    bool is_staged;
  } rows[] = {
      {"bf16", "k", "store(C, [0, 0], acc as bf16)", 2, true},
      {"bf16", "k + whole", "store(C, [0, whole + 64], acc as bf16)", 2, true},
      {"bf16", "k + at", "store(C, [0, 0], acc as bf16)", 1, true},
      {"bf16", "k + 4", "store(C, [0, 0], acc as bf16)", 1, true},
      {"bf16", "k", "store(C, [0, at], acc as bf16)", 2, false},
      {"bf16", "k", "store(C, [0, 4], acc as bf16)", 2, false},
      {"bf16", "k", "store(C, [at, 8], acc as bf16)", 2, true},
      {"bf16", "k", "store(C, [at, 0], trans(acc as bf16))", 2, true},
      {"bf16", "k", "store(C, [0, at], trans(acc as bf16))", 2, false},
      {"f32", "k", "atomic.add(C, [0, 4], acc)", 2, true},
      {"f32", "k", "atomic.add(C, [0, 2], acc)", 2, false},
      {"f32", "k", "atomic.add(C, [0, 4], acc, scope = system)", 2, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[2000];
    unsigned counts[2] = {0};
    kiln_arena *arena = kiln_arena_create();
    snprintf(text, sizeof text, columns, rows[i].type, rows[i].load, rows[i].store);
    ir_kernel *kernel = form(arena, &(sim_case){.name = "columns", .text = text});
    if (kernel) ir_walk(kernel->body, count_op, counts);
    if (counts[0] != rows[i].copies || (counts[1] > 0) != rows[i].is_staged)
      FAIL("%u copies, %u stages of\n%s", counts[0], counts[1], text);
    kiln_arena_destroy(arena);
  }
}
