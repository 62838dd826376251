// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln cache stats, ls, show, extract: the commands that only read.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache/spool.h"
#include "cache/usage.h"
#include "tools/cache/commands.h"

// ------------------------------------------------------------------------------------------- stats

typedef struct overview {
  kiln_stats_sum sum;
  kiln_limits limits;
  uint64_t files, bytes, spooled;
  uint64_t hits, misses, remote, saved_ns;
} overview;

static bool add_size(void *context, const kiln_scan_item *item) {
  overview *o = context;
  o->files++;
  o->bytes += item->bytes;
  return true;
}

static void take_overview(cache_tool *tool, overview *o) {
  kiln_usage usage;
  kiln_stats_read(tool->store, &o->sum);
  o->limits = kiln_cache_limits(tool->cache);
  if (kiln_usage_large(tool->store, &usage)) {
    o->files = usage.files;
    o->bytes = usage.bytes;
  } else {
    kiln_scan_all(tool->store, add_size, o);
  }
  o->spooled = kiln_spool_count(tool->store);
  for (unsigned i = KILN_OUTCOME_HIT_MEMORY; i <= KILN_OUTCOME_HIT_REMOTE; i++) {
    o->hits += o->sum.count[i];
    o->saved_ns += o->sum.ns[i];
  }
  for (unsigned i = KILN_OUTCOME_MISS_ABSENT; i <= KILN_OUTCOME_MISS_SKIPPED; i++)
    o->misses += o->sum.count[i];
  o->remote = o->sum.count[KILN_OUTCOME_HIT_REMOTE];
}

