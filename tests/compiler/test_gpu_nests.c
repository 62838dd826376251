// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs generated loop nests in the GPU form on its simulator (machine_sim.h).
#include "tests/compiler/machine_case.inc"

static uint32_t blocks_of(unsigned extent, unsigned tile) { return (extent + tile - 1) / tile; }

/// A generated nest, as text and as numbers.
typedef struct nest {
  uint64_t random;
  kiln_buffer text;
  const char *type;
  unsigned bm, bn, bk, depth, warps, stages, shape;
  unsigned part; ///< columns that a program has; BN: all
  bool a_turned, b_turned, in_registers, is_batched, to_memory, is_atomic;
  unsigned m, n, k, times, split;
  const char *target; ///< one that fetches; NULL: the GPU form with roles
  bool is_whole;      ///< extents are multiples of 8, and are known to be
  // Of products of warpgroups from slots:
  bool is_odd;     ///< rows begin at any element
  bool is_doubled; ///< the right operand is computed
  bool stores;     ///< in each iteration
  bool rereads;    ///< what it has stored; of a flat loop
} nest;

static unsigned any(nest *x, unsigned below) {
  return (unsigned)((kiln_test_random(&x->random) >> 20) % below);
}
static unsigned rounded(unsigned value) { return (value + 7) / 8 * 8; }
static unsigned pitch(const nest *x, unsigned columns) { return x->is_odd ? columns | 1 : rounded(columns); }

#define FLAT(end)                                                     \
  "  let steps = max(cdiv(K, BK), 1)\n  var i = -1\n  var row = m0\n" \
  "  for t in 0 .. steps * (times + 1) {\n    i = i + 1\n"            \
  "    if i == steps {\n      i = 0\n      row = row + 8\n    }\n    STEP(i * BK)\n" end "  }\n"

static const struct {
  const char *text;
  bool is_chained, is_flat;
} shapes[] = {
    // $: the loop may be split
    {"  for k in 0 .. K step BK$ { STEP(k) }\n", false},
    {"  let half = K / 2 / BK * BK\n"
     "  for k in 0 .. half step BK$ { STEP(k) }\n  for k in half .. K step BK { STEP(k) }\n",
     false},
    {"  for j in 0 .. times { for k in 0 .. K step BK { STEP(k) } }\n", false},
    {"  for j in 0 .. times { for k in j * BK .. K step BK { STEP(k) } }\n  for k in 0 .. K step BK { "
     "STEP(k) }\n",
     false},
    {"  if (pid(0) + pid(1)) % 2 == 0 { for k in 0 .. K step BK { STEP(k) } }\n", false},
    {"  if pid(0) > 0 { for k in 0 .. K step BK { STEP(k) } }\n  else { for k in BK .. K step BK { STEP(k) } "
     "}\n",
     false},
    {"  for k in 0 .. K step 2 * BK$ { STEP(k)\n STEP(k + BK) }\n", false},
    {"  for j in 0 .. times { if j != 1 { for k in 0 .. K step BK { STEP(k) } } }\n", false},
    {"  for j in 0 .. times {\n    var part = zeros(f32[BM, BN])\n"
     "    for k in 0 .. K step BK { PART(k) }\n    acc = acc + part * 2.0\n  }\n",
     false},
    {"  for k in 0 .. K step BK { CHAIN(k) }\n", true},
    {"  let plain = min(K, (pid(0) + 1) * BK)\n"
     "  for k in 0 .. plain step BK { CHAIN(k) }\n  for k in plain .. K step BK { CHAIN(k) }\n",
     true},
    {"  for j in 0 .. times { for k in 0 .. K step BK { CHAIN(k) } }\n", true},
    {"  if pid(0) != 1 { for k in 0 .. K step BK { CHAIN(k) } }\n", true},
    // one loop over the iterations of several products; a branch chooses rows, another one stores and clears the sum
    {FLAT("    if i == steps - 1 {\n      WRITE()\n      acc = zeros(f32[BM, BN])\n    }\n"), false, true},
    {FLAT("    let ends = i == steps - 1\n    if ends { WRITE() }\n"
          "    acc = select(ends, zeros(f32[BM, BN]), acc)\n"),
     false, true},
    {FLAT("    if i == 0 { WRITE() }\n"
          "    if i == steps - 1 {\n      WRITE()\n      acc = zeros(f32[BM, BN])\n    }\n"),
     false, true},
};

