// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates matrix products: operands of all types through views and pointers, turned and not, in rows that
// begin at multiples of 16 bytes or anywhere, in loops of the forms that people write; results through views,
// pointers and atomics. They are made as text in the kernel language. Elements are small integers, so every
// sum is exact and no order of additions can change a result.
#include <stdio.h>
#include <string.h>

#include "compiler/front.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

enum { MOST_MATRICES = 6, MOST_NUMBERS = 32 };

/// An extent of a product: how the kernel names it, how long it is, how long a tile is.
typedef struct extent {
  const char *text;
  unsigned length, tile;
} extent;

/// A matrix in memory, with the axes that its view has; one of a vector has no columns.
typedef struct matrix {
  char name;
  const char *scalar, *access;
  extent rows, columns;
  bool is_turned;  ///< its rows are the columns of the product's operand
  bool is_aligned; ///< rows begin at multiples of 16 bytes
  unsigned pitch;
} matrix;

typedef struct writer {
  uint64_t seed;
  kiln_buffer text;
  const char *type, *sum, *result, *precision; ///< of operands, of sums, of C
  unsigned bm, bn, bk, part, warps, stages, split, slices, programs, depth, times;
  unsigned m, n, k, shape, channels;
  bool is_batched, is_chained, is_pointer, is_whole, is_fetched, has_old, is_doubled, is_atomic;
  matrix matrices[MOST_MATRICES];
  unsigned matrix_count;
  int64_t numbers[MOST_NUMBERS];
  unsigned number_count;
} writer;

static unsigned below(writer *w, unsigned n) { return (unsigned)((kiln_test_random(&w->seed) >> 33) % n); }
static bool chance(writer *w, unsigned percent) { return below(w, 100) < percent; }

#define PUT(...) kiln_buffer_format(&w->text, __VA_ARGS__)

// Loops around STEP(k), which adds the product of the tiles at k, PART(k) and OTHER(k), which add to other sums,
// and CHAIN(k), of attention. $: the loop may be split.
static const struct {
  const char *text;
  bool is_chained, has_stored, is_persistent, is_sliced;
} shapes[] = {
    {"  for k in 0 .. K step BK$ { STEP(k) }\n"},
    {"  for k in 0 .. K step BK$ { STEP(k) }\n"},
    {"  STEP(0)\n"},
    {"  let half = K / 2 / BK * BK\n"
     "  for k in 0 .. half step BK$ { STEP(k) }\n  for k in half .. K step BK { STEP(k) }\n"},
    {"  for j in 0 .. times { for k in 0 .. K step BK { STEP(k) } }\n"},
    {"  if (pid(0) + pid(1)) % 2 == 0 { for k in 0 .. K step BK { STEP(k) } }\n"},
    {"  if pid(0) > 0 { for k in 0 .. K step BK { STEP(k) } }\n"
     "  else { for k in BK .. K step BK { STEP(k) } }\n"},
    {"  for k in 0 .. K step 2 * BK$ {\n    STEP(k)\n    STEP(k + BK)\n  }\n"},
    {"  for j in 0 .. times {\n    var part = zeros(SUM[BM, BN])\n"
     "    for k in 0 .. K step BK { PART(k) }\n    acc = acc + part + part\n  }\n"},
    {"  var other = zeros(SUM[BM, BN])\n"
     "  for k in 0 .. K step BK {\n    STEP(k)\n    OTHER(k)\n  }\n  acc = select(other > 0, acc, other)\n"},
    {"  var k = 0\n  while k < K {\n    STEP(k)\n    k = k + BK\n  }\n"},
    {"  for k in min(K, pid(0) * BK) .. min(K, (pid(1) + 3) * BK) step BK { STEP(k) }\n"},
    {"  for k in pid(2) * BK .. K step npid(2) * BK { STEP(k) }\n", .is_sliced = true},
    {"  for k in 0 .. K step BK { CHAIN(k) }\n", .is_chained = true},
    {"  let plain = min(K, (pid(0) + 1) * BK)\n"
     "  for k in 0 .. plain step BK { CHAIN(k) }\n  for k in plain .. K step BK { CHAIN(k) }\n",
     .is_chained = true},
    {"  for j in 0 .. times { for k in 0 .. K step BK { CHAIN(k) } }\n", .is_chained = true},
    {"  for k in 0 .. K step BK {\n    STEP(k)\n    STORE\n  }\n", .has_stored = true},
    {"  for t in pid(0) .. cdiv(M, BM) * cdiv(N, PART) step npid(0) {\n"
     "    m0 = t / cdiv(N, PART) * BM\n    n0 = t % cdiv(N, PART) * PART\n    acc = zeros(SUM[BM, BN])\n"
     "    for k in 0 .. K step BK { STEP(k) }\n    STORE\n  }\n",
     .has_stored = true, .is_persistent = true},
    {"  let steps = max(cdiv(K, BK), 1)\n  let tiles = cdiv(M, BM) * cdiv(N, PART)\n"
     "  var i = -1\n  var t = pid(0)\n"
     "  for s in 0 .. cdiv(max(tiles - pid(0), 0), npid(0)) * steps {\n    i = i + 1\n"
     "    if i == steps {\n      i = 0\n      t = t + npid(0)\n    }\n"
     "    m0 = t / cdiv(N, PART) * BM\n    n0 = t % cdiv(N, PART) * PART\n    STEP(i * BK)\n"
     "    if i == steps - 1 {\n      STORE\n      acc = zeros(SUM[BM, BN])\n    }\n  }\n",
     .has_stored = true, .is_persistent = true},
};

