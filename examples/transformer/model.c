// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The weight file: "KILNTOY1", eight u32 of shape, then the weights in the order of `each_weight`.
// Little-endian.
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "KILNTOY1";

/// Calls `take` for each weight in file order with its number of floats.
static void each_weight(const model_shape *s,
                        void (*take)(void *context, size_t which, size_t layer, size_t count),
                        void *context) {
  size_t w = s->width, q = (size_t)s->heads * s->head_size, kv = (size_t)s->kv_heads * s->head_size;
  const size_t sizes[9] = {w, q * w, kv * w, kv * w, w * q, w, s->hidden * w, s->hidden * w, w * s->hidden};
  take(context, 0, 0, (size_t)s->vocabulary * w);
  for (size_t layer = 0; layer < s->layers; layer++)
    for (size_t i = 0; i < 9; i++) take(context, 1 + i, layer, sizes[i]);
  take(context, 10, 0, w);
  take(context, 11, 0, (size_t)s->vocabulary * w);
}

static void count_one(void *context, size_t which, size_t layer, size_t count) {
  (void)which, (void)layer;
  *(size_t *)context += count;
}

typedef struct placing {
  model *m;
  const float *at;
} placing;

static void place_one(void *context, size_t which, size_t layer, size_t count) {
  placing *p = context;
  layer_weights *l = &p->m->layers[layer];
  const float **slots[12] = {&p->m->embedding, &l->norm1, &l->wq, &l->wk,   &l->wv,      &l->wo,
                             &l->norm2,        &l->gate,  &l->up, &l->down, &p->m->norm, &p->m->head};
  *slots[which] = p->at;
  p->at += count;
}

typedef struct writing {
  FILE *file;
  uint64_t state;
  const model_shape *shape;
  int failed;
} writing;

static float random_weight(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(*state >> 40) / (1 << 24) - 0.5);
}

static void write_one(void *context, size_t which, size_t layer, size_t count) {
  writing *w = context;
  int norm = which == 1 || which == 6 || which == 10;
  float scale = which == 0 ? 2.0f : 4.0f / (float)w->shape->width * 4.0f;
  (void)layer;
  for (size_t i = 0; i < count && !w->failed; i++) {
    float v = norm ? 1.0f + 0.1f * random_weight(&w->state) : scale * random_weight(&w->state);
    w->failed |= fwrite(&v, sizeof v, 1, w->file) != 1;
  }
}

int model_generate(const char *path, const model_shape *shape, uint64_t seed) {
  writing w = {fopen(path, "wb"), seed, shape, 0};
  if (!w.file) return -1;
  w.failed |= fwrite(magic, sizeof magic, 1, w.file) != 1 || fwrite(shape, sizeof *shape, 1, w.file) != 1;
  each_weight(shape, write_one, &w);
  w.failed |= fclose(w.file) != 0;
  return w.failed ? -1 : 0;
}

static const char *check_shape(const model_shape *s) {
  if (!s->layers || s->layers > MODEL_LAYERS) return "the number of layers is out of range";
  if (!s->vocabulary || s->vocabulary > 1u << 20 || !s->width || s->width > 4096 || s->width % 8)
    return "vocabulary or width is out of range";
  if (s->head_size != 64 || !s->kv_heads || s->heads % s->kv_heads || s->heads > 256)
    return "heads are out of range (head size 64)";
  if (!s->hidden || s->hidden > 16384 || s->hidden % 8 || !s->positions || s->positions > 65536)
    return "hidden size or positions are out of range";
  return NULL;
}

static const char *read_weights(FILE *f, model *out) {
  char head[8];
  if (fread(head, sizeof head, 1, f) != 1 || memcmp(head, magic, sizeof magic)) return "not a weight file";
  if (fread(&out->shape, sizeof out->shape, 1, f) != 1) return "the file ends in its shape";
  const char *wrong = check_shape(&out->shape);
  if (wrong) return wrong;
  each_weight(&out->shape, count_one, &out->count);
  fseek(f, 0, SEEK_END);
  if ((size_t)ftell(f) != sizeof magic + sizeof out->shape + out->count * sizeof(float))
    return "the length of the file does not fit its shape";
  fseek(f, sizeof magic + sizeof out->shape, SEEK_SET);
  out->bytes = malloc(out->count * sizeof(float));
  if (!out->bytes) return "no memory";
  return fread(out->bytes, sizeof(float), out->count, f) == out->count ? NULL : "reading failed";
}

const char *model_load(const char *path, model *out) {
  memset(out, 0, sizeof *out);
  FILE *f = fopen(path, "rb");
  if (!f) return "the file cannot be opened";
  const char *wrong = read_weights(f, out);
  fclose(f);
  if (wrong) return wrong;
  placing p = {out, out->bytes};
  each_weight(&out->shape, place_one, &p);
  return NULL;
}

void model_free(model *m) {
  free(m->bytes);
  memset(m, 0, sizeof *m);
}
