// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes digests of sources with LLVM's implementation of BLAKE3.
#include "tools/build/source_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <llvm-c/blake3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(LLVM_BLAKE3_OUT_LEN == KILN_DIGEST_SIZE, "");

enum { PIECE = 1 << 14 }; // sixteen chunks of BLAKE3, which it computes side by side

static kiln_digest finish(llvm_blake3_hasher *hasher) {
  kiln_digest digest;
  llvm_blake3_hasher_finalize(hasher, digest.bytes, sizeof digest.bytes);
  return digest;
}

kiln_digest source_digest_of(const void *bytes, size_t size) {
  llvm_blake3_hasher hasher;
  llvm_blake3_hasher_init(&hasher);
  llvm_blake3_hasher_update(&hasher, bytes, size);
  return finish(&hasher);
}

/// Whether all of the file was read and it has `size` bytes.
static bool add_file(llvm_blake3_hasher *hasher, int fd, size_t size) {
  uint8_t piece[PIECE];
  size_t done = 0;
  while (done <= size) {
    ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return !got && done == size;
    llvm_blake3_hasher_update(hasher, piece, (size_t)got);
    done += (size_t)got;
  }
  return false;
}

bool source_digest_of_file(const char *path, size_t most, kiln_digest *out) {
  llvm_blake3_hasher hasher;
  struct stat st;
  if (!strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode)) return false; // opening a pipe is seen
  if (st.st_size <= 0 || (uint64_t)st.st_size > most) return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return false;
  llvm_blake3_hasher_init(&hasher);
  const bool is_read = add_file(&hasher, fd, (size_t)st.st_size);
  close(fd);
  if (is_read) *out = finish(&hasher);
  return is_read;
}
