// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Keeps track of open handles for the child of a fork, and of closed ones so that their use is detected.
#include "runtime/handles.h"

#include "runtime/hook.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kiln_fork_node *watched;

kiln_status kiln_refuse_null(const char *function, const char *what, kiln_error *err) {
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "%s: the %s is NULL", function, what);
}

// -------------------------------------------------------------------------------------------- fork

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }
static void in_child(void) {
  for (kiln_fork_node *node = watched; node; node = node->next) node->in_child(node);
  kiln_hook_in_child();
  pthread_mutex_unlock(&lock);
}

// Memory for handlers may be missing: then a child is as it would be without them.
static void add_handlers(void) { (void)pthread_atfork(before_fork, in_parent, in_child); }

void kiln_fork_watch(kiln_fork_node *node, void (*child)(kiln_fork_node *node)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, add_handlers);
  node->in_child = child;
  pthread_mutex_lock(&lock);
  node->next = watched;
  node->link = &watched;
  if (watched) watched->link = &node->next;
  watched = node;
  pthread_mutex_unlock(&lock);
}

void kiln_fork_each(void (*child)(kiln_fork_node *node), void (*visit)(kiln_fork_node *node)) {
  pthread_mutex_lock(&lock);
  for (kiln_fork_node *node = watched; node; node = node->next)
    if (node->in_child == child) visit(node);
  pthread_mutex_unlock(&lock);
}

void kiln_fork_forget(kiln_fork_node *node) {
  pthread_mutex_lock(&lock);
  if (node->link) *node->link = node->next;
  if (node->link && node->next) node->next->link = node->link;
  *node = (kiln_fork_node){0};
  pthread_mutex_unlock(&lock);
}

// ------------------------------------------------------------------------------------------ closed

static kiln_closed_node *oldest, *newest;
static size_t closed_count, closed_bytes;

// Releases the oldest ones until `size` more bytes find room; returns with the lock held.
static void lock_with_room(size_t size) {
  pthread_mutex_lock(&lock);
  while (oldest && (closed_count == KILN_CLOSED_COUNT || closed_bytes + size > KILN_CLOSED_BYTES)) {
    kiln_closed_node *node = oldest;
    oldest = node->next;
    closed_count--;
    closed_bytes -= node->size;
    pthread_mutex_unlock(&lock);
    node->release(node);
    pthread_mutex_lock(&lock);
  }
}

void kiln_closed_keep(kiln_closed_node *node, size_t size, void (*release)(kiln_closed_node *node)) {
  lock_with_room(size);
  *node = (kiln_closed_node){.size = size, .release = release};
  *(oldest ? &newest->next : &oldest) = node;
  newest = node;
  closed_count++;
  closed_bytes += size;
  pthread_mutex_unlock(&lock);
}

void kiln_closed_forget(void) {
  lock_with_room(KILN_CLOSED_BYTES + 1);
  pthread_mutex_unlock(&lock);
}
