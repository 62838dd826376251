// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln check-case` on cases made here: a small kernel, its arguments, memory before and after.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/harness.h"

enum { PROGRAMS = 2, COUNT = 304 }; // COUNT: a multiple of 16, as the kernel was promised

typedef struct recorded {
  float x[COUNT], y[COUNT], before[COUNT], after[COUNT];
} recorded;

static recorded good_memory(void) {
  recorded m;
  for (int i = 0; i < COUNT; i++) {
    m.x[i] = (float)i;
    m.y[i] = 0.5f * (float)i;
    m.before[i] = -1;
    m.after[i] = m.x[i] + m.y[i];
  }
  return m;
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t size) {
  char path[8192];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  kiln_test_write(path, bytes, size);
}

static const char arguments[] =
    "{\"name\": \"add\", \"grid\": [%d], \"num_warps\": 4, \"num_stages\": 2, \"golden\": %s,\n"
    " \"args\": [{\"name\": \"x\", \"kind\": \"tensor\", \"dtype\": \"torch.float32\", \"shape\": [%d], "
    "\"stride\": [1], \"offset_bytes\": 0, \"buffer\": 0, \"sig\": \"*fp32\"},\n"
    "  {\"name\": \"y\", \"kind\": \"tensor\", \"dtype\": \"torch.float32\", \"shape\": [%d], \"stride\": "
    "[1], \"offset_bytes\": 0, \"buffer\": 1, \"sig\": \"*fp32\"},\n"
    "  {\"name\": \"out\", \"kind\": \"tensor\", \"dtype\": \"torch.float32\", \"shape\": [%d], \"stride\": "
    "[1], \"offset_bytes\": 0, \"buffer\": 2, \"sig\": \"*fp32\"},\n"
    "  {\"name\": \"n\", \"kind\": \"int\", \"value\": \"%d\", \"sig\": \"i32\"},\n"
    "  {\"name\": \"BLOCK\", \"kind\": \"int\", \"value\": \"256\", \"sig\": \"constexpr\"}],\n"
    " \"buffers\": [{\"bytes\": %zu, \"changed\": false}, {\"bytes\": %zu, \"changed\": false}, {\"bytes\": "
    "%zu, \"changed\": true}]}\n";

// A case in FOLDER/NAME. `text` NULL: the kernel of tests/ttir/add.ttir.
static void write_case(const char *folder, const char *name, const char *text, const recorded *m, int n,
                       bool golden) {
  char path[4096], json[4096];
  size_t size = 0, bytes = sizeof m->x;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  CHECK_INT(mkdir(path, 0777), 0);
  char *kernel = text ? NULL : kiln_test_read("tests/ttir/add.ttir", &size);
  write_file(path, "kernel.ttir", text ? text : kernel, text ? strlen(text) : size);
  snprintf(json, sizeof json, arguments, PROGRAMS, golden ? "true" : "false", COUNT, COUNT, COUNT, n, bytes,
           bytes, bytes);
  write_file(path, "case.json", json, strlen(json));
  write_file(path, "in0.bin", m->x, bytes);
  write_file(path, "in1.bin", m->y, bytes);
  write_file(path, "in2.bin", m->before, bytes);
  write_file(path, "out2.bin", m->after, bytes);
  free(kernel);
}

static char *check(int want, const char *options, const char *folder) {
  char *out;
  int code = kiln_test_run(&out, "%s/bin/kiln-tool check-case %s %s", kiln_test_build(), options, folder);
  if (code != want) FAIL("exit status is %d, expected %d:\n%s", code, want, out);
  return out;
}

static void expect_in(const char *text, const char *part) {
  if (!strstr(text, part)) FAIL("expected in the output:\n%s\nfound:\n%s", part, text);
}

// One wrong element near zero, where others are large: the mean size of the values does not hide it.
TEST(check_case, a_wrong_element_near_zero_is_found) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  m.after[0] = 0.1f; // 0 is right; the mean size is 227, a thousandth of which is more
  write_case(folder, "near_zero", NULL, &m, COUNT, true);
  char *out = check(1, "-d host", folder);
  expect_in(out, "fail        near_zero: buffer 2 (out) f32 0 of 304: expected 0.1");
  expect_in(out, "1 differ");
  free(out);
}

