// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records which functions a program enters and leaves, for `make count-house`. It is linked into programs
// built with -finstrument-functions, and writes into $TMPDIR, the only folder that kiln and its worker both
// know: a file calls.PID.TID per thread. A file is a u64, the number of events, then a u32 per event: the
// entered function's place in the program, or 0 where one is left. The file is mapped, so it is complete
// however the program ends.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNTRACED __attribute__((no_instrument_function))

enum { HEAD = 2, MOST_EVENTS = 1 << 29 }; // sparse: takes what is written

extern const char __executable_start[];
__attribute__((visibility("default"))) void __cyg_profile_func_enter(void *function, void *site);
__attribute__((visibility("default"))) void __cyg_profile_func_exit(void *function, void *site);

static _Thread_local uint32_t *events;
static _Thread_local int is_open;

static UNTRACED void open_trace(void) {
  const char *folder = getenv("TMPDIR");
  char name[4096];
  is_open = 1;
  if (!folder || snprintf(name, sizeof name, "%s/calls.%d.%ld", folder, (int)getpid(),
                          (long)syscall(SYS_gettid)) >= (int)sizeof name)
    return;
  int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  size_t size = (size_t)MOST_EVENTS * sizeof *events;
  if (file < 0 || ftruncate(file, (off_t)size)) abort(); // a count without them would be wrong
  void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) abort();
  events = mapped;
}

static UNTRACED void note(uint32_t event) {
  uint64_t count;
  if (!is_open) open_trace();
  if (!events) return;
  memcpy(&count, events, sizeof count);
  if (count + HEAD >= MOST_EVENTS) abort();
  events[HEAD + count++] = event;
  memcpy(events, &count, sizeof count);
}

UNTRACED void __cyg_profile_func_enter(void *function, void *site) {
  (void)site;
  note((uint32_t)((const char *)function - __executable_start));
}

UNTRACED void __cyg_profile_func_exit(void *function, void *site) {
  (void)function, (void)site;
  note(0);
}
