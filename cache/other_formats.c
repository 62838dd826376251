// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Removes folders of other formats from a store's root when they are old. They are never parsed.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fs.h"
#include "cache/evict.h"

enum { USE_DEPTH = 2 };

struct visit {
  int64_t newest;
  unsigned depth;
};

/// The latest change of a folder, its folders and the files next to them (`stats` and `usage` change with
/// every build).
static void note_time(void *context, int folder, const char *name) {
  struct visit *v = context;
  struct stat st;
  if (kiln_fs_stat_at(folder, name, &st)) return;
  if ((int64_t)st.st_mtime > v->newest) v->newest = (int64_t)st.st_mtime;
  if (!S_ISDIR(st.st_mode) || v->depth == USE_DEPTH) return;
  int fd = kiln_fs_open(folder, name, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0) return;
  v->depth++;
  kiln_scan_folder(fd, UINT64_MAX, note_time, v);
  v->depth--;
  kiln_fs_close(fd);
}

struct search {
  int64_t before;
  bool dry_run;
  unsigned count;
};

static void look(void *context, int folder, const char *name) {
  struct search *s = context;
  struct visit v = {0, 0};
  char *end;
  if (*name != 'v' || name[1] < '0' || name[1] > '9') return;
  unsigned long format = strtoul(name + 1, &end, 10);
  if (*end || format == KILN_CACHE_FORMAT) return;
  note_time(&v, folder, name);
  if (v.newest >= s->before) return;
  s->count++;
  if (!s->dry_run) kiln_scan_remove(folder, name);
}

unsigned kiln_evict_other_formats(const kiln_store *store, int64_t max_age_s, bool dry_run) {
  struct search s = {(int64_t)time(NULL) - max_age_s, dry_run, 0};
  int fd = store->writable ? kiln_fs_open(AT_FDCWD, store->root, O_RDONLY | O_DIRECTORY, 0) : -EROFS;
  if (fd < 0) return 0;
  kiln_scan_folder(fd, UINT64_MAX, look, &s);
  kiln_fs_close(fd);
  return s.count;
}
