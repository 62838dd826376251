// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements the commands that print tables: targets, explain-error.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "targets/targets.h"
#include "tools/common/cli.h"
#include "tools/kiln/commands.h"

static void describe_host(const kiln_processor *p, char *out, size_t capacity) {
  const char *arch = kiln_host_processor_of(p)->arch;
  snprintf(out, capacity, "%s, vectors of %u bytes", arch[0] ? arch : "this machine", p->vector_bytes);
}

static void describe_nvptx(const kiln_processor *p, char *out, size_t capacity) {
  static const char *const reaches[] = {[KILN_REACH_ONWARD] = "",
                                        [KILN_REACH_FAMILY] = ", runs in its family",
                                        [KILN_REACH_ALONE] = ", runs on this processor only"};
  snprintf(out, capacity, "PTX %d.%d, %u KiB shared memory a block%s", p->ptx / 10, p->ptx % 10,
           p->shared_bytes >> 10, reaches[p->reach]);
}

static void describe_amdgpu(const kiln_processor *p, char *out, size_t capacity) {
  bool runs_generic = p->generic && !p->generic_version;
  snprintf(out, capacity, "wave%u%s%s%s, %u KiB LDS%s%s", p->wave, p->waves == 3 ? " (or wave64)" : "",
           p->has_xnack ? ", xnack" : "", p->has_sramecc ? ", sramecc" : "", p->shared_bytes >> 10,
           runs_generic ? ", also runs " : "", runs_generic ? kiln_generic_of(p) : "");
}

static void (*const describe[KILN_FAMILY_COUNT])(const kiln_processor *p, char *out,
                                                 size_t capacity) = {[KILN_FAMILY_HOST] = describe_host,
                                                                     [KILN_FAMILY_NVPTX] = describe_nvptx,
                                                                     [KILN_FAMILY_AMDGPU] = describe_amdgpu};

int kiln_command_targets(int argc, char **argv) {
  bool json = false;
  cli_list words = {0};
  const cli_option options[] = {{"json", 0, CLI_FLAG, &json, NULL, "print the table as JSON"}};
  const cli_page page =
      CLI_PAGE("kiln targets [--json]",
               "Lists the GPU architectures and CPUs to compile for. A target is one of them with "
               "modes: gfx942:xnack-:sramecc+,\n"
               "gfx1100:wave64, gfx906:v4 (code object version). `host` is x86-64-v3.",
               options);
  int code = cli_parse(&page, argc, argv, &words);
  if (code == -1 && words.count) code = cli_usage(&page, "expected no words, found '%s'", words.items[0]);
  cli_list_deinit(&words);
  if (code != -1) return code;
  if (json) printf("[");
  for (size_t i = 0; i < kiln_processor_count(); i++) {
    char text[160];
    const kiln_processor *p = kiln_processor_at(i);
    describe[p->family](p, text, sizeof text);
    if (json)
      printf("%s\n {\"name\": \"%s\", \"family\": \"%s\", \"text\": \"%s\"}", i ? "," : "", p->name,
             kiln_family_of(p->family)->name, text);
    else printf("%-16s %-7s %s\n", p->name, kiln_family_of(p->family)->name, text);
  }
  if (json) printf("\n]\n");
  return CLI_OK;
}

static void explain(kiln_status status) {
  printf("KILN-E%04d %s: %s.\n%s%s", (int)status, kiln_status_name(status), kiln_status_text(status),
         kiln_status_advice(status), *kiln_status_advice(status) ? ".\n" : "");
}

int kiln_command_explain_error(int argc, char **argv) {
  static const kiln_status all[] = {
#define STATUS(name, number, text, advice) KILN_STATUS_##name,
#include "base/status.def"
#undef STATUS
  };
  cli_list words = {0};
  const cli_page page = {"kiln explain-error [KILN-E0012...]",
                         "Says what error codes mean; all of them when none is named.",
                         NULL,
                         0,
                         NULL,
                         NULL,
                         NULL};
  int code = cli_parse(&page, argc, argv, &words);
  if (code != -1) return code;
  for (size_t i = 0; i < sizeof all / sizeof *all && !words.count; i++) explain(all[i]);
  code = CLI_OK;
  for (size_t w = 0; w < words.count; w++) {
    const char *text = words.items[w];
    if (!strncasecmp(text, "KILN-", 5)) text += 5;
    if (*text == 'E' || *text == 'e') text++;
    char *end;
    long number = strtol(text, &end, 10);
    size_t i = 0;
    while (i < sizeof all / sizeof *all && (*end || end == text || all[i] != (kiln_status)number)) i++;
    if (i < sizeof all / sizeof *all) explain(all[i]);
    else code = cli_usage(&page, "'%s' is not an error code", words.items[w]);
  }
  cli_list_deinit(&words);
  return code;
}
