// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements tables of tuned choices: adding, finding, merging, reading and writing.
#include "tuner/table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/output.h"

enum { MOST_BYTES = 256 << 20 };

void kiln_tuner_table_init(kiln_tuner_table *table) {
  *table = (kiln_tuner_table){.arena = kiln_arena_create()};
}

void kiln_tuner_table_deinit(kiln_tuner_table *table) {
  kiln_arena_destroy(table->arena);
  memset(table, 0, sizeof *table);
}

static const char *line_of(kiln_arena *arena, const kiln_tuned_entry *entry, kiln_tuned_extent extent) {
  kiln_buffer text = {0};
  kiln_tuned_write(entry, extent, &text);
  const char *line = kiln_arena_text(arena, (const char *)text.bytes, text.size);
  kiln_buffer_deinit(&text);
  return line;
}

static const kiln_tuned_entry *copy_of(kiln_arena *arena, const kiln_tuned_entry *entry, const char *id) {
  kiln_tuned_entry *copy = kiln_arena_copy(arena, entry, sizeof *entry);
  copy->texts[KILN_TUNED_ID] = id;
  for (unsigned f = 0; f < KILN_TUNED_FIELDS; f++)
    if (copy->texts[f]) copy->texts[f] = kiln_arena_text(arena, copy->texts[f], strlen(copy->texts[f]));
  for (uint32_t i = 0; i < copy->axis_count; i++)
    copy->axes[i].name = kiln_arena_text(arena, copy->axes[i].name, strlen(copy->axes[i].name));
  return copy;
}

