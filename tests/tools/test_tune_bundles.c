// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests kiln tune and kiln build together: choices in bundles, tables next to sources, code that is not
// what was measured.
#include "tests/tools/tuning.h"

TEST(tune, a_bundle_has_the_codes_that_choices_and_the_default_need) {
  char *out =
      build_tuned(0, "", HEAD ENTRY("k", "1024", "BLOCK=256,warps=4") "\n" ENTRY("other", "64", "x") "\n");
  CHECK_PART(out, "2 objects, 0 from the cache, 2 compiled"); // 64 is the default, 128 is not needed
  free(out);
  out = explain_run("1100");
  CHECK_PART(out, "config BLOCK=256,warps=4, ");
  CHECK_PART(out, "tuned for arguments like these");
  CHECK_PART(out, "bin.n=1024 config=BLOCK=256,warps=4\n");
  free(out);
  out = explain_run("100");
  CHECK_PART(out, "config BLOCK=64,warps=4, ");
  CHECK_PART(out, "the arguments lie outside of what was tuned");
  free(out);
  char words[600];
  snprintf(words, sizeof words, "explain --all %s k", kiln_test_path("k.kbundle"));
  out = kiln(0, words);
  CHECK_PART(out, "bin.n=1024 config=BLOCK=256,warps=4\n1 tuned choices; ");
  free(out);
  // another table is another bundle, not what the cache has
  free(build_tuned(0, "", HEAD ENTRY("k", "1024", "BLOCK=128,warps=4") "\n"));
  out = explain_run("1100");
  CHECK_PART(out, "config BLOCK=128,warps=4, ");
  free(out);
}

TEST(tune, the_page_shows_spaces_times_and_winners) {
  char options[400];
  snprintf(options, sizeof options, "--device host:1,host:1 --html %s", kiln_test_path("page.html"));
  char *out = tune(0, options, KERNEL(IN_OUT, CONFIG("128") "  @config(BLOCK = 64, warps = 8)\n", COPY),
                   "k n={1000,100,5000} x=random:n y=zeros:n\n");
  free(out);
  char *page = kiln_test_read(kiln_test_path("page.html"), NULL), *last = page;
  static const char *const titles[] = {"<h2>k n=100</h2>", "<h2>k n=1000</h2>", "<h2>k n=5000</h2>"};
  for (unsigned i = 0; i < 3; i++) { // in order, whichever process measured
    char *at = strstr(page, titles[i]);
    if (!at || at < last) FAIL("%s is not there, or not in order:\n%s", titles[i], page);
    last = at;
  }
  CHECK_PART(page, "<tr><th class=\"text\">k n=1000</th><th>host:1</th><td class=\"text\">BLOCK=");
  CHECK_PART(page, "<th class=\"text\">BLOCK=128,<wbr/>warps=4</th>");
  CHECK_PART(page, "it is the same code as BLOCK=64,<wbr/>warps=4");
  CHECK_PART(page, "the default ");
  CHECK_NO_PART(page, "<script");
  free(page);
}

TEST(tune, a_folder_stands_for_its_tables) {
  char words[1000], *out;
  kiln_test_run(NULL, "mkdir -p %s/tables", kiln_test_folder());
  kiln_test_put("k.kiln", KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), COPY));
  snprintf(words, sizeof words, "build -t host --tuned %s -o %s %s", kiln_test_path("tables"),
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  out = kiln(0, words);
  CHECK_PART(out, ": 1 object, "); // an empty folder chooses nothing
  free(out);
  kiln_test_put("tables/b.table", HEAD ENTRY("k", "1024", "BLOCK=256,warps=4") "\n");
  kiln_test_put("tables/a.table", HEAD ENTRY("k", "64", "BLOCK=128,warps=4") "\n");
  kiln_test_put("tables/README.md", "no table\n");
  out = kiln(0, words);
  CHECK_PART(out, ": 3 objects, ");
  free(out);
  out = explain_run("1024");
  CHECK_PART(out, "config BLOCK=256,warps=4, ");
  free(out);
  kiln_test_put("tables/c.table", "kiln tuned 1\nkernel\n");
  out = kiln(1, words);
  CHECK_PART(out, "tables/c.table:2:1: expected NAME=VALUE, found 'kernel'");
  free(out);
}