static double percent(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void time_text(uint64_t seconds, char out[32]) {
  time_t t = (time_t)seconds;
  struct tm tm;
  strftime(out, 32, "%Y-%m-%d %H:%M:%S", gmtime_r(&t, &tm));
}

typedef enum outcome_group {
  GROUP_HIT,
  GROUP_MISS,
  GROUP_STORE,
  GROUP_FLIGHT,
  GROUP_CARE,
  GROUP_REMOTE
} outcome_group;

static const char *const group_titles[] = {"hits",   "misses, by reason", "stores", "compiling and waiting",
                                           "upkeep", "remote cache"};
static const char *const group_names[] = {"hit", "miss", "store", "flight", "care", "remote"};

typedef struct outcome_row {
  unsigned outcome;
  outcome_group group;
} outcome_row;

/// In the order of the table, whose groups stand together.
static const outcome_row outcomes[] = {
#define OUTCOME(name, number, group, text) {KILN_OUTCOME_##name, GROUP_##group},
#include "cache/outcomes.def"
#undef OUTCOME
};
enum { OUTCOMES = sizeof outcomes / sizeof *outcomes };

static void print_overview(const cache_tool *tool, const overview *o, kiln_buffer *out) {
  char since[32] = "";
  int last = -1; // group
  kiln_buffer_format(out, "%s/%s: %" PRIu64 " entries, %.1f MiB", tool->store->root, tool->store->folder,
                     o->files, (double)o->bytes / (1 << 20));
  if (o->limits.bytes)
    kiln_buffer_format(out, " of %.1f MiB (%.1f %%)", (double)o->limits.bytes / (1 << 20),
                       percent(o->bytes, o->limits.bytes));
  if (o->limits.files)
    kiln_buffer_format(out, ", %.1f %% of %" PRIu64 " entries", percent(o->files, o->limits.files),
                       o->limits.files);
  kiln_buffer_u8(out, '\n');
  if (o->sum.since) {
    time_text(o->sum.since, since);
    kiln_buffer_format(out, "since %s UTC: ", since);
  }
  kiln_buffer_format(
      out, "%" PRIu64 " hits of %" PRIu64 " look-ups (%.1f %%), %" PRIu64 " of them remote (%.1f %%)\n",
      o->hits, o->hits + o->misses, percent(o->hits, o->hits + o->misses), o->remote,
      percent(o->remote, o->hits));
  if (o->spooled || o->sum.count[KILN_OUTCOME_REMOTE_STORED])
    kiln_buffer_format(out, "%" PRIu64 " uploads wait, %" PRIu64 " are done\n", o->spooled,
                       o->sum.count[KILN_OUTCOME_REMOTE_STORED]);
  kiln_buffer_format(out, "saved %.3f s, compiled for %.3f s\n", (double)o->saved_ns / 1e9,
                     (double)o->sum.ns[KILN_OUTCOME_COMPILED] / 1e9);
  for (size_t i = 0; i < OUTCOMES; i++) {
    const outcome_row *row = &outcomes[i];
    if (!o->sum.count[row->outcome]) continue;
    if (last != (int)row->group) kiln_buffer_format(out, "\n%s\n", group_titles[row->group]);
    last = (int)row->group;
    kiln_buffer_format(out, "%10" PRIu64 "  %-18s %s", o->sum.count[row->outcome],
                       kiln_outcome_name(row->outcome), kiln_outcome_text(row->outcome));
    if (row->group == GROUP_MISS)
      kiln_buffer_format(out, " (%.1f %% of the misses)", percent(o->sum.count[row->outcome], o->misses));
    kiln_buffer_u8(out, '\n');
  }
}

/// One metric of Prometheus' text format. The label says which cache it is.
static void begin_metric(kiln_buffer *out, const char *name, const char *type, const char *help) {
  kiln_buffer_format(out, "# HELP kiln_cache_%s %s\n# TYPE kiln_cache_%s %s\n", name, help, name, type);
}

/// The folder as the value of a label: a backslash precedes quotes and backslashes, line ends are \n.
static void put_label(const cache_tool *tool, kiln_buffer *out) {
  const char *parts[] = {tool->store->root, "/", tool->store->folder};
  kiln_buffer_format(out, "cache=\"");
  for (size_t i = 0; i < 3; i++)
    for (const char *c = parts[i]; *c; c++)
      if (*c == '\n') kiln_buffer_format(out, "\\n");
      else kiln_buffer_format(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
  kiln_buffer_u8(out, '"');
}

static void print_overview_prometheus(const cache_tool *tool, const overview *o, kiln_buffer *out) {
  const struct {
    const char *name, *type, *help;
    double value;
  } rows[] = {
      {"entries", "gauge", "Entries in the cache.", (double)o->files},
      {"bytes", "gauge", "Bytes of the entries.", (double)o->bytes},
      {"max_bytes", "gauge", "Most bytes that the entries may have; 0: no limit.", (double)o->limits.bytes},
      {"max_entries", "gauge", "Most entries; 0: no limit.", (double)o->limits.files},
      {"uploads_waiting", "gauge", "Entries that wait for the remote cache.", (double)o->spooled},
      {"counted_since_timestamp_seconds", "gauge", "When counting began.", (double)o->sum.since},
      {"hits_total", "counter", "Look-ups that found an entry.", (double)o->hits},
      {"misses_total", "counter", "Look-ups that found none.", (double)o->misses},
      {"saved_seconds_total", "counter", "Time of compiling that hits saved.", (double)o->saved_ns / 1e9},
      {"compile_seconds_total", "counter", "Time of compiling.",
       (double)o->sum.ns[KILN_OUTCOME_COMPILED] / 1e9},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin_metric(out, rows[i].name, rows[i].type, rows[i].help);
    kiln_buffer_format(out, "kiln_cache_%s{", rows[i].name);
    put_label(tool, out);
    kiln_buffer_format(out, "} %.15g\n", rows[i].value);
  }
  begin_metric(out, "outcomes_total", "counter",
               "What look-ups, stores and uploads came to (cache/outcomes.def).");
  for (size_t i = 0; i < OUTCOMES; i++) {
    kiln_buffer_format(out, "kiln_cache_outcomes_total{");
    put_label(tool, out);
    kiln_buffer_format(out, ",group=\"%s\",outcome=\"%s\"} %" PRIu64 "\n", group_names[outcomes[i].group],
                       kiln_outcome_name(outcomes[i].outcome), o->sum.count[outcomes[i].outcome]);
  }
}

static void print_overview_json(const overview *o, kiln_buffer *out) {
  kiln_buffer_format(out,
                     "{\"entries\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"max_bytes\": %" PRIu64
                     ", \"max_entries\": %" PRIu64 ", \"since\": %" PRIu64 ", \"hits\": %" PRIu64
                     ", \"misses\": %" PRIu64 ", \"hit_percent\": %.2f, \"remote_hits\": %" PRIu64
                     ", \"uploads_waiting\": %" PRIu64 ", \"saved_ns\": %" PRIu64 ", \"compile_ns\": %" PRIu64
                     ", \"damaged_records\": %" PRIu64 ", \"counts\": {",
                     o->files, o->bytes, o->limits.bytes, o->limits.files, o->sum.since, o->hits, o->misses,
                     percent(o->hits, o->hits + o->misses), o->remote, o->spooled, o->saved_ns,
                     o->sum.ns[KILN_OUTCOME_COMPILED], o->sum.damaged);
  bool first = true;
  for (unsigned i = 0; i < KILN_OUTCOME_LIMIT; i++) {
    if (!strcmp(kiln_outcome_name(i), "UNKNOWN")) continue;
    kiln_buffer_format(out, "%s\"%s\": %" PRIu64, first ? "" : ", ", kiln_outcome_name(i), o->sum.count[i]);
    first = false;
  }
  kiln_buffer_format(out, "}}\n");
}

int cache_command_stats(int argc, char **argv) {
  cache_tool tool = {0};
  bool zero = false;
  const char *format = NULL;
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool),
                                {"format", 0, CLI_TEXT, &format, "text|json|prometheus",
                                 "prometheus: for its node exporter's text files (text)"},
                                {"zero", 'z', CLI_FLAG, &zero, NULL, "reset the counters"}};
  const cli_page page =
      CLI_PAGE("kiln cache stats [--format=FORMAT] [--zero]",
               "Prints the counters since the last --zero: hit rate, misses by reason, time saved.", options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  bool is_prometheus = format && !strcmp(format, "prometheus");
  if (code == -1 && format && !is_prometheus && strcmp(format, "json") && strcmp(format, "text"))
    code = cli_usage(&page, "--format: expected text, json or prometheus, found '%s'", format);
  if (code == -1 && format && tool.json && strcmp(format, "json"))
    code = cli_usage(&page, "--json and --format=%s were both given", format);
  tool.json |= format && !strcmp(format, "json");
  if (code != -1) return cache_tool_end(&tool, code);
  overview o = {0};
  kiln_buffer out = {0};
  if (zero) return cache_tool_end(&tool, cache_clear_stats(tool.store));
  take_overview(&tool, &o);
  if (tool.json) print_overview_json(&o, &out);
  else if (is_prometheus) print_overview_prometheus(&tool, &o, &out);
  else print_overview(&tool, &o, &out);
  cache_print(&out);
  return cache_tool_end(&tool, cache_saw_all(tool.store, CLI_OK));
}

// ---------------------------------------------------------------------------------------------- ls

typedef struct listing {
  size_t most;           ///< how many of the newest are wanted; 0: all
  kiln_scan_item *items; ///< owned
  size_t count, capacity;
  bool full; ///< `most` were kept, none of them older than `oldest`
  int64_t oldest;
} listing;

static int newest_first(const void *x, const void *y) {
  const kiln_scan_item *a = x, *b = y;
  if (a->time != b->time) return a->time > b->time ? -1 : 1;
  return memcmp(a->key.bytes, b->key.bytes, KILN_DIGEST_SIZE);
}

/// Sorts the collected entries and drops those that were not requested.
static void keep_newest(listing *l) {
  if (l->count) qsort(l->items, l->count, sizeof *l->items, newest_first);
  if (!l->most || l->count < l->most) return;
  l->count = l->most;
  l->full = true;
  l->oldest = l->items[l->most - 1].time;
}

static bool add_item(void *context, const kiln_scan_item *item) {
  listing *l = context;
  if (l->full && item->time < l->oldest) return true;
  if (l->most && l->count == l->capacity && l->count >= 2 * l->most) keep_newest(l);
  if (l->count == l->capacity) {
    size_t capacity = l->capacity ? 2 * l->capacity : 1024;
    kiln_scan_item *items = realloc(l->items, capacity * sizeof *items);
    if (!items) return false;
    l->items = items;
    l->capacity = capacity;
  }
  l->items[l->count++] = *item;
  return true;
}

/// Label text that is safe on a terminal and in JSON.
static void label(const kiln_bytes *bytes, char *out, size_t capacity) {
  size_t size = bytes->size < capacity - 1 ? bytes->size : capacity - 1;
  for (size_t i = 0; i < size; i++)
    out[i] = bytes->bytes[i] >= 0x20 && bytes->bytes[i] < 0x7f ? (char)bytes->bytes[i] : '?';
  out[size] = 0;
}

static void print_item(const cache_tool *tool, const kiln_scan_item *item, bool *first, kiln_buffer *out) {
  char hex[KILN_DIGEST_HEX + 1], target[200] = "", name[300] = "", when[32];
  kiln_entry_view view;
  kiln_blob *file = kiln_store_file(tool->store, &item->key);
  bool good = file && !kiln_entry_parse(file->bytes, file->size, tool->store->max_entry_bytes, &view, NULL);
  if (good) {
    label(&view.labels[KILN_LABEL_TARGET], target, sizeof target);
    label(&view.labels[KILN_LABEL_NAME], name, sizeof name);
  }
  kiln_digest_hex(&item->key, hex);
  time_text((uint64_t)item->time, when);
  if (tool->json) {
    kiln_buffer_format(
        out, "%s\n {\"key\": \"%s\", \"bytes\": %" PRIu64 ", \"used\": %" PRId64 ", \"good\": %s, \"name\": ",
        *first ? "" : ",", hex, item->size, item->time, good ? "true" : "false");
    cli_json_text(out, name);
    kiln_buffer_format(out, ", \"target\": ");
    cli_json_text(out, target);
    kiln_buffer_format(out, ", \"cost_ns\": %" PRIu64 "}", good ? view.cost_ns : 0);
  } else {
    kiln_buffer_format(out, "%.16s %10" PRIu64 "  %s  %s  %s\n", hex, item->size, when,
                       good ? name : "(damaged or not trusted)", target);
  }
  *first = false;
  kiln_blob_release(file);
}

int cache_command_ls(int argc, char **argv) {
  cache_tool tool = {0};
  int64_t most = 0;
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool),
                                {"limit", 'n', CLI_NUMBER, &most, "N", "print at most N"}};
  const cli_page page =
      CLI_PAGE("kiln cache ls [--json] [--limit=N]",
               "Lists the entries, the one used last first: key, size, time of use, kernel with "
               "instance and config, target.",
               options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  if (code != -1) return cache_tool_end(&tool, code);
  listing l = {.most = most > 0 ? (size_t)most : 0};
  kiln_buffer out = {0};
  bool first = true;
  kiln_scan_all(tool.store, add_item, &l);
  keep_newest(&l);
  if (tool.json) kiln_buffer_format(&out, "[");
  for (size_t i = 0; i < l.count; i++) print_item(&tool, &l.items[i], &first, &out);
  if (tool.json) kiln_buffer_format(&out, "\n]\n");
  free(l.items);
  cache_print(&out);
  return cache_tool_end(&tool, cache_saw_all(tool.store, CLI_OK));
}

