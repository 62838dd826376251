// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compresses a family of codes with a dictionary made from some of them (samples.c), unless they are
// smaller without one.
#define ZSTD_STATIC_LINKING_ONLY
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zdict.h>
#include <zstd.h>

#include "cache/bundle/internal.h"

enum {
  TRIAL_LEVEL = 3,
  DEFAULT_LEVEL = 3,
  MAX_LEVEL = 19,
  MOST_TABLE_LOG2 = 22,
  DICTIONARY_LEVEL = 12,
  TABLES_LEVEL = 16,
  TABLES_SAMPLES = 256
};

// Raw bytes of a dictionary.
static const size_t limits[] = {
    [KILN_BUNDLE_DICTIONARY_AUTO] = 11 << 18,
    [KILN_BUNDLE_DICTIONARY_SMALL] = 11 << 18,
    [KILN_BUNDLE_DICTIONARY_LARGE] = 8 << 20,
};

static kiln_status no_memory(kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "bundle compression: memory is exhausted");
}
static kiln_status failed(size_t code, kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_INTERNAL, "zstd: %s", ZSTD_getErrorName(code));
}

static int level_of(const kiln_bundle_options *options) {
  int level = options->level ? options->level : DEFAULT_LEVEL;
  return level < 1 ? 1 : level > MAX_LEVEL ? MAX_LEVEL : level;
}

static unsigned log2_over(size_t size) {
  unsigned log = ZSTD_WINDOWLOG_MIN;
  while (log < 27 && (size_t)1 << log < size) log++;
  return log;
}

// The window spans dictionary and code, so that every byte of the dictionary can be referred to; the tables
// have room for every place of it, where those that a level has by default would forget most of a large
// dictionary.
static ZSTD_CDict *prepare(const kiln_buffer *raw, uint8_t form, size_t largest, int level) {
  ZSTD_compressionParameters parameters = ZSTD_getCParams(level, 0, raw->size);
  unsigned places = log2_over(raw->size);
  if (places > MOST_TABLE_LOG2) places = MOST_TABLE_LOG2;
  parameters.windowLog = log2_over(raw->size + largest);
  if (parameters.hashLog < places) parameters.hashLog = places;
  if (parameters.chainLog < places) parameters.chainLog = places;
  return ZSTD_createCDict_advanced(raw->bytes, raw->size, ZSTD_dlm_byRef,
                                   form == KILN_BUNDLE_FORM_TABLES ? ZSTD_dct_fullDict : ZSTD_dct_rawContent,
                                   parameters, ZSTD_defaultCMem);
}

static size_t compress_one(ZSTD_CCtx *context, void *to, size_t capacity, const kiln_pack_blob *b,
                           const ZSTD_CDict *dictionary, int level) {
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
  // Not copied into the context: the tables are larger than most codes.
  ZSTD_CCtx_setParameter(context, ZSTD_c_forceAttachDict, ZSTD_dictForceAttach);
  ZSTD_CCtx_refCDict(context, dictionary);
  return ZSTD_compress2(context, to, capacity, b->bytes, b->size);
}

// ---------------------------------------------------------------------------------------- trial

typedef struct trial {
  uint8_t *scratch; // owned
  size_t capacity, largest;
  ZSTD_CCtx *context; // owned
} trial;

static kiln_status trial_init(trial *t, const kiln_pack_family *family, kiln_error *err) {
  memset(t, 0, sizeof *t);
  for (uint32_t i = 0; i < family->count; i++)
    if (family->blobs[i]->size > t->largest) t->largest = family->blobs[i]->size;
  t->capacity = ZSTD_compressBound(t->largest);
  t->scratch = malloc(t->capacity);
  t->context = ZSTD_createCCtx();
  return t->scratch && t->context ? KILN_OK : no_memory(err);
}

static void trial_deinit(trial *t) {
  free(t->scratch);
  ZSTD_freeCCtx(t->context);
}

static kiln_status total_size(trial *t, const kiln_pack_family *family, const ZSTD_CDict *dictionary,
                              int level, uint64_t *out, kiln_error *err) {
  *out = 0;
  for (uint32_t i = 0; i < family->count; i++) {
    size_t size = compress_one(t->context, t->scratch, t->capacity, family->blobs[i], dictionary, level);
    if (ZSTD_isError(size)) return failed(size, err);
    *out += size < family->blobs[i]->size ? size : family->blobs[i]->size;
  }
  return KILN_OK;
}

