// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln cache verify, gc, clear, export, import, merge: the commands that change a store or check all of it.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/fs.h"
#include "base/output.h"
#include "tools/cache/commands.h"
#include "tools/kiln/environment.h"
#include "tools/cache/open.h"

// ------------------------------------------------------------------------------------------ verify

struct verify {
  kiln_buffer *out;
  bool json, first;
};

static void print_bad(void *context, const kiln_digest *key, kiln_outcome outcome, const char *reason) {
  struct verify *v = context;
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(key, hex);
  if (!v->json) {
    kiln_buffer_format(v->out, "%s: %s: %s\n", hex, kiln_outcome_text(outcome), reason);
    return;
  }
  kiln_buffer_format(v->out, "%s\n {\"key\": \"%s\", \"outcome\": \"%s\", \"reason\": ", v->first ? "" : ",",
                     hex, kiln_outcome_name(outcome));
  cli_json_text(v->out, reason);
  kiln_buffer_format(v->out, "}");
  v->first = false;
}

int cache_command_verify(int argc, char **argv) {
  cache_tool tool = {0};
  bool repair = false;
  int64_t jobs = cli_processors();
  const cli_option options[] = {
      CACHE_TOOL_OPTIONS(&tool),
      {"repair", 0, CLI_FLAG, &repair, NULL, "remove what is damaged"},
      {"jobs", 'j', CLI_COUNT, &jobs, "N", "threads (default: one per CPU)", CLI_MOST_JOBS}};
  const cli_page page = CLI_PAGE("kiln cache verify [--repair] [--json] [-j N]",
                                 "Reads and checks every entry. Exit code 1 when one is damaged.", options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_buffer out = {0};
  kiln_scrub_report report;
  struct verify v = {&out, tool.json, true};
  if (tool.json) kiln_buffer_format(&out, "{\"bad\": [");
  kiln_scrub(tool.store, jobs < 1 ? 1 : (unsigned)jobs, repair, print_bad, &v, &report);
  if (report.folders && !tool.json)
    kiln_buffer_format(&out, "%" PRIu64 " folders cannot be read: %s\n", report.folders, report.folder);
  kiln_buffer_format(&out,
                     tool.json ? "], \"good\": %" PRIu64 ", \"damaged\": %" PRIu64 ", \"bytes\": %" PRIu64
                                 ", \"removed\": %" PRIu64 ", \"unreadable_folders\": %" PRIu64 "}\n"
                               : "%" PRIu64 " entries are good, %" PRIu64 " are not; %" PRIu64
                                 " bytes read, %" PRIu64 " removed\n",
                     report.good, report.bad, report.bytes, report.removed, report.folders);
  cache_print(&out);
  return cache_tool_end(&tool, report.bad || report.folders ? CLI_FAILED : CLI_OK);
}

// --------------------------------------------------------------------------------------- gc, clear

/// How long folders of other store formats may be unused before they are removed.
enum { OTHER_FORMATS_S = 30 * 86400 };

struct removal {
  kiln_cache *cache;
  kiln_buffer *out; ///< NULL: quiet
  bool count;
};

static void removed(void *context, const kiln_scan_item *item) {
  struct removal *r = context;
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(&item->key, hex);
  if (r->out) kiln_buffer_format(r->out, "%s %" PRIu64 "\n", hex, item->bytes);
  if (r->count) kiln_cache_count(r->cache, KILN_OUTCOME_EVICTED, &item->key, item->bytes, 0);
}

static int report_sweep(const cache_tool *tool, const kiln_evict_report *r, bool dry_run, kiln_buffer *out) {
  if (r->busy) {
    kiln_error err;
    kiln_buffer_deinit(out);
    return cli_report(KILN_STATUS_TIMEOUT,
                      (kiln_fail(&err, KILN_STATUS_TIMEOUT, "another process is cleaning this cache"), &err));
  }
  if (tool->json) {
    kiln_buffer_format(out,
                       "{\"dry_run\": %s, \"seen\": %" PRIu64 ", \"seen_bytes\": %" PRIu64
                       ", \"evicted\": %" PRIu64 ", \"evicted_bytes\": %" PRIu64 ", \"orphans\": %" PRIu64
                       ", \"failed\": %" PRIu64 ", \"counted\": %s",
                       dry_run ? "true" : "false", r->seen_files, r->seen_bytes, r->evicted_files,
                       r->evicted_bytes, r->orphans, r->failed, r->by_sums ? "false" : "true");
    if (r->failed) kiln_buffer_format(out, ", \"why\": ");
    if (r->failed) cli_json_text(out, r->why);
    kiln_buffer_format(out, "}\n");
  } else {
    kiln_buffer_format(out,
                       "%s %" PRIu64 " of %" PRIu64 " entries (%" PRIu64 " of %" PRIu64 " bytes), %" PRIu64
                       " leftovers, %" PRIu64 " failures%s%s%s\n",
                       dry_run ? "would remove" : "removed", r->evicted_files, r->seen_files,
                       r->evicted_bytes, r->seen_bytes, r->orphans, r->failed,
                       r->failed ? ", the first: " : "", r->failed ? r->why : "",
                       r->by_sums ? "; by the sums, --count counts anew" : "");
  }
  cache_print(out);
  return r->failed ? CLI_FAILED : CLI_OK;
}

enum { MOST_AGE = 999999 };

static kiln_status parse_limits(const char *size, const char *age, kiln_limits *limits,
                                kiln_evict_choice *choice, kiln_error *err) {
  if (size && environment_parse_size(size, &limits->bytes))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "--max-size: expected a number with an optional K, M, G or T, found \"%.60s\"", size);
  if (!age) return KILN_OK;
  static const struct {
    char unit;
    int64_t seconds;
  } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  char *end;
  long long number = strtoll(age, &end, 10);
  for (unsigned i = 0; i < 4 && end != age && number > 0 && number <= MOST_AGE; i++)
    if (end[0] == units[i].unit && !end[1]) choice->max_age_s = number * units[i].seconds;
  if (choice->max_age_s) return KILN_OK;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "--older-than: expected a number from 1 to %d with s, m, h or d, found \"%.60s\"",
                   MOST_AGE, age);
}

