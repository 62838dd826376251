// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests attention with unequal lengths and heads, windows, strides and packed sequences, its gradients, and
// decoding in pieces.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cases.h"

/// Row i sees keys j with place - left <= j <= place + right, place = i + keys - rows; below 0: no bound.
typedef struct form {
  int D, batch, heads, kv_heads, rows, keys, left, right;
} form;

/// Where element [b, row, head, d] of a tensor is.
typedef struct place {
  long batch, row, head;
} place;

static size_t at(place p, int b, int row, int head) {
  return (size_t)(b * p.batch + row * p.row + head * p.head);
}

typedef enum order { ROWS_FIRST, HEADS_FIRST, PACKED } order;

/// `between`: heads of other tensors that lie in the same rows (PACKED).
static place place_of(order o, int rows, int heads, int D, int between) {
  long h = heads, d = D, n = rows;
  if (o == HEADS_FIRST) return (place){h * n * d, d, n * d};
  return (place){n * (h + between) * d, (h + between) * d, d};
}

static bool sees(const form *f, int i, int j) {
  int stands = i + f->keys - f->rows;
  return (f->left < 0 || j >= stands - f->left) && (f->right < 0 || j <= stands + f->right);
}

typedef struct operands {
  const double *q, *k, *v;
  place pq, pk, pv;
} operands;

/// p[keys] <- probabilities of a row; returns the logarithm of the sum.
static double weights(const form *f, const operands *x, double scale, int b, int h, int i, double *p) {
  double top = -INFINITY, sum = 0;
  int kv = h / (f->heads / f->kv_heads);
  for (int j = 0; j < f->keys; j++) {
    p[j] = 0;
    for (int d = 0; d < f->D; d++)
      p[j] += x->q[at(x->pq, b, i, h) + (size_t)d] * x->k[at(x->pk, b, j, kv) + (size_t)d];
    p[j] = sees(f, i, j) ? p[j] * scale : -INFINITY;
    top = fmax(top, p[j]);
  }
  for (int j = 0; j < f->keys; j++) sum += p[j] = p[j] > -INFINITY ? exp(p[j] - top) : 0;
  for (int j = 0; sum > 0 && j < f->keys; j++) p[j] /= sum;
  return sum > 0 ? top + log(sum) : -INFINITY;
}

static void attend_row(const form *f, const operands *x, double scale, int b, int h, int i, double *out,
                       double *sum) {
  double *p = calloc((size_t)f->keys + 1, sizeof *p);
  int kv = h / (f->heads / f->kv_heads);
  *sum = weights(f, x, scale, b, h, i, p);
  for (int d = 0; d < f->D; d++) {
    out[d] = 0;
    for (int j = 0; j < f->keys; j++) out[d] += p[j] * x->v[at(x->pv, b, j, kv) + (size_t)d];
  }
  free(p);
}

#define STRIDES(p) L((p).batch), L((p).row), L((p).head)

static double bound_of(kiln_scalar s) { return s == KILN_F32 ? 1e-5 : tolerance(s); }

static void attention(run *r, kiln_scalar s, form f, order o) {
  size_t rows = (size_t)f.batch * f.rows * f.heads, keys = (size_t)f.batch * f.keys * f.kv_heads,
         D = (size_t)f.D;
  double scale = 1 / sqrt(f.D);
  char name[96];
  array *q, *k, *v;
  int first_k = 0, first_v = 0;
  operands x;
  if (o == PACKED) { // rows hold q, k and v one after another
    int heads = f.heads + 2 * f.kv_heads;
    q = k = v = input(r, s, (size_t)f.batch * f.rows * heads * D, -2, 2);
    x.pq = place_of(o, f.rows, f.heads, f.D, 2 * f.kv_heads);
    x.pk = x.pv = x.pq;
    first_k = f.heads * f.D, first_v = (f.heads + f.kv_heads) * f.D;
  } else {
    q = input(r, s, rows * D + 8, -2, 2), k = input(r, s, keys * D + 8, -2, 2),
    v = input(r, s, keys * D + 8, -2, 2);
    x.pq = place_of(o, f.rows, f.heads, f.D, 0);
    x.pk = x.pv = place_of(o, f.keys, f.kv_heads, f.D, 0);
  }
  x.q = q->v, x.k = k->v + first_k, x.v = v->v + first_v;
  place po = place_of(o == HEADS_FIRST ? o : ROWS_FIRST, f.rows, f.heads, f.D, 0);
  array *out = output(r, s, rows * D), *lse = output(r, KILN_F32, rows);
  double *want = calloc(rows * D, sizeof *want), *sums = calloc(rows, sizeof *sums);
  for (int b = 0; b < f.batch; b++)
    for (int h = 0; h < f.heads; h++)
      for (int i = 0; i < f.rows; i++)
        attend_row(&f, &x, scale, b, h, i, want + at(po, b, i, h),
                   sums + ((size_t)b * f.heads + h) * f.rows + i);
  snprintf(name, sizeof name, "attention_general[T=%s,D=%d]", kiln_scalars[s].spelling, f.D);
  CALL(r, name, A(q), AT(k, first_k), AT(v, first_v), A(out), A(lse), I(f.batch), I(f.heads), I(f.kv_heads),
       I(f.rows), I(f.keys), STRIDES(x.pq), STRIDES(x.pk), STRIDES(x.pv), STRIDES(po), I(f.left), I(f.right),
       R(scale));
  expect(r, out, want, 2 * bound_of(s), 2 * bound_of(s));
  expect(r, lse, sums, 1e-4, 1e-5);
  free(want);
  free(sums);
}