/// An operand of a product: rows x columns of `view`, which lies the other way round when `turned`.
static void put_load(nest *x, char view, bool turned, const char *row, const char *column) {
  const char *z = x->is_batched ? "pid(2), " : "";
  char first[40] = "";
  if (x->part < x->bn && view == 'B')
    snprintf(first, sizeof first, ", first = %u, axis = %d", x->part, !turned);
  if (turned) kiln_buffer_format(&x->text, "trans(load(%c, [%s%s, %s]%s))", view, z, column, row, first);
  else kiln_buffer_format(&x->text, "load(%c, [%s%s, %s]%s)", view, z, row, column, first);
}

static void put_product(nest *x, const char *k, const char *sum) {
  kiln_buffer_format(&x->text, x->in_registers ? "%s = dot(twice(" : "%s = dot(", sum);
  put_load(x, 'A', x->a_turned, shapes[x->shape].is_flat ? "row" : "m0", k);
  kiln_buffer_format(&x->text, "%s, %s", x->in_registers ? ")" : "", x->is_doubled ? "twice(" : "");
  put_load(x, 'B', x->b_turned, k, "n0");
  kiln_buffer_format(&x->text, "%s, %s)", x->is_doubled ? ")" : "", sum);
  if (x->stores)
    kiln_buffer_format(&x->text, "\n  store(C, [%sm0, n0], %s as %s)", x->is_batched ? "pid(2), " : "", sum,
                       x->to_memory ? x->type : "f32");
}

/// Keys of the first product are V's rows in the second.
static void put_chain(nest *x, const char *k) {
  kiln_buffer_format(&x->text, "\n    let s = dot(q, ");
  put_load(x, 'B', true, "0", k);
  kiln_buffer_format(&x->text,
                     ", zeros(f32[BM, BK]))\n    total = total + reduce.add(s, 1)\n"
                     "    acc = dot(max(s - 1.0, 0.0) as %s, ",
                     x->type);
  put_load(x, 'V', false, k, "n0");
  kiln_buffer_format(&x->text, ", acc * 2.0)\n  ");
}

/// The first columns of the program's rows of A are what it has computed.
static void put_write(nest *x) {
  kiln_buffer_format(&x->text, "store(C, [m0, n0], acc as %s)\n", x->to_memory ? x->type : "f32");
  const char *value =
      x->a_turned ? "trans(max(min(acc, 2.0), -2.0) as %s)" : "max(min(acc, 2.0), -2.0) as %s";
  if (!x->rereads) return;
  kiln_buffer_format(&x->text, x->a_turned ? "      store(W, [0, m0], " : "      store(W, [m0, 0], ");
  kiln_buffer_format(&x->text, value, x->type);
  kiln_buffer_format(&x->text, ")\n");
}

static void put_shape(nest *x) {
  for (const char *at = shapes[x->shape].text; *at;) {
    bool is_step = !strncmp(at, "STEP(", 5), is_part = !strncmp(at, "PART(", 5),
         is_chain = !strncmp(at, "CHAIN(", 6), is_write = !strncmp(at, "WRITE(", 6);
    if (*at == '$') {
      if (x->split) kiln_buffer_format(&x->text, " @split(%u)", x->split);
      at++;
      continue;
    }
    if (!is_step && !is_part && !is_chain && !is_write) {
      kiln_buffer_format(&x->text, "%c", *at++);
      continue;
    }
    char k[20] = "";
    at = strchr(at, '(') + 1;
    snprintf(k, sizeof k, "%.*s", (int)(strchr(at, ')') - at), at);
    at = strchr(at, ')') + 1;
    if (is_write) put_write(x);
    else if (is_chain) put_chain(x, k);
    else put_product(x, k, is_part ? "part" : "acc");
  }
}

static void put_view(nest *x, char name, bool turned, const char *rows, const char *columns,
                     const char *tile_rows, const char *tile_columns) {
  const char *down = turned ? columns : rows, *across = turned ? rows : columns;
  const char *tile_down = turned ? tile_columns : tile_rows, *tile_across = turned ? tile_rows : tile_columns;
  char lower = (char)(name + 'a' - 'A');
  kiln_buffer_format(&x->text, "  let %c = view(%c, [", name, lower);
  if (x->is_batched)
    kiln_buffer_format(&x->text, "2, %s, %s], [%s as i64 * ld%c, ld%c, 1], [_, %s, %s])\n", down, across,
                       down, lower, lower, tile_down, tile_across);
  else
    kiln_buffer_format(&x->text, "%s, %s], [ld%c, 1], [%s, %s])\n", down, across, lower, tile_down,
                       tile_across);
}

