// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests attention, and what happens to tokens around it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cases.h"

/// out[D] <- softmax(q . keys) values over `count` rows that are `stride` apart; returns the logarithm of the
/// sum.
static double attend(const double *q, const double *k, const double *v, int count, int stride, int D,
                     double scale, double *out) {
  double *p = calloc(count, sizeof *p), top = -INFINITY, sum = 0;
  for (int t = 0; t < count; t++) {
    for (int d = 0; d < D; d++) p[t] += q[d] * k[(size_t)t * stride + d];
    p[t] *= scale;
    top = fmax(top, p[t]);
  }
  for (int t = 0; t < count; t++) sum += p[t] = exp(p[t] - top);
  for (int d = 0; d < D; d++) {
    out[d] = 0;
    for (int t = 0; t < count; t++) out[d] += p[t] / sum * v[(size_t)t * stride + d];
  }
  free(p);
  return top + log(sum);
}

static void attention(run *r, kiln_scalar s, int D, bool causal, int S) {
  enum { HEADS = 2 };
  size_t n = (size_t)HEADS * S * D;
  char name[96];
  array *q = input(r, s, n, -2, 2), *k = input(r, s, n, -2, 2), *v = input(r, s, n, -2, 2),
        *o = output(r, s, n), *lse = output(r, KILN_F32, HEADS * S);
  double *want = calloc(n, sizeof *want), *sums = calloc(HEADS * S, sizeof *sums), scale = 1 / sqrt(D);
  snprintf(name, sizeof name, "attention[T=%s,D=%d,CAUSAL=%s]", kiln_scalars[s].spelling, D,
           causal ? "true" : "false");
  CALL(r, name, A(q), A(k), A(v), A(o), A(lse), I(HEADS), I(S), R(scale));
  for (int i = 0; i < HEADS * S; i++) {
    size_t head = (size_t)(i / S) * S * D;
    sums[i] = attend(q->v + (size_t)i * D, k->v + head, v->v + head, causal ? i % S + 1 : S, D, D, scale,
                     want + (size_t)i * D);
  }
  double t =
      s == KILN_F32 ? 1e-5 : tolerance(s); // probabilities are rounded to the type before the second product
  expect(r, o, want, 2 * t, 2 * t);
  expect(r, lse, sums, 1e-4, 1e-5);
  free(want);
  free(sums);
}

static void attentions(run *r) {
  static const int lengths[] = {64, 200};
  for (int i = 0; i < 2; i++)
    for (int causal = 0; causal < 2; causal++)
      for (int D = 64; D <= 128; D += 64) {
        attention(r, KILN_BF16, D, causal, lengths[i]);
        attention(r, KILN_F16, D, causal, lengths[i]);
      }
  attention(r, KILN_F32, 64, true, 100);
}

static void paged(run *r, kiln_scalar s, int D, int heads, int kv_heads) {
  enum { SEQUENCES = 3, HEADS = 20, PAGE = 16, WIDTH = 5, PAGES = SEQUENCES * WIDTH };
  static const double lengths[SEQUENCES] = {1, 33, 80};
  double table[PAGES], want[SEQUENCES * HEADS * 128], scale = 1 / sqrt(D);
  char name[96];
  for (int i = 0; i < PAGES; i++) table[i] = (i * 7 + 3) % PAGES; // scattered, each page once
  size_t cache = (size_t)PAGES * PAGE * (size_t)kv_heads * (size_t)D;
  array *q = input(r, s, (size_t)(SEQUENCES * heads * D), -2, 2), *k = input(r, s, cache, -2, 2),
        *v = input(r, s, cache, -2, 2);
  array *t = given(r, KILN_I32, PAGES, table), *l = given(r, KILN_I32, SEQUENCES, lengths),
        *o = output(r, s, (size_t)(SEQUENCES * heads * D));
  snprintf(name, sizeof name, "paged_attention[T=%s,D=%d,PAGE=16]", kiln_scalars[s].spelling, D);
  CALL(r, name, A(q), A(k), A(v), A(t), A(l), A(o), I(SEQUENCES), I(heads), I(kv_heads), I(WIDTH), R(scale));
  double *keys = calloc((size_t)WIDTH * PAGE * D, sizeof *keys),
         *values = calloc((size_t)WIDTH * PAGE * D, sizeof *values);
  for (int i = 0; i < SEQUENCES * heads; i++) {
    int sequence = i / heads, kv = i % heads / (heads / kv_heads), count = (int)lengths[sequence];
    for (int row = 0; row < count; row++) {
      size_t from = (((size_t)table[sequence * WIDTH + row / PAGE] * PAGE + row % PAGE) * kv_heads + kv) * D;
      memcpy(keys + (size_t)row * D, k->v + from, D * sizeof *keys);
      memcpy(values + (size_t)row * D, v->v + from, D * sizeof *values);
    }
    attend(q->v + (size_t)i * D, keys, values, count, D, D, scale, want + (size_t)i * D);
  }
  double bound = 2 * (s == KILN_F32 ? 1e-5 : tolerance(s)); // probabilities are rounded, as above
  expect(r, o, want, bound, bound);
  free(keys);
  free(values);
}

