// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replaces the entry points of old zstd decoders by functions that refuse. Debian's libzstd.a can decode
// the formats 0.5 to 0.7 from before 2016, which no bundle has; with their entry points defined here, the
// linker does not take those decoders (about 100 KB) into libkiln. Nor does it take zstd's texts of errors (2 KB),
// most of which are about compression: a bundle's frame is refused in few words.
#include <stddef.h>

enum { ERROR_PREFIX_UNKNOWN = 10 }; // zstd_errors.h; errors are the largest values of size_t
#define REFUSED ((size_t)-ERROR_PREFIX_UNKNOWN)

#define DEFINE(type, name, parameters, value) \
  type name parameters;                       \
  type name parameters { return value; }
#define LEGACY(v)                                                                                         \
  DEFINE(void *, ZSTDv0##v##_createDCtx, (void), NULL)                                                    \
  DEFINE(size_t, ZSTDv0##v##_freeDCtx, (void *context), ((void)context, 0))                               \
  DEFINE(size_t, ZSTDv0##v##_getFrameParams, (void *out, const void *from, size_t size),                  \
         ((void)out, (void)from, (void)size, REFUSED))                                                    \
  DEFINE(size_t, ZSTDv0##v##_decompress_usingDict,                                                        \
         (void *context, void *to, size_t capacity, const void *from, size_t size, const void *words,     \
          size_t words_size),                                                                             \
         ((void)context, (void)to, (void)capacity, (void)from, (void)size, (void)words, (void)words_size, \
          REFUSED))                                                                                       \
  DEFINE(void *, ZBUFFv0##v##_createDCtx, (void), NULL)                                                   \
  DEFINE(size_t, ZBUFFv0##v##_freeDCtx, (void *context), ((void)context, 0))                              \
  DEFINE(size_t, ZBUFFv0##v##_decompressInitDictionary, (void *context, const void *words, size_t size),  \
         ((void)context, (void)words, (void)size, REFUSED))                                               \
  DEFINE(size_t, ZBUFFv0##v##_decompressContinue,                                                         \
         (void *context, void *to, size_t *capacity, const void *from, size_t *size),                     \
         ((void)context, (void)to, (void)capacity, (void)from, (void)size, REFUSED))                      \
  void ZSTDv0##v##_findFrameSizeInfoLegacy(const void *from, size_t size, size_t *compressed,             \
                                           unsigned long long *bound);                                    \
  void ZSTDv0##v##_findFrameSizeInfoLegacy(const void *from, size_t size, size_t *compressed,             \
                                           unsigned long long *bound) {                                   \
    (void)from, (void)size;                                                                               \
    *compressed = REFUSED;                                                                                \
    *bound = (unsigned long long)-2; /* ZSTD_CONTENTSIZE_ERROR */                                         \
  }
LEGACY(5)
LEGACY(6)
LEGACY(7)

// Of zstd's errors those that a frame of a bundle can have.
static const char *error_text(int code) {
  enum { CORRUPT = 20, WRONG_CHECKSUM = 22, WRONG_DICTIONARY = 32, NO_MEMORY = 64 }; // zstd_errors.h
  switch (code) {
  case CORRUPT: return "Data corruption detected";
  case WRONG_CHECKSUM: return "the frame's checksum is wrong";
  case WRONG_DICTIONARY: return "the frame is for another dictionary";
  case NO_MEMORY: return "no memory to decode the frame";
  default: return "no frame of zstd that has this size";
  }
}
DEFINE(const char *, ERR_getErrorString, (int code), error_text(code))
