// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the code generator and the vendor's assembler once, and identifies them by their content.
#include "tools/kiln/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stream.h"
#include "tools/common/cli.h"

/// The largest tool known has 100 MB; its digest is taken of all its bytes.
static const long long most_tool = 4ll << 30;

static kiln_status check_file(const toolchain_program *tool, kiln_error *err) {
  struct stat st;
  if (fstat(tool->fd, &st))
    return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", tool->path, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: not a regular file", tool->path);
  if (st.st_size <= most_tool) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_LIMIT, "%s: expected a tool of at most %lld bytes, found %lld",
                   tool->path, most_tool, (long long)st.st_size);
}

static kiln_status take_identity(toolchain_program *tool, kiln_file_extent extent, kiln_cache *cache,
                                 kiln_error *err) {
  char hex[KILN_DIGEST_HEX + 1];
  tool->extent = extent;
  KILN_TRY(check_file(tool, err));
  kiln_status status = kiln_cache_file_digest(cache, tool->fd, extent, &tool->mark, &tool->digest, err);
  if (status != KILN_OK) return kiln_context(err, status, "%s", tool->path);
  tool->settled = kiln_file_mark_settled(&tool->mark);
  kiln_digest_hex(&tool->digest, hex);
  snprintf(tool->text, sizeof tool->text, "content %s", hex);
  return KILN_OK;
}

kiln_status toolchain_program_open(toolchain_program *out, const char *name, kiln_cache *cache,
                                   kiln_error *err) {
  memset(out, 0, sizeof *out);
  if (!cli_find_program(name, out->path, sizeof out->path, &out->fd))
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s is not next to this program nor in ../libexec/kiln",
                     name);
  kiln_status status = take_identity(out, KILN_FILE_LOADED, cache, err);
  if (status != KILN_OK) close(out->fd);
  return status;
}

kiln_status toolchain_self(kiln_digest *out, kiln_cache *cache, kiln_error *err) {
  kiln_file_mark mark;
  KILN_TRY(kiln_stream_need_names("the identity of this program", err));
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kiln_fail(err, kiln_status_of_errno(errno), "/proc/self/exe: %s", strerror(errno));
  kiln_status status = kiln_cache_file_digest(cache, fd, KILN_FILE_LOADED, &mark, out, err);
  close(fd);
  return status;
}

/// The only places where the vendor's tools are looked for. The first that exists is used, of any kind or of
/// the kind that was requested. nvJitLink (13.0) treats PTX as one of several units and ignores setmaxnreg
/// there (C7504), which matrix kernels need, so ptxas comes first.
static const struct {
  kiln_assembler kind;
  const char *path;
} places[] = {
    {KILN_ASSEMBLER_PTXAS, "/usr/local/cuda/bin/ptxas"},
    {KILN_ASSEMBLER_PTXAS, "/usr/bin/ptxas"},
    {KILN_ASSEMBLER_NVJITLINK, "/usr/local/cuda/lib64/libnvJitLink.so"},
    {KILN_ASSEMBLER_NVJITLINK, "/usr/local/cuda/targets/x86_64-linux/lib/libnvJitLink.so"},
    {KILN_ASSEMBLER_NVJITLINK, "/usr/lib/x86_64-linux-gnu/libnvJitLink.so"},
};

/// Opens the first readable place, of the requested kind if there is one, and reports its kind; -1 when there
/// is none.
static int open_place(uint8_t *kind, bool any, const char **out_path) {
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (!any && places[i].kind != *kind) continue;
    int fd = open(*out_path = places[i].path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    *kind = (uint8_t)places[i].kind;
    return fd;
  }
  return -1;
}

/// The kind of a file by its name: a library is nvJitLink, a program ptxas.
static uint8_t kind_of(const char *path) {
  const char *name = strrchr(path, '/');
  return strstr(name ? name : path, ".so") ? KILN_ASSEMBLER_NVJITLINK : KILN_ASSEMBLER_PTXAS;
}

