// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stream by which a build tells `kiln-tool bundle-write` what goes into a bundle. Header only, so that
// the writer of the stream needs nothing but base/buffer.h.
//
//   "KILNMAN1", then items until END, each a tag byte and its fields (varints and blocks of base/buffer.h):
//
//     KERNEL  block name, block interface record   kernels are numbered from 0 in order of appearance
//     CODE    varint kernel, varint config, varint variant, block target name, block code info record,
//             block code bytes
//     MAPPED  the fields of CODE, block tensor map record
//     NOTE    block key, block value               provenance of the bundle; keys are unique
//     END
//
// Order of items does not change the bundle.
#ifndef KILN_CACHE_BUNDLE_MANIFEST_H
#define KILN_CACHE_BUNDLE_MANIFEST_H

#include "base/buffer.h"

#define KILN_MANIFEST_MAGIC "KILNMAN1"
enum {
  KILN_MANIFEST_END = 0,
  KILN_MANIFEST_KERNEL = 1,
  KILN_MANIFEST_CODE = 2,
  KILN_MANIFEST_NOTE = 3,
  KILN_MANIFEST_MAPPED = 4
};

static inline void kiln_manifest_begin(kiln_buffer *out) { kiln_buffer_bytes(out, KILN_MANIFEST_MAGIC, 8); }

static inline void kiln_manifest_kernel(kiln_buffer *out, const char *name, const void *interface_bytes,
                                        size_t size) {
  kiln_buffer_u8(out, KILN_MANIFEST_KERNEL);
  kiln_buffer_text(out, name);
  kiln_buffer_block(out, interface_bytes, size);
}

static inline void kiln_manifest_fields(kiln_buffer *out, uint32_t kernel, uint32_t config, uint32_t variant,
                                        const char *target, const void *info, size_t info_size,
                                        const void *code, size_t code_size) {
  kiln_buffer_varint(out, kernel);
  kiln_buffer_varint(out, config);
  kiln_buffer_varint(out, variant);
  kiln_buffer_text(out, target);
  kiln_buffer_block(out, info, info_size);
  kiln_buffer_block(out, code, code_size);
}

static inline void kiln_manifest_code(kiln_buffer *out, uint32_t kernel, uint32_t config, uint32_t variant,
                                      const char *target, const void *info, size_t info_size,
                                      const void *code, size_t code_size) {
  kiln_buffer_u8(out, KILN_MANIFEST_CODE);
  kiln_manifest_fields(out, kernel, config, variant, target, info, info_size, code, code_size);
}

/// A code with a tensor map record.
static inline void kiln_manifest_mapped(kiln_buffer *out, uint32_t kernel, uint32_t config, uint32_t variant,
                                        const char *target, const void *info, size_t info_size,
                                        const void *code, size_t code_size, const void *maps,
                                        size_t maps_size) {
  kiln_buffer_u8(out, KILN_MANIFEST_MAPPED);
  kiln_manifest_fields(out, kernel, config, variant, target, info, info_size, code, code_size);
  kiln_buffer_block(out, maps, maps_size);
}

static inline void kiln_manifest_note(kiln_buffer *out, const char *key, const char *value) {
  kiln_buffer_u8(out, KILN_MANIFEST_NOTE);
  kiln_buffer_text(out, key);
  kiln_buffer_text(out, value);
}

static inline void kiln_manifest_end(kiln_buffer *out) { kiln_buffer_u8(out, KILN_MANIFEST_END); }

#endif
