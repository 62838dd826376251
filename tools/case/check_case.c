// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln check-case`: runs recorded cases again and compares the results.
//
// Cases run in child processes, so that a kernel that crashes fails its own case only. On the host and in the
// interpreter each case has a child of its own. On a GPU a child runs one case after another, because setting
// up a context is expensive; when it dies, its current case has failed and the next child continues after it.
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stream.h"
#include "compiler/options.h"
#include "tools/common/cli.h"
#include "tools/case/replay.h"
#include "tools/kiln-tool/commands.h"

enum { MAX_LANES = 64 };

typedef struct check_case {
  case_runner runner;
  cli_list words;
  char **folders; // owned, sorted within each word
  size_t folder_count, folder_capacity;
  case_outcome *outcomes;
  bool *done;
  int64_t jobs, timeout, max_steps;
  bool json, quiet, together;
  size_t printed, sums[4];
} check_case;

// A child and the cases it takes: `at`, `at + step`, ...
typedef struct lane {
  pid_t pid;
  int from;
  size_t at, step;
} lane;

// ----------------------------------------------------------------------------------------- folders

static bool is_case(const char *folder) {
  char path[4096];
  struct stat info;
  return snprintf(path, sizeof path, "%s/case.json", folder) < (int)sizeof path && stat(path, &info) == 0;
}

static bool add_folder(check_case *c, const char *folder) {
  if (c->folder_count == c->folder_capacity) {
    size_t capacity = c->folder_capacity ? 2 * c->folder_capacity : 64;
    char **grown = realloc(c->folders, capacity * sizeof *grown);
    if (!grown) return false;
    c->folders = grown;
    c->folder_capacity = capacity;
  }
  char *copy = strdup(folder);
  if (copy) c->folders[c->folder_count++] = copy;
  return copy != NULL;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

// A case, or a folder of cases.
static kiln_status find_cases(check_case *c, const char *folder, kiln_error *err) {
  if (is_case(folder))
    return add_folder(c, folder) ? KILN_OK : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  DIR *listing = opendir(folder);
  if (!listing) return kiln_fail(err, kiln_status_of_errno(errno), "%s: %s", folder, strerror(errno));
  size_t begin = c->folder_count;
  bool ok = true;
  for (struct dirent *entry; ok && (entry = readdir(listing));) {
    char path[4096];
    if (entry->d_name[0] == '.') continue;
    if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path && is_case(path))
      ok = add_folder(c, path);
  }
  closedir(listing);
  if (!ok) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  if (c->folder_count > begin)
    qsort(c->folders + begin, c->folder_count - begin, sizeof *c->folders, by_text);
  return c->folder_count > begin ? KILN_OK
                                 : kiln_fail(err, KILN_STATUS_NOT_FOUND,
                                             "%s: expected a case.json in it or in its folders", folder);
}

// ---------------------------------------------------------------------------------------- children

static void child(check_case *c, const lane *l, int to) {
  kiln_error err = {0};
  kiln_status status = case_runner_init(&c->runner, &err);
  for (size_t i = l->at; i < c->folder_count; i += l->step) {
    case_outcome out = {.verdict = CASE_FAIL};
    alarm((unsigned)c->timeout);
    if (status == KILN_OK) case_run(&c->runner, c->folders[i], &out);
    else snprintf(out.text, sizeof out.text, "%s", err.text);
    alarm(0);
    if (!kiln_stream_write(to, &out, sizeof out) || !c->together || out.spoiled) break;
  }
  if (status == KILN_OK) case_runner_deinit(&c->runner);
  _exit(0);
}

static bool start(check_case *c, lane *l) {
  int ends[2];
  if (pipe(ends)) return false;
  fflush(NULL);
  l->pid = fork();
  if (l->pid == 0) {
    close(ends[0]);
    signal(SIGALRM, SIG_DFL);
    child(c, l, ends[1]);
  }
  close(ends[1]);
  l->from = ends[0];
  if (l->pid < 0) close(ends[0]);
  return l->pid > 0;
}