static void write_nest(nest *x) {
  const char *whole = x->is_whole ? " @div(8)" : "", *rows = x->is_odd ? "" : " @div(8)";
  bool is_chained = shapes[x->shape].is_chained;
  kiln_buffer_format(
      &x->text,
      "kiln 1\nconst BM = %u\nconst BN = %u\nconst BK = %u\nconst D = %u\nfn twice(x) { return x + x }\n"
      "kernel nest(a: %s *%s @align(16), b: in *%s @align(16), v: in *%s @align(16),\n"
      "    c: %s *%s @align(16), M: i32%s, N: i32%s, K: i32 @range(0, 65536)%s, times: i32,\n"
      "    lda: i64%s, ldb: i64%s, ldv: i64%s, ldc: i64%s)\n"
      "  @grid(cdiv(M, BM), cdiv(N, %u), %u) @config(warps = %u, stages = %u)\n{\n",
      x->bm, x->bn, x->bk, x->depth, x->rereads ? "inout" : "in", x->type, x->type, x->type,
      x->is_atomic ? "accum" : "out", x->to_memory ? x->type : "f32", whole, whole, whole, rows, rows, rows,
      rows, x->part, x->is_batched ? 2 : 1, x->warps, x->stages);
  if (is_chained) {
    put_view(x, 'A', false, "M", "D", "BM", "D");
    put_view(x, 'B', true, "D", "K", "D", "BK");
    put_view(x, 'V', false, "K", "N", "BK", "BN");
  } else {
    put_view(x, 'A', x->a_turned, "M", "K", "BM", "BK");
    put_view(x, 'B', x->b_turned, "K", "N", "BK", "BN");
  }
  put_view(x, 'C', false, "M", "N", "BM", "BN");
  if (x->rereads)
    kiln_buffer_format(&x->text, "  let W = view(a, [%s], [lda, 1], [%s])\n", x->a_turned ? "K, M" : "M, K",
                       x->a_turned ? "BN, BM" : "BM, BN");
  kiln_buffer_format(
      &x->text, "  let m0 = pid(0) * BM\n  let n0 = pid(1) * %u\n  var acc = zeros(f32[BM, BN])\n", x->part);
  if (is_chained) {
    kiln_buffer_format(&x->text, "  var total = zeros(f32[BM])\n  let q = ");
    put_load(x, 'A', false, "m0", "0");
    kiln_buffer_format(&x->text, "\n");
  }
  put_shape(x);
  const char *place = x->is_batched ? "pid(2), m0, n0" : "m0, n0";
  if (is_chained) kiln_buffer_format(&x->text, "  acc = acc + total[:, _]\n");
  char first[40] = "";
  if (shapes[x->shape].is_flat) { // it has stored everything
    kiln_buffer_format(&x->text, "}\n");
    kiln_buffer_u8(&x->text, 0);
    return;
  }
  if (x->part < x->bn) snprintf(first, sizeof first, ", first = %u, axis = 1", x->part);
  if (x->is_atomic) kiln_buffer_format(&x->text, "  atomic.add(C, [%s], acc%s)\n}\n", place, first);
  else
    kiln_buffer_format(&x->text, "  store(C, [%s], acc as %s%s)\n}\n", place, x->to_memory ? x->type : "f32",
                       first);
  kiln_buffer_u8(&x->text, 0);
}

