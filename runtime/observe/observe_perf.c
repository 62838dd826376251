// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names host kernels for `perf`, which looks for code that is in no file in /tmp/perf-PID.map: a line
// "ADDRESS SIZE NAME" for each piece. Other compilers of the process write the same file.
#include <stdio.h>
#include <unistd.h>

#include "base/output.h"
#include "runtime/observe/observe.h"

static int map_fd = -1; // owned; opened for the first kernel
static pid_t map_of;    // a child has a file of its own, without what its parent loaded

void observe_perf_end(void) {
  if (map_fd >= 0) close(map_fd);
  map_fd = -1;
  map_of = 0;
}

// Once a process: what failed is not tried again.
static void open_map(void) {
  char path[64];
  kiln_error err;
  if (map_of == getpid()) return;
  observe_perf_end();
  map_of = getpid();
  snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)map_of);
  if (kiln_output_append_open(path, &map_fd, &err) != KILN_OK) observe_complain(err.text);
}

void observe_perf(const kiln_event *e) {
  host_code code;
  char name[512], line[600];
  if (e->kind != KILN_EVENT_LOADED || !observe_host_code(e, &code)) return;
  observe_name(e, name, sizeof name);
  int size = snprintf(line, sizeof line, "%llx %zx kiln %s\n", (unsigned long long)(uintptr_t)code.begin,
                      code.size, name);
  observe_lock();
  open_map();
  if (map_fd >= 0) kiln_output_append(map_fd, line, (size_t)size);
  observe_unlock();
}
