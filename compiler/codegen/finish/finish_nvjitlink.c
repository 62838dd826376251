// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's assembler as a library: about 4 ms a kernel when warm, and it runs in threads. Loaded once a path,
// never unloaded.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "compiler/codegen/finish/finish_cubin.h"

enum { INPUT_PTX = 2, NEWEST_MAJOR = 13, OLDEST_MAJOR = 12, MOST_MINOR = 9 };
enum { UNRECOGNIZED_ARCH = 16, UNSUPPORTED_ARCH = 17 }; // of nvJitLinkResult

typedef struct jit_link {
  char path[4096];
  void *library;
#define SYMBOL(name, parameters) int(*name) parameters;
#include "compiler/codegen/finish/nvjitlink.def"
#undef SYMBOL
} jit_link;

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static jit_link loaded;

static void *find_symbol(void *library, const char *name) {
  char text[80];
  snprintf(text, sizeof text, "nvJitLink%s", name);
  void *found = dlsym(library, text);
  for (int major = NEWEST_MAJOR; !found && major >= OLDEST_MAJOR; major--)
    for (int minor = MOST_MINOR; !found && minor >= 0; minor--) {
      snprintf(text, sizeof text, "__nvJitLink%s_%d_%d", name, major, minor);
      found = dlsym(library, text);
    }
  return found;
}

static kiln_status load_symbols(jit_link *j, const char *path, kiln_error *err) {
  const char *missing = NULL;
#define SYMBOL(name, parameters)                  \
  {                                               \
    void *found = find_symbol(j->library, #name); \
    memcpy(&j->name, &found, sizeof found);       \
    if (!found) missing = #name;                  \
  }
#include "compiler/codegen/finish/nvjitlink.def"
#undef SYMBOL
  return missing ? kiln_fail(err, KILN_STATUS_TOOL, "%s has no entry point nvJitLink%s", path, missing)
                 : KILN_OK;
}

static kiln_status load_library(const kiln_tool_file *tool, kiln_error *err) {
  const char *path = tool->path;
  if (loaded.library && strcmp(loaded.path, path) == 0) return KILN_OK;
  if (loaded.library)
    return kiln_fail(err, KILN_STATUS_TOOL, "libnvJitLink: %s is loaded already, found %s", loaded.path,
                     path);
  if (strlen(path) >= sizeof loaded.path)
    return kiln_fail(err, KILN_STATUS_TOOL, "libnvJitLink: the path has %zu characters", strlen(path));
  jit_link j = {.library = dlopen(tool->run, RTLD_NOW | RTLD_LOCAL)};
  if (!j.library) return kiln_fail(err, KILN_STATUS_TOOL, "libnvJitLink cannot be loaded: %s", dlerror());
  kiln_status status = load_symbols(&j, path, err);
  if (status != KILN_OK) {
    dlclose(j.library);
    return status;
  }
  memcpy(j.path, path, strlen(path) + 1);
  loaded = j;
  return KILN_OK;
}

static void read_log(void *handle, int (*get_size)(void *, size_t *), int (*get)(void *, char *),
                     kiln_buffer *log) {
  size_t size = 0;
  if (get_size(handle, &size) != 0 || !size || !kiln_buffer_reserve(log, size + 1)) return;
  if (get(handle, (char *)log->bytes + log->size) == 0)
    log->size += strnlen((char *)log->bytes + log->size, size);
}

static kiln_status take_cubin(void *handle, kiln_buffer *out, kiln_error *err) {
  size_t size = 0;
  if (loaded.GetLinkedCubinSize(handle, &size) != 0 || !size)
    return kiln_fail(err, KILN_STATUS_TOOL, "libnvJitLink gave no cubin");
  if (!kiln_buffer_reserve(out, size))
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory for a cubin of %zu bytes", size);
  if (loaded.GetLinkedCubin(handle, out->bytes + out->size) != 0)
    return kiln_fail(err, KILN_STATUS_TOOL, "libnvJitLink gave no cubin");
  out->size += size;
  return KILN_OK;
}

kiln_status kiln_assemble_nvjitlink(const kiln_tool_file *tool, const char *arch, unsigned optimise,
                                    bool debug, const char *ptx, kiln_buffer *out, kiln_buffer *log,
                                    kiln_error *err) {
  pthread_mutex_lock(&load_lock);
  kiln_status status = load_library(tool, err);
  pthread_mutex_unlock(&load_lock);
  if (status != KILN_OK) return status;
  char arch_option[64];
  snprintf(arch_option, sizeof arch_option, "-arch=%s", arch);
  const char *options[] = {arch_option, optimise ? "-O3" : "-O0", "-Xptxas=-v", "-verbose", "-no-cache",
                           "-lineinfo"};
  void *handle = NULL;
  int code = loaded.Create(&handle, debug ? 6 : 5, options);
  if (code == UNRECOGNIZED_ARCH || code == UNSUPPORTED_ARCH)
    return kiln_fail(err, KILN_STATUS_UNSUPPORTED, "libnvJitLink does not know %s", arch);
  if (code != 0)
    return kiln_fail(err, KILN_STATUS_TOOL, "libnvJitLink does not start for %s (error %d)", arch, code);
  code = loaded.AddData(handle, INPUT_PTX, ptx, strlen(ptx) + 1, "kernel");
  if (code == 0) code = loaded.Complete(handle);
  if (code == 0) status = take_cubin(handle, out, err);
  if (code == 0) read_log(handle, loaded.GetInfoLogSize, loaded.GetInfoLog, log);
  else {
    read_log(handle, loaded.GetErrorLogSize, loaded.GetErrorLog, log);
    status = kiln_assemble_refused("libnvJitLink", log, err);
  }
  loaded.Destroy(&handle);
  return status;
}
