// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a bundle (base/bundle_format.h). Opening reads the header and the top checks; every other byte is
// checked when it is first used. Nothing in the file is trusted: each offset, size and count is bounded
// before use. A file is read, never mapped: what was checked is private memory, so changing or cutting the
// file afterwards changes no result and raises no signal. Bytes in memory are used in place, unless there is
// a verify callback: then they are copied before they are verified too. All functions may be called from any
// thread.
#ifndef KILN_RUNTIME_BUNDLE_READER_H
#define KILN_RUNTIME_BUNDLE_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/bundle_format.h"
#include "base/digest.h"
#include "base/status.h"
#include "runtime/kiln.h"

typedef struct kiln_dictionary kiln_dictionary;

typedef struct kiln_bundle {
  const uint8_t *memory; ///< borrowed from the application; NULL for a file
  int fd;                ///< owned: the file; -1 for bytes in memory
  size_t size;
  char *name;                     ///< owned: path for messages
  uint8_t *head;                  ///< owned: header, signature slot and top checks, private
  size_t header_at;               ///< begin of the header in the file
  const uint8_t *header, *top;    ///< in `head`
  const uint8_t *checks, *region; ///< in `image`, or in `memory`
  uint8_t *image;                 ///< owned mapping: page checks to end of the region, filled by page; NULL
                                  ///< when they are used in place
  size_t image_size;
  size_t image_at; ///< where the image begins in the file
  bool is_whole;   ///< the image was filled at open
  uint64_t region_size;
  uint32_t page_count, top_count;
  uint64_t section_at[KILN_BUNDLE_SECTIONS], section_count[KILN_BUNDLE_SECTIONS];
  _Atomic(uint32_t) *seen;       ///< owned: one bit a page of the region, then one a page of checks
  pthread_mutex_t pages;         ///< held while a page is filled and checked
  pthread_mutex_t lock;          ///< guards what is below
  kiln_dictionary *dictionaries; ///< owned list
  size_t dictionary_bytes;       ///< raw bytes of those
  struct ZSTD_DCtx_s *decoder;   ///< owned; lent to one load at a time
  kiln_verify_callback *verify;  ///< may be NULL
  void *verify_user;
} kiln_bundle;

/// Stored or decoded bytes. `owned` is NULL when they lie in the application's memory.
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
  const uint8_t *check, *digest; ///< in the index
  uint8_t codec, form;
  uint16_t dictionary;
  uint32_t member;
} kiln_blob_entry;

/// What the statement says; all zero for a bundle of minor number 0, which has none.
typedef struct kiln_statement {
  uint64_t version;
  const char *name;         ///< never NULL
  const uint8_t *container; ///< digest; NULL without a statement
} kiln_statement;

/// `options` has every field of this library's kiln_open_options.
kiln_status kiln_bundle_open(const kiln_source *source, const kiln_open_options *options, kiln_bundle **out,
                             kiln_error *err);
/// The same; messages say `name`.
kiln_status kiln_bundle_open_named(const kiln_source *source, const char *name,
                                   const kiln_open_options *options, kiln_bundle **out, kiln_error *err);
void kiln_bundle_close(kiln_bundle *bundle);

/// Bytes [at, at + size) of a section, checked. NULL with `err` set when out of bounds or damaged.
const uint8_t *kiln_bundle_in(kiln_bundle *bundle, kiln_bundle_section section, uint64_t at, uint64_t size,
                              kiln_error *err);
/// A record; ends in a NUL that `out_size` does not count. NULL with `err` set.
const uint8_t *kiln_bundle_record(kiln_bundle *bundle, uint32_t offset, size_t *out_size, kiln_error *err);
/// A record that is a text of at most KILN_BUNDLE_MAX_NAME bytes without NUL inside; NULL with `err` set.
const char *kiln_bundle_text(kiln_bundle *bundle, uint32_t offset, kiln_error *err);
/// The value of the note `key`, which ends in a NUL that `out_size` does not count, or NULL.
const char *kiln_bundle_note(kiln_bundle *bundle, const char *key, size_t *out_size);

kiln_status kiln_bundle_kernel_at(kiln_bundle *bundle, uint32_t number, kiln_kernel_entry *out,
                                  kiln_error *err);
/// The kernel at place `index` in order of name.
kiln_status kiln_bundle_named_at(kiln_bundle *bundle, uint32_t index, kiln_kernel_entry *out,
                                 kiln_error *err);
/// NOT_FOUND when there is none of that name; `hash` is kiln_check_of the name.
kiln_status kiln_bundle_kernel_find(kiln_bundle *bundle, const char *name, const kiln_check *hash,
                                    kiln_kernel_entry *out, kiln_error *err);
/// Code `index` of a kernel; CORRUPT when it is another kernel's.
kiln_status kiln_bundle_code_at(kiln_bundle *bundle, const kiln_kernel_entry *kernel, uint32_t index,
                                kiln_code_entry *out, kiln_error *err);
/// A code info or tensor map record: at most KILN_BUNDLE_MAX_INFO bytes. NULL with `err` set.
const uint8_t *kiln_bundle_info(kiln_bundle *bundle, uint32_t offset, size_t *out_size, kiln_error *err);
const char *kiln_bundle_target_at(kiln_bundle *bundle, uint32_t number, kiln_error *err);
kiln_status kiln_bundle_blob_at(kiln_bundle *bundle, uint32_t number, kiln_blob_entry *out, kiln_error *err);

kiln_status kiln_bundle_statement(kiln_bundle *bundle, kiln_statement *out, kiln_error *err);

/// Reads bytes of the file, inside it. The caller frees `out`.
kiln_status kiln_bundle_read(const kiln_bundle *bundle, uint64_t at, size_t size, kiln_bytes *out,
                             kiln_error *err);
/// Decodes a code, compares its check, and asks the verify callback. CORRUPT, UNTRUSTED, OUT_OF_MEMORY.
kiln_status kiln_bundle_load(kiln_bundle *bundle, uint32_t blob, kiln_bytes *out, kiln_error *err);
/// Checks every page, and that no member, blob, kernel or name uses what another one has.
kiln_status kiln_bundle_check_index(kiln_bundle *bundle, kiln_error *err);
/// The same, and loads every blob.
kiln_status kiln_bundle_check_all(kiln_bundle *bundle, kiln_error *err);
/// UNTRUSTED: the bundle has another name than wanted, or an older version.
kiln_status kiln_bundle_check_statement(kiln_bundle *bundle, const kiln_open_options *options,
                                        kiln_error *err);

#endif