static void attentions(run *r) {
  static const form forms[] = {
      {64, 2, 4, 2, 100, 100, -1, 0},  // causal, two heads share keys
      {64, 1, 3, 1, 70, 200, -1, 0},   // fewer rows than keys: the last row sees all
      {64, 1, 2, 2, 200, 70, -1, 0},   // more rows than keys: the first 130 see none
      {64, 1, 2, 2, 130, 130, 40, 0},  // a window
      {64, 1, 2, 1, 150, 300, 17, 20}, // on both sides
      {64, 1, 2, 2, 65, 129, 0, 0},    // one key a row
      {64, 1, 1, 1, 1, 333, -1, -1},   // a row that sees all
      {64, 1, 2, 1, 90, 0, -1, -1},    // no keys
      {64, 2, 2, 1, 300, 300, 128, 0}, // a window of whole blocks
      {64, 1, 2, 1, 140, 64, -1, -1},  // more rows than keys, all seen
  };
  for (int i = 0; i < 10; i++) {
    attention(r, KILN_BF16, forms[i], i % 2 ? HEADS_FIRST : ROWS_FIRST);
    attention(r, KILN_F32, forms[i], i % 2 ? ROWS_FIRST : HEADS_FIRST);
  }
  attention(r, KILN_BF16, (form){64, 2, 4, 2, 100, 100, -1, 0}, PACKED);
  attention(r, KILN_F16, (form){128, 1, 2, 1, 100, 100, -1, -1}, PACKED);
  for (int D = 32; D <= 256; D += D == 64 || D == 96 ? 32 : D) {
    attention(r, KILN_BF16, (form){D, 1, 4, 2, 140, 140, -1, 0}, ROWS_FIRST);
    attention(r, KILN_BF16, (form){D, 2, 2, 1, 50, 210, -1, -1}, HEADS_FIRST);
  }
  attention(r, KILN_F16, (form){64, 1, 2, 2, 140, 260, 64, 0}, ROWS_FIRST);
  attention(r, KILN_F16, (form){128, 1, 2, 1, 140, 260, -1, 0}, ROWS_FIRST);
}

/// Few queries, of all heads that share keys in one tile, and many keys, whose shares are joined where there is
/// scratch memory for them.
static void few_queries(run *r) {
  static const form forms[] = {
      {64, 1, 8, 2, 1, 1500, -1, 0},  // one query
      {64, 2, 16, 1, 9, 300, -1, 0},  // three tiles of rows
      {64, 1, 4, 2, 4, 800, 100, 0},  // a window
      {64, 1, 6, 2, 5, 40, -1, 3},    // few keys
      {64, 1, 3, 1, 70, 20, -1, 0},   // rows that see none
      {128, 2, 4, 1, 3, 700, -1, -1}, // of all keys
      {128, 1, 32, 2, 2, 513, -1, 0}, // as many rows as a tile has
      {96, 1, 2, 2, 16, 900, -1, 0},  // columns that are no power of two
      {256, 1, 4, 1, 2, 640, -1, -1}, // wide heads
      {32, 1, 2, 1, 1, 2000, -1, -1}, // narrow ones
  };
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    attention(r, KILN_BF16, forms[i], i % 2 ? HEADS_FIRST : ROWS_FIRST);
    if (forms[i].D == 64 || forms[i].D == 128)
      attention(r, KILN_F16, forms[i], i % 2 ? ROWS_FIRST : HEADS_FIRST);
  }
}