TEST(tune, what_a_table_names_must_be_there) {
  char *out = build_tuned(1, "", HEAD ENTRY("k", "64", "BLOCK=257,warps=4") "\n");
  CHECK_PART(out, "t.table:2: kernel k has no config 'BLOCK=257,warps=4'; did you mean 'BLOCK=256,warps=4'?");
  free(out);
  out = build_tuned(
      1, "",
      HEAD
      "kernel=k types=\"*f32, *f32, i32\" product=* processor=* units=0 bin.m=64 config=BLOCK=64,warps=4\n");
  CHECK_PART(out, "t.table:2: kernel k has no parameter 'm'");
  free(out);
  out = build_tuned(1, "", HEAD "kernel=k typos=x\n");
  CHECK_PART(out, "t.table:2:10: unknown field 'typos'; did you mean 'types'?");
  CHECK_PART(out, "kernel=k typos=x\n         ^\n");
  free(out);
  out = build_tuned(0, "", HEAD "kernel=k types=i32 product=* processor=* units=0 config=BLOCK=64,warps=4\n");
  CHECK_PART(out, "1 choices are for other parameters than their kernels have; left out");
  free(out);
}

// The line of the table at t.table that has `part`, as a table of its own; `name` is given another value
// there, or none where `value` is NULL.
static char *only_line(const char *part, const char *name, const char *value) {
  char field[60];
  kiln_buffer out = {0};
  char *text = table(), *line = strstr(text, part);
  CHECK(line);
  while (line[-1] != '\n') line--;
  line[strcspn(line, "\n")] = 0;
  snprintf(field, sizeof field, " %s=", name);
  char *at = strstr(line, field);
  CHECK(at);
  size_t length = 1 + strcspn(at + 1, " ");
  kiln_buffer_format(&out, "kiln tuned 2\n%.*s", (int)(at - line), line);
  if (value) kiln_buffer_format(&out, "%s%s", field, value);
  kiln_buffer_format(&out, "%s\n", at + length);
  kiln_buffer_u8(&out, 0);
  free(text);
  return (char *)out.bytes;
}

// What the tools were called does not matter where the code is the same, or its numbers; without these the
// name of the tools is all there is.
TEST(tune, choices_of_other_code_are_noted_or_refused) {
  static const char kernel[] = KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), COPY);
  static const struct {
    const char *name, *value, *says;
  } cases[] = {{"toolchain", "0011223344556677", NULL},
               {"code", "0011223344556677", NULL},
               {"code", NULL, NULL},
               {"instructions", NULL, NULL}};
  free(tune(0, "--again", kernel, SHAPE));
  char *own = table();
  CHECK_PART(own, "kiln tuned 2\n");
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_test_put("t.table", own);
    char *text = only_line(" bin.n=896 ", cases[i].name, cases[i].value);
    char *out = build_tuned(0, "--tuned-strict", text);
    CHECK_NO_PART(out, "measured with");
    free(out), free(text);
  }
  kiln_test_put("t.table", own);
  char *other = only_line(" bin.n=896 ", "code", "0011223344556677");
  kiln_test_put("t.table", other);
  char *text = only_line(" bin.n=896 ", "instructions", "7"), *out = build_tuned(0, "", text);
  CHECK_PART(out, "t.table: 1 of 1 choices were measured with other code, the first k BLOCK=");
  CHECK_PART(out, ": 7 -> ");
  CHECK_PART(out, " instructions\n");
  free(out);
  out = build_tuned(0, "", text); // the bundle is in the cache now, with what was said
  CHECK_PART(out, "1 of 1 choices were measured with other code");
  free(out);
  out = build_tuned(1, "--tuned-strict", text);
  CHECK_PART(out, "measured with other code, the first k BLOCK=");
  CHECK_PART(out, "`kiln tune --check` measures again");
  free(out), free(text), free(other), free(own);
}

TEST(tune, choices_of_other_tools_are_noted_or_refused) {
  static const char text[] = HEAD ENTRY("k", "64", "BLOCK=128,warps=4") " toolchain=0011223344556677\n";
  char *out = build_tuned(0, "", text);
  CHECK_PART(out, "1 of 1 choices were measured with code of other tools");
  free(out);
  out = build_tuned(1, "--tuned-strict", text);
  CHECK_PART(out,
             "1 of 1 choices were measured with code of other tools; `kiln tune --check` measures again");
  free(out);
}

