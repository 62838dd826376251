// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts a process's launches at the driver, by the library that calls it, for bench/torch_models.py: a shared
// library for LD_PRELOAD, which answers look-ups of cuLaunchKernel and cuLaunchKernelEx with functions of its
// own. The CUDA runtime asks the driver another way and is not counted; of cuBLAS and cuDNN some launches are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
enum { MOST_CALLERS = 256 };

static struct {
  _Atomic(void *) address; ///< where a call returns to
  atomic_ullong launches;
} callers[MOST_CALLERS];
static atomic_ullong others; ///< launches by callers that the table has no room for

PUBLIC void *dlsym(void *restrict handle, const char *restrict name);
PUBLIC void launches_print(char *text, size_t size);

static void count(void *address) {
  for (size_t i = 0; i < MOST_CALLERS; i++) {
    void *seen = atomic_load(&callers[i].address);
    if (!seen && atomic_compare_exchange_strong(&callers[i].address, &seen, address)) seen = address;
    if (seen != address) continue;
    atomic_fetch_add(&callers[i].launches, 1);
    return;
  }
  atomic_fetch_add(&others, 1);
}

typedef int Launch(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                   void **, void **);
typedef int LaunchEx(const void *, void *, void **, void **);
static _Atomic(Launch *) their_launch;
static _Atomic(LaunchEx *) their_launch_ex;

static int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  count(__builtin_return_address(0));
  return their_launch(function, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

static int launch_ex(const void *config, void *function, void **params, void **extra) {
  count(__builtin_return_address(0));
  return their_launch_ex(config, function, params, extra);
}

typedef void *Find(void *, const char *);

static Find *their_dlsym(void) {
  static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
  Find *found = NULL;
  for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
    *(void **)&found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  return found;
}

/// In place of the C library's. It is left by a jump, since RTLD_NEXT depends on who calls.
void *dlsym(void *restrict handle, const char *restrict name) {
  static _Atomic(Find *) theirs;
  if (!theirs) theirs = their_dlsym();
  Find *find = theirs;
  if (strcmp(name, "cuLaunchKernel") && strcmp(name, "cuLaunchKernelEx")) return find(handle, name);
  void *found = find(handle, name);
  if (!found) return NULL;
  if (!strcmp(name, "cuLaunchKernel")) {
    their_launch = (Launch *)found;
    return (void *)launch;
  }
  their_launch_ex = (LaunchEx *)found;
  return (void *)launch_ex;
}

/// Writes a line for each caller: its launches, a blank, the path of its library.
void launches_print(char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; i < MOST_CALLERS && callers[i].address && used < size; i++) {
    Dl_info its;
    const char *path = dladdr(callers[i].address, &its) && its.dli_fname ? its.dli_fname : "?";
    used += (size_t)snprintf(text + used, size - used, "%llu %s\n", callers[i].launches, path);
  }
  if (others && used < size) snprintf(text + used, size - used, "%llu ?\n", others);
}