// -------------------------------------------------------------------------------- show and extract

/// Finds the one entry that the command line names.
typedef struct named_entry {
  kiln_digest key;
  kiln_cache_entry entry; ///< owned
  kiln_entry_view view;
  kiln_blob *file; ///< owned
} named_entry;

static kiln_status read_named(cache_tool *tool, const char *text, named_entry *out, kiln_error *err) {
  KILN_TRY(cache_find_key(tool->store, text, &out->key, err));
  kiln_outcome outcome = kiln_store_inspect(tool->store, &out->key, &out->file, &out->view, &out->entry, err);
  if (outcome == KILN_OUTCOME_MISS_ABSENT) return kiln_fail(err, KILN_STATUS_NOT_FOUND, "no entry %s", text);
  if (outcome != KILN_OUTCOME_HIT_LOCAL)
    return kiln_context(err, err->status, "entry %.16s: %s", text, kiln_outcome_text(outcome));
  return KILN_OK;
}

/// -1 to go on, with the entry read; else the exit code, and nothing is owned.
static int begin_named(cache_tool *tool, const cli_page *page, int argc, char **argv, named_entry *out) {
  kiln_error err = {0};
  int code = cache_tool_begin(tool, page, argc, argv, 1, 1);
  if (code != -1) return cache_tool_end(tool, code);
  kiln_status status = read_named(tool, tool->words.items[0], out, &err);
  return status ? cache_tool_end(tool, cli_report(status, &err)) : -1;
}

