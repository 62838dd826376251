// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a bundle is as it was written, byte for byte, and who signed it.
#ifndef KILN_TOOLS_BUNDLE_CHECK_H
#define KILN_TOOLS_BUNDLE_CHECK_H

#include "tools/common/key_file.h"
#include "tools/bundle/view.h"

/// True when the header says that somebody signed it; nothing is checked.
bool bundle_is_signed(const uint8_t *header);
/// The signature of a header, which is followed by its slot, by the key in the slot. With keys it must be
/// there and by one of them; without, an unsigned bundle is fine. UNTRUSTED, or CORRUPT for a slot that
/// nobody writes.
kiln_status bundle_check_signature(const char *name, const uint8_t *header,
                                   const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count, kiln_error *err);
/// Every code has the digest of the index.
kiln_status bundle_check_codes(kiln_bundle *bundle, kiln_error *err);
/// Everything: index, codes, the archive around them, and the signature as above. `file`: all that `view` was
/// opened from.
kiln_status bundle_check(const bundle_view *view, const kiln_buffer *file,
                         const uint8_t (*keys)[KEY_FILE_PUBLIC], size_t key_count, kiln_error *err);

#endif