static void run_on(const char *device) {
  const char *folder = kiln_test_folder();
  char options[64];
  snprintf(options, sizeof options, "-j 2 -d %s", device);
  recorded m = good_memory(), wrong = good_memory(), touched = good_memory();
  wrong.after[200] += 1;
  touched.after[299] = touched.before[299]; // the recording did not write it, this kernel does
  write_case(folder, "a_good", NULL, &m, COUNT, true);
  write_case(folder, "b_wrong", NULL, &wrong, COUNT, true);
  write_case(folder, "c_described", NULL, &m, COUNT, false);
  write_case(folder, "d_strange",
             "module {\n  tt.func public @k() {\n    tt.mystery\n    tt.return\n  }\n}\n", &m, COUNT, true);
  write_case(folder, "e_touched", NULL, &touched, COUNT, true);
  char *out = check(1, options, folder);
  expect_in(out, "pass        a_good\n");
  expect_in(out, "fail        b_wrong: buffer 2 (out) f32 200 of 304: expected 301, found 300; 1 differ, "
                 "largest error 1\n");
  expect_in(out, "skip        c_described");
  expect_in(out, "unsupported d_strange: kernel.ttir:3: operation 'tt.mystery' is not supported\n");
  expect_in(out, "fail        e_touched: buffer 2 (out) f32 299 of 304: expected -1, found 448.5");
  expect_in(out, "1 passed, 2 failed, 2 skipped\n");
  free(out);
}

// f64 memory whose arithmetic was that of f32: the last bit of f32 may differ there, and only there.
TEST(check_case, f64_that_was_computed_in_f32) {
  static const char text[] = "module {\n  tt.func public @k(%x: !tt.ptr<f64>, %out: !tt.ptr<f64>) {\n    %i "
                             "= tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>\n"
                             "    %p = tt.splat %x : !tt.ptr<f64> -> tensor<4x!tt.ptr<f64>>\n    %q = "
                             "tt.addptr %p, %i : tensor<4x!tt.ptr<f64>>, tensor<4xi32>\n"
                             "    %v = tt.load %q : tensor<4x!tt.ptr<f64>>\n    %o = tt.splat %out : "
                             "!tt.ptr<f64> -> tensor<4x!tt.ptr<f64>>\n"
                             "    %w = tt.addptr %o, %i : tensor<4x!tt.ptr<f64>>, tensor<4xi32>\n    "
                             "tt.store %w, %v : tensor<4x!tt.ptr<f64>>\n    tt.return\n  }\n}\n";
  static const char json[] =
      "{\"name\": \"copy\", \"grid\": [1], \"num_warps\": 4, \"num_stages\": 2, \"golden\": true, \"args\": "
      "[\n"
      "  {\"name\": \"x\", \"kind\": \"tensor\", \"dtype\": \"torch.float64\", \"shape\": [4], \"stride\": "
      "[1], \"offset_bytes\": 0, \"buffer\": 0, \"sig\": \"*fp64\"},\n"
      "  {\"name\": \"out\", \"kind\": \"tensor\", \"dtype\": \"torch.float64\", \"shape\": [4], \"stride\": "
      "[1], \"offset_bytes\": 0, \"buffer\": 1, \"sig\": \"*fp64\"}],\n"
      " \"buffers\": [{\"bytes\": 32, \"changed\": false}, {\"bytes\": 32, \"changed\": true}]}\n";
  static const double x[4] = {1.5, 0.25, 3, -0.75}, singles[4] = {1.5 + 0x1p-23, 0.25, 3, -0.75},
                      doubles[4] = {1.5 + 0x1p-23, 0.1, 3, -0.75};
  const char *folder = kiln_test_folder();
  char path[4096];
  for (int wide = 0; wide < 2; wide++) {
    snprintf(path, sizeof path, "%s/%s", folder, wide ? "wide" : "narrow");
    CHECK_INT(mkdir(path, 0777), 0);
    write_file(path, "kernel.ttir", text, strlen(text));
    write_file(path, "case.json", json, strlen(json));
    double in[4] = {x[0], wide ? doubles[1] : x[1], x[2], x[3]};
    write_file(path, "in0.bin", in, sizeof in);
    write_file(path, "in1.bin", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", sizeof in);
    write_file(path, "out1.bin", wide ? doubles : singles, sizeof in);
  }
  char *out = check(1, "-d host", folder);
  expect_in(out, "pass        narrow\n");
  expect_in(out, "fail        wide: buffer 1 (out) f64 0 of 4");
  free(out);
}

TEST(check_case, interpreter) { run_on("interpreter"); }
TEST(check_case, host) { run_on("host"); }

TEST(check_case, json) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  write_case(folder, "good", NULL, &m, COUNT, true);
  char *out = check(0, "--json -d interpreter", folder);
  expect_in(out, "{\"case\": \"good\", \"verdict\": \"pass\"");
  expect_in(out, "{\"passed\": 1, \"failed\": 0, \"unsupported\": 0, \"skipped\": 0}");
  free(out);
}

