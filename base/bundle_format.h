// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Byte layout of a bundle, for the writer (cache/bundle) and the readers (runtime, tools). docs/bundle.md
// tells it in words, with a dump.
//
// A bundle is a ZIP archive of stored members. The content of the first member, KILN-INDEX, is
//
//   header | signature slot | top checks | page checks | padding | index region
//
// The index region is cut into pages of 4 KiB (the last one may be short). A check is the first 8 bytes of an
// XXH3-128 in canonical order. Each page has one in the page checks; each 4 KiB of page checks has one in the
// top checks; the header has one over the top checks and one over itself. Opening checks header and top
// checks; the rest is checked at its first use. Integers are little-endian; nothing is aligned for the
// reader's sake. The signature covers the header, which has the digest of the index region; the region has
// the digest of each code, and in its statement that of the archive around the index.
#ifndef KILN_BASE_BUNDLE_FORMAT_H
#define KILN_BASE_BUNDLE_FORMAT_H

#include <stdint.h>
#include <string.h>

#define KILN_BUNDLE_INDEX_NAME "KILN-INDEX"
#define KILN_BUNDLE_MAGIC "\x89KILN\r\n\x1a" // 8 bytes: a high bit, and line ends that text transfers change

enum {
  KILN_BUNDLE_MAJOR = 1,
  KILN_BUNDLE_MINOR = 1,
  KILN_BUNDLE_MINIMUM = 0, // what the writer states as the least minor number of a reader
  KILN_BUNDLE_PAGE = 4096,
  KILN_BUNDLE_CHECK = 8,
  KILN_BUNDLE_NONE = 0xffffffff,
};

// Caps; a file that exceeds one is refused before anything is allocated.
enum {
  KILN_BUNDLE_MAX_BLOB = 1 << 30,           // raw bytes of a code
  KILN_BUNDLE_MAX_DICTIONARY = 16 << 20,    // raw bytes of a dictionary
  KILN_BUNDLE_MAX_DICTIONARIES = 128 << 20, // raw bytes of all dictionaries
  KILN_BUNDLE_MAX_RECORD = 1 << 20,
  KILN_BUNDLE_MAX_INFO = 1 << 16,   // a code info, tensor maps
  KILN_BUNDLE_MAX_NOTES = 16 << 20, // bytes of all notes
  KILN_BUNDLE_MAX_NAME = 4096,
  KILN_BUNDLE_MAX_TARGETS = 1 << 12,
  KILN_BUNDLE_MAX_MEMBERS = 1 << 24,
};

// A compressed blob has at most this many raw bytes: no code is so empty, and a small file cannot ask for
// much memory or time. The writer stores what would shrink further as it is.
#define KILN_BUNDLE_MAX_EXPANSION(stored) (((uint64_t)1 << 16) + ((uint64_t)(stored) << 12))

// ZIP local file header: where the first member's content begins.
enum {
  KILN_ZIP_LOCAL = 0x04034b50,
  KILN_ZIP_NAME_SIZE = 26,
  KILN_ZIP_EXTRA_SIZE = 28,
  KILN_ZIP_LOCAL_SIZE = 30
};

/// Sections of the index region: {u64 offset in the region, u64 count} each, in this order in the header.
typedef enum kiln_bundle_section {
  KILN_BUNDLE_KERNELS, ///< count entries of KERNEL_SIZE, sorted by hash
  KILN_BUNDLE_NAMES,   ///< count u32: kernel numbers sorted by name
  KILN_BUNDLE_CODES,   ///< count entries of CODE_SIZE, grouped by kernel in order of the kernel table; then
                       ///< config, variant, target name
  KILN_BUNDLE_BLOBS,   ///< count entries of BLOB_SIZE: dictionaries first, then codes
  KILN_BUNDLE_TARGETS, ///< count u32: offsets in RECORDS of the target names, sorted by name
  KILN_BUNDLE_MEMBERS, ///< count entries of MEMBER_SIZE: where each member's content lies in the file
  KILN_BUNDLE_NOTES,   ///< count entries {u32 key, u32 value}: offsets in RECORDS, sorted by key
  KILN_BUNDLE_RECORDS, ///< count BYTES: records, each {u32 size, size bytes, NUL}; an offset counts bytes
                       ///< from the section's begin
  KILN_BUNDLE_SECTIONS
} kiln_bundle_section;

