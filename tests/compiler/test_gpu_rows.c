// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Stores and sums by the copy engine, to rows of which only a part is the kernel's, on the simulator of the
// GPU form.
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

/// Nothing is written behind the columns of a row, nor behind the last row, which ends with them.
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