// n beyond the buffers: the interpreter names the access, on the host the guards show it.
TEST(check_case, access_out_of_range) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  write_case(folder, "far", NULL, &m, COUNT + 16, true);
  char *out = check(1, "-d interpreter", folder);
  expect_in(out, "outside all buffers");
  free(out);
  out = check(1, "-d host", folder);
  expect_in(out, "after the last is written");
  free(out);
}

static const char crashing[] =
    "module {\n"
    "  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {\n"
    "    %c = arith.constant 8 : i64\n"
    "    %p = tt.int_to_ptr %c : i64 -> !tt.ptr<i32>\n"
    "    tt.store %p, %n : !tt.ptr<i32>\n"
    "    tt.return\n"
    "  }\n"
    "}\n";

TEST(check_case, a_crash_costs_one_case) {
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer takes the signal");
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  write_case(folder, "a_crash", crashing, &m, COUNT, true);
  write_case(folder, "b_good", NULL, &m, COUNT, true);
  char *out = check(1, "-d host", folder);
  expect_in(out, "fail        a_crash: died of signal 11");
  expect_in(out, "pass        b_good");
  expect_in(out, "1 passed, 1 failed, 0 skipped\n");
  free(out);
}

/// Where a recording has a pointer without its memory there is nothing to run on, and nothing to blame.
TEST(check_case, memory_that_was_not_recorded) {
  const char *folder = kiln_test_folder();
  char path[4096], text[4096], *at;
  recorded m = good_memory();
  write_case(folder, "partial", NULL, &m, COUNT, true);
  snprintf(path, sizeof path, "%s/partial", folder);
  snprintf(text, sizeof text, arguments, PROGRAMS, "true", COUNT, COUNT, COUNT, COUNT, sizeof m.x, sizeof m.x,
           sizeof m.x);
  CHECK((at = strstr(text, "\"buffer\": 1, ")));
  memset(at, ' ', strlen("\"buffer\": 1, "));
  write_file(path, "case.json", text, strlen(text));
  char *out = check(0, "-d host", folder);
  expect_in(out, "unsupported partial: the memory of argument y was not recorded");
  free(out);
}

/// After an error of its driver a context is of no more use: the cases after it get another one.
TEST(check_case, a_fault_on_a_gpu_costs_one_case) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  write_case(folder, "a_crash", crashing, &m, COUNT, true);
  write_case(folder, "b_good", NULL, &m, COUNT, true);
  char *out;
  kiln_test_run(&out, "%s/bin/kiln-tool check-case -d cuda:0 %s", kiln_test_build(), folder);
  if (strstr(out, "no CUDA device")) SKIP("no CUDA device");
  expect_in(out, "fail        a_crash: ");
  expect_in(out, "pass        b_good");
  free(out);
}

static const char endless[] =
    "module {\n"
    "  tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {\n"
    "    scf.while : () -> () {\n"
    "      %v = tt.load %out {isVolatile = true} : !tt.ptr<f32>\n"
    "      %c = arith.constant -1.0 : f32\n"
    "      %t = arith.cmpf oeq, %v, %c : f32\n"
    "      scf.condition(%t)\n"
    "    } do {\n"
    "      scf.yield\n"
    "    }\n"
    "    tt.return\n"
    "  }\n"
    "}\n";

