// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a bundle (base/bundle_format.h, docs/bundle.md): a stored ZIP archive whose first member is the
// index. Records and codes are bytes to it. The same set of kernels, codes and notes gives the same bytes,
// whatever the order of adding and the number of threads.
#ifndef KILN_CACHE_BUNDLE_WRITER_H
#define KILN_CACHE_BUNDLE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

typedef struct kiln_bundle_writer kiln_bundle_writer;

typedef enum kiln_bundle_dictionary {
  KILN_BUNDLE_DICTIONARY_AUTO, ///< the best by trial: none, small, full
  KILN_BUNDLE_DICTIONARY_NONE,
  KILN_BUNDLE_DICTIONARY_SMALL, ///< samples above 8 %, at most 2.75 MiB raw a family
  KILN_BUNDLE_DICTIONARY_LARGE, ///< samples above 6 %, at most 8 MiB raw a family
} kiln_bundle_dictionary;

typedef struct kiln_bundle_options {
  int level; ///< zstd 1..19; 0: 3
  kiln_bundle_dictionary dictionary;
  bool member_per_kernel;    ///< each code is a member of its own, for people who extract
  unsigned threads;          ///< 0: 1
  const uint8_t *secret_key; ///< 64 bytes of Ed25519 (libsodium); NULL: unsigned
} kiln_bundle_options;

kiln_bundle_writer *kiln_bundle_writer_create(void);
void kiln_bundle_writer_destroy(kiln_bundle_writer *writer);

/// Adds a kernel; bytes are copied. EXISTS when the name was added with another record; the same again gives
/// the same number.
kiln_status kiln_bundle_writer_kernel(kiln_bundle_writer *writer, const char *name, const void *record,
                                      size_t size, uint32_t *out_kernel, kiln_error *err);

/// One machine code. `family`: codes of one family share a dictionary and a member ("gfx9", "ptx",
/// "host-x86_64").
typedef struct kiln_bundle_code {
  uint32_t kernel, config, variant;
  const char *target;
  const char *family;
  uint32_t flags;   ///< KILN_BUNDLE_CODE_ bits of base/bundle_format.h
  const void *info; ///< code info record
  size_t info_size;
  const void *code; ///< NULL: the bytes that `digest` names were added before
  size_t code_size;
  const uint8_t *digest; ///< BLAKE2b-256 of what was added; read when `code` is NULL
  const void *maps;      ///< tensor map record (docs/bundle.md); NULL when there is none
  size_t maps_size;
} kiln_bundle_code;

/// Adds a code; bytes are copied, equal ones are stored once. EXISTS when kernel, config, variant, target and
/// PTX flag were added with other bytes.
kiln_status kiln_bundle_writer_code(kiln_bundle_writer *writer, const kiln_bundle_code *code,
                                    kiln_error *err);

/// A note on where the bundle comes from; EXISTS when the key was set to another value.
kiln_status kiln_bundle_writer_note(kiln_bundle_writer *writer, const char *key, const char *value,
                                    kiln_error *err);

/// What a written bundle consists of.
typedef struct kiln_bundle_sums {
  uint64_t file, raw, payload, dictionaries, index, container; ///< bytes
  uint32_t kernels, codes, blobs, members;
} kiln_bundle_sums;

/// Makes the file in memory; `out` is replaced. `out_sums` may be NULL.
kiln_status kiln_bundle_writer_build(kiln_bundle_writer *writer, const kiln_bundle_options *options,
                                     kiln_buffer *out, kiln_bundle_sums *out_sums, kiln_error *err);

#endif
