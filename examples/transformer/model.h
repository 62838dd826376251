// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small transformer: its shape, its weights, and the file they are kept in.
#ifndef EXAMPLE_MODEL_H
#define EXAMPLE_MODEL_H

#include <stddef.h>
#include <stdint.h>

/// Decoder-only, pre-norm, rotary positions, gated MLP. All weights are f32; matrices are [outputs, inputs].
typedef struct model_shape {
  uint32_t vocabulary, width, layers, heads, kv_heads, head_size, hidden, positions;
} model_shape;

typedef struct layer_weights {
  const float *norm1, *wq, *wk, *wv, *wo, *norm2, *gate, *up, *down;
} layer_weights;

enum { MODEL_LAYERS = 64 };

typedef struct model {
  model_shape shape;
  const float *embedding, *norm, *head; ///< borrowed from `bytes`, like all weights
  layer_weights layers[MODEL_LAYERS];
  float *bytes; ///< owned
  size_t count; ///< of floats
} model;

/// Writes a file of pseudo-random weights that depend on `seed` only. 0, or -1 with errno set.
int model_generate(const char *path, const model_shape *shape, uint64_t seed);
/// Reads a file that model_generate wrote; checks magic, shape and length before it allocates. NULL, or what
/// is wrong with the file.
const char *model_load(const char *path, model *out);
void model_free(model *m);

/// The same computation in plain C: logits of `token` at `position`, given the cache of earlier positions.
/// `keys` and `values` are [layers, positions, kv_heads, head_size] and are extended.
void reference_step(const model *m, uint32_t token, uint32_t position, float *keys, float *values,
                    float *logits);

#endif
