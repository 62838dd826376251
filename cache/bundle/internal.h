// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the bundle writer share: the things added, what packing makes of them, and the container.
#ifndef KILN_CACHE_BUNDLE_INTERNAL_H
#define KILN_CACHE_BUNDLE_INTERNAL_H

#include "base/arena.h"
#include "base/bundle_format.h"
#include "base/digest.h"
#include "cache/bundle/writer.h"

typedef struct kiln_pack_kernel {
  const char *name;      // arena
  const uint8_t *record; // arena
  size_t size;
  kiln_check hash; // of the name
} kiln_pack_kernel;

typedef struct kiln_pack_code {
  uint32_t kernel, config, variant, flags, blob;
  const char *target, *family; // arena
  const uint8_t *info;         // arena
  size_t info_size;
  const uint8_t *maps; // arena; NULL when there is none
  size_t maps_size;
} kiln_pack_code;

typedef struct kiln_pack_blob {
  kiln_digest digest;
  const uint8_t *bytes; // arena
  size_t size;
  // Set by packing.
  uint8_t *stored; // owned; NULL while `bytes` are stored as they are
  size_t stored_size;
  uint64_t offset; // in the member
  uint32_t member, references, number;
  uint16_t dictionary;
  uint8_t codec, form;
} kiln_pack_blob;

typedef struct kiln_pack_note {
  const char *key, *value; // arena
} kiln_pack_note;

/// Positions of items by hash: open addressing, a power of two of slots holding position + 1.
typedef struct kiln_pack_map {
  uint32_t *slots; // owned
  uint32_t slot_count, used;
} kiln_pack_map;

struct kiln_bundle_writer {
  kiln_arena *arena; // owned: all that was added
  kiln_pack_kernel *kernels;
  kiln_pack_code *codes;
  kiln_pack_blob *blobs;
  kiln_pack_note *notes;
  uint32_t kernel_count, kernel_capacity, code_count, code_capacity, blob_count, blob_capacity, note_count,
      note_capacity;
  size_t note_bytes;
  kiln_pack_map kernel_map, code_map, blob_map;
};

/// A member of the archive. `begin` and `size` are set by the layout.
typedef struct kiln_pack_member {
  char *name;      // owned
  uint32_t *blobs; // owned: numbers of kiln_packed.blobs, in order; empty for the index
  uint32_t blob_count, blob_capacity;
  bool aligned;         // stored codes: padding before each
  uint64_t begin, size; // of the content
} kiln_pack_member;

/// Everything in its final order. Borrows from the writer.
typedef struct kiln_packed {
  kiln_bundle_writer *writer;
  uint32_t *kernels;     // owned: kernel numbers sorted by hash
  uint32_t *codes;       // owned: code numbers in file order
  kiln_pack_blob *blobs; // owned: dictionaries, then codes by family and name
  uint32_t blob_count, dictionary_count;
  size_t dictionary_bytes;   // raw
  uint32_t *blob_numbers;    // owned: writer's blob -> number in `blobs`
  kiln_pack_member *members; // owned; member 0 is the index
  uint32_t member_count, member_capacity;
  kiln_buffer region; // index region, rebuilt by kiln_pack_index
} kiln_packed;

/// Sorts, chooses dictionaries by trial and compresses. pack.c
kiln_status kiln_pack(kiln_bundle_writer *writer, const kiln_bundle_options *options, kiln_packed *out,
                      kiln_error *err);
void kiln_packed_deinit(kiln_packed *packed);

/// Codes that may share a dictionary.
typedef struct kiln_pack_family {
  kiln_pack_blob **blobs; // borrowed, in order of name
  uint32_t count;
  const char *name;
} kiln_pack_family;
/// Appends to `out` the codes that help the others most, in order of name, `limit` bytes at most.
/// samples.c
kiln_status kiln_pack_samples(const kiln_pack_family *family, size_t limit, kiln_buffer *out,
                              kiln_error *err);
/// Compresses every blob of the family, with the dictionary that the trial shows to be best. `out_dictionary`
/// holds its raw bytes, empty when none pays, and `out_form` its KILN_BUNDLE_FORM_. The blobs' `stored` and
/// `codec` are set; `dictionary` is left to the caller.
kiln_status kiln_pack_family_compress(const kiln_pack_family *family, const kiln_bundle_options *options,
                                      kiln_buffer *out_dictionary, uint8_t *out_form, kiln_error *err);
/// Compresses a dictionary as one frame with a window over all of it; leaves one as it is that shrinks more
/// than readers take.
kiln_status kiln_pack_dictionary_compress(kiln_pack_blob *blob, int level, kiln_error *err);

/// Content of KILN-INDEX for a member whose content begins at `begin` of a file of `file_size` bytes; the
/// size does not depend on the values. index.c
kiln_status kiln_pack_index(kiln_packed *packed, const kiln_bundle_options *options, uint64_t begin,
                            uint64_t file_size, kiln_buffer *out, kiln_error *err);

/// Writes the archive to `out`, which is empty: computes the layout, builds the index, writes, seals.
/// zip.c
kiln_status kiln_pack_zip(kiln_packed *packed, const kiln_bundle_options *options, kiln_buffer *out,
                          kiln_error *err);

#endif