TEST(check_case, an_endless_case_ends) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  write_case(folder, "endless", endless, &m, COUNT, true);
  char *out = check(1, "-d interpreter --timeout 1", folder);
  expect_in(out, "fail        endless: not done after 1 s");
  free(out);
  out = check(1, "-d interpreter --max-steps 1000", folder);
  expect_in(out, "fail        endless: ");
  free(out);
}

TEST(check_case, damaged_cases_are_named) {
  const char *folder = kiln_test_folder();
  char path[4096];
  recorded m = good_memory();
  write_case(folder, "short", NULL, &m, COUNT, true);
  snprintf(path, sizeof path, "%s/short", folder);
  write_file(path, "in1.bin", "x", 1);
  char *out = check(1, "-d interpreter", folder);
  expect_in(out, "in1.bin: expected 1216 bytes, found 1");
  free(out);
  write_file(path, "case.json", "{\"args\": [", 10);
  out = check(1, "-d interpreter", folder);
  expect_in(out, "JSON line 1: expected");
  free(out);
  out = check(2, "", "");
  free(out);
  out = check(1, "", "tests/ttir");
  expect_in(out, "expected a case.json");
  free(out);
}

// The folder of recorded cases, when there is one.
TEST(check_case, recorded_cases_on_the_host) {
  const char *folder = getenv("KILN_TRITON_CASES");
  if (!folder || !*folder) SKIP("KILN_TRITON_CASES names no folder of recorded cases");
  if (!kiln_test_full()) SKIP("runs in check-full only");
  char *out;
  int code =
      kiln_test_run(&out, "%s/bin/kiln-tool check-case -q -j 2 --timeout 300 %s", kiln_test_build(), folder);
  printf("%s\n", out);
  free(out);
  CHECK_INT(code, 0);
}

// ---------------------------------------------------------------------------- cases as what is tuned

static char *tune(int want, const char *options) {
  char *out;
  int code =
      kiln_test_run(&out,
                    "cd %s && KILN_CACHE_DIR=cache PATH=$OLDPWD/%s/bin:$PATH kiln tune -v --budget 0.2 -o "
                    "t.table %s",
                    kiln_test_folder(), kiln_test_build(), options);
  if (code != want) FAIL("%s: exit status is %d, expected %d:\n%s", options, code, want, out);
  return out;
}

// The space of Triton IR are warps, stages and limits of registers; what is recorded judges, so that a case
// whose recording is wrong leaves no config. The table goes with the kernel into a bundle that chooses by it.
TEST(check_case, a_case_is_shape_and_judge_of_a_tuning) {
  const char *folder = kiln_test_folder();
  char *out, words[600];
  recorded m = good_memory(), wrong = good_memory();
  wrong.after[200] += 1;
  write_case(folder, "good", NULL, &m, COUNT, true);
  write_case(folder, "wrong", NULL, &wrong, COUNT, true);
  write_case(folder, "described", NULL, &m, COUNT, false);
  out = tune(0, "--case good --all-below 100");
  expect_in(out, "add_kernel n=304: warps=");
  expect_in(out, "(33 configs, ");
  expect_in(out, "judged by case)");
  expect_in(out, "it is the same code as warps=4,stages=2"); // a host has neither
  free(out);
  out = tune(1, "--case wrong --case good --again");
  expect_in(out,
            "no config is left: warps=4,stages=2: its results are wrong (judged by case): out f32 200 of "
            "304: expected 301, found 300; 1 differ");
  expect_in(out, "add_kernel n=304: warps=");
  free(out);
  out = tune(1, "--case described");
  expect_in(out, "described: no memory was recorded; nothing can be launched");
  free(out);
  out = tune(2, "--case good some.kiln");
  expect_in(out, "--case is source and shape");
  free(out);
  snprintf(words, sizeof words, "sed -i 's/config=[^ ]*/config=warps=8,stages=1/' %s/t.table", folder);
  kiln_test_run(NULL, "%s", words);
  kiln_test_run(&out,
                "cd %s && export KILN_CACHE_DIR=cache PATH=$OLDPWD/%s/bin:$PATH && kiln build -t host "
                "--tuned t.table -o "
                "k.kbundle good/kernel.ttir && kiln explain --all k.kbundle add_kernel",
                folder, kiln_test_build());
  expect_in(out, " config=warps=8,stages=1\n");
  free(out);
}