// Empties `raw` when the family is not smaller with it, its own frame counted.
static kiln_status judge(trial *t, const kiln_pack_family *family, kiln_buffer *raw, kiln_error *err) {
  kiln_pack_blob blob = {.bytes = raw->bytes, .size = raw->size};
  uint64_t with = 0, without = 0;
  ZSTD_CDict *dictionary = prepare(raw, KILN_BUNDLE_FORM_CONTENT, t->largest, TRIAL_LEVEL);
  kiln_status status =
      dictionary ? total_size(t, family, dictionary, TRIAL_LEVEL, &with, err) : no_memory(err);
  if (status == KILN_OK) status = total_size(t, family, NULL, TRIAL_LEVEL, &without, err);
  if (status == KILN_OK) status = kiln_pack_dictionary_compress(&blob, TRIAL_LEVEL, err);
  if (with + blob.stored_size >= without) kiln_buffer_clear(raw);
  free(blob.stored);
  ZSTD_freeCDict(dictionary);
  return status;
}

// -------------------------------------------------------------------------- tables
// A small frame spends a good part of its bytes on telling its entropy tables. A dictionary in zstd's own
// format brings tables that frames may use instead. Strong levels weigh them against tables of their own;
// weak ones take them blindly, so for those they are not made.

// Codes at even distances: enough for tables and for judging them.
typedef struct spread {
  kiln_pack_blob *blobs[TABLES_SAMPLES]; // borrowed
  size_t sizes[TABLES_SAMPLES];
  uint32_t count;
  kiln_buffer bytes; // owned: the blobs end to end
} spread;

static void spread_init(spread *s, const kiln_pack_family *family) {
  memset(s, 0, sizeof *s);
  s->count = family->count < TABLES_SAMPLES ? family->count : TABLES_SAMPLES;
  for (uint32_t i = 0; i < s->count; i++) {
    s->blobs[i] = family->blobs[(uint64_t)i * family->count / s->count];
    s->sizes[i] = s->blobs[i]->size;
    kiln_buffer_bytes(&s->bytes, s->blobs[i]->bytes, s->sizes[i]);
  }
}

// `out` stays empty when zstd makes no tables, as from a dictionary of a few bytes.
static kiln_status make_tables(const spread *s, int level, const kiln_buffer *raw, kiln_buffer *out,
                               kiln_error *err) {
  enum { TABLES_SIZE = 4096 };
  size_t capacity = raw->size + TABLES_SIZE;
  uint8_t *bytes = malloc(capacity);
  if (!bytes || s->bytes.failed) {
    free(bytes);
    return no_memory(err);
  }
  ZDICT_params_t parameters = {.compressionLevel = level, .dictID = 1}; // the number is in no frame
  size_t size = ZDICT_finalizeDictionary(bytes, capacity, raw->bytes, raw->size, s->bytes.bytes, s->sizes,
                                         s->count, parameters);
  if (!ZDICT_isError(size)) kiln_buffer_bytes(out, bytes, size);
  free(bytes);
  return out->failed ? no_memory(err) : KILN_OK;
}

// Puts the form with tables in the place of `raw` when the spread is smaller with it.
static kiln_status try_tables(trial *t, const kiln_pack_family *family, int level, kiln_buffer *raw,
                              uint8_t *out_form, kiln_error *err) {
  spread s;
  kiln_buffer full = {0};
  uint64_t plain = 0, tables = 0;
  spread_init(&s, family);
  kiln_status status = make_tables(&s, level, raw, &full, err);
  if (status == KILN_OK && full.size && full.size <= KILN_BUNDLE_MAX_DICTIONARY) {
    kiln_pack_family part = {s.blobs, s.count, family->name};
    ZSTD_CDict *a = prepare(raw, KILN_BUNDLE_FORM_CONTENT, t->largest, level),
               *b = prepare(&full, KILN_BUNDLE_FORM_TABLES, t->largest, level);
    status = a && b ? total_size(t, &part, a, level, &plain, err) : no_memory(err);
    if (status == KILN_OK) status = total_size(t, &part, b, level, &tables, err);
    ZSTD_freeCDict(a);
    ZSTD_freeCDict(b);
    if (status == KILN_OK && tables + full.size - raw->size < plain) {
      kiln_buffer_clear(raw);
      kiln_buffer_bytes(raw, full.bytes, full.size);
      *out_form = KILN_BUNDLE_FORM_TABLES;
      if (raw->failed) status = no_memory(err);
    }
  }
  kiln_buffer_deinit(&full);
  kiln_buffer_deinit(&s.bytes);
  return status;
}

// ----------------------------------------------------------------- compressing all

typedef struct work {
  const kiln_pack_family *family;
  const ZSTD_CDict *dictionary; // borrowed; shared by the threads
  int level;
  size_t capacity;
  atomic_uint next;
  atomic_size_t error; // the first zstd error, or 0
  atomic_bool exhausted;
} work;

