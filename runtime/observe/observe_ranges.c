// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges around launches for the profilers of NVIDIA and AMD. NVTX has no library of its own since its third
// version: a program hands a tool, which NVTX_INJECTION64_PATH names, a table of pointers that the tool fills.
// That table and the few functions that are called are declared here.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/observe/observe.h"

typedef int push_function(const char *text);
typedef int pop_function(void);
static struct {
  push_function *push;
  pop_function *pop;
} ranges[RANGE_KINDS];

// ------------------------------------------------------------------------- a tool that NVTX lets in

enum { TABLE_CALLBACKS = 1, MODULES = 7, MODULE_CORE = 1, FUNCTIONS = 16, RANGE_PUSH = 9, RANGE_POP = 11 };
static void (*functions[MODULES][FUNCTIONS])(void);
static void (**tables[MODULES][FUNCTIONS])(void); // the address of each function's pointer; of number 0 none

static int get_table(int module, void (***out_table[])(void), unsigned *out_size) {
  if (module < MODULE_CORE || module >= MODULES) return 0;
  for (unsigned i = 1; i < FUNCTIONS; i++) tables[module][i] = &functions[module][i];
  *out_table = tables[module];
  *out_size = FUNCTIONS;
  return 1;
}

static const void *get_export(uint32_t number) {
  static const struct {
    size_t size;
    int (*get_table)(int module, void (***out_table[])(void), unsigned *out_size);
  } callbacks = {sizeof callbacks, get_table};
  return number == TABLE_CALLBACKS ? &callbacks : NULL;
}

static kiln_status inject(const char *path, kiln_error *err) {
  void *tool = dlopen(path, RTLD_LAZY);
  if (!tool) return kiln_fail(err, KILN_STATUS_TOOL, "NVTX_INJECTION64_PATH: %s", dlerror());
  int (*initialize)(const void *(*get)(uint32_t number)) = NULL;
  *(void **)&initialize = dlsym(tool, "InitializeInjectionNvtx2");
  if (!initialize || !initialize(get_export))
    return kiln_fail(err, KILN_STATUS_TOOL, "NVTX_INJECTION64_PATH: %s %s", path,
                     initialize ? "refuses to begin" : "has no InitializeInjectionNvtx2");
  memcpy(&ranges[RANGE_NVTX].push, &functions[MODULE_CORE][RANGE_PUSH], sizeof ranges->push);
  memcpy(&ranges[RANGE_NVTX].pop, &functions[MODULE_CORE][RANGE_POP], sizeof ranges->pop);
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ libraries

typedef struct range_library {
  const char *push, *pop;
  const char *files[5];
} range_library;
static const range_library libraries[RANGE_KINDS] = {
    [RANGE_NVTX] = {"nvtxRangePushA", "nvtxRangePop", {"libnvToolsExt.so.1", "libnvToolsExt.so"}},
    [RANGE_ROCTX] = {"roctxRangePushA",
                     "roctxRangePop",
                     {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so", "libroctx64.so.4",
                      "libroctx64.so"}},
};

static bool take_from(range_kind kind, void *handle) {
  const range_library *l = &libraries[kind];
  *(void **)&ranges[kind].push = dlsym(handle, l->push);
  *(void **)&ranges[kind].pop = dlsym(handle, l->pop);
  return ranges[kind].push && ranges[kind].pop;
}

// What a profiler has loaded already goes before what lies on the disk.
kiln_status observe_ranges_begin(range_kind kind, kiln_error *err) {
  const char *tool = kind == RANGE_NVTX ? secure_getenv("NVTX_INJECTION64_PATH") : NULL;
  if (tool && *tool) return inject(tool, err);
  if (take_from(kind, RTLD_DEFAULT)) return KILN_OK;
  for (const char *const *file = libraries[kind].files; *file; file++) {
    void *handle = dlopen(*file, RTLD_LAZY);
    if (handle && take_from(kind, handle)) return KILN_OK;
  }
  if (kind == RANGE_NVTX)
    return kiln_fail(err, KILN_STATUS_TOOL,
                     "nvtx: no profiler has set NVTX_INJECTION64_PATH, and there is no libnvToolsExt.so.1");
  return kiln_fail(err, KILN_STATUS_TOOL,
                   "roctx: there is no librocprofiler-sdk-roctx.so.1 and no libroctx64.so.4");
}

void observe_ranges_end(void) { memset(ranges, 0, sizeof ranges); }

void observe_ranges(const kiln_event *e) {
  char name[512];
  bool is_begin = e->kind == KILN_EVENT_LAUNCH;
  if (is_begin) observe_name(e, name, sizeof name);
  for (unsigned i = 0; i < RANGE_KINDS; i++) {
    if (is_begin && ranges[i].push) ranges[i].push(name);
    if (!is_begin && ranges[i].pop) ranges[i].pop();
  }
}