/// The launches in place of one with few queries: shares of `span` keys, which are put together.
static void in_shares(run *r, kiln_scalar s, form f, int span) {
  const size_t rows = (size_t)f.batch * f.rows * f.heads, keys = (size_t)f.batch * f.keys * f.kv_heads;
  const size_t D = (size_t)f.D;
  const int parts = (f.keys + span - 1) / span;
  const double scale = 1 / sqrt(f.D);
  array *q = input(r, s, rows * D, -2, 2), *k = input(r, s, keys * D, -2, 2),
        *v = input(r, s, keys * D, -2, 2), *pieces = output(r, KILN_F32, rows * (size_t)parts * D),
        *shares = output(r, KILN_F32, rows * (size_t)parts), *out = output(r, s, rows * D),
        *lse = output(r, KILN_F32, rows);
  const place pq = place_of(ROWS_FIRST, f.rows, f.heads, f.D, 0),
              pk = place_of(ROWS_FIRST, f.keys, f.kv_heads, f.D, 0);
  const operands x = {q->v, k->v, v->v, pq, pk, pk};
  double *want = calloc(rows * D, sizeof *want), *sums = calloc(rows, sizeof *sums);
  for (int i = 0; i < (int)rows; i++) {
    const int row = i % f.rows, h = i / f.rows % f.heads, b = i / f.rows / f.heads;
    attend_row(&f, &x, scale, b, h, row, want + at(pq, b, row, h), sums + i);
  }
  const char *type = kiln_scalars[s].spelling;
  CALL(r, named("attention_parts[T=%s,D=%d]", type, f.D), A(q), A(k), A(v), A(pieces), A(shares), I(f.batch),
       I(f.heads), I(f.kv_heads), I(f.rows), I(f.keys), STRIDES(pq), STRIDES(pk), STRIDES(pk), I(f.left),
       I(f.right), R(scale), I(span), I(parts));
  CALL(r, named("attention_join[T=%s,D=%d]", type, f.D), A(pieces), A(shares), A(out), A(lse), I(f.batch),
       I(f.heads), I(f.rows), I(parts), STRIDES(pq));
  expect(r, out, want, 2 * bound_of(s), 2 * bound_of(s));
  expect(r, lse, sums, 1e-4, 1e-5);
  free(want);
  free(sums);
}

static void shares_of_keys(run *r) {
  static const int widths[] = {32, 64, 96, 128, 256};
  for (int i = 0; i < 5; i++) {
    in_shares(r, KILN_BF16, (form){widths[i], 1, 8, 2, 1, 500, -1, 0}, 192);
    in_shares(r, KILN_BF16, (form){widths[i], 2, 3, 3, 70, 130, -1, -1}, 64); // two tiles of rows
  }
  for (int D = 64; D <= 128; D += 64) {
    in_shares(r, KILN_F16, (form){D, 1, 6, 1, 5, 333, -1, 3}, 128);
    in_shares(r, KILN_F16, (form){D, 1, 2, 1, 40, 20, -1, 0}, 64);   // rows that see none
    in_shares(r, KILN_F16, (form){D, 1, 4, 2, 3, 1100, 200, 0}, 64); // a window: the last parts have no keys
  }
}

