// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decodes the blobs of a bundle. A dictionary is decoded once per bundle and kept; the decoder's state is
// kept for the next load, since allocating it costs more than decoding a small code.
#define ZSTD_STATIC_LINKING_ONLY
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "runtime/bundle/internal.h"

struct kiln_dictionary {
  kiln_dictionary *next; // owned
  uint32_t blob;
  uint8_t *bytes;       // owned; NULL when they lie in the application's memory
  size_t size;          // raw
  ZSTD_DDict *prepared; // owned; refers to the bytes
};

void kiln_bytes_deinit(kiln_bytes *bytes) {
  free(bytes->owned);
  memset(bytes, 0, sizeof *bytes);
}

void kiln_bundle_forget_decoders(kiln_bundle *b) {
  for (kiln_dictionary *d = b->dictionaries, *next; d; d = next) {
    next = d->next;
    ZSTD_freeDDict(d->prepared);
    free(d->bytes);
    free(d);
  }
  ZSTD_freeDCtx(b->decoder);
}

static kiln_status damaged(kiln_error *err, const kiln_bundle *b, uint32_t blob, const char *what) {
  return kiln_fail(err, KILN_STATUS_CORRUPT, "%s: blob %u: %s", b->name, blob, what);
}

static kiln_status no_memory(kiln_error *err, const kiln_bundle *b, uint32_t blob) {
  return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: blob %u: memory is exhausted", b->name, blob);
}

// ------------------------------------------------------------------------------------------ frames

static ZSTD_DCtx *take_decoder(kiln_bundle *b) {
  pthread_mutex_lock(&b->lock);
  ZSTD_DCtx *decoder = b->decoder;
  b->decoder = NULL;
  pthread_mutex_unlock(&b->lock);
  return decoder ? decoder : ZSTD_createDCtx();
}

static void give_decoder(kiln_bundle *b, ZSTD_DCtx *decoder) {
  pthread_mutex_lock(&b->lock);
  ZSTD_DCtx *surplus = b->decoder ? decoder : NULL;
  if (!surplus) b->decoder = decoder;
  pthread_mutex_unlock(&b->lock);
  ZSTD_freeDCtx(surplus);
}

// What is stored. Private, when it comes from a file or is to be verified: nobody changes it between the
// check and the use.
kiln_status kiln_bundle_read(const kiln_bundle *b, uint64_t at, size_t size, kiln_bytes *out,
                             kiln_error *err) {
  *out = (kiln_bytes){.size = size};
  if (b->memory && !b->verify) {
    out->bytes = b->memory + at;
    return KILN_OK;
  }
  out->bytes = out->owned = malloc(size ? size : 1);
  if (!out->owned) return kiln_bundle_no_memory(err, b);
  kiln_status status = kiln_bundle_copy(b, at, size, out->owned, err);
  if (status != KILN_OK) kiln_bytes_deinit(out);
  return status;
}

static kiln_status decode_frame(kiln_bundle *b, uint32_t number, const kiln_blob_entry *e,
                                const uint8_t *stored, const ZSTD_DDict *dictionary, kiln_bytes *out,
                                kiln_error *err) {
  // The first four bytes: zstd would also take formats of before 2016.
  if (e->stored < 4 || kiln_le32(stored) != ZSTD_MAGICNUMBER)
    return damaged(err, b, number, "not a zstd frame");
  if (ZSTD_getFrameContentSize(stored, e->stored) != e->raw)
    return damaged(err, b, number, "the frame's size is not that of the index");
  ZSTD_DCtx *decoder = take_decoder(b);
  out->owned = malloc(e->raw);
  if (!decoder || !out->owned) {
    ZSTD_freeDCtx(decoder);
    return no_memory(err, b, number);
  }
  size_t size = dictionary
                    ? ZSTD_decompress_usingDDict(decoder, out->owned, e->raw, stored, e->stored, dictionary)
                    : ZSTD_decompressDCtx(decoder, out->owned, e->raw, stored, e->stored);
  give_decoder(b, decoder);
  if (ZSTD_isError(size)) return damaged(err, b, number, ZSTD_getErrorName(size));
  if (size != e->raw) return damaged(err, b, number, "the frame is shorter than the index says");
  out->bytes = out->owned;
  out->size = size;
  return KILN_OK;
}

static kiln_status decode(kiln_bundle *b, uint32_t number, const kiln_blob_entry *e,
                          const ZSTD_DDict *dictionary, kiln_bytes *out, kiln_error *err) {
  kiln_bytes stored;
  if (e->codec == KILN_BUNDLE_CODEC_NONE && e->stored != e->raw)
    return damaged(err, b, number, "stored and raw sizes differ without compression");
  KILN_TRY(kiln_bundle_read(b, e->offset, e->stored, &stored, err));
  if (e->codec == KILN_BUNDLE_CODEC_NONE) {
    *out = stored;
  } else {
    kiln_status status = decode_frame(b, number, e, stored.bytes, dictionary, out, err);
    kiln_bytes_deinit(&stored);
    if (status != KILN_OK) return status;
  }
  if (!kiln_check_fits(e->check, KILN_BUNDLE_CHECK, out->bytes, out->size))
    return damaged(err, b, number, "its bytes do not have the check of the index");
  return KILN_OK;
}

