// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inference of a small transformer with kernels from a bundle: an application as a user of Kiln writes it. It
// links libkiln only.
//
//   kiln build PREFIX/share/kiln/kernels/*.kiln -t host -o kernels.kbundle
//   cc -D_GNU_SOURCE -O2 *.c $(pkg-config --cflags --libs kiln) -lm -o transformer
//   transformer BUNDLE [--device host|cuda:0|hip:0] [--weights FILE] [--tokens N] [--no-check]
//
// The weight file is generated when it is missing, then loaded like any other. Every step's logits are
// compared with a plain C implementation.
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"
#include <kiln/kiln.h>

enum { PAGE = 16, PROMPT = 12, MOST_ARRAYS = 32 };

typedef struct engine {
  kiln_library *library;
  kiln_device *device;
  kiln_kernel *embedding, *add_rmsnorm, *gemm, *rotary, *copy, *attention, *silu_mul, *softmax;
  model m;        // host copy
  float *weights; // device copy of m.bytes
  float *x, *h, *zero, *q, *attended, *gate, *up, *logits, *probabilities, *rstd, *cosines, *sines, *keys,
      *values;
  int32_t *token, *position, *table, *length;
  uint32_t pages;
  void *arrays[MOST_ARRAYS]; // all memory of the device
  unsigned array_count;
} engine;

static void die(const char *what, const kiln_error *err) {
  fprintf(stderr, "transformer: %s: %s\n", what, err->text);
  exit(1);
}

static void must(kiln_status status, const char *what, const kiln_error *err) {
  if (status != KILN_OK) die(what, err);
}

static void *device_array(engine *e, size_t bytes) {
  kiln_error err = {0};
  void *memory;
  must(kiln_alloc(e->device, bytes, &memory, &err), "device memory", &err);
  must(kiln_fill(e->device, memory, 0, bytes, &err), "device memory", &err);
  assert(e->array_count < MOST_ARRAYS);
  return e->arrays[e->array_count++] = memory;
}

static void stop(engine *e) {
  while (e->array_count) kiln_free(e->device, e->arrays[--e->array_count]);
  kiln_device_close(e->device);
  kiln_close(e->library);
  model_free(&e->m);
}

static kiln_kernel *kernel(engine *e, const char *name) {
  kiln_error err = {0};
  kiln_kernel *k;
  must(kiln_kernel_get(e->device, name, NULL, &k, &err), name, &err);
  must(kiln_preload(k, &err), name, &err);
  return k;
}

static void launch(kiln_kernel *k, const char *name, const void *const *args, size_t count) {
  kiln_error err = {0};
  must(kiln_launch(k, NULL, args, count, &err), name, &err);
}
#define LAUNCH(k, ...)                                 \
  launch(e->k, #k, (const void *const[]){__VA_ARGS__}, \
         sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))

/// The device's address of a weight.
static const float *on_device(const engine *e, const float *weight) {
  return e->weights + (weight - e->m.bytes);
}

/// y[outputs] = matrix[outputs, inputs] x
static void product(engine *e, const float *matrix, const float *x, float *y, uint32_t outputs,
                    uint32_t inputs) {
  int32_t M = 1, N = (int32_t)outputs, K = (int32_t)inputs;
  int64_t lda = inputs, ldb = inputs, ldc = (outputs + 7) / 8 * 8;
  const float *b = on_device(e, matrix), *bias = NULL; // nothing is read through it
  LAUNCH(gemm, &x, &b, &bias, &y, &M, &N, &K, &lda, &ldb, &ldc);
}

static void rotate(engine *e, float *x, uint32_t heads) {
  int32_t tokens = 1, count = (int32_t)heads, half = (int32_t)e->m.shape.head_size / 2;
  LAUNCH(rotary, &x, &e->cosines, &e->sines, &e->position, &tokens, &count, &half);
}

/// x <- x + h, h <- norm(x)
static void add_norm(engine *e, float *h, const float *weight) {
  int32_t rows = 1, cols = (int32_t)e->m.shape.width;
  float eps = 1e-5f;
  const float *w = on_device(e, weight);
  LAUNCH(add_rmsnorm, &h, &e->x, &w, &h, &rows, &cols, &eps);
}

static void attend(engine *e, uint32_t layer, uint32_t position) {
  const model_shape *s = &e->m.shape;
  size_t row = (size_t)s->kv_heads * s->head_size, layer_start = (size_t)layer * e->pages * PAGE * row;
  float *keys = e->keys + layer_start, *values = e->values + layer_start;
  const layer_weights *p = &e->m.layers[layer];
  int32_t sequences = 1, heads = (int32_t)s->heads, kv_heads = (int32_t)s->kv_heads,
          width = (int32_t)e->pages;
  float scale = 1.0f / sqrtf((float)s->head_size);
  product(e, p->wq, e->h, e->q, s->heads * s->head_size, s->width);
  product(e, p->wk, e->h, keys + position * row, (uint32_t)row, s->width);
  product(e, p->wv, e->h, values + position * row, (uint32_t)row, s->width);
  rotate(e, e->q, s->heads);
  rotate(e, keys + position * row, s->kv_heads);
  LAUNCH(attention, &e->q, &keys, &values, &e->table, &e->length, &e->attended, &sequences, &heads, &kv_heads,
         &width, &scale);
  product(e, p->wo, e->attended, e->h, s->width, s->heads * s->head_size);
}