// Without it a choice depends on every integer.
TEST(check_case, a_key_says_what_choices_of_triton_ir_depend_on) {
  static const char text[] = "module {\n"
                             "  tt.func public @both(%o: !tt.ptr<i32>, %rows: i32, %cols: i32) {\n"
                             "    %s = arith.addi %rows, %cols : i32\n"
                             "    tt.store %o, %s : !tt.ptr<i32>\n"
                             "    tt.return\n"
                             "  }\n"
                             "}\n";
  static const struct {
    const char *source, *options;
    int code;
    const char *says;
  } cases[] = {
      {"both.ttir", "--tuning --key cols", 0, "note tuning key both: cols\n"},
      {"both.ttir", "--tuning --key rows,cols", 0, "note tuning key both: rows,cols\n"},
      {"both.ttir", "--tuning --key rows,col", 1,
       "--key: 'col' is no integer parameter of both, which has rows, cols; did you mean 'cols'?"},
      {"both.ttir", "--tuning --key o", 1,
       "--key: 'o' is no integer parameter of both, which has rows, cols"},
      {"both.ttir", "--key cols", 2, "--key is of --tuning"},
      {"k.kiln", "--tuning --key n", 1, "--key is for Triton IR; a kernel of this language says @key"}};
  const char *folder = kiln_test_folder();
  char path[300], *out;
  snprintf(path, sizeof path, "%s/both.ttir", folder);
  kiln_test_write(path, text, strlen(text));
  snprintf(path, sizeof path, "%s/k.kiln", folder);
  kiln_test_write(path, "kiln 1\nkernel k(n: i32) {}\n", 26);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int code = kiln_test_run(
        &out,
        "{ cd %s && export KILN_CACHE_DIR=cache PATH=$OLDPWD/%s/bin:$PATH && kiln build -t host "
        "%s -o k.kbundle %s && kiln inspect k.kbundle | grep tuning; }",
        folder, kiln_test_build(), cases[i].options, cases[i].source);
    if (code != cases[i].code)
      FAIL("%s: exit status is %d, expected %d:\n%s", cases[i].options, code, cases[i].code, out);
    expect_in(out, cases[i].says);
    free(out);
  }
  recorded m = good_memory();
  write_case(folder, "good", NULL, &m, COUNT, true);
  free(tune(0, "--case good --key n"));
  out = tune(1, "--case good --key m --again");
  expect_in(out, "--key: 'm' is no integer parameter of add_kernel, which has n");
  free(out);
}

// A limit that is above what a unit has for so many warps is none.
TEST(check_case, the_code_generator_of_triton_ir_has_a_knob) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  char *out;
  write_case(folder, "good", NULL, &m, COUNT, true);
  kiln_test_run(
      &out,
      "cd %s && export KILN_CACHE_DIR=cache PATH=$OLDPWD/%s/bin:$PATH && kiln build --tuning -t sm_90a "
      "--ptx-assembler=none -o k.kbundle good/kernel.ttir && kiln inspect -c k.kbundle | grep regs= && "
      "kiln disasm k.kbundle add_kernel | grep maxnreg | sort -u",
      folder, kiln_test_build());
  static const char *const there[] = {"warps=1,stages=3,regs=64",
                                      "warps=8,stages=3,regs=128",
                                      "warps=16,stages=3,regs=64",
                                      "warps=8,stages=3,regs=255",
                                      ".maxnreg 64",
                                      ".maxnreg 128"};
  for (size_t i = 0; i < sizeof there / sizeof *there; i++) expect_in(out, there[i]);
  if (strstr(out, "warps=16,stages=3,regs=128"))
    FAIL("16 warps have 128 registers a thread anyway:\n%s", out);
  free(out);
}

TEST(check_case, arguments_that_share_a_buffer_that_changes_are_refused) {
  const char *folder = kiln_test_folder();
  recorded m = good_memory();
  write_case(folder, "shared", NULL, &m, COUNT, true);
  kiln_test_run(NULL, "sed -i 's/\"buffer\": 1/\"buffer\": 2/' %s/shared/case.json", folder);
  char *out = tune(1, "--case shared");
  expect_in(out, "shared: 'out' shares buffer 2, which the launch changes, with another argument");
  free(out);
}
