// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// kiln explain: says why a device gets this code of a kernel, or none. kiln disasm: prints the code.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plural.h"
#include "base/stream.h"
#include "base/tuned.h"
#include "tools/bundle/view.h"
#include "tools/bundle/suggest.h"
#include "tools/bundle/dictionary_family.h"
#include "tools/kiln-tool/commands.h"
#include "tools/bundle/json.h"

static const char *rank_text(unsigned rank) {
  static const char *const texts[] = {"exact, modes too", "exact",  "generic",
                                      "same major",       "family", "PTX, compiled by the driver"};
  return rank < sizeof texts / sizeof *texts ? texts[rank] : "refused";
}

static kiln_status explain_kernel(kiln_device *d, const char *name, bool all, kiln_error *err) {
  kiln_report *report;
  kiln_candidate c;
  KILN_TRY(kiln_explain(d, name, &report, err));
  printf("%s\n", cli_name(kiln_report_text(report)));
  for (size_t i = 0; all && kiln_report_at(report, i, &c) == KILN_OK; i++)
    printf("  %-24s %-30s '%s'  %s%s%s\n", cli_name(c.target), cli_name(c.config), cli_name(c.variant),
           rank_text(c.rank), *c.rule ? ": " : "", c.rule);
  kiln_report_free(report);
  return KILN_OK;
}

// Prints how many choices were tuned for the kernel, for any device; all of them on request.
static kiln_status explain_tuned(const char *path, const char *name, bool all, kiln_error *err) {
  bundle_view v;
  char key[KILN_TUNED_NOTE];
  uint32_t count = 0;
  if (!kiln_tuned_note_key(name, key)) return KILN_OK;
  KILN_TRY(bundle_view_open(path, &v, err));
  for (uint32_t i = 0; i < v.note_count; i++) {
    if (strcmp(v.notes[i].key, key)) continue;
    const char *line = v.notes[i].value + strcspn(v.notes[i].value, "\n"); // after the head
    for (; *line && line[1]; line += 1 + strcspn(line + 1, "\n"), count++)
      if (all) printf("  %.*s\n", (int)strcspn(line + 1, "\n"), line + 1);
  }
  if (count)
    printf("%u tuned choices%s; `kiln run --explain` says which one arguments get\n", count,
           all ? "" : " (--all prints them)");
  bundle_view_close(&v);
  return KILN_OK;
}

static kiln_status explain_kernel_json(kiln_device *d, const char *name, kiln_error *err) {
  kiln_report *report;
  kiln_candidate c;
  kiln_buffer out = {0};
  KILN_TRY(kiln_explain(d, name, &report, err));
  kiln_buffer_format(&out, "{");
  json_member(&out, true, "kernel", name);
  json_member(&out, false, "device", kiln_device_target_name(d));
  json_member(&out, false, "text", kiln_report_text(report));
  kiln_buffer_format(&out, ",\n \"candidates\": [");
  for (size_t i = 0; kiln_report_at(report, i, &c) == KILN_OK; i++) {
    kiln_buffer_format(&out, "%s\n  {", i ? "," : "");
    json_member(&out, true, "bundle", c.bundle);
    json_member(&out, false, "target", c.target);
    json_member(&out, false, "config", c.config);
    json_member(&out, false, "variant", c.variant);
    json_member(&out, false, "fit", rank_text(c.rank));
    kiln_buffer_format(&out, ", \"rank\": %u", c.rank);
    json_member(&out, false, "rule", c.rule);
    kiln_buffer_format(&out, "}");
  }
  kiln_buffer_format(&out, "]}");
  kiln_report_free(report);
  return json_print(&out) == CLI_OK ? KILN_OK
                                    : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
}

