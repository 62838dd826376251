// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln import-triton`: turns a folder of Triton's cache (folders with NAME.ttir and NAME.json) into one
// bundle, and reports what was taken, what was not, and why. Kernels of the same name, specialised for
// different arguments, are distinguished by the first characters of their folder's name.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/kiln/commands.h"
#include "tools/build/session.h"

enum { MAX_PATH_TEXT = 4096, MAX_LEVELS = 8, FOLDER_LETTERS = 12 };

// A .ttir file that was found.
typedef struct found {
  char *path;   // owned
  char *name;   // owned: of its first kernel; NULL when it does not read
  char *reason; // owned: why not
  char *suffix; // owned: set where another file has the same name
} found;

typedef struct import {
  session s;
  session_bundle bundle;
  found *files;
  size_t file_count, file_capacity;
  bool json;
  size_t refused;
} import;

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), wanted = strlen(end);
  return length > wanted && !strcmp(text + length - wanted, end);
}

static kiln_status add_file(import *m, const char *path, kiln_error *err) {
  if (m->file_count == m->file_capacity) {
    size_t capacity = m->file_capacity ? 2 * m->file_capacity : 64;
    found *grown = realloc(m->files, capacity * sizeof *grown);
    if (!grown) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
    m->files = grown;
    m->file_capacity = capacity;
  }
  m->files[m->file_count] = (found){.path = strdup(path)};
  if (!m->files[m->file_count].path) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  m->file_count++;
  return KILN_OK;
}

static kiln_status scan(import *m, const char *folder, unsigned level, kiln_error *err) {
  DIR *listing = opendir(folder);
  kiln_status status = KILN_OK;
  if (!listing) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", folder, strerror(errno));
  for (struct dirent *entry; status == KILN_OK && (entry = readdir(listing));) {
    char path[MAX_PATH_TEXT];
    struct stat info;
    if (entry->d_name[0] == '.' ||
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
      continue;
    if (lstat(path, &info)) continue;
    if (S_ISDIR(info.st_mode) && level < MAX_LEVELS) status = scan(m, path, level + 1, err);
    else if (S_ISREG(info.st_mode) && ends_with(path, ".ttir")) status = add_file(m, path, err);
  }
  closedir(listing);
  return status;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const found *)a)->path, ((const found *)b)->path);
}

// Reads the launch facts next to `path`; empty when there are none.
static void read_facts(const char *path, kiln_buffer *out) {
  char beside[MAX_PATH_TEXT];
  int stem = (int)(strlen(path) - strlen(".ttir"));
  if (snprintf(beside, sizeof beside, "%.*s.json", stem, path) >= (int)sizeof beside) return;
  if (cli_read_file(beside, "", 64u << 20, out, NULL) != KILN_OK) kiln_buffer_clear(out);
}

// Reads a file once to know its kernel's name, or why it cannot be taken.
static void read_kernel_name(const import *m, found *f) {
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer text = {0}, facts = {0};
  kiln_error err = {0};
  kiln_diagnostics d = {.arena = arena};
  kiln_front_options options = {.warps = (uint32_t)m->s.warps, .stages = (uint32_t)m->s.stages};
  read_facts(f->path, &facts);
  if (facts.size) {
    options.metadata = (const char *)facts.bytes;
    options.metadata_size = facts.size;
  }
  if (cli_read_file(f->path, "", 64u << 20, &text, &err) != KILN_OK) {
    f->reason = strdup(err.text);
  } else {
    kiln_unit *unit = kiln_unit_open(arena, f->path, (const char *)text.bytes, text.size, &options, &d);
    if (unit) f->name = strdup(kiln_unit_interface(unit, 0)->name);
    else if (asprintf(&f->reason, "line %u: %s", d.count ? d.items[0].line : 0,
                      d.count ? d.items[0].text : "unreadable") < 0)
      f->reason = NULL;
  }
  kiln_buffer_deinit(&text);
  kiln_buffer_deinit(&facts);
  kiln_arena_destroy(arena);
}

// "[0a1b2c]": the name of the folder the file is in, at most `letters` of it.
static char *suffix_of(const char *path, size_t letters) {
  const char *end = strrchr(path, '/'), *begin = end;
  char *suffix;
  if (!end) return NULL;
  while (begin > path && begin[-1] != '/') begin--;
  int length = (size_t)(end - begin) > letters ? (int)letters : (int)(end - begin);
  return asprintf(&suffix, "[%.*s]", length, begin) < 0 ? NULL : suffix;
}

static bool same_text(const char *a, const char *b) { return !strcmp(a ? a : "", b ? b : ""); }

// True when another file has the same kernel name, as far as names are known.
static bool has_name_clash(const import *m, size_t index) {
  const found *f = &m->files[index];
  for (size_t k = 0; f->name && k < m->file_count; k++)
    if (k != index && m->files[k].name && !strcmp(m->files[k].name, f->name) &&
        same_text(m->files[k].suffix, f->suffix))
      return true;
  return false;
}

// Appends a short suffix first (Triton's folders are digests), or the whole name of the folder if that is not
// enough.
static void make_names_unique(import *m) {
  static const size_t letters[] = {FOLDER_LETTERS, MAX_PATH_TEXT};
  for (size_t round = 0; round < 2; round++) {
    bool *clash = calloc(m->file_count, sizeof *clash);
    for (size_t i = 0; clash && i < m->file_count; i++) clash[i] = has_name_clash(m, i);
    for (size_t i = 0; clash && i < m->file_count; i++) {
      if (!clash[i]) continue;
      free(m->files[i].suffix);
      m->files[i].suffix = suffix_of(m->files[i].path, letters[round]);
    }
    free(clash);
  }
}