/// Sequences of these numbers of rows and keys, one after the other; tokens after the last stay as they
/// are.
static void packed(run *r, kiln_scalar s, int D, int left, int right) {
  enum { SEQUENCES = 5, HEADS = 4, KV_HEADS = 2, SPARE = 3 };
  static const int rows[SEQUENCES] = {70, 0, 1, 140, 33}, keys[SEQUENCES] = {70, 5, 90, 140, 0};
  double starts[SEQUENCES + 1] = {0}, key_starts[SEQUENCES + 1] = {0}, scale = 1 / sqrt(D);
  for (int i = 0; i < SEQUENCES; i++) {
    starts[i + 1] = starts[i] + rows[i];
    key_starts[i + 1] = key_starts[i] + keys[i];
  }
  int all_rows = (int)starts[SEQUENCES] + SPARE, all_keys = (int)key_starts[SEQUENCES] + SPARE;
  size_t count = (size_t)all_rows * HEADS, key_count = (size_t)all_keys * KV_HEADS;
  array *q = input(r, s, count * D, -2, 2), *k = input(r, s, key_count * D, -2, 2),
        *v = input(r, s, key_count * D, -2, 2), *o = input(r, s, count * D, -2, 2),
        *lse = input(r, KILN_F32, count, -2, 2), *first = given(r, KILN_I32, SEQUENCES + 1, starts),
        *first_key = given(r, KILN_I32, SEQUENCES + 1, key_starts);
  place p = place_of(ROWS_FIRST, all_rows, HEADS, D, 0), pk = place_of(ROWS_FIRST, all_keys, KV_HEADS, D, 0);
  double *want = calloc(count * D, sizeof *want), *sums = calloc(count, sizeof *sums);
  char name[96];
  memcpy(want, o->v, count * D * sizeof *want);
  memcpy(sums, lse->v, count * sizeof *sums);
  for (int n = 0; n < SEQUENCES; n++) {
    form f = {D, 1, HEADS, KV_HEADS, rows[n], keys[n], left, right};
    operands x = {q->v + at(p, 0, (int)starts[n], 0),
                  k->v + at(pk, 0, (int)key_starts[n], 0),
                  v->v + at(pk, 0, (int)key_starts[n], 0),
                  p,
                  pk,
                  pk};
    for (int h = 0; h < HEADS; h++)
      for (int i = 0; i < rows[n]; i++)
        attend_row(&f, &x, scale, 0, h, i, want + at(p, 0, (int)starts[n] + i, h),
                   sums + (size_t)h * all_rows + (int)starts[n] + i);
  }
  snprintf(name, sizeof name, "attention_packed[T=%s,D=%d]", kiln_scalars[s].spelling, D);
  CALL(r, name, A(q), A(k), A(v), A(o), A(lse), A(first), A(first_key), I(SEQUENCES), I(140), I(HEADS),
       I(KV_HEADS), I(all_rows), I(all_keys), L(p.row), L(p.head), L(pk.row), L(pk.head), L(pk.row),
       L(pk.head), L(p.row), L(p.head), I(left), I(right), R(scale));
  expect(r, o, want, 2 * bound_of(s), 2 * bound_of(s));
  expect(r, lse, sums, 1e-4, 1e-5);
  free(want);
  free(sums);
}

static void packed_attentions(run *r) {
  packed(r, KILN_BF16, 64, -1, 0);
  packed(r, KILN_BF16, 64, -1, -1);
  packed(r, KILN_BF16, 128, 50, 0);
  packed(r, KILN_F16, 64, 20, 30);
  packed(r, KILN_F16, 128, -1, 0);
  packed(r, KILN_F32, 64, -1, 0);
}

// ----------------------------------------------------------------------------------------- gradients

typedef struct gradients {
  double *q, *k, *v, *delta, *lse, *o;
} gradients;

/// By the chain rule from dO = g; q, k, v, g and the results lie rows first.
static gradients differentiate(const form *f, const operands *x, const double *g, double scale) {
  size_t rows = (size_t)f->batch * f->rows * f->heads, keys = (size_t)f->batch * f->keys * f->kv_heads,
         D = (size_t)f->D;
  gradients y = {calloc(rows * D + 1, 8), calloc(keys * D + 1, 8), calloc(keys * D + 1, 8),
                 calloc(rows + 1, 8),     calloc(rows + 1, 8),     calloc(rows * D + 1, 8)};
  double *p = calloc((size_t)f->keys + 1, sizeof *p);
  for (int b = 0; b < f->batch; b++)
    for (int h = 0; h < f->heads; h++)
      for (int i = 0; i < f->rows; i++) {
        size_t row = at(x->pq, b, i, h), line = ((size_t)b * f->heads + h) * f->rows + i;
        int kv = h / (f->heads / f->kv_heads);
        attend_row(f, x, scale, b, h, i, y.o + row, &y.lse[line]);
        weights(f, x, scale, b, h, i, p);
        for (size_t d = 0; d < D; d++) y.delta[line] += y.o[row + d] * g[row + d];
        for (int j = 0; j < f->keys; j++) {
          size_t key = at(x->pk, b, j, kv);
          double dp = 0;
          for (size_t d = 0; d < D; d++) dp += g[row + d] * x->v[key + d];
          double ds = p[j] * (dp - y.delta[line]) * scale;
          for (size_t d = 0; d < D; d++) {
            y.v[key + d] += p[j] * g[row + d];
            y.k[key + d] += ds * x->q[row + d];
            y.q[row + d] += ds * x->k[key + d];
          }
        }
      }
  free(p);
  return y;
}