static const matrix *find(const writer *w, char name) {
  for (unsigned i = 0; i < w->matrix_count; i++)
    if (w->matrices[i].name == name) return &w->matrices[i];
  return NULL;
}

static void add_matrix(writer *w, char name, const char *scalar, const char *access, extent rows,
                       extent columns, bool is_turned) {
  w->matrices[w->matrix_count++] = (matrix){.name = name,
                                            .scalar = scalar,
                                            .access = access,
                                            .rows = is_turned ? columns : rows,
                                            .columns = is_turned ? rows : columns,
                                            .is_turned = is_turned,
                                            .is_aligned = w->is_fetched ? chance(w, 95) : chance(w, 50)};
}

/// `count` numbers from `first` on, which of divided ones are put together again from a quotient and a remainder, as
/// places of convolutions are.
static void put_places(writer *w, const char *first, unsigned count) {
  if (!w->channels) PUT("(%s + iota(%u))", first, count);
  else PUT("((%s + iota(%u)) / Q * E + (%s + iota(%u)) %% Q)", first, count, first, count);
}

/// The elements of an operand's tile at (row, column) of the product, through its view or pointers.
static void put_load(writer *w, char name, const char *row, const char *column) {
  const matrix *m = find(w, name);
  const char *down = m->is_turned ? column : row, *across = m->is_turned ? row : column;
  const bool is_part = w->part < w->bn && (name == 'B' || name == 'V') && !w->is_chained;
  if (m->is_turned) PUT("trans(");
  if (!w->is_batched && !is_part && (w->channels || (!w->is_fetched && chance(w, 25)))) {
    PUT("load(view_base(%c) + ", name);
    put_places(w, down, m->rows.tile);
    PUT("[:, _] as i64 * view_stride(%c, 0) + ", name);
    put_places(w, across, m->columns.tile);
    PUT("[_, :] as i64, ");
    PUT("((%s + iota(%u))[:, _] as i64 < dim(%c, 0)) & ((%s + iota(%u))[_, :] as i64 < dim(%c, 1)))", down,
        m->rows.tile, name, across, m->columns.tile, name);
  } else {
    PUT("load(%c, [%s%s, %s]", name, w->is_batched ? "pid(2), " : "", down, across);
    if (is_part) PUT(", first = %u, axis = %u", w->part, !m->is_turned);
    PUT(")");
  }
  if (m->is_turned) PUT(")");
}

