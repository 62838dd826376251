// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kiln/identity.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tools/common/cli.h"

enum { MOST_HEADERS = 64, MOST_NOTE = 4096 };

/// The build-id inside a note segment, or NULL.
static const uint8_t *build_id(const uint8_t *note, size_t size, size_t *out_size) {
  kiln_reader r = kiln_reader_of(note, size);
  while (r.left) {
    uint32_t name_size = kiln_read_u32(&r), value_size = kiln_read_u32(&r), type = kiln_read_u32(&r);
    const uint8_t *name = kiln_read_bytes(&r, ((size_t)name_size + 3) & ~(size_t)3);
    const uint8_t *value = kiln_read_bytes(&r, ((size_t)value_size + 3) & ~(size_t)3);
    if (!name || !value) return NULL;
    if (type == NT_GNU_BUILD_ID && name_size == 4 && !memcmp(name, "GNU", 4)) return *out_size = value_size, value;
  }
  return NULL;
}

static bool read_build_id(int fd, uint8_t *out, size_t capacity, size_t *out_size) {
  Elf64_Ehdr head;
  Elf64_Phdr segments[MOST_HEADERS];
  uint8_t note[MOST_NOTE];
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG)) return false;
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof *segments || head.e_phnum > MOST_HEADERS) return false;
  ssize_t wanted = (ssize_t)(head.e_phnum * sizeof *segments);
  if (pread(fd, segments, (size_t)wanted, (off_t)head.e_phoff) != wanted) return false;
  for (unsigned i = 0; i < head.e_phnum; i++) {
    if (segments[i].p_type != PT_NOTE) continue;
    size_t size = segments[i].p_filesz < sizeof note ? segments[i].p_filesz : sizeof note, id_size;
    if (pread(fd, note, size, (off_t)segments[i].p_offset) != (ssize_t)size) return false;
    const uint8_t *id = build_id(note, size, &id_size);
    if (!id || !id_size || id_size > capacity) continue;
    memcpy(out, id, *out_size = id_size);
    return true;
  }
  return false;
}

kiln_status identity_of_file(const char *path, kiln_digest *out, char text[80], kiln_error *err) {
  uint8_t id[64];
  size_t id_size;
  char hex[KILN_DIGEST_HEX + 1];
  memset(out, 0, sizeof *out);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kiln_fail(err, kiln_status_of_errno(errno), "cannot open %s: %s", path, strerror(errno));
  bool has_id = read_build_id(fd, id, sizeof id, &id_size);
  close(fd);
  if (has_id) {
    *out = kiln_digest_of(id, id_size);
    int used = snprintf(text, 80, "build-id ");
    for (size_t i = 0; i < id_size && used < 76; i++) used += snprintf(text + used, 80 - (size_t)used, "%02x", id[i]);
    return KILN_OK;
  }
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

static const char *find_assembler(uint8_t kind) {
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (places[i].kind == kind && !access(places[i].path, R_OK)) return places[i].path;
  return NULL;
}

static const char *choose(kiln_codegen_options *options, bool automatic) {
  if (options->assembler_path && *options->assembler_path) return options->assembler_path;
  if (!automatic) return find_assembler(options->assembler);
  for (uint8_t kind = KILN_ASSEMBLER_NVJITLINK; kind <= KILN_ASSEMBLER_PTXAS; kind++) {
    const char *path = find_assembler(kind);
    if (!path) continue;
    options->assembler = kind;
    return path;
  }
  options->assembler = KILN_ASSEMBLER_NONE;
  return NULL;
}

kiln_status identity_find(identity *out, kiln_codegen_options *options, bool automatic, kiln_error *err) {
  char worker[4096];
  memset(out, 0, sizeof *out);
  if (!cli_find_program("kiln-codegen", worker, sizeof worker))
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "kiln-codegen is not beside this program nor in ../libexec/kiln");
  KILN_TRY(identity_of_file(worker, &out->compiler, out->compiler_text, err));
  if (options->assembler == KILN_ASSEMBLER_NONE && !automatic) return KILN_OK;
  const char *path = choose(options, automatic);
  if (!path && automatic) return KILN_OK;
  if (!path) return kiln_fail(err, KILN_STATUS_TOOL, "the PTX assembler asked for is in none of the known places; --assembler-path names it");
  if (!realpath(path, out->assembler_path)) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
  options->assembler_path = out->assembler_path;
  return identity_of_file(out->assembler_path, &out->assembler, out->assembler_text, err);
}