/// The kernels that compute all gradients at once, with all heads that share keys in a program (`span` 0) or so many.
/// `in`: q, k, v, g, o, lse.
static void together(run *r, kiln_scalar s, const form *f, const array *const *in, const gradients *y,
                     const place *pq, const place *pk, int span) {
  enum { PAD = 128 };
  size_t D = (size_t)f->D, rows = (size_t)f->batch * f->rows * f->heads,
         keys = (size_t)f->batch * f->keys * f->kv_heads, lines = (size_t)f->batch * f->heads;
  double scale = 1 / sqrt(f->D), bound = bound_of(s);
  array *stats = output(r, KILN_F32, lines * 2 * ((size_t)(f->rows + PAD - 1) / PAD * PAD)),
        *sums = output(r, KILN_F32, rows * D), *dq = output(r, s, rows * D),
        *dk = output(r, s, keys * D + !keys), *dv = output(r, s, keys * D + !keys);
  char name[96];
  const char *type = kiln_scalars[s].spelling;
  snprintf(name, sizeof name, "attention_backward_begin[T=%s,D=%d]", type, f->D);
  CALL(r, name, A(in[4]), A(in[3]), A(in[5]), A(stats), A(sums), I(f->batch), I(f->heads), I(f->rows),
       STRIDES((*pq)), STRIDES((*pq)));
  int parts = span ? (f->heads / f->kv_heads + span - 1) / span : 0;
  if (parts) {
    array *k_of = output(r, KILN_F32, keys * (size_t)parts * D),
          *v_of = output(r, KILN_F32, keys * (size_t)parts * D);
    snprintf(name, sizeof name, "attention_backward_shares[T=%s,D=%d]", type, f->D);
    CALL(r, name, A(in[0]), A(in[1]), A(in[2]), A(in[3]), A(stats), A(sums), A(k_of), A(v_of), I(f->batch),
         I(f->heads), I(f->kv_heads), I(f->rows), I(f->keys), STRIDES((*pq)), STRIDES((*pk)), STRIDES((*pk)),
         STRIDES((*pq)), I(f->left), I(f->right), R(scale), I(span));
    snprintf(name, sizeof name, "attention_backward_join[T=%s,D=%d]", type, f->D);
    CALL(r, name, A(k_of), A(v_of), A(dk), A(dv), I(f->batch), I(f->kv_heads), I(f->keys), I(parts));
  } else {
    snprintf(name, sizeof name, "attention_backward[T=%s,D=%d]", type, f->D);
    CALL(r, name, A(in[0]), A(in[1]), A(in[2]), A(in[3]), A(stats), A(sums), A(dk), A(dv), I(f->batch),
         I(f->heads), I(f->kv_heads), I(f->rows), I(f->keys), STRIDES((*pq)), STRIDES((*pk)), STRIDES((*pk)),
         STRIDES((*pq)), I(f->left), I(f->right), R(scale));
  }
  snprintf(name, sizeof name, "attention_backward_end[T=%s,D=%d]", type, f->D);
  CALL(r, name, A(sums), A(dq), I(f->batch), I(f->heads), I(f->rows), R(scale));
  if (keys) expect(r, dv, y->v, 2 * bound, 2 * bound);
  if (keys) expect(r, dk, y->k, 2 * bound, 2 * bound);
  expect(r, dq, y->q, 2 * bound, 2 * bound);
}

