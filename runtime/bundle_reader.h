// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a bundle where it lies (base/bundle_format.h). Opening touches the header and the top checks; every
// other byte is checked when it is first used. Nothing in the file is trusted: each offset, size and count is
// bounded before use. All functions may be called from any thread.
#ifndef KILN_RUNTIME_BUNDLE_READER_H
#define KILN_RUNTIME_BUNDLE_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/bundle_format.h"
#include "base/digest.h"
#include "runtime/kiln.h"

typedef struct kiln_dictionary kiln_dictionary;

typedef struct kiln_bundle {
  const uint8_t *file; ///< mapped, or borrowed from the application
  size_t size;
  bool is_mapped;
  char *name;    ///< owned: path for messages
  uint8_t *head; ///< owned: copy of what opening reads, so that it touches no page of the mapping; NULL for
                 ///< bytes in memory
  size_t header_at;               ///< begin of the header in the file
  const uint8_t *header, *top;    ///< in `head`, or in the file
  const uint8_t *checks, *region; ///< in the file
  uint64_t region_size;
  uint32_t page_count, top_count;
  uint64_t section_at[KILN_BUNDLE_SECTIONS], section_count[KILN_BUNDLE_SECTIONS];
  _Atomic(uint32_t) *seen;       ///< owned: one bit a page of the region, then one a page of checks
  pthread_mutex_t lock;          ///< guards what is below
  kiln_dictionary *dictionaries; ///< owned list
  struct ZSTD_DCtx_s *decoder;   ///< owned; lent to one load at a time
  kiln_verify_callback *verify;  ///< may be NULL
  void *verify_user;
  bool check_all;
} kiln_bundle;

/// A decoded code. `owned` is NULL when the bytes lie in the file.
typedef struct kiln_bytes {
  const uint8_t *bytes;
  size_t size;
  uint8_t *owned;
} kiln_bytes;
void kiln_bytes_deinit(kiln_bytes *bytes);

typedef struct kiln_kernel_entry {
  uint32_t number, name, interface, code, code_count;
} kiln_kernel_entry;

typedef struct kiln_code_entry {
  uint32_t kernel, blob, info, maps;
  uint16_t config, variant, target, flags;
} kiln_code_entry;

typedef struct kiln_blob_entry {
  uint64_t offset; ///< in the file
  uint32_t stored, raw, references;
  const uint8_t *check, *digest; ///< in the file
  uint8_t codec, form;
  uint16_t dictionary;
  uint32_t member;
} kiln_blob_entry;

kiln_status kiln_bundle_open(const kiln_source *source, const kiln_open_options *options, kiln_bundle **out,
                             kiln_error *err);
void kiln_bundle_close(kiln_bundle *bundle);

/// Bytes [at, at + size) of a section, checked. NULL with `err` set when out of bounds or damaged.
const uint8_t *kiln_bundle_in(kiln_bundle *bundle, kiln_bundle_section section, uint64_t at, uint64_t size,
                              kiln_error *err);
/// A record; ends in a NUL that `out_size` does not count. NULL with `err` set.
const uint8_t *kiln_bundle_record(kiln_bundle *bundle, uint32_t offset, size_t *out_size, kiln_error *err);
/// A record that is a text without NUL inside; NULL with `err` set.
const char *kiln_bundle_text(kiln_bundle *bundle, uint32_t offset, kiln_error *err);

kiln_status kiln_bundle_kernel_at(kiln_bundle *bundle, uint32_t number, kiln_kernel_entry *out,
                                  kiln_error *err);
/// NOT_FOUND when there is none of that name; `hash` is kiln_check_of the name.
kiln_status kiln_bundle_kernel_find(kiln_bundle *bundle, const char *name, const kiln_check *hash,
                                    kiln_kernel_entry *out, kiln_error *err);
kiln_status kiln_bundle_code_at(kiln_bundle *bundle, uint32_t number, kiln_code_entry *out, kiln_error *err);
const char *kiln_bundle_target_at(kiln_bundle *bundle, uint32_t number, kiln_error *err);
kiln_status kiln_bundle_blob_at(kiln_bundle *bundle, uint32_t number, kiln_blob_entry *out, kiln_error *err);

/// Decodes a code, compares its check, and asks the verify callback. CORRUPT, UNTRUSTED, OUT_OF_MEMORY.
kiln_status kiln_bundle_load(kiln_bundle *bundle, uint32_t blob, kiln_bytes *out, kiln_error *err);
/// Checks every page and every blob.
kiln_status kiln_bundle_check_all(kiln_bundle *bundle, kiln_error *err);

#endif
