// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of libkiln-observe share: their lock, lists of words, and complaints.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/observe/observe.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void observe_lock(void) { pthread_mutex_lock(&lock); }
void observe_unlock(void) { pthread_mutex_unlock(&lock); }

void observe_complain(const char *text) { fprintf(stderr, "libkiln-observe: %s\n", text); }

int observe_take_word(const char **list, const char *const *words) {
  *list += strspn(*list, ", ");
  size_t length = strcspn(*list, ", ");
  if (!length) return -1;
  for (int i = 0; words[i]; i++)
    if (strlen(words[i]) == length && !memcmp(words[i], *list, length)) {
      *list += length;
      return i;
    }
  return -2;
}
