// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the bundle reader share.
#ifndef KILN_RUNTIME_BUNDLE_INTERNAL_H
#define KILN_RUNTIME_BUNDLE_INTERNAL_H

#include "runtime/bundle/reader.h"

/// CORRUPT, with the bundle's name before the text.
kiln_status kiln_bundle_damaged(kiln_error *err, const kiln_bundle *bundle, const char *format, ...)
    KILN_PRINTF(3, 4);
kiln_status kiln_bundle_no_memory(kiln_error *err, const kiln_bundle *bundle);

/// Copies bytes of the file, inside it, to `out`. bytes.c
kiln_status kiln_bundle_copy(const kiln_bundle *bundle, uint64_t at, size_t size, void *out, kiln_error *err);

/// Checked bytes of the region, a range inside it. NULL with `err` set when damaged. reader.c
const uint8_t *kiln_bundle_region(kiln_bundle *bundle, uint64_t at, uint64_t size, kiln_error *err);
/// An entry of a section, checked. NULL with `err` set when there is none of that number, or damaged.
const uint8_t *kiln_bundle_entry(kiln_bundle *bundle, kiln_bundle_section section, uint32_t number,
                                 kiln_error *err);

/// Bytes of an entry, by section.
extern const uint32_t kiln_bundle_entry_sizes[KILN_BUNDLE_SECTIONS];

/// Frees decoder and dictionaries of a bundle that is being closed. blob.c
void kiln_bundle_forget_decoders(kiln_bundle *bundle);

#endif