int cache_command_gc(int argc, char **argv) {
  cache_tool tool = {0};
  const char *size = NULL, *age = NULL;
  kiln_evict_choice choice = {0};
  int64_t files = 0;
  bool verbose = false, count = false;
  const cli_option options[] = {
      CACHE_TOOL_OPTIONS(&tool),
      {"dry-run", 'n', CLI_FLAG, &choice.dry_run, NULL, "say what would be removed, remove nothing"},
      {"max-size", 0, CLI_TEXT, &size, "SIZE", "keep at most that many bytes; 0: no limit"},
      {"max-files", 0, CLI_NUMBER, &files, "N", "keep at most N entries; 0: no limit"},
      {"older-than", 0, CLI_TEXT, &age, "AGE", "remove entries not used for 90s, 10m, 12h, 30d"},
      {"target", 0, CLI_TEXT, &choice.target, "TEXT", "remove entries whose target contains this text"},
      {"producer", 0, CLI_TEXT, &choice.producer, "TEXT", "remove entries of this producer"},
      {"count", 0, CLI_FLAG, &count, NULL, "look at every entry, however many"},
      {"verbose", 'v', CLI_FLAG, &verbose, NULL, "print the key of each removed entry"}};
  const cli_page page = CLI_PAGE(
      "kiln cache gc [options]",
      "Removes leftovers of killed processes and brings the cache under its limits, oldest entries first.\n"
      "--older-than, --target and --producer remove more; together they must all hold. Above 20,000 entries\n"
      "the sums that each build keeps tell whether a limit is passed; --count counts anew.",
      options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_limits limits = kiln_cache_limits(tool.cache);
  kiln_error err = {0};
  kiln_status status = parse_limits(size, age, &limits, &choice, &err);
  if (status) return cache_tool_end(&tool, cli_misuse(status, &err));
  if (files > 0) limits.files = (uint64_t)files;
  choice.by_sums = !count;
  kiln_buffer out = {0};
  kiln_evict_report report;
  struct removal r = {tool.cache, verbose && !tool.json ? &out : NULL, !choice.dry_run};
  kiln_evict_sweep(tool.store, &limits, &choice, removed, &r, &report);
  kiln_evict_other_formats(tool.store, OTHER_FORMATS_S, choice.dry_run);
  return cache_tool_end(&tool, report_sweep(&tool, &report, choice.dry_run, &out));
}

int cache_command_clear(int argc, char **argv) {
  cache_tool tool = {0};
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool)};
  const cli_page page =
      CLI_PAGE("kiln cache clear", "Removes all entries and statistics of the namespace.", options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 0, 0);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_evict_report report;
  kiln_evict_choice choice = {.all = true};
  struct removal r = {tool.cache, NULL, false};
  kiln_buffer out = {0};
  kiln_evict_sweep(tool.store, &(kiln_limits){0}, &choice, removed, &r, &report);
  int swept = report_sweep(&tool, &report, false, &out);
  return cache_tool_end(&tool, swept == CLI_OK ? cache_clear_stats(tool.store) : swept);
}