static void put_step(writer *w, const char *k, const char *sum, char right) {
  PUT("%s = dot(%s", sum, w->is_doubled ? "twice(" : "");
  put_load(w, 'A', "m0", k);
  PUT("%s, ", w->is_doubled ? ")" : "");
  put_load(w, right, k, "n0");
  PUT(", %s%s)", sum, w->precision);
}

/// A row's sum changes its sign as its maximum rescales it in attention.
static void put_chain(writer *w, const char *k) {
  PUT("\n    let s = dot(q, ");
  put_load(w, 'B', "0", k);
  PUT(", zeros(%s[BM, BK])%s)\n    total = total + reduce.add(s, 1)\n", w->sum, w->precision);
  PUT("    acc = dot(max(min(s, 2), -2) as %s, ", w->type);
  put_load(w, 'V', k, "n0");
  PUT(", select((total > 0)[:, _], 0 - acc, acc)%s)\n  ", w->precision);
}

/// What becomes of the sum, and where it goes.
static void put_store(writer *w) {
  const matrix *c = find(w, 'C');
  const char *batch = w->is_batched ? "pid(2), " : "", *turn = c->is_turned ? "trans(" : "";
  char place[40], first[40] = "";
  snprintf(place, sizeof place, c->is_turned ? "%sn0, m0" : "%sm0, n0", batch);
  if (w->part < w->bn) snprintf(first, sizeof first, ", first = %u, axis = %u", w->part, !c->is_turned);
  if (w->is_atomic) {
    PUT("atomic.add(C, [%s], %sr(acc)%s%s)", place, turn, c->is_turned ? ")" : "", first);
    return;
  }
  PUT("store(C, [%s], %s(r(acc)", place, turn);
  if (find(w, 'D')) PUT(" + (load(D, [n0]) as %s)[_, :]", w->sum);
  if (w->has_old) PUT(" + %sload(C, [%s])%s as %s", turn, place, c->is_turned ? ")" : "", w->sum);
  PUT(") as %s%s%s)", w->result, c->is_turned ? ")" : "", first);
}

static void put_shape(writer *w) {
  static const struct {
    const char *word, *sum;
    char right;
  } steps[] = {{"STEP(", "acc", 'B'}, {"PART(", "part", 'B'}, {"OTHER(", "other", 'V'}, {"CHAIN(", NULL, 0}};
  for (const char *at = shapes[w->shape].text; *at;) {
    unsigned i = 0;
    while (i < 4 && strncmp(at, steps[i].word, strlen(steps[i].word))) i++;
    if (i < 4) {
      char k[20];
      at += strlen(steps[i].word);
      snprintf(k, sizeof k, "%.*s", (int)strcspn(at, ")"), at);
      at += strcspn(at, ")") + 1;
      if (steps[i].sum) put_step(w, k, steps[i].sum, steps[i].right);
      else put_chain(w, k);
    } else if (!strncmp(at, "STORE", 5)) put_store(w), at += 5;
    else if (!strncmp(at, "SUM", 3)) PUT("%s", w->sum), at += 3;
    else if (*at != '$') PUT("%c", *at++);
    else {
      if (w->split) PUT(" @split(%u)", w->split);
      at++;
    }
  }
}

// ---------------------------------------------------------------------------------------------- parameters

/// A tile's axes, as a view's type and the operation `view` have them.
static void put_tile(writer *w, const matrix *m) {
  PUT("[%s%u", w->is_batched && m->columns.tile ? "_, " : "", m->rows.tile);
  if (m->columns.tile) PUT(", %u", m->columns.tile);
  PUT("]");
}

/// An integer parameter, of which the kernel may know that it is a multiple of 8 or 16.
static void put_number(writer *w, const char *name, const char *type, int64_t value) {
  PUT(", %s: %s", name, type);
  if (w->is_whole && value % 8 == 0) PUT(" @div(%d)", value % 16 ? 8 : 16);
  w->numbers[w->number_count++] = value;
}

