// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates arenas for programs, which end when memory is exhausted. It is not part of arena.c, so that
// libkiln, which does not use it, has no way to end the process.
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"

static void end_process(size_t size) {
  fprintf(stderr, "kiln: memory exhausted (%zu bytes wanted)\n", size);
  abort();
}

kiln_arena *kiln_arena_create(void) {
  kiln_arena *arena = kiln_arena_create_with(end_process);
  if (!arena) end_process(sizeof(void *)); // at least
  return arena;
}