// ------------------------------------------------------------------------------------ dictionaries

static kiln_status load_dictionary(kiln_bundle *b, uint32_t number, kiln_dictionary *d, kiln_error *err) {
  kiln_blob_entry e;
  kiln_bytes bytes = {0};
  KILN_TRY(kiln_bundle_blob_at(b, number, &e, err));
  if (e.raw > KILN_BUNDLE_MAX_DICTIONARY || e.dictionary != KILN_BUNDLE_NO_DICTIONARY)
    return damaged(err, b, number, "not a dictionary within the limits");
  d->size = e.raw;
  kiln_status status = decode(b, number, &e, NULL, &bytes, err);
  if (status == KILN_OK) {
    ZSTD_dictContentType_e type = e.form == KILN_BUNDLE_FORM_TABLES ? ZSTD_dct_fullDict : ZSTD_dct_rawContent;
    d->prepared = ZSTD_createDDict_advanced(bytes.bytes, bytes.size, ZSTD_dlm_byRef, type, ZSTD_defaultCMem);
    bool has_tables = type == ZSTD_dct_fullDict;
    if (!d->prepared)
      status = has_tables ? damaged(err, b, number, "not a zstd dictionary with tables")
                          : no_memory(err, b, number);
  }
  d->bytes = bytes.owned;
  d->blob = number;
  return status;
}

static kiln_dictionary *find_dictionary(kiln_bundle *b, uint32_t number) {
  kiln_dictionary *d = b->dictionaries;
  while (d && d->blob != number) d = d->next;
  return d;
}

// Adds a dictionary to the list, which then owns it; false when the list would be larger than any bundle's.
static bool add_dictionary(kiln_bundle *b, kiln_dictionary *d) {
  if (d->size > KILN_BUNDLE_MAX_DICTIONARIES - b->dictionary_bytes) return false;
  b->dictionary_bytes += d->size;
  d->next = b->dictionaries;
  b->dictionaries = d;
  return true;
}

// Two threads may decode the same dictionary at once; the second one drops its copy.
static kiln_status get_dictionary(kiln_bundle *b, uint32_t number, const ZSTD_DDict **out, kiln_error *err) {
  pthread_mutex_lock(&b->lock);
  kiln_dictionary *found = find_dictionary(b, number);
  pthread_mutex_unlock(&b->lock);
  if (!found) {
    kiln_dictionary *mine = calloc(1, sizeof *mine);
    if (!mine) return no_memory(err, b, number);
    kiln_status status = load_dictionary(b, number, mine, err);
    pthread_mutex_lock(&b->lock);
    found = find_dictionary(b, number);
    if (!found && status == KILN_OK && add_dictionary(b, mine)) found = mine;
    pthread_mutex_unlock(&b->lock);
    if (found != mine) {
      ZSTD_freeDDict(mine->prepared);
      free(mine->bytes);
      free(mine);
    }
    if (status != KILN_OK) return status;
    if (!found)
      return kiln_bundle_damaged(err, b, "dictionaries of more than %d bytes", KILN_BUNDLE_MAX_DICTIONARIES);
  }
  *out = found->prepared;
  return KILN_OK;
}

// ----------------------------------------------------------------------------------------- loading

static kiln_status ask_verifier(kiln_bundle *b, uint32_t number, const kiln_blob_entry *e,
                                const kiln_bytes *bytes, kiln_error *err) {
  if (!b->verify) return KILN_OK;
  kiln_verify_request request = {
      .bundle = b->name, .index = bytes->bytes, .index_size = bytes->size, .digest = e->digest};
  if (b->verify(b->verify_user, &request) == 1) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_UNTRUSTED, "%s: blob %u was not accepted by the verify callback", b->name,
                   number);
}

kiln_status kiln_bundle_load(kiln_bundle *b, uint32_t number, kiln_bytes *out, kiln_error *err) {
  kiln_blob_entry e;
  const ZSTD_DDict *dictionary = NULL;
  memset(out, 0, sizeof *out);
  KILN_TRY(kiln_bundle_blob_at(b, number, &e, err));
  if (e.codec != KILN_BUNDLE_CODEC_NONE && e.dictionary != KILN_BUNDLE_NO_DICTIONARY) {
    if (e.dictionary >= number) return damaged(err, b, number, "its dictionary does not come before it");
    KILN_TRY(get_dictionary(b, e.dictionary, &dictionary, err));
  }
  kiln_status status = decode(b, number, &e, dictionary, out, err);
  if (status == KILN_OK) status = ask_verifier(b, number, &e, out, err);
  if (status != KILN_OK) kiln_bytes_deinit(out);
  return status;
}
