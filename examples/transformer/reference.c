// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transformer in plain C, with sums in double: what the kernels' logits are compared with.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static void product(const float *matrix, const float *x, float *y, size_t rows, size_t cols) {
  for (size_t r = 0; r < rows; r++) {
    double sum = 0;
    for (size_t c = 0; c < cols; c++) sum += (double)matrix[r * cols + c] * x[c];
    y[r] = (float)sum;
  }
}

static void norm(const float *x, const float *weight, float *y, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
  double scale = 1 / sqrt(sum / (double)n + 1e-5);
  for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] * scale * weight[i]);
}

static void rotate(float *x, uint32_t heads, uint32_t size, uint32_t position) {
  uint32_t half = size / 2;
  for (uint32_t h = 0; h < heads; h++)
    for (uint32_t i = 0; i < half; i++) {
      double angle = position * pow(10000.0, -(double)i / half);
      float *a = &x[h * size + i], *b = a + half, old = *a;
      *a = (float)(old * cos(angle) - *b * sin(angle));
      *b = (float)(*b * cos(angle) + old * sin(angle));
    }
}

static void attend(const model_shape *s, const float *q, const float *keys, const float *values,
                   uint32_t count, float *out, double *scores) {
  size_t row = (size_t)s->kv_heads * s->head_size;
  for (uint32_t h = 0; h < s->heads; h++) {
    size_t kv = (size_t)(h / (s->heads / s->kv_heads)) * s->head_size;
    double top = -INFINITY, total = 0;
    for (uint32_t t = 0; t < count; t++) {
      scores[t] = 0;
      for (uint32_t d = 0; d < s->head_size; d++)
        scores[t] += (double)q[h * s->head_size + d] * keys[t * row + kv + d];
      scores[t] /= sqrt(s->head_size);
      if (scores[t] > top) top = scores[t];
    }
    for (uint32_t t = 0; t < count; t++) total += scores[t] = exp(scores[t] - top);
    for (uint32_t d = 0; d < s->head_size; d++) {
      double sum = 0;
      for (uint32_t t = 0; t < count; t++) sum += scores[t] * values[t * row + kv + d];
      out[h * s->head_size + d] = (float)(sum / total);
    }
  }
}

void reference_step(const model *m, uint32_t token, uint32_t position, float *keys, float *values,
                    float *logits) {
  const model_shape *s = &m->shape;
  size_t w = s->width, qn = (size_t)s->heads * s->head_size, row = (size_t)s->kv_heads * s->head_size;
  float *buffer = malloc((2 * w + 2 * qn + 2 * s->hidden) * sizeof *buffer);
  double *scores = malloc((position + 1) * sizeof *scores);
  float *x = buffer, *h = x + w, *q = h + w, *attended = q + qn, *gate = attended + qn,
        *up = gate + s->hidden;
  memcpy(x, m->embedding + token * w, w * sizeof *x);
  for (uint32_t l = 0; l < s->layers; l++) {
    const layer_weights *p = &m->layers[l];
    float *layer_keys = keys + (size_t)l * s->positions * row,
          *layer_values = values + (size_t)l * s->positions * row;
    norm(x, p->norm1, h, w);
    product(p->wq, h, q, qn, w);
    product(p->wk, h, layer_keys + position * row, row, w);
    product(p->wv, h, layer_values + position * row, row, w);
    rotate(q, s->heads, s->head_size, position);
    rotate(layer_keys + position * row, s->kv_heads, s->head_size, position);
    attend(s, q, layer_keys, layer_values, position + 1, attended, scores);
    product(p->wo, attended, h, w, qn);
    for (size_t i = 0; i < w; i++) x[i] += h[i];
    norm(x, p->norm2, h, w);
    product(p->gate, h, gate, s->hidden, w);
    product(p->up, h, up, s->hidden, w);
    for (size_t i = 0; i < s->hidden; i++) gate[i] = (float)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
    product(p->down, gate, h, w, s->hidden);
    for (size_t i = 0; i < w; i++) x[i] += h[i];
  }
  norm(x, m->norm, h, w);
  product(m->head, h, logits, s->vocabulary, w);
  free(scores);
  free(buffer);
}