static void put_parameters(writer *w) {
  for (unsigned i = 0; i < w->matrix_count; i++) {
    const matrix *m = &w->matrices[i];
    PUT(i ? ", " : "");
    if (w->is_pointer)
      PUT("%c: %s *%s%s", m->name + 'a' - 'A', m->access, m->scalar, m->is_aligned ? " @align(16)" : "");
    else {
      PUT("%c: %s view %s", m->name, m->access, m->scalar);
      put_tile(w, m);
      if (m->is_aligned) PUT(m->columns.tile ? " @align(16) @rows(16)" : " @align(16)");
    }
    if (chance(w, 20)) PUT(" @noalias");
  }
  put_number(w, "M", "i32", w->m);
  put_number(w, "N", "i32", w->n);
  put_number(w, "K", chance(w, 50) ? "i32 @range(0, 65536)" : "i32", w->k);
  put_number(w, "times", "i32", w->times);
  if (w->channels) {
    put_number(w, "Q", w->channels % 32 ? "i32 @range(1, 65536)" : "i32", w->channels);
    put_number(w, "E", "i32", w->channels);
  }
  for (unsigned i = 0; i < w->matrix_count && w->is_pointer; i++) {
    const char name[] = {'l', 'd', (char)(w->matrices[i].name + 'a' - 'A'), 0};
    if (w->matrices[i].columns.tile) put_number(w, name, "i64", w->matrices[i].pitch);
  }
}

/// Views of pointers.
static void put_views(writer *w) {
  for (unsigned i = 0; i < w->matrix_count && w->is_pointer; i++) {
    const matrix *m = &w->matrices[i];
    const char lower = (char)(m->name + 'a' - 'A');
    const char *down = m->rows.text, *across = m->columns.text;
    if (!m->columns.tile) PUT("  let %c = view(%c, [%s], [1], ", m->name, lower, down);
    else if (w->is_batched)
      PUT("  let %c = view(%c, [2, %s, %s], [%s as i64 * ld%c, ld%c, 1], ", m->name, lower, down, across,
          down, lower, lower);
    else PUT("  let %c = view(%c, [%s, %s], [ld%c, 1], ", m->name, lower, down, across, lower);
    put_tile(w, m);
    PUT(")\n");
  }
}

static void write_kernel(writer *w) {
  static const char *const results[] = {"x", "max(x, 0)", "x + x", "0 - x"};
  const bool is_persistent = shapes[w->shape].is_persistent;
  PUT("kiln 1\nconst BM = %u\nconst BN = %u\nconst BK = %u\nconst PART = %u\n", w->bm, w->bn, w->bk, w->part);
  PUT("fn twice(x) { return x + x }\nfn r(x) { return %s }\nkernel products(", results[below(w, 4)]);
  put_parameters(w);
  PUT(")\n  ");
  if (is_persistent) PUT("@grid(%u, 1, %u)", w->programs, w->slices);
  else PUT("@grid(cdiv(M, BM), cdiv(N, PART), %u)", w->slices);
  PUT(" @config(warps = %u, stages = %u)\n{\n", w->warps, w->stages);
  put_views(w);
  PUT(is_persistent ? "  var m0 = 0\n  var n0 = 0\n" : "  let m0 = pid(0) * BM\n  let n0 = pid(1) * PART\n");
  PUT("  var acc = zeros(%s[BM, BN])\n", w->sum);
  if (w->is_chained) {
    PUT("  var total = zeros(%s[BM])\n  let q = ", w->sum);
    put_load(w, 'A', "m0", "0");
    PUT("\n");
  }
  put_shape(w);
  if (w->is_chained) PUT("  acc = acc + total[:, _]\n");
  if (!shapes[w->shape].has_stored) PUT("  "), put_store(w), PUT("\n");
  PUT("}\n");
  kiln_buffer_u8(&w->text, 0);
}

// -------------------------------------------------------------------------------------------------- drawing

