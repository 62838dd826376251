// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The handles of this process: those that are open, since the child of a fork has to repair them, and those
// closed last, which stay allocated so that a use after close finds a closed handle and returns a status. One
// lock guards both; nothing that takes another lock is called while it is held.
#ifndef KILN_RUNTIME_HANDLES_H
#define KILN_RUNTIME_HANDLES_H

#include <stddef.h>

#include "base/status.h"

/// INVALID_ARGUMENT: "kiln_launch: the kernel is NULL".
__attribute__((cold)) kiln_status kiln_refuse_null(const char *function, const char *what, kiln_error *err);
/// For the begin of a public function.
#define KILN_NEED(pointer, what) \
  if (__builtin_expect(!(pointer), 0)) return kiln_refuse_null(__func__, what, err)

/// A part of each object that a fork affects.
typedef struct kiln_fork_node {
  struct kiln_fork_node *next, **link; // guarded by the lock
  void (*in_child)(struct kiln_fork_node *node);
} kiln_fork_node;

/// From now on, `in_child` runs in the child of every fork, on its only thread. Other threads may have been
/// in the middle of using the object: locks have to be made anew, and the data that they guard must be
/// readable at any moment.
void kiln_fork_watch(kiln_fork_node *node, void (*in_child)(kiln_fork_node *node));
/// Calls `visit` for each node that was given with `in_child`, with the lock held.
void kiln_fork_each(void (*in_child)(kiln_fork_node *node), void (*visit)(kiln_fork_node *node));
/// Does nothing for a node that is not watched.
void kiln_fork_forget(kiln_fork_node *node);

enum { KILN_CLOSED_COUNT = 64, KILN_CLOSED_BYTES = 1 << 20 };

/// A part of each object that is kept after it was closed.
typedef struct kiln_closed_node {
  struct kiln_closed_node *next; // the one closed after it
  size_t size;
  void (*release)(struct kiln_closed_node *node);
} kiln_closed_node;

/// Keeps a closed object of `size` bytes; it is released when KILN_CLOSED_COUNT others, or others of
/// KILN_CLOSED_BYTES together, have been closed after it.
void kiln_closed_keep(kiln_closed_node *node, size_t size, void (*release)(kiln_closed_node *node));
/// Releases all that are kept, for tests that count memory.
void kiln_closed_forget(void);

#endif