static int end_named(cache_tool *tool, named_entry *e, int code) {
  kiln_blob_release(e->file);
  kiln_cache_entry_deinit(&e->entry);
  return cache_tool_end(tool, code);
}

static void show_fields(const kiln_cache_entry *entry, bool json, kiln_buffer *out) {
  kiln_key_walk walk;
  kiln_key_part part;
  bool first = true;
  if (kiln_key_walk_begin(&walk, entry->fields.bytes, entry->fields.size)) return;
  while (kiln_key_walk_next(&walk, &part) == KILN_OK) {
    char title[128], value[160];
    kiln_key_part_title(&part, title, sizeof title);
    kiln_key_part_value(&part, value, sizeof value);
    if (json) {
      kiln_buffer_format(out, "%s\n  {\"field\": ", first ? "" : ",");
      cli_json_text(out, title);
      kiln_buffer_format(out, ", \"value\": ");
      cli_json_text(out, value);
      kiln_buffer_format(out, "}");
    } else {
      kiln_buffer_format(out, "  %-24s %s\n", title, value);
    }
    first = false;
  }
}

static void show_text(const named_entry *e, const char *content, const char labels[][200], bool verified,
                      kiln_buffer *out) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&e->key, hex);
  kiln_buffer_format(
      out,
      "key         %s\nname        %s\ncontent     %s (%s)\ndomain      %s\nproducer    %s\n"
      "file        %zu bytes\npayload     %zu bytes\n"
      "metadata    %zu bytes\ndiagnostics %zu bytes\ncost        %.3f ms\nsignatures  %u\nfields\n",
      hex, labels[KILN_LABEL_NAME], content, verified ? "verified" : "DIFFERS", labels[KILN_LABEL_DOMAIN],
      labels[KILN_LABEL_PRODUCER], e->file->size, e->entry.content.payload.size,
      e->entry.content.metadata.size, e->entry.content.diagnostics.size,
      (double)e->entry.content.cost_ns / 1e6, e->view.signature_count);
  show_fields(&e->entry, false, out);
}