static kiln_status explain_preflight(kiln_device *d, bool json, kiln_error *err) {
  kiln_preflight p;
  KILN_TRY(kiln_device_preflight(d, &p, err));
  if (json) {
    kiln_buffer out = {0};
    kiln_buffer_format(&out, "{");
    json_member(&out, true, "device", kiln_device_target_name(d));
    kiln_buffer_format(&out,
                       ", \"kernels\": %zu, \"exact\": %zu, \"generic\": %zu, \"jit\": %zu, \"missing\": "
                       "%zu, \"first_missing\": ",
                       p.kernels, p.exact, p.generic, p.jit, p.missing);
    if (p.first_missing) cli_json_text(&out, p.first_missing);
    else kiln_buffer_format(&out, "null");
    kiln_buffer_format(&out, "}");
    return json_print(&out) == CLI_OK ? KILN_OK
                                      : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "memory is exhausted");
  }
  printf(
      "%zu kernel%s: %zu exact, %zu by generic or older code, %zu compiled by the driver, %zu without code\n",
      p.kernels, kiln_plural(p.kernels), p.exact, p.generic, p.jit, p.missing);
  return p.missing ? explain_kernel(d, p.first_missing, false, err) : KILN_OK;
}

int kiln_command_explain(int argc, char **argv) {
  const char *device_name = "host";
  bool all = false, json = false;
  const cli_option options[] = {
      {"device", 'd', CLI_TEXT, &device_name, "NAME",
       "host, cuda:N, hip:N, or null:TARGET for a device that is not present (host)"},
      {"all", 0, CLI_FLAG, &all, NULL, "every code with its verdict"},
      {"json", 0, CLI_FLAG, &json, NULL, "print JSON, with every code"}};
  const cli_page page = CLI_PAGE(
      "kiln explain [options] BUNDLE [KERNEL]",
      "Says which code of a kernel a device gets, or why none; without a kernel, how all of them fare.",
      options);
  cli_list words = {0};
  kiln_library *library = NULL;
  kiln_device *device = NULL;
  kiln_error err;
  int exit_code = cli_parse(&page, argc, argv, &words);
  if (exit_code == -1 && (!words.count || words.count > 2))
    exit_code =
        cli_usage(&page, "expected BUNDLE [KERNEL], found %zu word%s", words.count, kiln_plural(words.count));
  if (exit_code == -1) {
    kiln_status status = kiln_open_file(words.items[0], &library, &err);
    if (status == KILN_OK && words.count == 2)
      status = require_kernel(library, words.items[0], words.items[1], &err);
    if (status == KILN_OK) status = kiln_device_open(library, device_name, &device, &err);
    if (status == KILN_OK)
      status = words.count < 2 ? explain_preflight(device, json, &err)
               : json          ? explain_kernel_json(device, words.items[1], &err)
                               : explain_kernel(device, words.items[1], all, &err);
    if (status == KILN_OK && words.count == 2 && !json)
      status = explain_tuned(words.items[0], words.items[1], all, &err);
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  kiln_device_close(device);
  kiln_close(library);
  cli_list_deinit(&words);
  return exit_code;
}

// ------------------------------------------------------------------------------------------ disasm

// Standard output is a pipe whose reader has ended, such as `head`: there is nothing left to do.
static bool nobody_reads(void) {
  struct pollfd out = {.fd = 1};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

// Runs the first of `programs` that exists over the bytes; its output is ours.
static kiln_status run_over(char *const *const programs[], const kiln_bytes *bytes, kiln_error *err) {
  char *const *const *first = programs;
  char path[64];
  KILN_TRY(kiln_stream_need_names("a disassembler", err));
  int fd = memfd_create("code", 0), wait_status = 0;
  if (fd < 0 || write(fd, bytes->bytes, bytes->size) != (ssize_t)bytes->size)
    return kiln_fail(err, kiln_status_of_errno(errno), "a memory file of %zu bytes: %s", bytes->size,
                     strerror(errno));
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    for (; *programs; programs++) {
      char *words[8];
      size_t n = 0;
      for (; (*programs)[n] && n < 6; n++) words[n] = (*programs)[n];
      words[n] = path;
      words[n + 1] = NULL;
      execvp(words[0], words);
    }
    _exit(127);
  }
  if (child > 0) waitpid(child, &wait_status, 0);
  close(fd);
  if (child > 0 && WIFEXITED(wait_status) && !WEXITSTATUS(wait_status)) return KILN_OK;
  if (nobody_reads()) return KILN_OK;
  if (child > 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 127)
    return kiln_fail(err, KILN_STATUS_TOOL, "no disassembler is installed: tried %s and %s", first[0][0],
                     first[1][0]);
  return kiln_fail(err, KILN_STATUS_TOOL, "the disassembler failed (%s %d)",
                   WIFEXITED(wait_status) ? "exit status" : "signal",
                   WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : WTERMSIG(wait_status));
}

static kiln_status print_code(const bundle_view *v, const view_code *c, kiln_error *err) {
  static char *const objdump_22[] = {"llvm-objdump-22", "-d", "--no-show-raw-insn", NULL},
                     *const objdump[] = {"llvm-objdump", "-d", "--no-show-raw-insn", NULL};
  static char *const nvdisasm[] = {"nvdisasm", NULL}, *const cuobjdump[] = {"cuobjdump", "-sass", NULL};
  static char *const *const llvm[] = {objdump_22, objdump, NULL}, *const *const nvidia[] = {nvdisasm,
                                                                                            cuobjdump, NULL};
  kiln_bytes bytes;
  KILN_TRY(kiln_bundle_load(v->bundle, c->entry.blob, &bytes, err));
  printf("// %s config %u variant %u\n", cli_name(c->target), c->entry.config, c->entry.variant);
  kiln_status status = KILN_OK;
  if (c->info.format == KILN_FORMAT_PTX) fwrite(bytes.bytes, 1, bytes.size, stdout);
  else status = run_over(c->info.format == KILN_FORMAT_CUBIN ? nvidia : llvm, &bytes, err);
  kiln_bytes_deinit(&bytes);
  return status;
}

static kiln_status print_kernel(const bundle_view *v, const char *name, const char *target, kiln_error *err) {
  uint32_t printed = 0;
  for (uint32_t i = 0; i < v->kernel_count; i++) {
    const view_kernel *k = &v->kernels[i];
    if (strcmp(k->name, name)) continue;
    for (uint32_t c = 0; c < k->code_count && !nobody_reads(); c++) {
      if (target && strcmp(k->codes[c].target, target)) continue;
      KILN_TRY(print_code(v, &k->codes[c], err));
      printed++;
    }
  }
  if (printed || nobody_reads()) return KILN_OK;
  bool is_there = false;
  for (uint32_t i = 0; i < v->kernel_count; i++) is_there |= !strcmp(v->kernels[i].name, name);
  return kiln_fail(err, KILN_STATUS_NOT_FOUND, "%s: no code of '%s'%s%s%s", v->bundle->name, name,
                   target ? " for " : "", target ? target : "",
                   (is_there ? suggest_target(v, target) : suggest_kernel(v, name)).text);
}

int kiln_command_disasm(int argc, char **argv) {
  const char *target = NULL;
  const cli_option options[] = {{"target", 't', CLI_TEXT, &target, "NAME", "only the codes for this target"}};
  const cli_page page = CLI_PAGE(
      "kiln disasm [--target=NAME] BUNDLE KERNEL",
      "Prints the PTX of a kernel, or disassembles its code with llvm-objdump or nvdisasm.", options);
  cli_list words = {0};
  bundle_view v;
  kiln_error err;
  int exit_code = cli_parse(&page, argc, argv, &words);
  if (exit_code == -1 && words.count != 2)
    exit_code = cli_usage(&page, "expected BUNDLE and KERNEL, found %zu word%s", words.count,
                          kiln_plural(words.count));
  if (exit_code == -1) {
    kiln_status status = bundle_view_open(words.items[0], &v, &err);
    if (status == KILN_OK) {
      char name[KILN_TARGET_NAME];
      status = print_kernel(&v, words.items[1], target ? bundle_target_name(target, name) : NULL, &err);
      bundle_view_close(&v);
    }
    exit_code = status == KILN_OK ? CLI_OK : cli_report(status, &err);
  }
  cli_list_deinit(&words);
  return exit_code;
}