static void feed_forward(engine *e, uint32_t layer) {
  const model_shape *s = &e->m.shape;
  const layer_weights *p = &e->m.layers[layer];
  int32_t n = (int32_t)s->hidden;
  product(e, p->gate, e->h, e->gate, s->hidden, s->width);
  product(e, p->up, e->h, e->up, s->hidden, s->width);
  LAUNCH(silu_mul, &e->gate, &e->up, &e->gate, &n);
  product(e, p->down, e->gate, e->h, s->width, s->hidden);
}

static void step(engine *e, uint32_t token, uint32_t position, float *logits, float *probabilities) {
  const model_shape *s = &e->m.shape;
  kiln_error err = {0};
  int32_t id = (int32_t)token, at = (int32_t)position, length = at + 1, one = 1, cols = (int32_t)s->width,
          vocabulary = (int32_t)s->vocabulary;
  const float *table = on_device(e, e->m.embedding);
  must(kiln_copy_in(e->device, e->token, &id, sizeof id, &err), "copy", &err);
  must(kiln_copy_in(e->device, e->position, &at, sizeof at, &err), "copy", &err);
  must(kiln_copy_in(e->device, e->length, &length, sizeof length, &err), "copy", &err);
  LAUNCH(embedding, &e->token, &table, &e->x, &one, &vocabulary, &cols);
  const float *h = e->zero; // the first norm adds nothing
  LAUNCH(copy, &h, &e->h, &cols);
  for (uint32_t layer = 0; layer < s->layers; layer++) {
    add_norm(e, e->h, e->m.layers[layer].norm1);
    attend(e, layer, position);
    add_norm(e, e->h, e->m.layers[layer].norm2);
    feed_forward(e, layer);
  }
  add_norm(e, e->h, e->m.norm);
  product(e, e->m.head, e->h, e->logits, s->vocabulary, s->width);
  LAUNCH(softmax, &e->logits, &e->probabilities, &one, &vocabulary, &vocabulary, &vocabulary);
  must(kiln_sync(e->device, NULL, &err), "device", &err);
  must(kiln_copy_out(e->device, logits, e->logits, s->vocabulary * sizeof(float), &err), "copy", &err);
  must(kiln_copy_out(e->device, probabilities, e->probabilities, s->vocabulary * sizeof(float), &err), "copy",
       &err);
}

static void upload(engine *e, void *to, const void *from, size_t bytes) {
  kiln_error err = {0};
  must(kiln_copy_in(e->device, to, from, bytes, &err), "copy", &err);
}

static void fill_tables(engine *e) {
  const model_shape *s = &e->m.shape;
  uint32_t half = s->head_size / 2;
  float *c = malloc((size_t)s->positions * half * sizeof *c),
        *n = malloc((size_t)s->positions * half * sizeof *n);
  int32_t *pages = malloc(e->pages * sizeof *pages);
  for (uint32_t p = 0; p < s->positions; p++)
    for (uint32_t i = 0; i < half; i++) {
      double angle = p * pow(10000.0, -(double)i / half);
      c[p * half + i] = (float)cos(angle);
      n[p * half + i] = (float)sin(angle);
    }
  for (uint32_t i = 0; i < e->pages; i++) pages[i] = (int32_t)i;
  upload(e, e->cosines, c, (size_t)s->positions * half * sizeof *c);
  upload(e, e->sines, n, (size_t)s->positions * half * sizeof *n);
  upload(e, e->table, pages, e->pages * sizeof *pages);
  free(c);
  free(n);
  free(pages);
}

static void start(engine *e, const char *bundle, const char *device) {
  kiln_error err = {0};
  const model_shape *s = &e->m.shape;
  size_t row = (size_t)s->kv_heads * s->head_size,
         widest = s->hidden > s->vocabulary ? s->hidden : s->vocabulary;
  must(kiln_open_file(bundle, &e->library, &err), bundle, &err);
  must(kiln_device_open(e->library, device, &e->device, &err), device, &err);
  e->embedding = kernel(e, "embedding[T=f32]");
  e->add_rmsnorm = kernel(e, "add_rmsnorm[T=f32]");
  e->gemm = kernel(e, "gemm[T=f32,ACT=0,BIAS=false]");
  e->rotary = kernel(e, "rotary[T=f32]");
  e->copy = kernel(e, "copy[T=f32]");
  e->attention = kernel(e, "paged_attention[T=f32,D=64,PAGE=16]");
  e->silu_mul = kernel(e, "silu_mul[T=f32]");
  e->softmax = kernel(e, "softmax[T=f32]");
  e->pages = (s->positions + PAGE - 1) / PAGE;
  e->weights = device_array(e, e->m.count * sizeof(float));
  upload(e, e->weights, e->m.bytes, e->m.count * sizeof(float));
  float **rows[] = {&e->x,  &e->h,      &e->zero,          &e->q,   &e->attended, &e->gate,
                    &e->up, &e->logits, &e->probabilities, &e->rstd};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    *rows[i] = device_array(e, (widest + 64) * sizeof(float));
  e->cosines = device_array(e, (size_t)s->positions * s->head_size * sizeof(float));
  e->sines = device_array(e, (size_t)s->positions * s->head_size * sizeof(float));
  e->keys = device_array(e, s->layers * (size_t)e->pages * PAGE * row * sizeof(float));
  e->values = device_array(e, s->layers * (size_t)e->pages * PAGE * row * sizeof(float));
  e->token = device_array(e, 64);
  e->position = device_array(e, 64);
  e->length = device_array(e, 64);
  e->table = device_array(e, e->pages * sizeof(int32_t));
  fill_tables(e);
}