// Nobody names the table: it lies in the folder `tuned` beside the source.
TEST(tune, a_table_beside_the_source_is_taken) {
  char words[1000], *out;
  const char *format = "build -t host %s -o %s %s";
  kiln_test_run(NULL, "mkdir -p %s/tuned", kiln_test_folder());
  kiln_test_put("k.kiln", KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), COPY));
  kiln_test_put("tuned/a.table", HEAD ENTRY("k", "1024", "BLOCK=256,warps=4") "\n");
  snprintf(words, sizeof words, format, "", kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  out = kiln(0, words);
  CHECK_PART(out, ": 2 objects, ");
  free(out);
  out = explain_run("1024");
  CHECK_PART(out, "config BLOCK=256,warps=4, ");
  free(out);
  char depfile[300];
  snprintf(depfile, sizeof depfile, "--depfile %s", kiln_test_path("k.d"));
  snprintf(words, sizeof words, format, depfile, kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  free(kiln(0, words));
  char *rule = kiln_test_read(kiln_test_path("k.d"), NULL);
  CHECK_PART(rule, "/tuned/a.table");
  free(rule);
  snprintf(words, sizeof words, format, "--no-tuned", kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  out = kiln(0, words);
  CHECK_PART(out, ": 1 object, ");
  free(out);
  // one for other devices is as none; one that names what is gone is left out with a note
  kiln_test_put("tuned/a.table",
                HEAD "kernel=k types=\"*f32, *f32, i32\" product=* processor=sm_90 units=0 bin.n=1024 "
                     "config=BLOCK=256,warps=4\n");
  snprintf(words, sizeof words, format, "", kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  out = kiln(0, words);
  CHECK_PART(out, ": 1 object, ");
  free(out);
  kiln_test_put("tuned/a.table", HEAD ENTRY("k", "1024", "BLOCK=512,warps=4") "\n");
  out = kiln(0, words);
  CHECK_PART(out, "note: 1 choices name what is not there; left out: ");
  CHECK_PART(out, "tuned:2: kernel k has no config 'BLOCK=512,warps=4'");
  free(out);
  kiln_test_put("tuned/a.table", "kiln tuned 1\nkernel\n");
  out = kiln(1, words);
  CHECK_PART(out, "tuned/a.table:2:1: expected NAME=VALUE, found 'kernel'");
  free(out);
}

// Of a kernel whose configs have costs a line that says that their choice won is none for a bundle: in the
// rest of its bin costs know better. A line with another one is.
TEST(tune, what_costs_choose_anyway_is_left_to_them) {
  static const char kernel[] =
      "kiln 1\n\nkernel k[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32)\n  @grid(cdiv(n, BLOCK)) "
      "@key(n)\n"
      "  @cost(cdiv(n, BLOCK) + BLOCK / 4)\n  @config(BLOCK = 64)\n  @config(BLOCK = 128)\n"
      "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  let live = i < n\n  " COPY "\n}\n";
  char words[1000], *out;
  kiln_test_put("k.kiln", kernel);
  snprintf(words, sizeof words, "build -t host --tuned %s -o %s %s", kiln_test_path("t.table"),
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  kiln_test_put("t.table", HEAD ENTRY("k", "1024", "BLOCK=64,warps=4") " default=BLOCK=64,warps=4\n");
  free(kiln(0, words));
  out = explain_run("1024"); // 16 + 16 and 8 + 32
  CHECK_PART(out, "config BLOCK=64,warps=4, ");
  CHECK_NO_PART(out, "bin.n=1024");
  free(out);
  kiln_test_put("t.table", HEAD ENTRY("k", "1024", "BLOCK=128,warps=4") " default=BLOCK=64,warps=4\n");
  free(kiln(0, words));
  out = explain_run("1024"); // no more than a quarter above
  CHECK_PART(out, "config BLOCK=128,warps=4, ");
  CHECK_PART(out, "tuned for arguments like these");
  free(out);
  out = explain_run("1300");
  CHECK_PART(out, "config BLOCK=64,warps=4, ");
  CHECK_PART(out, "outside of what was tuned");
  free(out);
}

// What is shipped is of kernels, configs and parameters that there are: an explicit --tuned refuses anything
// else. Every line is a choice of the bundle.
TEST(tune, the_tables_of_the_kernel_library_fit_its_kernels) {
  kiln_buffer words = {0};
  unsigned choices = 0, found = 0;
  char *all, *out, *name, *line;
  kiln_test_run(&all, "cat kernels/tuned/*.table 2>/dev/null | grep '^kernel='");
  if (!*all) kiln_test_skip("no table is shipped");
  kiln_buffer_format(&words,
                     "build -q -t sm_90a --ptx-assembler=none --tuned kernels/tuned -o %s kernels/*.kiln",
                     kiln_test_path("library.kbundle"));
  for (line = all; line && *line; line = strchr(line, '\n'), line += line != NULL) {
    name = line + strlen("kernel=");
    choices++;
    CHECK_PART(line, " processor=sm_90 "); // another product's table gets a target here
    kiln_buffer_format(&words, " -k '%.*s'", (int)strcspn(name, " "), name);
  }
  kiln_buffer_u8(&words, 0);
  free(kiln(0, (const char *)words.bytes));
  kiln_test_run(&out, "%s/bin/kiln inspect %s | grep -c '^kernel=.* config='", kiln_test_build(),
                kiln_test_path("library.kbundle"));
  found = (unsigned)strtoul(out, NULL, 10);
  if (found != choices) FAIL("the bundle has %u choices, the tables have %u", found, choices);
  free(all), free(out);
  kiln_buffer_deinit(&words);
}