kiln_status kiln_tuner_table_add(kiln_tuner_table *table, const kiln_tuned_entry *entry, kiln_error *err) {
  char id[KILN_TUNER_ID + 1];
  KILN_TRY(kiln_tuner_id(entry, id, err));
  KILN_GROW(table->arena, table->rows, table->count, table->capacity);
  kiln_tuner_row *row = &table->rows[table->count++];
  row->entry = copy_of(table->arena, entry, id);
  row->identity = line_of(table->arena, row->entry, KILN_TUNED_IDENTITY_ONLY);
  row->whole = line_of(table->arena, row->entry, KILN_TUNED_WHOLE);
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------- order

static int compare_dates(const kiln_tuned_entry *a, const kiln_tuned_entry *b) {
  const char *x = a->texts[KILN_TUNED_DATE], *y = b->texts[KILN_TUNED_DATE];
  return -strcmp(x ? x : "", y ? y : "");
}

// One that was not measured comes after those that were.
static int compare_times(const kiln_tuned_entry *a, const kiln_tuned_entry *b) {
  uint64_t x = a->texts[KILN_TUNED_NS] ? a->numbers[KILN_TUNED_NS] : UINT64_MAX,
           y = b->texts[KILN_TUNED_NS] ? b->numbers[KILN_TUNED_NS] : UINT64_MAX;
  return (x > y) - (x < y);
}

// By identity, the better first.
static int by_worth(const void *a, const void *b) {
  const kiln_tuner_row *x = a, *y = b;
  int order = strcmp(x->identity, y->identity);
  if (!order) order = compare_dates(x->entry, y->entry);
  if (!order) order = compare_times(x->entry, y->entry);
  return order ? order : strcmp(x->whole, y->whole);
}

void kiln_tuner_table_settle(kiln_tuner_table *table) {
  uint32_t kept = 0;
  if (table->count) qsort(table->rows, table->count, sizeof *table->rows, by_worth);
  for (uint32_t i = 0; i < table->count; i++)
    if (!kept || strcmp(table->rows[kept - 1].identity, table->rows[i].identity))
      table->rows[kept++] = table->rows[i];
  table->count = kept;
}

static int by_identity(const void *text, const void *row) {
  return strcmp(text, ((const kiln_tuner_row *)row)->identity);
}

const kiln_tuner_row *kiln_tuner_table_find(const kiln_tuner_table *table, const char *identity) {
  return table->count ? bsearch(identity, table->rows, table->count, sizeof *table->rows, by_identity) : NULL;
}

// -------------------------------------------------------------------------------- reading, writing

kiln_status kiln_tuner_table_read(kiln_tuner_table *table, const char *file, const char *text, size_t size,
                                  kiln_tuned_place *out_place, kiln_error *err) {
  kiln_tuned_entry *entries;
  kiln_tuned_place unseen;
  uint32_t count;
  if (!out_place) out_place = &unseen;
  kiln_arena *arena = kiln_arena_create();
  kiln_status status = kiln_tuned_read(arena, file, text, size, &entries, &count, out_place, err);
  for (uint32_t i = 0; i < count && status == KILN_OK; i++) {
    char id[KILN_TUNER_ID + 1];
    const char *stated = entries[i].texts[KILN_TUNED_ID];
    status = kiln_tuner_id(&entries[i], id, err);
    if (status == KILN_OK && stated && strcmp(stated, id)) {
      *out_place = (kiln_tuned_place){entries[i].line, 1};
      status = kiln_fail(err, KILN_STATUS_SOURCE,
                         "%s:%u:1: the id %.40s is another identity's; what this line says has %s", file,
                         entries[i].line, stated, id);
    }
    if (status == KILN_OK) status = kiln_tuner_table_add(table, &entries[i], err);
  }
  kiln_arena_destroy(arena);
  kiln_tuner_table_settle(table);
  return status;
}

void kiln_tuner_table_write(const kiln_tuner_table *table, kiln_buffer *out) {
  kiln_tuned_write_head(KILN_TUNED_WHOLE, out);
  for (uint32_t i = 0; i < table->count; i++) kiln_buffer_format(out, "%s\n", table->rows[i].whole);
}

// The folder of `path`, opened and locked; -errno.
static int lock_folder(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (strlen(path) >= sizeof folder) return -ENAMETOOLONG;
  if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -errno;
  while (flock(fd, LOCK_EX))
    if (errno != EINTR) {
      int why = errno;
      close(fd);
      return -why;
    }
  return fd;
}

// A file that is not there is an empty table, and so is a device or a FIFO.
static kiln_status add_file(const char *path, kiln_tuner_table *table, kiln_error *err) {
  struct stat about;
  size_t got = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENOENT) return KILN_OK;
  if (fd < 0) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", path, strerror(errno));
  int failed = kiln_fs_stat(fd, &about);
  if (!failed && !S_ISREG(about.st_mode)) return close(fd), KILN_OK;
  char *text = failed || about.st_size > MOST_BYTES ? NULL : malloc((size_t)about.st_size + 1);
  if (text) failed = kiln_fs_read(fd, text, (size_t)about.st_size, &got);
  close(fd);
  kiln_status status;
  if (failed) status = kiln_fail(err, kiln_status_of_errno(-failed), "%s: %s", path, strerror(-failed));
  else if (!text)
    status = kiln_fail(err, KILN_STATUS_LIMIT, "%s: %lld bytes; a table has at most %d", path,
                       (long long)about.st_size, MOST_BYTES);
  else status = kiln_tuner_table_read(table, path, text, got, NULL, err);
  free(text);
  return status;
}

kiln_status kiln_tuner_table_update(const char *path, kiln_tuner_table *more, kiln_error *err) {
  kiln_buffer text = {0};
  int folder = lock_folder(path);
  if (folder < 0)
    return kiln_fail(err, kiln_status_of_errno(-folder), "the folder of %s: %s", path, strerror(-folder));
  kiln_status status = add_file(path, more, err);
  kiln_tuner_table_settle(more);
  if (status == KILN_OK) {
    kiln_tuner_table_write(more, &text);
    status = text.failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "%s: memory is exhausted", path)
                         : kiln_output_write(path, text.bytes, text.size, err);
  }
  kiln_buffer_deinit(&text);
  close(folder);
  return status;
}