static void paged_attentions(run *r) {
  paged(r, KILN_BF16, 128, 4, 2);
  paged(r, KILN_BF16, 64, 3, 3);
  paged(r, KILN_BF16, 64, 20, 1); // more queries on one head of keys than the first config has rows
  paged(r, KILN_F16, 128, 16, 1);
  paged(r, KILN_F32, 64, 4, 2);
}

static const kiln_scalar two[] = {KILN_F32, KILN_BF16};

static void embeddings(run *r) {
  enum { TOKENS = 4, VOCABULARY = 10, MOST = 1500 };
  static const double ids[TOKENS] = {3, 9, -1, 10};
  static const int widths[] = {1, 2, 3, 7, 13, 25, 50, 200, 400, MOST};
  static double want[TOKENS * MOST];
  for (size_t t = 0; t < 2 * sizeof widths / sizeof *widths; t++) {
    const kiln_scalar s = two[t % 2];
    const int cols = widths[t / 2];
    array *i = given(r, KILN_I32, TOKENS, ids), *table = input(r, s, (size_t)(VOCABULARY * cols), -1, 1),
          *y = output(r, s, (size_t)(TOKENS * cols));
    CALL(r, instance("embedding", s), A(i), A(table), A(y), I(TOKENS), I(VOCABULARY), I(cols));
    for (int k = 0; k < TOKENS * cols; k++) {
      int id = (int)ids[k / cols];
      want[k] = id >= 0 && id < VOCABULARY ? table->v[id * cols + k % cols] : 0;
    }
    expect(r, y, want, 0, 0);
  }
}

static void rotary(run *r, kiln_scalar s, int heads, int half) {
  enum { TOKENS = 3, POSITIONS = 20 };
  static const double places[TOKENS] = {0, 5, 19};
  const int rows = TOKENS * heads;
  double *want = calloc((size_t)(rows * 2 * half), sizeof *want);
  array *x = input(r, s, (size_t)(rows * 2 * half), -2, 2),
        *c = input(r, KILN_F32, (size_t)(POSITIONS * half), -1, 1),
        *n = input(r, KILN_F32, (size_t)(POSITIONS * half), -1, 1);
  array *p = given(r, KILN_I32, TOKENS, places);
  for (int i = 0; i < rows * half; i++) {
    int row = i / half, k = i % half, at = (int)places[row / heads] * half + k;
    double a = x->v[row * 2 * half + k], b = x->v[row * 2 * half + half + k];
    want[row * 2 * half + k] = a * c->v[at] - b * n->v[at];
    want[row * 2 * half + half + k] = b * c->v[at] + a * n->v[at];
  }
  CALL(r, instance("rotary", s), A(x), A(c), A(n), A(p), I(TOKENS), I(heads), I(half));
  expect(r, x, want, 2e-6, tolerance(s));
  free(want);
}

/// Heads and halves of each config: one head, few, many.
static void rotaries(run *r) {
  static const int shapes[][2] = {{1, 1},   {1, 3},  {1, 8},   {1, 13},  {1, 32},  {1, 64},
                                  {2, 8},   {3, 16}, {5, 40},  {9, 16},  {70, 11}, {9, 32},
                                  {17, 64}, {2, 80}, {9, 128}, {3, 200}, {1, 1100}};
  for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++)
    rotary(r, two[i % 2], shapes[i / 2][0], shapes[i / 2][1]);
}

static uint32_t high(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

/// Word n of Philox4x32-10 (Salmon et al., SC 2011) with counters (n / 4, 0, 0, 0) and key (seed, 0).
static uint32_t philox(uint32_t seed, uint32_t n) {
  uint32_t c[4] = {n / 4, 0, 0, 0}, k0 = seed, k1 = 0;
  for (int round = 0; round < 10; round++) {
    uint32_t a = c[0], b = c[2];
    uint32_t next[4] = {high(0xCD9E8D57u, b) ^ c[1] ^ k0, 0xCD9E8D57u * b, high(0xD2511F53u, a) ^ c[3] ^ k1,
                        0xD2511F53u * a};
    memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c[n % 4];
}

static void dropouts(run *r) {
  enum { N = 5003, SEED = 1234 };
  double want[N];
  for (int t = 0; t < 2; t++) {
    array *x = input(r, two[t], N, 1, 2), *y = output(r, two[t], N);
    int kept = 0;
    CALL(r, instance("dropout", two[t]), A(x), A(y), I(N), R(0.25), I(SEED));
    for (int i = 0; i < N; i++) {
      // as the language's rand4: the upper 24 bits, scaled to [0, 1)
      double u = (double)(philox(SEED, (uint32_t)i) >> 8) / (1 << 24);
      want[i] = u >= 0.25 ? x->v[i] / 0.75 : 0;
      kept += u >= 0.25;
    }
    if (kept < N * 70 / 100 || kept > N * 80 / 100)
      snprintf(r->text, sizeof r->text, "the reference keeps %d of %d", kept, N);
    expect(r, y, want, 0, tolerance(two[t]));
  }
}

const kernel_case token_cases[] = {
    {"embedding", embeddings}, {"rotary", rotaries}, {"dropout", dropouts}, {NULL, NULL}};
const kernel_case attention_cases[] = {
    {"attention", attentions}, {"paged_attention", paged_attentions}, {NULL, NULL}};