// A code that does not lose three per cent stays as it is, and so does one that loses more than readers take.
static bool keep(kiln_pack_blob *b, const uint8_t *bytes, size_t size) {
  if (size >= b->size - b->size / 32 || b->size > KILN_BUNDLE_MAX_EXPANSION(size)) {
    b->codec = KILN_BUNDLE_CODEC_NONE;
    b->stored_size = b->size;
    return true;
  }
  b->stored = malloc(size);
  if (!b->stored) return false;
  memcpy(b->stored, bytes, size);
  b->stored_size = size;
  b->codec = KILN_BUNDLE_CODEC_ZSTD;
  return true;
}

static void *compress_many(void *argument) {
  work *w = argument;
  uint8_t *scratch = malloc(w->capacity);
  ZSTD_CCtx *context = ZSTD_createCCtx();
  if (!scratch || !context) atomic_store(&w->exhausted, true);
  for (unsigned i; scratch && context && (i = atomic_fetch_add(&w->next, 1)) < w->family->count;) {
    kiln_pack_blob *b = w->family->blobs[i];
    size_t size = compress_one(context, scratch, w->capacity, b, w->dictionary, w->level);
    if (ZSTD_isError(size)) atomic_store(&w->error, size);
    else if (!keep(b, scratch, size)) atomic_store(&w->exhausted, true);
  }
  free(scratch);
  ZSTD_freeCCtx(context);
  return NULL;
}

static kiln_status compress_all(const kiln_pack_family *family, const kiln_bundle_options *options,
                                const kiln_buffer *raw, uint8_t form, size_t largest, kiln_error *err) {
  enum { MOST_THREADS = 64 };
  pthread_t threads[MOST_THREADS];
  unsigned wanted = options->threads > MOST_THREADS ? MOST_THREADS : options->threads, started = 0;
  ZSTD_CDict *dictionary = raw->size ? prepare(raw, form, largest, level_of(options)) : NULL;
  if (raw->size && !dictionary) return no_memory(err);
  work w = {.family = family,
            .dictionary = dictionary,
            .level = level_of(options),
            .capacity = ZSTD_compressBound(largest)};
  while (started + 1 < wanted && started + 1 < family->count &&
         !pthread_create(&threads[started], NULL, compress_many, &w))
    started++;
  compress_many(&w);
  for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
  ZSTD_freeCDict(dictionary);
  if (w.exhausted) return no_memory(err);
  if (w.error) return failed(w.error, err);
  return KILN_OK;
}

kiln_status kiln_pack_family_compress(const kiln_pack_family *family, const kiln_bundle_options *options,
                                      kiln_buffer *raw, uint8_t *out_form, kiln_error *err) {
  trial t;
  *out_form = KILN_BUNDLE_FORM_CONTENT;
  kiln_status status = trial_init(&t, family, err);
  bool is_wanted = options->dictionary != KILN_BUNDLE_DICTIONARY_NONE && family->count > 1;
  if (status == KILN_OK && is_wanted)
    status = kiln_pack_samples(family, limits[options->dictionary], raw, err);
  if (status == KILN_OK && raw->size && options->dictionary == KILN_BUNDLE_DICTIONARY_AUTO)
    status = judge(&t, family, raw, err);
  if (status == KILN_OK && raw->size && level_of(options) >= TABLES_LEVEL)
    status = try_tables(&t, family, level_of(options), raw, out_form, err);
  if (status == KILN_OK) status = compress_all(family, options, raw, *out_form, t.largest, err);
  trial_deinit(&t);
  return status;
}

kiln_status kiln_pack_dictionary_compress(kiln_pack_blob *b, int level, kiln_error *err) {
  size_t capacity = ZSTD_compressBound(b->size);
  ZSTD_CCtx *context = ZSTD_createCCtx();
  uint8_t *bytes = malloc(capacity);
  kiln_status status = context && bytes ? KILN_OK : no_memory(err);
  if (status == KILN_OK) {
    int own = level_of(&(kiln_bundle_options){.level = level});
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, own < DICTIONARY_LEVEL ? DICTIONARY_LEVEL : own);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, (int)log2_over(b->size));
    ZSTD_CCtx_setParameter(context, ZSTD_c_enableLongDistanceMatching, 1);
    size_t size = ZSTD_compress2(context, bytes, capacity, b->bytes, b->size);
    if (ZSTD_isError(size)) status = failed(size, err);
    b->codec = KILN_BUNDLE_CODEC_NONE;
    b->stored_size = b->size;
    if (status == KILN_OK && b->size <= KILN_BUNDLE_MAX_EXPANSION(size)) {
      b->stored = bytes;
      b->stored_size = size;
      b->codec = KILN_BUNDLE_CODEC_ZSTD;
      bytes = NULL;
    }
  }
  free(bytes);
  ZSTD_freeCCtx(context);
  return status;
}