static void gradient(run *r, kiln_scalar s, form f, int span) {
  size_t rows = (size_t)f.batch * f.rows * f.heads, keys = (size_t)f.batch * f.keys * f.kv_heads,
         D = (size_t)f.D;
  double scale = 1 / sqrt(f.D), bound = bound_of(s);
  array *q = input(r, s, rows * D + 8, -1, 1), *k = input(r, s, keys * D + 8, -1, 1),
        *v = input(r, s, keys * D + 8, -1, 1), *g = input(r, s, rows * D + 8, -1, 1);
  place pq = place_of(ROWS_FIRST, f.rows, f.heads, f.D, 0),
        pk = place_of(ROWS_FIRST, f.keys, f.kv_heads, f.D, 0);
  operands x = {q->v, k->v, v->v, pq, pk, pk};
  gradients y = differentiate(&f, &x, g->v, scale);
  array *o = given(r, s, rows * D + 1, y.o), *lse = given(r, KILN_F32, rows, y.lse);
  array *common = given(r, KILN_F32, rows, y.delta), *delta = output(r, KILN_F32, rows);
  array *dq = output(r, s, rows * D), *dk = output(r, s, keys * D + !keys),
        *dv = output(r, s, keys * D + !keys);
  char name[96];
  snprintf(name, sizeof name, "attention_backward_rows[T=%s,D=%d]", kiln_scalars[s].spelling, f.D);
  CALL(r, name, A(o), A(g), A(delta), I(f.batch), I(f.heads), I(f.rows), STRIDES(pq), STRIDES(pq));
  expect(r, delta, y.delta, bound * sqrt(f.D) / 4, 2e-6); // each o is rounded
  snprintf(name, sizeof name, "attention_backward_keys[T=%s,D=%d]", kiln_scalars[s].spelling, f.D);
  CALL(r, name, A(q), A(k), A(v), A(g), A(lse), A(common), A(dk), A(dv), I(f.batch), I(f.heads),
       I(f.kv_heads), I(f.rows), I(f.keys), STRIDES(pq), STRIDES(pk), STRIDES(pk), STRIDES(pq), I(f.left),
       I(f.right), R(scale));
  if (keys) expect(r, dv, y.v, 2 * bound, 2 * bound);
  if (keys) expect(r, dk, y.k, 2 * bound, 2 * bound);
  snprintf(name, sizeof name, "attention_backward_queries[T=%s,D=%d]", kiln_scalars[s].spelling, f.D);
  CALL(r, name, A(q), A(k), A(v), A(g), A(lse), A(common), A(dq), I(f.batch), I(f.heads), I(f.kv_heads),
       I(f.rows), I(f.keys), STRIDES(pq), STRIDES(pk), STRIDES(pk), STRIDES(pq), I(f.left), I(f.right),
       R(scale));
  expect(r, dq, y.q, 2 * bound, 2 * bound);
  together(r, s, &f, (const array *[]){q, k, v, g, o, lse}, &y, &pq, &pk, span);
  double *const all[] = {y.q, y.k, y.v, y.delta, y.lse, y.o};
  for (int i = 0; i < 6; i++) free(all[i]);
}

static void backward(run *r) {
  static const form forms[] = {{64, 1, 2, 2, 128, 128, -1, -1}, {64, 2, 4, 2, 100, 100, -1, 0},
                               {64, 1, 3, 1, 70, 200, -1, 0},   {64, 1, 2, 1, 150, 70, -1, 0},
                               {64, 1, 2, 2, 130, 150, 40, 0},  {64, 1, 2, 1, 90, 140, 17, 20},
                               {64, 1, 2, 2, 1, 77, -1, -1},    {64, 1, 2, 1, 90, 0, -1, -1}};
  for (int i = 0; i < 8; i++) {
    gradient(r, KILN_BF16, forms[i], 0);
    gradient(r, KILN_F32, forms[i], 0);
  }
  for (int causal = 0; causal < 2; causal++) {
    gradient(r, KILN_BF16, (form){128, 1, 4, 2, 150, 150, -1, causal - 1}, 0);
    gradient(r, KILN_F16, (form){128, 1, 2, 1, 64, 140, -1, causal - 1}, 0);
    gradient(r, KILN_F16, (form){64, 1, 2, 1, 140, 64, -1, causal - 1}, 0);
  }
}

/// Heads that share keys: as the kernel chooses, which has one of them in a program where there is scratch memory, and
/// so many of them.
static void backward_shares(run *r) {
  static const int spans[] = {0, 1, 2, 4};
  gradient(r, KILN_BF16, (form){128, 1, 2, 1, 70, 90, -1, -1}, 1);
  gradient(r, KILN_F16, (form){64, 1, 3, 1, 70, 90, -1, 0}, 2);
  gradient(r, KILN_F32, (form){64, 1, 2, 1, 50, 60, -1, 0}, 1);
  for (int i = 0; i < 4; i++) {
    gradient(r, KILN_BF16, (form){64, 1, 5, 1, 130, 130, -1, -(i % 2)}, spans[i]);
    gradient(r, KILN_F16, (form){128, 2, 6, 2, 129, 70, -1, -(i % 2)}, spans[i]);
  }
}