static void draw_types(writer *w) {
  static const struct {
    const char *type, *sum, *precision;
  } types[] = {{"f16", "f32", ""},  {"bf16", "f32", ""},
               {"f16", "f32", ""},  {"bf16", "f32", ""},
               {"f16", "f32", ""},  {"i8", "i32", ""},
               {"e4m3", "f32", ""}, {"e5m2", "f32", ", prec = fast"},
               {"f32", "f32", ""},  {"f32", "f32", ", prec = tf32"},
               {"f64", "f64", ""}};
  const unsigned i = below(w, w->is_fetched ? 8 : sizeof types / sizeof *types);
  w->type = types[i].type, w->sum = types[i].sum, w->precision = types[i].precision;
  w->result = w->is_atomic || chance(w, 50) ? w->sum
              : strcmp(w->sum, "f32")       ? w->sum
              : chance(w, 50)               ? "f16"
                                            : "bf16";
}

static unsigned bytes_of(const char *scalar) {
  return strstr(scalar, "64") ? 8 : strstr(scalar, "32") ? 4 : strstr(scalar, "16") ? 2 : 1;
}

/// Tiles whose operands fit the shared memory of every GPU, and whose sums fit the threads.
static void draw_tiles(writer *w) {
  enum { MOST_SHARED = 32 << 10, MOST_SUMS = 64 };
  do {
    w->bm = w->is_fetched ? 64u << below(w, 2) : 16u << below(w, 4);
    w->bn = 16u << below(w, 4), w->bk = 16u << below(w, 3);
    w->depth = 16u << below(w, 3);
  } while ((w->bm + w->bn) * w->bk * bytes_of(w->type) > MOST_SHARED || w->bm * w->bn > 8192);
  w->warps = 1u << (w->is_fetched ? 2 + below(w, 2) : below(w, 4));
  while (w->bm * w->bn * bytes_of(w->sum) / 4 > MOST_SUMS * 32 * w->warps) w->warps *= 2;
  w->stages = w->is_fetched ? 2 + below(w, 4) : 1 + below(w, 4);
  w->part = !w->is_chained && w->bn > 16 && chance(w, 25) ? w->bn - 8 * (1 + below(w, w->bn / 16)) : w->bn;
}

static unsigned draw_extent(writer *w, unsigned tile, unsigned most) {
  const unsigned length = chance(w, 20) ? tile * (1 + below(w, most)) : 1 + below(w, tile * most);
  return w->is_whole ? (length + 7) / 8 * 8 : length;
}

static void draw_extents(writer *w) {
  w->is_whole = chance(w, w->is_fetched ? 75 : 50) || w->channels;
  w->m = draw_extent(w, w->bm, 2), w->n = draw_extent(w, w->part, 2);
  w->k = chance(w, 90) ? draw_extent(w, w->bk, 5) : below(w, 2) * 8;
  w->times = below(w, 3);
}

static void draw_matrices(writer *w) {
  const extent m = {"M", w->m, w->bm}, n = {"N", w->n, w->bn}, k = {"K", w->k, w->bk};
  static const char *const depths[] = {"16", "32", "64"};
  const extent depth = {depths[w->depth / 32], w->depth, w->depth}, one = {"1", 1, 0};
  const bool b_turned = chance(w, 50) || w->is_chained;
  add_matrix(w, 'A', w->type, "in", m, w->is_chained ? depth : k, !w->is_chained && chance(w, 40));
  add_matrix(w, 'B', w->type, "in", w->is_chained ? depth : k, w->is_chained ? k : n, b_turned);
  if (w->is_chained || strstr(shapes[w->shape].text, "OTHER"))
    add_matrix(w, 'V', w->type, "in", k, n, !w->is_chained && chance(w, 50));
  if (!w->is_atomic && chance(w, 25)) add_matrix(w, 'D', w->type, "in", n, one, false);
  add_matrix(w, 'C', w->result, w->is_atomic ? "accum" : w->has_old ? "inout" : "out", m, n, chance(w, 20));
  for (unsigned i = 0; i < w->matrix_count; i++) {
    matrix *one_of = &w->matrices[i];
    const unsigned unit = 16 / bytes_of(one_of->scalar);
    one_of->pitch = one_of->columns.length + (chance(w, 50) ? below(w, 65) : 0);
    if (one_of->is_aligned) one_of->pitch = (one_of->pitch + unit - 1) / unit * unit;
  }
}

