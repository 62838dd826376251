// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks that a bundle is unchanged since it was written, byte for byte, and who signed it.
#ifndef KILN_TOOLS_BUNDLE_CHECK_H
#define KILN_TOOLS_BUNDLE_CHECK_H

#include "tools/common/key_file.h"
#include "tools/bundle/view.h"

/// True when the header says that the bundle is signed; nothing is checked.
bool bundle_is_signed(const uint8_t *header);
/// Checks the signature of a header, which is followed by its slot, with the key in the slot. With `keys`,
/// the bundle must be signed by one of them; without, it may be unsigned. UNTRUSTED, or CORRUPT if the slot
/// has content that no version writes.
kiln_status bundle_check_signature(const char *name, const uint8_t *header,
                                   const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count, kiln_error *err);
/// Checks that every code has the digest that the index states.
kiln_status bundle_check_codes(kiln_bundle *bundle, kiln_error *err);
/// Checks everything: index, codes, the archive around them, and the signature as above. `file`: the whole
/// file that `view` was opened from.
kiln_status bundle_check(const bundle_view *view, const kiln_buffer *file,
                         const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count, kiln_error *err);

#endif