// Features a reader must know.
enum {
  KILN_BUNDLE_FEATURE_TABLES = 1, // a dictionary has KILN_BUNDLE_FORM_TABLES
  KILN_BUNDLE_FEATURES = KILN_BUNDLE_FEATURE_TABLES,
};

// Header.
enum {
  KILN_BH_MAGIC = 0,         // 8 bytes
  KILN_BH_MAJOR = 8,         // u16: a reader of another major number refuses
  KILN_BH_MINOR = 10,        // u16: for people
  KILN_BH_MINIMUM = 12,      // u16: smallest minor number whose reader understands the file
  KILN_BH_ABI = 14,          // u16: kernel ABI
  KILN_BH_MUST = 16,         // u32: feature bits a reader must know
  KILN_BH_MAY = 20,          // u32: feature bits a reader may ignore
  KILN_BH_FILE_SIZE = 24,    // u64: of the whole archive
  KILN_BH_CONTENT_SIZE = 32, // u64: of the content of KILN-INDEX
  KILN_BH_REGION = 40,       // u64: begin of the index region, from the header's begin
  KILN_BH_REGION_SIZE = 48,  // u64
  KILN_BH_PAGE_COUNT = 56,   // u32
  KILN_BH_TOP_COUNT = 60,    // u32
  KILN_BH_TOP_CHECK = 64,    // check of the top checks
  KILN_BH_WINDOW_LOG = 72,   // u32: no frame needs a larger zstd window
  KILN_BH_LEVEL = 76,        // u32: zstd level, for people
  KILN_BH_SECTIONS = 80,     // KILN_BUNDLE_SECTIONS x 16 bytes
  KILN_BH_DIGEST = 208,      // 32 bytes: BLAKE2b-256 of the index region
  KILN_BH_STATEMENT = 240,   // u64: begin of the statement in the index region; 0 without (minor number 0)
  KILN_BH_CHECK = 248,       // check of bytes 0..247
  KILN_BH_SIZE = 256,
};

// Statement, in the index region: what the signer says of the bundle as a whole. Of fixed size, so that
// signing moves nothing.
enum {
  KILN_BS_VERSION = 0,    // u64: of the bundle's content, counted by whoever releases it; 0: none stated
  KILN_BS_NAME = 8,       // text, NULs up to its end; empty: none stated
  KILN_BS_NAME_SIZE = 64, // with at least one NUL
  KILN_BS_CONTAINER = 72, // 32 bytes: BLAKE2b-256 of the file without the content of KILN-INDEX and without
                          // its CRC-32 in the data descriptor and in the central directory
  KILN_BS_SIZE = 104,
};

// Signature slot, right after the header. The signature covers the header.
enum {
  KILN_BG_KIND = 0,       // u32: 0 empty, 1 Ed25519
  KILN_BG_ZERO = 4,       // u32
  KILN_BG_KEY = 8,        // 32 bytes: public key
  KILN_BG_SIGNATURE = 40, // 64 bytes
  KILN_BG_SIZE = 104,
  KILN_BUNDLE_TOP = KILN_BH_SIZE + KILN_BG_SIZE, // begin of the top checks
};

// Kernel entry.
enum {
  KILN_BK_HASH = 0,        // 16 bytes: XXH3-128 of the name, canonical byte order
  KILN_BK_NAME = 16,       // u32: record
  KILN_BK_INTERFACE = 20,  // u32: record (base/record.h)
  KILN_BK_CODE = 24,       // u32: first code
  KILN_BK_CODE_COUNT = 28, // u32
  KILN_BK_SIZE = 32,
};