// ------------------------------------------------------------------------------------------ decoding

static void in_parts(run *r, kiln_scalar s, int D, int heads, int kv_heads, int parts) {
  enum { SEQUENCES = 4, PAGE = 16, WIDTH = 40, PAGES = SEQUENCES * WIDTH };
  static const double lengths[SEQUENCES] = {1, 333, 0, 640};
  double table[PAGES], scale = 1 / sqrt(D);
  char name[96];
  for (int i = 0; i < PAGES; i++) table[i] = (i * 7 + 3) % PAGES; // scattered, each page once
  size_t rows = (size_t)SEQUENCES * heads, cache = (size_t)PAGES * PAGE * kv_heads * D;
  array *q = input(r, s, rows * D, -2, 2), *k = input(r, s, cache, -2, 2), *v = input(r, s, cache, -2, 2);
  array *t = given(r, KILN_I32, PAGES, table), *l = given(r, KILN_I32, SEQUENCES, lengths),
        *o = output(r, s, rows * D);
  array *pieces = output(r, KILN_F32, rows * parts * D), *sums = output(r, KILN_F32, rows * parts);
  double *keys = calloc((size_t)WIDTH * PAGE * kv_heads * D, 8),
         *values = calloc((size_t)WIDTH * PAGE * kv_heads * D, 8), *want = calloc(rows * D, 8), unused;
  for (int n = 0; n < SEQUENCES; n++) {
    form f = {D, 1, heads, kv_heads, 1, (int)lengths[n], -1, -1};
    place pq = place_of(ROWS_FIRST, 1, heads, D, 0), pk = place_of(ROWS_FIRST, WIDTH * PAGE, kv_heads, D, 0);
    operands x = {q->v + (size_t)n * heads * D, keys, values, pq, pk, pk};
    for (int j = 0; j < f.keys; j++) {
      size_t from = ((size_t)table[n * WIDTH + j / PAGE] * PAGE + j % PAGE) * kv_heads * D;
      memcpy(keys + at(pk, 0, j, 0), k->v + from, (size_t)kv_heads * D * 8);
      memcpy(values + at(pk, 0, j, 0), v->v + from, (size_t)kv_heads * D * 8);
    }
    for (int h = 0; h < heads; h++)
      attend_row(&f, &x, scale, 0, h, 0, want + ((size_t)n * heads + h) * D, &unused);
  }
  snprintf(name, sizeof name, "paged_attention_parts[T=%s,D=%d,PAGE=16]", kiln_scalars[s].spelling, D);
  CALL(r, name, A(q), A(k), A(v), A(t), A(l), A(pieces), A(sums), I(SEQUENCES), I(heads), I(kv_heads),
       I(WIDTH), I(parts), R(scale));
  snprintf(name, sizeof name, "paged_attention_join[T=%s,D=%d]", kiln_scalars[s].spelling, D);
  CALL(r, name, A(pieces), A(sums), A(o), I(SEQUENCES), I(heads), I(parts));
  expect(r, o, want, 2 * bound_of(s), 2 * bound_of(s));
  free(keys);
  free(values);
  free(want);
}

static void parted(run *r) {
  in_parts(r, KILN_BF16, 128, 8, 2, 1);
  in_parts(r, KILN_BF16, 128, 8, 2, 4);
  in_parts(r, KILN_BF16, 64, 3, 3, 7);
  in_parts(r, KILN_BF16, 64, 20, 1, 40); // more parts than blocks of keys
  in_parts(r, KILN_F16, 128, 16, 1, 3);
  in_parts(r, KILN_F32, 64, 4, 2, 5);
}

const kernel_case attention_form_cases[] = {
    {"attention_general", attentions},   {"attention_few_queries", few_queries},
    {"attention_parts", shares_of_keys}, {"attention_packed", packed_attentions},
    {"attention_backward", backward},    {"attention_backward_shares", backward_shares},
    {"paged_attention_parts", parted},   {NULL, NULL}};