static kiln_status find_files(import *m, kiln_error *err) {
  for (size_t i = 0; i < m->s.words.count; i++) KILN_TRY(scan(m, m->s.words.items[i], 0, err));
  if (m->file_count == 0)
    return kiln_fail(err, KILN_STATUS_NOT_FOUND, "no .ttir file in %s or its folders", m->s.words.items[0]);
  qsort(m->files, m->file_count, sizeof *m->files, by_path);
  for (size_t i = 0; i < m->file_count; i++) read_kernel_name(m, &m->files[i]);
  make_names_unique(m);
  return KILN_OK;
}

static kiln_status add_sources(import *m, kiln_error *err) {
  for (size_t i = 0; i < m->file_count; i++) {
    const found *f = &m->files[i];
    kiln_front_options options = {
        .warps = (uint32_t)m->s.warps, .stages = (uint32_t)m->s.stages, .name_suffix = f->suffix};
    if (!f->name) continue;
    KILN_TRY(plan_add_source(&m->s.plan, f->path, &options, err));
  }
  return KILN_OK;
}

// ------------------------------------------------------------------------------------------ report

static void print_verdict(const import *m, const char *verdict, const char *what, const char *where,
                          const char *reason) {
  kiln_buffer out = {0};
  if (m->json) {
    kiln_buffer_format(&out, "{\"verdict\": \"%s\", \"kernel\": ", verdict);
    cli_json_text(&out, what);
    kiln_buffer_format(&out, ", \"where\": ");
    cli_json_text(&out, where);
    kiln_buffer_format(&out, ", \"reason\": ");
    cli_json_text(&out, reason);
    kiln_buffer_format(&out, "}\n");
  } else {
    kiln_buffer_format(&out, "%-9s %s%s%s%s%s\n", verdict, what, *what ? " " : "", where, *reason ? ": " : "",
                       reason);
  }
  fwrite(out.bytes, 1, out.size, stdout);
  kiln_buffer_deinit(&out);
}

// Reports files that could not be read, then each kernel for each target.
static void report(import *m) {
  const plan *p = &m->s.plan;
  char target[KILN_TARGET_NAME];
  size_t taken = 0;
  for (size_t i = 0; i < m->file_count; i++) {
    if (m->files[i].name) continue;
    print_verdict(m, "not taken", "", m->files[i].path,
                  m->files[i].reason ? m->files[i].reason : "memory is exhausted");
    m->refused++;
  }
  for (size_t i = 0; i < p->job_count; i++) {
    const plan_job *job = &p->jobs[i];
    bool failed = job->state == JOB_FAILED;
    print_verdict(m, failed ? "not taken" : "taken", plan_interface(p, job)->name,
                  kiln_target_name(&p->targets[job->target], target),
                  failed ? job->error.text : p->sources[job->source].path);
    if (failed) m->refused++;
    else taken++;
  }
  printf(m->json ? "{\"files\": %zu, \"taken\": %zu, \"not_taken\": %zu}\n"
                 : "%zu files: %zu objects taken, %zu not\n",
         m->file_count, taken, m->refused);
}

static void release(import *m) {
  for (size_t i = 0; i < m->file_count; i++) {
    free(m->files[i].path);
    free(m->files[i].name);
    free(m->files[i].reason);
    free(m->files[i].suffix);
  }
  free(m->files);
  session_deinit(&m->s);
}

static int import_folder(import *m) {
  kiln_error err = {0};
  execute_counts sums;
  kiln_status status = find_files(m, &err);
  if (status == KILN_OK) status = session_open(&m->s, "host", &err);
  if (status == KILN_OK) status = add_sources(m, &err);
  if (status == KILN_OK) status = plan_lower(&m->s.plan, &m->s.only, &err);
  if (status != KILN_OK) return session_report(&m->s, status, &err);
  m->s.quiet += !m->s.quiet;
  int made = session_make(&m->s, &sums); // what fails is in the report
  report(m);
  status = session_write_bundle(&m->s, &m->bundle, &err);
  if (status != KILN_OK) return cli_report(status, &err);
  return made == CLI_INTERNAL ? made : m->refused ? CLI_FAILED : CLI_OK;
}

int kiln_command_import_triton(int argc, char **argv) {
import m = {.bundle.output = "triton.kbundle" };
  session_init(&m.s);
  const cli_option options[] = {
      {"output", 'o', CLI_OUTPUT, &m.bundle.output, "FILE", "the bundle to write (default: triton.kbundle)"},
      SESSION_OPTIONS(&m.s),
      SESSION_BUNDLE_OPTIONS(&m.bundle),
      {"json", 0, CLI_FLAG, &m.json, NULL, "print the report as JSON, one object a line"},
  };
  const cli_page page = {"kiln import-triton [options] DIR...",
                         "Compiles every .ttir file below a Triton cache folder for every target and writes "
                         "one bundle. Launch facts come from the\n"
                         "JSON next to each file. Exit codes: 0 all taken, 1 something was not (the report "
                         "says why), 2 wrong command line.",
                         options,
                         sizeof options / sizeof *options,
                         NULL,
                         session_codegen_option,
                         &m.s,
                         session_codegen_name,
                         session_codegen_help,
                         session_codegen_row};
  int code = cli_parse(&page, argc, argv, &m.s.words);
  if (code == -1 && m.s.words.count == 0) code = cli_usage(&page, "expected the folder of a Triton cache");
  if (code == -1) code = session_check_cache(&page, &m.s);
  if (code == -1) code = session_check_bundle(&page, &m.bundle);
  if (code == -1) code = import_folder(&m);
  release(&m);
  return code;
}