static int open_assembler(kiln_codegen_options *options, bool automatic, const char **out_path) {
  if (options->assembler_path && *options->assembler_path) {
    if (automatic) options->assembler = kind_of(options->assembler_path);
    return open(*out_path = options->assembler_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  }
  int fd = open_place(&options->assembler, automatic, out_path);
  if (fd < 0 && automatic) options->assembler = KILN_ASSEMBLER_NONE;
  return fd;
}

kiln_status toolchain_find(toolchain *out, kiln_codegen_options *options, bool wanted, bool automatic,
                           kiln_cache *cache, kiln_error *err) {
  memset(out, 0, sizeof *out);
  out->compiler.fd = out->assembler.fd = -1;
  pthread_mutex_init(&out->mutex, NULL);
  KILN_TRY(toolchain_program_open(&out->compiler, "kiln-codegen", cache, err));
  if (!wanted || (options->assembler == KILN_ASSEMBLER_NONE && !automatic)) return KILN_OK;
  toolchain_program *assembler = &out->assembler;
  const char *path = NULL;
  assembler->fd = open_assembler(options, automatic, &path);
  if (assembler->fd < 0 && options->assembler == KILN_ASSEMBLER_NONE) return KILN_OK;
  if (assembler->fd < 0 && options->assembler_path && *options->assembler_path)
    return kiln_fail(err, KILN_STATUS_TOOL, "the PTX assembler cannot be opened: %s: %s", path,
                     strerror(errno));
  if (assembler->fd < 0)
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "the PTX assembler asked for is in none of the known places; --assembler-path names it");
  if (snprintf(assembler->path, sizeof assembler->path, "%s", path) >= (int)sizeof assembler->path)
    return kiln_fail(err, KILN_STATUS_LIMIT, "the path of the assembler is too long: %.100s...", path);
  options->assembler_path = assembler->path;
  return take_identity(assembler, KILN_FILE_WHOLE, cache,
                       err); // what others wrote may read its own file, too
}

void toolchain_open_usual(int *out_compiler, int *out_assembler) {
  char path[4096];
  const char *found;
  uint8_t kind = KILN_ASSEMBLER_NONE;
  cli_find_program("kiln-codegen", path, sizeof path, out_compiler);
  *out_assembler = open_place(&kind, true, &found);
}

/// The file's mark decides, unless the file was changed so shortly before its content was read that a further
/// change might not show. In that case the content is read again until the mark is old enough.
static bool is_content_unchanged(toolchain_program *tool) {
  struct stat st;
  kiln_file_mark now;
  kiln_digest digest;
  if (tool->fd < 0) return true;
  if (fstat(tool->fd, &st)) return false;
  now = kiln_file_mark_of(&st);
  if (!kiln_file_mark_same(&now, &tool->mark)) return false;
  if (tool->settled) return true;
  tool->settled = kiln_file_mark_settled(&now);
  return kiln_cache_file_digest(NULL, tool->fd, tool->extent, &now, &digest, NULL) == KILN_OK &&
         kiln_file_mark_same(&now, &tool->mark) &&
         !memcmp(digest.bytes, tool->digest.bytes, sizeof digest.bytes);
}

/// Whether the path leads to the file that is open.
static bool is_there(const toolchain_program *tool) {
  struct stat st;
  if (stat(tool->path, &st)) return false;
  kiln_file_mark there = kiln_file_mark_of(&st);
  return kiln_file_mark_same(&there, &tool->mark);
}

bool toolchain_program_is_unchanged(toolchain_program *tool) {
  return is_content_unchanged(tool) && is_there(tool);
}

bool toolchain_is_unchanged(toolchain *who, bool by_path) {
  pthread_mutex_lock(&who->mutex);
  bool good = is_content_unchanged(&who->compiler) && is_content_unchanged(&who->assembler) &&
              (!by_path || is_there(&who->compiler));
  pthread_mutex_unlock(&who->mutex);
  return good;
}