static void draw_nest(nest *x, uint64_t seed, const char *target) {
  *x = (nest){.random = seed * 977 + 5, .target = target};
  x->shape = any(x, sizeof shapes / sizeof *shapes);
  bool is_chained = shapes[x->shape].is_chained;
  x->type = any(x, 2) ? "bf16" : "f16";
  x->warps = any(x, 3) ? 4 : 8;
  x->bm = any(x, 3) ? 64 : 128;
  x->bn = 32u << any(x, 2);
  x->bk = is_chained ? 32u << any(x, 2) : 16u << any(x, 3);
  x->depth = 16u << any(x, 3);
  x->stages = 2 + any(x, 4);
  x->a_turned = any(x, 2);
  x->b_turned = any(x, 2);
  x->in_registers = !is_chained && !any(x, 4);
  x->is_batched = !any(x, 3);
  x->is_atomic = !any(x, 5);
  x->to_memory = !x->is_atomic && any(x, 3);
  x->m = 1 + any(x, 2 * x->bm);
  x->n = 1 + any(x, 2 * x->bn);
  x->k = any(x, 8) ? 1 + any(x, x->bk * 6) : 0;
  x->times = any(x, 4);
  x->split = any(x, 2) ? 1u << any(x, 4) : 0;
  x->is_whole = target && any(x, 2);
  bool has_part = !is_chained && !any(x, 4);
  x->part = has_part ? x->bn - 16 * (1 + any(x, x->bn / 32)) : x->bn;
  x->b_turned |= has_part;
  if (x->is_whole) x->m = rounded(x->m), x->n = rounded(x->n), x->k = rounded(x->k);
  if (target && !strcmp(target, "sm_90a")) {
    x->is_odd = !any(x, 3);
    x->is_doubled = !is_chained && !any(x, 3);
    x->stores = !is_chained && !x->is_atomic && !has_part && !any(x, 4);
  }
  if (shapes[x->shape].is_flat) {
    x->is_batched = x->is_atomic = x->stores = false;
    x->part = x->bn;
    x->split = 0;
    x->rereads = any(x, 2);
    if (x->rereads) x->m = 1 + x->m % x->bm, x->n = 1 + x->n % x->bn; // one program
    if (x->is_whole) x->m = rounded(x->m), x->n = rounded(x->n);
  }
  write_nest(x);
}

/// Whether it takes the GPU form.
static bool check_nest(uint64_t seed, const char *target) {
  nest x;
  char name[NAME];
  draw_nest(&x, seed, target);
  bool is_chained = shapes[x.shape].is_chained;
  unsigned batches = x.is_batched ? 2 : 1, k = x.k ? x.k : 1,
           row[3] = {x.a_turned ? x.m : k, x.b_turned ? k : x.n, x.n},
           rows[3] = {x.a_turned ? k : x.m, x.b_turned ? x.n : k, k};
  if (is_chained) row[0] = row[1] = x.depth, rows[0] = x.m, rows[1] = k;
  sim_case c = {.name = name,
                .text = (const char *)x.text.bytes,
                .grid = {blocks_of(x.m, x.bm), blocks_of(x.n, x.part), batches},
                .schedules = 3,
                .sparse = 2,
                .target = target};
  double arguments[] = {(double)batches * rows[0] * pitch(&x, row[0]),
                        (double)batches * rows[1] * pitch(&x, row[1]),
                        (double)batches * rows[2] * pitch(&x, row[2]),
                        (double)batches * x.m * pitch(&x, x.n),
                        x.m,
                        x.n,
                        x.k,
                        x.times,
                        pitch(&x, row[0]),
                        pitch(&x, row[1]),
                        pitch(&x, row[2]),
                        pitch(&x, x.n)};
  memcpy(c.arguments, arguments, sizeof arguments);
  snprintf(name, sizeof name, "nest %llu, %u x %u x %u, %u times", (unsigned long long)seed, x.m, x.n, x.k,
           x.times);
  bool is_taken = check_case(&c, seed);
  kiln_buffer_deinit(&x.text);
  return is_taken;
}

/// The first 1,000 nests, or `few` in a short run, on four targets in turn. At least that share of them has
/// to take the form: nothing is shown of what the passes refuse. Pieces may be of one target, so that they
/// have no share of their own.
static void check_nests(const char *const targets[4], unsigned few, unsigned percent, const char *what) {
  unsigned most = kiln_test_full() ? 1000 : few, count = 0, taken = 0;
  for (unsigned i = 0; i < most; i++)
    if (kiln_test_wants_piece(i)) taken += check_nest(i, targets[i % 4]), count++;
  printf("%u of %u nests %s\n", taken, count, what);
  CHECK(count < most || taken * 100 >= count * percent);
}

TEST(gpu_nests, random) { check_nests((const char *const[4]){NULL}, 60, 75, "took the GPU form"); }

/// The same through slots that threads fill.
TEST(gpu_nests, fetched) {
  check_nests((const char *const[]){"sm_80", "sm_86", "sm_90", "sm_120"}, 60, 75, "fetch");
}

/// The same with products of warpgroups from these slots.
TEST(gpu_nests, multiplied) {
  check_nests((const char *const[]){"sm_90a", "sm_90a", "sm_90a", "sm_90a"}, 60, 50, "multiply from slots");
}

/// The same through slots that threads store to.
TEST(gpu_nests, stored) {
  check_nests((const char *const[]){"gfx90a", "gfx942", "gfx1100", "gfx1200"}, 40, 25, "store to slots");
}