// ------------------------------------------------------------------------------------------ moving

static int report_move(const cache_tool *tool, const char *verb, const kiln_move_report *r,
                       kiln_status status, const kiln_error *err) {
  if (tool->json)
    printf("{\"%s\": %" PRIu64 ", \"already\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"failed\": %" PRIu64
           "}\n",
           verb, r->moved, r->already, r->refused, r->failed);
  else
    printf("%s %" PRIu64 " entries; %" PRIu64 " were there, %" PRIu64 " refused, %" PRIu64 " failed\n", verb,
           r->moved, r->already, r->refused, r->failed);
  if (status) return cli_report(status, err);
  return r->refused || r->failed ? CLI_FAILED : CLI_OK;
}

int cache_command_export(int argc, char **argv) {
  cache_tool tool = {0};
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool)};
  const cli_page page =
      CLI_PAGE("kiln cache export FILE",
               "Writes all entries into one archive. The same entries give the same bytes.", options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 1, 1);
  if (code == -1) code = cli_take_output(&page, "FILE", tool.words.items[0]);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_error err = {0};
  kiln_move_report report = {0};
  kiln_output file;
  kiln_status status = cli_open_output(tool.words.items[0], &file, &err);
  if (!status) status = kiln_output_close(&file, kiln_export(tool.store, file.fd, &report, &err), &err);
  code = report_move(&tool, "exported", &report, status, &err);
  return cache_tool_end(&tool, cache_saw_all(tool.store, code));
}

int cache_command_import(int argc, char **argv) {
  cache_tool tool = {0};
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool)};
  const cli_page page = CLI_PAGE(
      "kiln cache import FILE",
      "Takes in the entries of an archive. Each is verified in full; those of another domain are refused.",
      options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 1, 1);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_error err = {0};
  kiln_move_report report = {0};
  int fd;
  kiln_status status = cli_open_input(tool.words.items[0], &fd, &err);
  if (!status) {
    status = kiln_import(tool.store, fd, &report, &err);
    if (status) kiln_context(&err, status, "%s", tool.words.items[0]);
  }
  if (fd > 0) close(fd);
  return cache_tool_end(&tool, report_move(&tool, "imported", &report, status, &err));
}

int cache_command_merge(int argc, char **argv) {
  cache_tool tool = {0};
  const cli_option options[] = {CACHE_TOOL_OPTIONS(&tool)};
  const cli_page page =
      CLI_PAGE("kiln cache merge FOLDER",
               "Takes in the entries of another cache folder, of the same domain and namespace.", options);
  int code = cache_tool_begin(&tool, &page, argc, argv, 1, 1);
  if (code != -1) return cache_tool_end(&tool, code);
  kiln_error err = {0};
  kiln_cache *from;
  kiln_move_report report = {0};
  cache_open_options other = {.folder = tool.words.items[0], .local = true};
  kiln_status status = cache_open(&other, &from, &err);
  if (status) return cache_tool_end(&tool, cli_report(status, &err));
  kiln_store *source = kiln_cache_store(from);
  if (!source || (source->fd < 0 && source->error == ENOENT))
    status = kiln_fail(&err, KILN_STATUS_NOT_FOUND, "%s has no cache of this domain and namespace",
                       tool.words.items[0]);
  else kiln_merge(tool.store, source, &report);
  code = status ? cli_report(status, &err)
                : cache_saw_all(source, report_move(&tool, "merged", &report, KILN_OK, &err));
  kiln_cache_close(from);
  return cache_tool_end(&tool, code);
}