static void draw(writer *w) {
  for (unsigned i = 0; i < 4; i++) kiln_test_random(&w->seed);
  const unsigned divided =
      (unsigned)(w->seed % 48); // drawn apart: what a seed means does not depend on the rest
  if (divided < 6) w->channels = 16 * (1 + divided);
  w->shape = below(w, sizeof shapes / sizeof *shapes);
  const bool is_sliced = shapes[w->shape].is_sliced;
  w->is_fetched = chance(w, 50); // by tensor maps and for products of warpgroups, where a GPU has them
  w->is_chained = shapes[w->shape].is_chained;
  w->is_atomic = is_sliced || chance(w, 15);
  w->is_pointer = chance(w, 50);
  w->is_batched = !is_sliced && chance(w, 25);
  w->has_old = !w->is_atomic && chance(w, 25);
  w->slices = is_sliced ? 1 + below(w, 3) : w->is_batched ? 2 : 1;
  w->programs = 1 + below(w, 3);
  draw_types(w);
  w->is_doubled = *w->type != 'e' && chance(w, 20); // fp8 has no arithmetic
  draw_tiles(w);
  draw_extents(w);
  w->split = !w->is_batched && chance(w, 25) ? 1u << below(w, 3) : 0;
  draw_matrices(w);
}

// --------------------------------------------------------------------------------------------------- whole

static void describe_buffer(const writer *w, const matrix *m, kiln_scalar scalar, kernelgen_buffer *out) {
  const unsigned batches = w->is_batched && m->columns.tile ? 2 : 1, pitch = m->columns.tile ? m->pitch : 1;
  const size_t count = (size_t)batches * m->rows.length * pitch;
  *out = (kernelgen_buffer){.scalar = scalar,
                            .count = count ? count : 1,
                            .written = strcmp(m->access, "in") != 0,
                            .is_small = true};
  if (w->is_pointer) return;
  kernelgen_view *v = &out->view;
  if (batches > 1) v->extents[v->rank] = batches, v->strides[v->rank++] = (int64_t)m->rows.length * pitch;
  v->extents[v->rank] = m->rows.length, v->strides[v->rank++] = pitch;
  if (m->columns.tile) v->extents[v->rank] = m->columns.length, v->strides[v->rank++] = 1;
}

static uint32_t blocks_of(unsigned length, unsigned tile) { return (length + tile - 1) / tile; }

void kernelgen_products_text(uint64_t seed, kiln_buffer *out) {
  writer w = {.seed = seed * 0x9e3779b97f4a7c15u + 7};
  draw(&w);
  write_kernel(&w);
  *out = w.text;
}

void kernelgen_make_products(kiln_arena *arena, uint64_t seed, kernelgen_case *out) {
  writer w = {.seed = seed * 0x9e3779b97f4a7c15u + 7};
  draw(&w);
  write_kernel(&w);
  ir_kernel *kernel = kernelgen_lower_text(arena, seed, &w.text);
  *out = (kernelgen_case){.seed = seed, .kernel = kernel, .buffer_count = w.matrix_count};
  out->numbers = kiln_arena_copy(arena, w.numbers, w.number_count * sizeof *w.numbers);
  for (unsigned i = 0; i < w.matrix_count; i++)
    describe_buffer(&w, &w.matrices[i], kernel->params[i].type.scalar, &out->buffers[i]);
  const bool is_persistent = shapes[w.shape].is_persistent;
  out->grid[0] = is_persistent ? w.programs : blocks_of(w.m, w.bm);
  out->grid[1] = is_persistent ? 1 : blocks_of(w.n, w.part);
  out->grid[2] = w.slices;
}
