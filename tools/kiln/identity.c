// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kiln/identity.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tools/common/cli.h"

enum { MOST_HEADERS = 64, MOST_NOTE = 4096, FIRST_BLOCK = 4096 };

/// A file's first block, read at once: header, segments and build-id of an ordinary ELF file all lie in it.
typedef struct elf_file {
  int fd;
  size_t size;
  uint8_t first[FIRST_BLOCK];
} elf_file;

static bool read_at(const elf_file *f, void *out, size_t size, uint64_t offset) {
  if (offset <= f->size && size <= f->size - offset) {
    memcpy(out, f->first + offset, size);
    return true;
  }
  return pread(f->fd, out, size, (off_t)offset) == (ssize_t)size;
}

/// The build-id inside a note segment, or NULL.
static const uint8_t *build_id(const uint8_t *note, size_t size, size_t *out_size) {
  kiln_reader r = kiln_reader_of(note, size);
  while (r.left) {
    uint32_t name_size = kiln_read_u32(&r), value_size = kiln_read_u32(&r), type = kiln_read_u32(&r);
    const uint8_t *name = kiln_read_bytes(&r, ((size_t)name_size + 3) & ~(size_t)3);
    const uint8_t *value = kiln_read_bytes(&r, ((size_t)value_size + 3) & ~(size_t)3);
    if (!name || !value) return NULL;
    if (type == NT_GNU_BUILD_ID && name_size == 4 && !memcmp(name, "GNU", 4))
      return *out_size = value_size, value;
  }
  return NULL;
}

static bool read_build_id(int fd, uint8_t *out, size_t capacity, size_t *out_size) {
  elf_file f = {.fd = fd};
  Elf64_Ehdr head;
  Elf64_Phdr segments[MOST_HEADERS];
  uint8_t note[MOST_NOTE];
  ssize_t got = pread(fd, f.first, sizeof f.first, 0);
  f.size = got < 0 ? 0 : (size_t)got;
  if (!read_at(&f, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG)) return false;
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof *segments ||
      head.e_phnum > MOST_HEADERS)
    return false;
  if (!read_at(&f, segments, head.e_phnum * sizeof *segments, head.e_phoff)) return false;
  for (unsigned i = 0; i < head.e_phnum; i++) {
    if (segments[i].p_type != PT_NOTE) continue;
    size_t size = segments[i].p_filesz < sizeof note ? segments[i].p_filesz : sizeof note, id_size;
    if (!read_at(&f, note, size, segments[i].p_offset)) return false;
    const uint8_t *id = build_id(note, size, &id_size);
    if (!id || !id_size || id_size > capacity) continue;
    memcpy(out, id, *out_size = id_size);
    return true;
  }
  return false;
}

static kiln_status identity_of_content(const char *path, kiln_digest *out, char text[80], kiln_error *err) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_buffer content = {0};
  kiln_status status = cli_read_file(path, (size_t)1 << 31, &content, err);
  if (status == KILN_OK) {
    *out = kiln_digest_of(content.bytes, content.size);
    kiln_digest_hex(out, hex);
    snprintf(text, 80, "content %.64s", hex);
  }
  kiln_buffer_deinit(&content);
  return status;
}

/// Takes the descriptor. True when the file has a build-id.
static bool identity_of_open_file(int fd, kiln_digest *out, char text[80]) {
  uint8_t id[64];
  size_t id_size;
  bool has_id = read_build_id(fd, id, sizeof id, &id_size);
  close(fd);
  if (!has_id) return false;
  *out = kiln_digest_of(id, id_size);
  int used = snprintf(text, 80, "build-id ");
  for (size_t i = 0; i < id_size && used < 76; i++)
    used += snprintf(text + used, 80 - (size_t)used, "%02x", id[i]);
  return true;
}

kiln_status identity_of_file(const char *path, kiln_digest *out, char text[80], kiln_error *err) {
  memset(out, 0, sizeof *out);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kiln_fail(err, kiln_status_of_errno(errno), "cannot open %s: %s", path, strerror(errno));
  return identity_of_open_file(fd, out, text) ? KILN_OK : identity_of_content(path, out, text, err);
}

static kiln_status identity_of_worker(kiln_digest *out, char text[80], kiln_error *err) {
  char path[4096];
  int fd = cli_open_program("kiln-codegen");
  if (fd < 0)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND,
                     "kiln-codegen is not beside this program nor in ../libexec/kiln");
  if (identity_of_open_file(fd, out, text)) return KILN_OK;
  cli_find_program("kiln-codegen", path, sizeof path);
  return identity_of_content(path, out, text, err);
}

/// Where the vendor's tools are looked for; nothing else is. The first of a kind that exists is taken.
static const struct {
  kiln_assembler kind;
  const char *path;
} places[] = {
    {KILN_ASSEMBLER_NVJITLINK, "/usr/local/cuda/lib64/libnvJitLink.so"},
    {KILN_ASSEMBLER_NVJITLINK, "/usr/local/cuda/targets/x86_64-linux/lib/libnvJitLink.so"},
    {KILN_ASSEMBLER_NVJITLINK, "/usr/lib/x86_64-linux-gnu/libnvJitLink.so"},
    {KILN_ASSEMBLER_PTXAS, "/usr/local/cuda/bin/ptxas"},
    {KILN_ASSEMBLER_PTXAS, "/usr/bin/ptxas"},
};

/// Opens the first place of a kind that can be read; -1 when none can.
static int open_place(uint8_t kind, const char **out_path) {
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    int fd = places[i].kind == kind ? open(*out_path = places[i].path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) return fd;
  }
  return -1;
}

static int open_assembler(kiln_codegen_options *options, bool automatic, const char **out_path) {
  if (options->assembler_path && *options->assembler_path)
    return open(*out_path = options->assembler_path, O_RDONLY | O_CLOEXEC);
  if (!automatic) return open_place(options->assembler, out_path);
  for (uint8_t kind = KILN_ASSEMBLER_NVJITLINK; kind <= KILN_ASSEMBLER_PTXAS; kind++) {
    int fd = open_place(kind, out_path);
    if (fd < 0) continue;
    options->assembler = kind;
    return fd;
  }
  options->assembler = KILN_ASSEMBLER_NONE;
  return -1;
}

kiln_status identity_find(identity *out, kiln_codegen_options *options, bool wanted, bool automatic,
                          kiln_error *err) {
  memset(out, 0, sizeof *out);
  KILN_TRY(identity_of_worker(&out->compiler, out->compiler_text, err));
  if (!wanted || (options->assembler == KILN_ASSEMBLER_NONE && !automatic)) return KILN_OK;
  const char *path = NULL;
  int fd = open_assembler(options, automatic, &path);
  if (fd < 0 && options->assembler == KILN_ASSEMBLER_NONE) return KILN_OK;
  if (fd < 0)
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "the PTX assembler asked for is in none of the known places; --assembler-path names it");
  bool has_id = identity_of_open_file(fd, &out->assembler, out->assembler_text);
  if (snprintf(out->assembler_path, sizeof out->assembler_path, "%s", path) >=
      (int)sizeof out->assembler_path)
    return kiln_fail(err, KILN_STATUS_LIMIT, "the path of the assembler is too long: %.100s...", path);
  options->assembler_path = out->assembler_path;
  return has_id ? KILN_OK
                : identity_of_content(out->assembler_path, &out->assembler, out->assembler_text, err);
}