/// Draws from the probabilities with a generator of its own, so that runs repeat.
static uint32_t sample(const float *probabilities, uint32_t count, uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  double want = (double)(*state >> 11) / 9007199254740992.0, sum = 0;
  for (uint32_t i = 0; i < count; i++)
    if ((sum += probabilities[i]) >= want) return i;
  return count - 1;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

typedef struct options {
  const char *bundle, *device, *weights;
  uint32_t tokens;
  int check;
} options;

static int run(engine *e, const options *o) {
  const model_shape *s = &e->m.shape;
  size_t row = (size_t)s->kv_heads * s->head_size, cache = s->layers * (size_t)s->positions * row;
  float *logits = malloc(s->vocabulary * sizeof *logits),
        *probabilities = malloc(s->vocabulary * sizeof *probabilities);
  float *want = malloc(s->vocabulary * sizeof *want), *keys = calloc(cache, sizeof *keys),
        *values = calloc(cache, sizeof *values);
  double *times = malloc(o->tokens * sizeof *times), worst = 0;
  uint64_t state = 42;
  uint32_t token = 1;
  printf("tokens:");
  for (uint32_t t = 0; t < o->tokens; t++) {
    double begin = now_ms();
    step(e, token, t, logits, probabilities);
    times[t] = now_ms() - begin;
    if (o->check) {
      reference_step(&e->m, token, t, keys, values, want);
      for (uint32_t i = 0; i < s->vocabulary; i++) {
        double d = fabs((double)logits[i] - want[i]);
        if (!(d <= worst)) worst = d;
      }
    }
    token = t + 1 < PROMPT ? (token * 7 + 3) % s->vocabulary : sample(probabilities, s->vocabulary, &state);
    printf(" %u", token);
  }
  qsort(times, o->tokens, sizeof *times, by_value);
  printf("\n%s (%s): %u tokens, %.3f ms a token (median)\n", kiln_device_description(e->device),
         kiln_device_target_name(e->device), o->tokens, times[o->tokens / 2]);
  if (o->check)
    printf("logits against plain C: largest difference %.3g (%s)\n", worst, worst < 2e-3 ? "right" : "WRONG");
  free(logits), free(probabilities), free(want), free(keys), free(values), free(times);
  return o->check && !(worst < 2e-3);
}

static int parse(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--no-check")) o->check = 0;
    else if (i + 1 < argc && !strcmp(argv[i], "--device")) o->device = argv[++i];
    else if (i + 1 < argc && !strcmp(argv[i], "--weights")) o->weights = argv[++i];
    else if (i + 1 < argc && !strcmp(argv[i], "--tokens")) o->tokens = (uint32_t)strtoul(argv[++i], NULL, 10);
    else if (argv[i][0] != '-' && !o->bundle) o->bundle = argv[i];
    else return 0;
  }
  return o->bundle && o->tokens >= 1;
}

int main(int argc, char **argv) {
  static const model_shape shape = {.vocabulary = 512,
                                    .width = 256,
                                    .layers = 4,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_size = 64,
                                    .hidden = 768,
                                    .positions = 256};
  options o = {.device = "host", .weights = "transformer.weights", .tokens = 48, .check = 1};
  engine e = {0};
  if (!parse(argc, argv, &o)) {
    fprintf(stderr, "usage: transformer BUNDLE [--device host|cuda:0|hip:0] [--weights FILE] [--tokens N] "
                    "[--no-check]\n");
    return 2;
  }
  FILE *f = fopen(o.weights, "rb");
  if (f) fclose(f);
  else if (model_generate(o.weights, &shape, 7)) return perror(o.weights), 1;
  const char *wrong = model_load(o.weights, &e.m);
  if (wrong) return fprintf(stderr, "transformer: %s: %s\n", o.weights, wrong), 1;
  if (o.tokens > e.m.shape.positions)
    return fprintf(stderr, "transformer: at most %u tokens\n", e.m.shape.positions), 2;
  start(&e, o.bundle, o.device);
  int code = run(&e, &o);
  stop(&e);
  return code;
}