// Code entry.
enum {
  KILN_BC_KERNEL = 0,  // u32
  KILN_BC_CONFIG = 4,  // u16
  KILN_BC_VARIANT = 6, // u16
  KILN_BC_TARGET = 8,  // u16
  KILN_BC_FLAGS = 10,  // u16
  KILN_BC_BLOB = 12,   // u32
  KILN_BC_INFO = 16,   // u32: record (base/record.h)
  KILN_BC_MAPS = 20,   // u32: record of tensor maps, or NONE
  KILN_BC_SIZE = 24,
};
enum { KILN_BUNDLE_CODE_PTX = 1, KILN_BUNDLE_CODE_HOST = 2 };

// Blob entry. Reference counts are for tools; a dictionary counts the blobs that use it.
enum {
  KILN_BB_OFFSET = 0,      // u64: in the member's content
  KILN_BB_STORED = 8,      // u32: bytes in the file
  KILN_BB_RAW = 12,        // u32: bytes after decoding
  KILN_BB_CHECK = 16,      // check of the raw bytes
  KILN_BB_CODEC = 24,      // u8
  KILN_BB_FORM = 25,       // u8: what the raw bytes of a dictionary are; 0 for codes
  KILN_BB_DICTIONARY = 26, // u16: blob number of the dictionary, 0xffff without
  KILN_BB_MEMBER = 28,     // u32
  KILN_BB_REFERENCES = 32, // u32
  KILN_BB_DIGEST = 36,     // 32 bytes: BLAKE2b-256 of the raw bytes
  KILN_BB_SIZE = 68,
};
enum { KILN_BUNDLE_CODEC_NONE = 0, KILN_BUNDLE_CODEC_ZSTD = 1, KILN_BUNDLE_CODEC_COUNT };
enum { KILN_BUNDLE_NO_DICTIONARY = 0xffff };
enum {
  KILN_BUNDLE_FORM_CONTENT = 0, // bytes to refer to, nothing else
  KILN_BUNDLE_FORM_TABLES = 1,  // a dictionary of the zstd format: entropy tables, then bytes to refer to
  KILN_BUNDLE_FORM_COUNT
};

// Member entry.
enum {
  KILN_BM_NAME = 0,   // u32: record
  KILN_BM_ZERO = 4,   // u32
  KILN_BM_OFFSET = 8, // u64: begin of the content in the file
  KILN_BM_BYTES = 16, // u64: size of the content
  KILN_BM_SIZE = 24,
};

// Tensor map record: u8 count, then for each: u8 element (kiln_scalar), u8 rank, u8 swizzle (0, 32, 64, 128),
// u8 interleave, u8 fill, u8 view parameter, rank x u32 box, rank x block extent expression, (rank - 1) x
// block stride expression in bytes, block base offset expression.

/// Alignment in the file. Compressed frames follow each other without a gap, so that their member is a zstd
/// stream that stock tools read; stored codes of a page or more begin at a page, which a driver may then take
/// as it is mapped.
enum { KILN_BUNDLE_ALIGN_STORED = 4096, KILN_BUNDLE_ALIGN_SMALL = 64, KILN_BUNDLE_ALIGN_REGION = 64 };

static inline uint16_t kiln_le16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }
static inline uint32_t kiln_le32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}
static inline uint64_t kiln_le64(const uint8_t *at) {
  return (uint64_t)kiln_le32(at) | (uint64_t)kiln_le32(at + 4) << 32;
}
static inline void kiln_put16(uint8_t *at, uint16_t v) { at[0] = (uint8_t)v, at[1] = (uint8_t)(v >> 8); }
static inline void kiln_put32(uint8_t *at, uint32_t v) {
  for (unsigned i = 0; i < 4; i++) at[i] = (uint8_t)(v >> 8 * i);
}
static inline void kiln_put64(uint8_t *at, uint64_t v) {
  kiln_put32(at, (uint32_t)v), kiln_put32(at + 4, (uint32_t)(v >> 32));
}

#endif