static void reap(lane *l, int *out_how) {
  *out_how = 0;
  close(l->from);
  while (waitpid(l->pid, out_how, 0) < 0 && errno == EINTR) continue;
  l->pid = 0;
}

// The child ended before it reported the result of its case.
static void died(const check_case *c, int how, case_outcome *out) {
  *out = (case_outcome){.verdict = CASE_FAIL};
  if (WIFSIGNALED(how) && WTERMSIG(how) == SIGALRM)
    snprintf(out->text, sizeof out->text, "not done after %lld s", (long long)c->timeout);
  else if (WIFSIGNALED(how))
    snprintf(out->text, sizeof out->text, "died of signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  else snprintf(out->text, sizeof out->text, "ended with status %d before a verdict", WEXITSTATUS(how));
}

// ---------------------------------------------------------------------------------------- printing

static const char *const words[] = {
    [CASE_PASS] = "pass", [CASE_FAIL] = "fail", [CASE_UNSUPPORTED] = "unsupported", [CASE_SKIP] = "skip"};

static const char *name_of(const char *folder) {
  const char *slash = strrchr(folder, '/');
  return slash && slash[1] ? slash + 1 : folder;
}

static void print_json(const char *folder, const case_outcome *out) {
  kiln_buffer line = {0};
  kiln_buffer_format(&line, "{\"case\": ");
  cli_json_text(&line, name_of(folder));
  kiln_buffer_format(
      &line, ", \"verdict\": \"%s\", \"front_ns\": %llu, \"compile_ns\": %llu, \"run_ns\": %llu, \"text\": ",
      words[out->verdict], (unsigned long long)out->front_ns, (unsigned long long)out->compile_ns,
      (unsigned long long)out->run_ns);
  cli_json_text(&line, out->text);
  kiln_buffer_format(&line, "}\n");
  fwrite(line.bytes, 1, line.size, stdout);
  kiln_buffer_deinit(&line);
}

// Verdicts come in any order and are printed in that of the cases.
static void print_ready(check_case *c) {
  for (; c->printed < c->folder_count && c->done[c->printed]; c->printed++) {
    const case_outcome *out = &c->outcomes[c->printed];
    const char *folder = c->folders[c->printed];
    c->sums[out->verdict]++;
    if (c->json) print_json(folder, out);
    else if (!c->quiet || out->verdict != CASE_PASS)
      printf("%-11s %s%s%s\n", words[out->verdict], name_of(folder), out->text[0] ? ": " : "", out->text);
  }
  fflush(stdout);
}

// ------------------------------------------------------------------------------------------- lanes

static void take_verdict(check_case *c, lane *l) {
  case_outcome out;
  int how;
  bool told = kiln_stream_read(l->from, &out, sizeof out) == sizeof out;
  if (!told || !c->together || out.spoiled) reap(l, &how); // the next case gets a process of its own
  if (!told) died(c, how, &out);
  c->outcomes[l->at] = out;
  c->done[l->at] = true;
  l->at += l->step;
  print_ready(c);
  if (l->at >= c->folder_count && l->pid) reap(l, &how);
}

static kiln_status run_lanes(check_case *c, kiln_error *err) {
  lane lanes[MAX_LANES] = {0};
  struct pollfd polls[MAX_LANES];
  size_t count = c->folder_count < (size_t)c->jobs ? c->folder_count : (size_t)c->jobs;
  for (size_t i = 0; i < count; i++) lanes[i] = (lane){.at = i, .step = count};
  for (;;) {
    nfds_t waiting = 0;
    lane *owners[MAX_LANES];
    for (size_t i = 0; i < count; i++) {
      if (!lanes[i].pid && lanes[i].at < c->folder_count && !start(c, &lanes[i]))
        return kiln_fail(err, kiln_status_of_errno(errno), "cannot start a child: %s", strerror(errno));
      if (!lanes[i].pid) continue;
      owners[waiting] = &lanes[i];
      polls[waiting++] = (struct pollfd){.fd = lanes[i].from, .events = POLLIN};
    }
    if (!waiting) return KILN_OK;
    if (poll(polls, waiting, -1) < 0) continue;
    for (nfds_t i = 0; i < waiting; i++)
      if (polls[i].revents) take_verdict(c, owners[i]);
  }
}

// ----------------------------------------------------------------------------------------- command

static bool codegen_option(void *context, const char *text, kiln_error *err) {
  check_case *c = context;
  return kiln_codegen_options_set(&c->runner.options, text, err) == KILN_OK;
}

static kiln_status check(check_case *c, kiln_error *err) {
  for (size_t i = 0; i < c->words.count; i++) KILN_TRY(find_cases(c, c->words.items[i], err));
  c->outcomes = calloc(c->folder_count, sizeof *c->outcomes);
  c->done = calloc(c->folder_count, sizeof *c->done);
  if (!c->outcomes || !c->done) return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  c->together = strcmp(c->runner.device, "interpreter") && strncmp(c->runner.device, "host", 4);
  return run_lanes(c, err);
}

static void release(check_case *c) {
  for (size_t i = 0; i < c->folder_count; i++) free(c->folders[i]);
  free(c->folders);
  free(c->outcomes);
  free(c->done);
  cli_list_deinit(&c->words);
}

int kiln_command_check_case(int argc, char **argv) {
  check_case c = {.runner = {.device = "host"}, .jobs = 1, .timeout = 120};
  kiln_error err = {0};
  kiln_codegen_options_init(&c.runner.options);
  const cli_option options[] = {
      {"device", 'd', CLI_TEXT, &c.runner.device, "NAME",
       "host (default), cuda:N, hip:N; ptx:PROCESSOR: the interpreter of PTX; interpreter: of Kiln's IR"},
      {"target", 't', CLI_TEXT, &c.runner.target, "NAME",
       "compile for this target instead of the device's own"},
      {"jobs", 'j', CLI_COUNT, &c.jobs, "N", "cases at the same time (1)", MAX_LANES},
      {"timeout", 0, CLI_NUMBER, &c.timeout, "SECONDS", "a case that takes longer has failed (120; 0: none)",
       INT32_MAX},
      {"max-steps", 0, CLI_NUMBER, &c.max_steps, "N",
       "interpreter: operations before a case has failed (0: no limit)"},
      {"exact", 0, CLI_FLAG, &c.runner.exact, NULL,
       "no guards around buffers: for memory checkers such as compute-sanitizer"},
      {"json", 0, CLI_FLAG, &c.json, NULL, "one JSON object a case"},
      {"quiet", 'q', CLI_FLAG, &c.quiet, NULL, "print only what did not pass"},
  };
  const cli_page page = {
      "kiln check-case [options] DIR...",
      "Runs recorded cases (or folders of them) again and compares all memory with the recording.",
      options,
      sizeof options / sizeof *options,
      case_tolerances(),
      codegen_option,
      &c};
  int code = cli_parse(&page, argc, argv, &c.words);
  if (code == -1 && c.words.count == 0) code = cli_usage(&page, "expected the folder of a case");
  if (code == -1) {
    c.runner.max_steps = (uint64_t)c.max_steps;
    kiln_status status = check(&c, &err);
    code = status != KILN_OK ? cli_report(status, &err) : c.sums[CASE_FAIL] ? CLI_FAILED : CLI_OK;
    if (status == KILN_OK && c.json)
      printf("{\"passed\": %zu, \"failed\": %zu, \"unsupported\": %zu, \"skipped\": %zu}\n",
             c.sums[CASE_PASS], c.sums[CASE_FAIL], c.sums[CASE_UNSUPPORTED], c.sums[CASE_SKIP]);
    else if (status == KILN_OK)
      printf("%zu passed, %zu failed, %zu skipped\n", c.sums[CASE_PASS], c.sums[CASE_FAIL],
             c.sums[CASE_SKIP] + c.sums[CASE_UNSUPPORTED]);
  }
  release(&c);
  return code;
}