static void show_json(const named_entry *e, const char *content, const char labels[][200], bool verified,
                      kiln_buffer *out) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&e->key, hex);
  kiln_buffer_format(out,
                     "{\"key\": \"%s\", \"content\": \"%s\", \"verified\": %s, \"file_bytes\": %zu, "
                     "\"payload_bytes\": %zu, \"metadata_bytes\": %zu, "
                     "\"diagnostics_bytes\": %zu, \"cost_ns\": %" PRIu64
                     ", \"flags\": %u, \"signatures\": %u, \"domain\": ",
                     hex, content, verified ? "true" : "false", e->file->size, e->entry.content.payload.size,
                     e->entry.content.metadata.size, e->entry.content.diagnostics.size,
                     e->entry.content.cost_ns, e->entry.content.flags, e->view.signature_count);
  cli_json_text(out, labels[KILN_LABEL_DOMAIN]);
  kiln_buffer_format(out, ", \"producer\": ");
  cli_json_text(out, labels[KILN_LABEL_PRODUCER]);
  kiln_buffer_format(out, ", \"name\": ");
  cli_json_text(out, labels[KILN_LABEL_NAME]);
  kiln_buffer_format(out, ", \"fields\": [");
  show_fields(&e->entry, true, out);
  kiln_buffer_format(out, "\n]}\n");
}

int cache_command_show(int argc, char **argv) {
  cache_tool tool = {0};
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool)};
  const cli_page page =
      CLI_PAGE("kiln cache show [--json] KEY",
               "Prints everything about one entry. KEY: its first hexadecimal digits.", options);
  named_entry e;
  int code = begin_named(&tool, &page, argc, argv, &e);
  if (code != -1) return code;
  kiln_error err = {0};
  kiln_buffer out = {0};
  char content[KILN_DIGEST_HEX + 1], labels[KILN_LABELS][200];
  kiln_digest_hex(&e.entry.content_digest, content);
  for (unsigned i = 0; i < KILN_LABELS; i++) label(&e.view.labels[i], labels[i], sizeof labels[i]);
  bool verified = !kiln_entry_verify(&e.view, e.entry.fields.bytes, &err);
  (tool.json ? show_json : show_text)(&e, content, labels, verified, &out);
  cache_print(&out);
  return end_named(&tool, &e, verified ? CLI_OK : CLI_FAILED);
}

int cache_command_extract(int argc, char **argv) {
  cache_tool tool = {0};
  const char *part = "payload", *output = "-";
  const cli_option options[] = {
      CACHE_TOOL_OPTIONS(&tool),
      {"part", 0, CLI_TEXT, &part, "NAME", "payload, metadata, diagnostics or fields"},
      {"output", 'o', CLI_OUTPUT, &output, "FILE", "where to (default: standard output)"}};
  const cli_page page = CLI_PAGE("kiln cache extract [--part=NAME] [-o FILE] KEY",
                                 "Writes a part of one entry to a file.", options);
  named_entry e;
  int code = begin_named(&tool, &page, argc, argv, &e);
  if (code != -1) return code;
  const struct {
    const char *name;
    kiln_bytes bytes;
  } parts[] = {{"payload", e.entry.content.payload},
               {"metadata", e.entry.content.metadata},
               {"diagnostics", e.entry.content.diagnostics},
               {"fields", e.entry.fields}};
  kiln_error err = {0};
  unsigned i = 0;
  while (i < 4 && strcmp(part, parts[i].name)) i++;
  if (i == 4) {
    code = cli_usage(&page, "--part: expected payload, metadata, diagnostics or fields, found %s", part);
  } else {
    kiln_status status = cli_write_file(output, parts[i].bytes.bytes, parts[i].bytes.size, &err);
    code = status ? cli_report(status, &err) : CLI_OK;
  }
  return end_named(&tool, &e, code);
}
