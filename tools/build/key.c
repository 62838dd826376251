// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `kiln key`: prints the keys of a source and the fields that they are made of. Needs no GPU and no driver.
#include <stdio.h>

#include "tools/kiln/commands.h"
#include "tools/build/session.h"

static void print_fields(const plan_job *job, bool json) {
  kiln_key_walk walk;
  kiln_key_part part;
  char title[200], value[600];
  kiln_buffer out = {0};
  if (kiln_key_walk_begin(&walk, job->key.fields, job->key.fields_size) != KILN_OK) return;
  for (bool first = true; kiln_key_walk_next(&walk, &part) == KILN_OK; first = false) {
    kiln_key_part_title(&part, title, sizeof title);
    kiln_key_part_value(&part, value, sizeof value);
    if (json) {
      kiln_buffer_format(&out, first ? "" : ", ");
      cli_json_text(&out, title);
      kiln_buffer_format(&out, ": ");
      cli_json_text(&out, value);
    } else {
      kiln_buffer_format(&out, "    %-28s %s\n", title, value);
    }
  }
  fwrite(out.bytes, 1, out.size, stdout);
  kiln_buffer_deinit(&out);
}

static void print_key(const plan *p, const plan_job *job, bool fields, bool json) {
  char hex[KILN_DIGEST_HEX + 1], title[300];
  kiln_buffer name = {0};
  kiln_digest_hex(&job->key.digest, hex);
  plan_job_title(p, job, title, sizeof title);
  if (!json) {
    printf("%s  %s\n", hex, title);
    if (fields) print_fields(job, false);
    return;
  }
  cli_json_text(&name, title);
  printf("%s\n {\"key\": \"%s\", \"title\": %.*s, \"fields\": {", job == p->jobs ? "" : ",", hex,
         (int)name.size, (char *)name.bytes);
  print_fields(job, true);
  printf("}}");
  kiln_buffer_deinit(&name);
}

int kiln_command_key(int argc, char **argv) {
  session s;
  bool fields = false, json = false;
  kiln_error err = {0};
  session_init(&s);
  const cli_option options[] = {
      {"fields", 0, CLI_FLAG, &fields, NULL, "print every field of each key"},
      {"json", 0, CLI_FLAG, &json, NULL, "print keys and fields as JSON"},
      SESSION_OPTIONS(&s),
  };
  const cli_page page = {"kiln key [options] SOURCE...",
                         "Prints the cache key of every object that `kiln build` would make of the sources.",
                         options,
                         sizeof options / sizeof *options,
                         NULL,
                         session_codegen_option,
                         &s,
                         session_codegen_name,
                         session_codegen_help,
                         session_codegen_row};
  int code = cli_parse(&page, argc, argv, &s.words);
  if (code == -1 && !s.words.count) code = cli_usage(&page, "no source was named");
  if (code == -1) {
    s.no_cache = true;
    kiln_status status = session_prepare(&s, "host", &err);
    code = status == KILN_OK ? CLI_OK : session_report(&s, status, &err);
    if (json && code == CLI_OK) printf("[");
    for (size_t i = 0; i < s.plan.job_count && code == CLI_OK; i++)
      print_key(&s.plan, &s.plan.jobs[i], fields, json);
    if (json && code == CLI_OK) printf("\n]\n");
  }
  session_deinit(&s);
  return code;
}
