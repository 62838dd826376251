// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens libkiln-more.so.0 from the folder that libkiln.so.0 was loaded from, or, where that is a link, from the
// folder of the file. No other place counts: it must be of the same build, and a program may have more than one
// libkiln.
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/more/more.h"

static _Atomic(const kiln_more *) opened;

// A folder is that of the process, and a name in it.
enum { FOLDER = 2 * PATH_MAX, PATH = FOLDER + 32 };

static void *open_in(const char *folder, char path[PATH]) {
  snprintf(path, PATH, "%s/libkiln-more.so.0", folder);
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// A folder as it was when libkiln was loaded: the process may have gone to another one since.
static void *open_beside(const struct link_map *own, char path[PATH]) {
  char folder[FOLDER];
  void *handle = NULL;
  if (dlinfo((void *)own, RTLD_DI_ORIGIN, folder) == 0) handle = open_in(folder, path);
  if (handle || *own->l_name != '/' || !realpath(own->l_name, folder)) return handle;
  *strrchr(folder, '/') = 0;
  return open_in(folder, path);
}

static KILN_COLD __attribute__((noinline)) const kiln_more *open_first(kiln_status status, kiln_error *err) {
  Dl_info info;
  void *own, *handle = NULL;
  char path[PATH];
  if (dladdr1(&opened, &info, &own, RTLD_DL_LINKMAP)) handle = open_beside(own, path);
  kiln_more_starter *start = handle ? (kiln_more_starter *)dlsym(handle, "kiln_more_start") : NULL;
  const kiln_more *more = start ? start(&kiln_core_of_libkiln) : NULL;
  if (!handle)
    kiln_fail(err, status, "a part of libkiln that is a file of its own is not there: %s", dlerror());
  else if (!more) kiln_fail(err, status, "%s is not of the same build as libkiln.so.0 next to it", path);
  atomic_store_explicit(&opened, more, memory_order_release);
  return more;
}

const kiln_more *kiln_more_open(kiln_status status, kiln_error *err) {
  const kiln_more *more = atomic_load_explicit(&opened, memory_order_acquire);
  return more ? more : open_first(status, err);
}
