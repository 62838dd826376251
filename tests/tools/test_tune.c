// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests `kiln tune` on the host: what is measured is right, configs that are wrong, crash or hang do not
// win, and the result goes into bundles. Kernels misbehave in some of their configs on purpose.
#include "tests/tools/tuning.h"

// ------------------------------------------------------------------------------ right before fast

// In place and adding: every config ends as one plain run does, whoever ran before.
TEST(tune, kernels_in_place_and_adding_are_judged_by_what_one_run_leaves) {
  static const char *const kernels[] = {
      KERNEL("x: in *f32, y: inout *f32", CONFIG("128") CONFIG("256"),
             "store(y + i, load(y + i, live) * 2.0 + load(x + i, live), live)"),
      KERNEL("x: in *f32, y: accum *f32", CONFIG("128") CONFIG("256"),
             "atomic.add(y + i, load(x + i, live), live)")};
  for (unsigned i = 0; i < 2; i++) {
    char *out = tune(0, "--again", kernels[i], "k n=1000 x=random:n y=iota:n\n");
    CHECK_PART(out, "(3 configs, ");
    CHECK_PART(out, "judged by interpreter)");
    CHECK_NO_PART(out, "dropped");
    free(out);
  }
}

// The fast config writes nothing; a config before it filled the output with what is right.
TEST(tune, a_wrong_but_fast_config_does_not_win) {
  static const char kernel[] = KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), "when BLOCK != 256 { " COPY " }");
  static const char *const judges[] = {"", "--judge-limit 0"}, *const says[] = {"interpreter", "first"};
  for (unsigned i = 0; i < 2; i++) {
    unlink(kiln_test_path("t.table"));
    char *out =
             tune(0, i ? "--again --judge-limit 0" : judges[0], kernel, "k n=100000 x=random:n y=zeros:n\n"),
         want[200];
    snprintf(want, sizeof want,
             "dropped BLOCK=256,warps=4: its results are wrong (judged by %s): y f32 0 of 100000", says[i]);
    CHECK_PART(out, want);
    free(out);
    char *text = table();
    CHECK_NO_PART(text, "config=BLOCK=256");
    CHECK_PART(text, says[i]);
    free(text);
  }
}

TEST(tune, a_config_that_is_wrong_in_one_element_does_not_win) {
  char *out =
      tune(0, "", KERNEL(IN_OUT, CONFIG("128"), COPY "\n  when BLOCK == 128 { store(y + i, 0.5, i == 777) }"),
           SHAPE);
  CHECK_PART(out,
             "dropped BLOCK=128,warps=4: its results are wrong (judged by interpreter): y f32 777 of 1000");
  free(out);
}

TEST(tune, a_crash_costs_that_config_only) {
  char *out = tune(0, "",
                   KERNEL(IN_OUT, CONFIG("128") CONFIG("256"),
                          COPY "\n  when BLOCK == 128 { store(y + i + 100000000, 1.0) }"),
                   SHAPE);
  CHECK_PART(out, "dropped BLOCK=128,warps=4: argument 'y' (*f32) has 1000 elements, and the kernel wrote ");
  CHECK_PART(out, "(3 configs, ");
  CHECK_NO_PART(out, "dropped BLOCK=256");
  free(out);
}

// It writes just after the buffer, which spoils what stands there: the next config is judged with memory of
// its own.
TEST(tune, a_store_behind_a_buffer_costs_that_config_only) {
  char *out = tune(
      0, "",
      KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), COPY "\n  when BLOCK == 128 { store(y + i, 1.0, i == n) }"),
      SHAPE);
  CHECK_PART(out, "dropped BLOCK=128,warps=4: argument 'y' (*f32) has 1000 elements");
  CHECK_NO_PART(out, "dropped BLOCK=256");
  free(out);
}

TEST(tune, a_config_that_hangs_is_ended) {
  static const char kernel[] =
      KERNEL(IN_OUT, CONFIG("128") CONFIG("256"),
             COPY "\n  when BLOCK == 128 { while load(x) > -5.0 { store(y, 1.0) } }");
  char *out = tune(0, "--timeout 1", kernel, SHAPE);
  CHECK_PART(out, "dropped BLOCK=128,warps=4: it took longer than 1000 ms");
  CHECK_NO_PART(out, "dropped BLOCK=256");
  free(out);
}

TEST(tune, a_config_that_does_not_compile_is_left_out) {
  char *out = tune(0, "", KERNEL(IN_OUT, CONFIG("2097152") CONFIG("256"), COPY), SHAPE);
  CHECK_PART(out, "the limit is");
  CHECK_PART(out, "(2 configs, ");
  free(out);
}

TEST(tune, all_failing_is_one_clear_error) {
  static const char kernel[] = KERNEL(IN_OUT, CONFIG("128"), COPY "\n  assert(n < 0, \"never\")");
  char *out = tune(1, "", kernel, SHAPE);
  CHECK_PART(out, "kiln: error: k n=1000: no config is left: BLOCK=64,warps=4: ");
  CHECK_PART(out, "; BLOCK=128,warps=4: ");
  CHECK_PART(out, "1 of 1 shapes failed");
  free(out);
}

TEST(tune, a_knob_without_effect_is_told) {
  char *out = tune(0, "", KERNEL(IN_OUT, "  @config(BLOCK = 64, warps = 8)\n", COPY), SHAPE);
  CHECK_PART(out, "dropped BLOCK=64,warps=8: it is the same code as BLOCK=64,warps=4");
  free(out);
}

TEST(tune, any_share_keeps_at_least_one) {
  char *out = tune(0, "--keep 0", KERNEL(IN_OUT, CONFIG("128") CONFIG("256") CONFIG("512"), COPY), SHAPE);
  CHECK_PART(out, "(4 configs, ");
  free(out);
  free(table());
}

// -------------------------------------------------------------------------------------- the table

TEST(tune, what_is_found_names_what_it_depends_on) {
  static const char kernel[] =
      "kiln 1\n\nkernel k[B: tune = 64](v: in view f32[8, 8], y: out *f32 @align(16), n: i32, m: i32 "
      "@div(16), s: f32)\n"
      "  @grid(cdiv(n, B))\n  @config(B = 64)\n  @config(B = 128)\n"
      "{\n  let i = pid(0) * B + iota(B)\n  store(y + i, full(f32[B], s), i < n)\n}\n";
  char *out = tune(0, "", kernel, "k n=100 m=32 s=1.5 y=zeros:n v=zeros:n*m[n,m]\n");
  free(out);
  char *text = table();
  CHECK_PART(text, "types=\"view f32/2, *f32, i32, i32, f32\"");
  CHECK_PART(text, " bin.m=32 bin.n=96 bin.v.extent0=96 bin.v.extent1=32 aligned.n=no aligned.v=yes "
                   "stride.v.0=other stride.v.1=1 config=");
  CHECK_PART(text, " toolchain=");
  free(text);
}

TEST(tune, shapes_stand_for_all_combinations_and_are_not_measured_twice) {
  static const char kernel[] = KERNEL(IN_OUT, CONFIG("128"), COPY);
  char *out = tune(0, "", kernel, "# two\nk n={1000,2000} x=random:n y=zeros:2*n+1\n"), *at = out;
  CHECK_PART(out, "k n=1000: ");
  CHECK_PART(out, "k n=2000: ");
  free(at);
  out = tune(0, "-v", kernel, "k n={1000,2000} x=random:n y=zeros:n\nk n=500 x=random:n y=zeros:n\n");
  CHECK_PART(out, ", as the table says");
  CHECK_PART(out, "k n=500: BLOCK=");
  free(out);
  char *text = table();
  CHECK_PART(text, " bin.n=448 ");
  CHECK_PART(text, " bin.n=896 ");
  CHECK_PART(text, " bin.n=1792 ");
  free(text);
}

TEST(tune, two_devices_share_the_shapes) {
  char *out = tune(0, "--device host:1,host:2", KERNEL(IN_OUT, CONFIG("128"), COPY),
                   "k n={100,200,300,400,500,600} x=random:n y=zeros:n\n");
  CHECK_INT(kiln_test_count(out, "k n="), 6);
  free(out);
  char *text = table();
  CHECK_INT(kiln_test_count(text, "\nkernel=k"), 6);
  free(text);
}

// The application: `kiln run` cannot record, so its file is written here as tests/runtime/test_shape_record.c
// finds it.
TEST(tune, recorded_shapes_are_measured_with_buffers_of_the_users) {
  static const char kernel[] =
      "kiln 1\n\nkernel k[T: type = f32, B: tune = 64](x: in *T, v: in view f32[8, 8], y: out *f32, n: "
      "i32, s: f32)\n"
      "  @instance(T = f32) @grid(cdiv(n, B)) @key(n)\n  @config(B = 64)\n  @config(B = 128)\n"
      "{\n  let i = pid(0) * B + iota(B)\n  store(y + i, load(x + i, i < n) as f32 * s, i < n)\n}\n";
  char options[600];
  snprintf(options, sizeof options, "-v --record %s",
           kiln_test_put("app.shapes",
                         "# kiln shapes: met without a tuned choice; for `kiln tune --record`\n"
                         "k[T=f32] v=[4,8;8,1] n=1000 s=0.5\nelsewhere n=1\nk[T=f32] v=[4,8;8,1] n=3000 s=2\n"
                         "k[T=f32] v=[4,8;8,1] n=3001 s=2\n"));
  char *out = tune(0, options, kernel, "other n=1\nk n=5 s=1 x=random:n*2 y=zeros:n\n");
  CHECK_PART(out, "k[T=f32] n=1000: B=");
  CHECK_PART(out, "k[T=f32] n=3000: B=");
  CHECK_PART(out, "app.shapes:3: ");
  CHECK_PART(out, "has no kernel 'elsewhere': left out");
  CHECK_PART(out, "k[T=f32] n=3001: B="); // its bin is there already
  CHECK_PART(out, ", as the table says");
  CHECK_NO_PART(out, "n=5");
  free(out);
  char *text = table();
  CHECK_PART(text, " bin.n=896 bin.v.extent0=4 bin.v.extent1=8 ");
  CHECK_PART(text, " bin.n=2560 ");
  free(text);
  out = tune(1, options, kernel, "other n=1\n");
  CHECK_PART(
      out, "app.shapes:2: argument 'x' (*f32) of k[T=f32] is missing; a line of --shapes says what buffers");
  free(out);
}

TEST(tune, mistakes_are_named) {
  static const char kernel[] = KERNEL(IN_OUT, "", COPY);
  static const struct {
    const char *shapes, *says;
  } wrong[] = {{"kk n=1 x=ones:1 y=ones:1\n", "shapes:1: "},
               {"kk n=1\n", "has no kernel 'kk'"},
               {"\nk n=1 z=2\n", "shapes:2: 'z=2': kernel k has the parameters x, y, n"},
               {"k n=1 x=ones:1\n", "shapes:1: argument 'y' (*f32) of k is missing"},
               {"k n=1 n=2\n", "shapes:1:7: 'n' is given twice"},
               {"k n={1,2 x=ones:1\n", "shapes:1:5: the brace is not closed"},
               {"k n={1,,2}\n", "shapes:1:8: expected a value"},
               {"k n=m x=ones:1 y=ones:1\n", "shapes:1:5: 'm' is no sum of products"},
               {"k n=n x=ones:1 y=ones:1\n", "shapes:1:5: 'n' is no sum of products"},
               {"k n=9223372036854775807*2 x=ones:1 y=ones:1\n", "is no sum of products"},
               {"k n=x x=ones:1 y=ones:1\n", "'x' is no sum of products"},
               {"k n\n", "shapes:1:3: expected NAME=VALUE, found 'n'\nk n\n  ^\n"},
               {"k n= x=ones:1\n", "expected a value"},
               {"# nothing\n", "has no shape"},
               {"k n=1 x=pear:1 y=ones:1\n", "shapes:1: argument 'x' (*f32): 'pear:1' is not zeros:N"}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char *out = tune(1, "", kernel, wrong[i].shapes);
    char *says = strstr(out, wrong[i].says);
    // the caret stands below the line
    char first[100];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(wrong[i].says, "\n"), wrong[i].says);
    if (!says && !strstr(out, first)) FAIL("text %u: found\n%s", i, out);
    free(out);
  }
}

// How far it is, with the best so far; a lower one comes later, never a higher one that is not measured
// again.
TEST(tune, progress_shows_the_best_so_far) {
  char *out = tune(0, "--progress --all-below 1", KERNEL(IN_OUT, CONFIG("128") CONFIG("256"), COPY),
                   "k n={1000,3000} x=random:n y=zeros:n\n");
  CHECK_PART(out, "[1/2] k n=1000: config 1 of 3\n");
  CHECK_PART(out, "[1/2] k n=1000: config 2 of 3, the best so far ");
  CHECK_PART(out, "[2/2] k n=3000: config 3 of 3, the best so far ");
  CHECK_PART(out, "[2/2] k n=3000: round 1, the best so far ");
  CHECK_PART(out, " us BLOCK=");
  CHECK_NO_PART(out, "\r");
  free(out);
  out = tune(0, "--again", KERNEL(IN_OUT, CONFIG("128"), COPY), SHAPE); // no terminal
  CHECK_NO_PART(out, "best so far");
  free(out);
}

TEST(tune, check_says_whether_choices_hold) {
  static const char kernel[] = KERNEL(IN_OUT, CONFIG("16384"), COPY);
  static const char shape[] = "k n=64 x=random:n y=zeros:n\n";
  char *out = tune(0, "", kernel, shape);
  free(out);
  char *text = table(), *config = strstr(text, " config=BLOCK=64,");
  if (!config) FAIL("the slower config won:\n%s", text);
  out = tune(0, "--check", kernel, shape);
  CHECK_PART(out, "holds   k n=64: BLOCK=64,warps=4\n");
  CHECK_PART(out, "1 of 1 choices hold\n");
  free(out);
  kiln_buffer changed = {0}; // the same choice with the slow config
  kiln_buffer_bytes(&changed, text, (size_t)(config - text));
  kiln_buffer_format(&changed, " config=BLOCK=16384,%s", config + strlen(" config=BLOCK=64,"));
  kiln_buffer_u8(&changed, 0);
  kiln_test_put("t.table", (const char *)changed.bytes);
  out = tune(1, "--check", kernel, shape);
  CHECK_PART(out, "differs k n=64: BLOCK=16384,warps=4; now BLOCK=64,warps=4\n");
  CHECK_PART(out, "0 of 1 choices hold\n");
  free(out);
  out = tune(0, "--check", kernel, "k n=5 x=random:n y=zeros:n\n");
  CHECK_PART(out, "unknown k n=5: the table has no choice for it");
  free(out);
  free(text);
  kiln_buffer_deinit(&changed);
}

// Times of this machine are as they are: what was is written into the table that is compared with.
TEST(tune, gate_finds_a_loss_and_passes_what_is_no_difference) {
  static const char kernel[] = KERNEL(IN_OUT, "", COPY);
  static const char shape[] = "k n=64 x=random:n y=zeros:n\n";
  static const struct {
    const char *ns, *band, *says;
    int code;
  } cases[] = {{"1", "5", "loss k n=64: ", 1},
               {"900000000", "5", "win  k n=64: ", 0},
               {"", "1000", "same k n=64: ", 0}};
  char *out = tune(0, "", kernel, shape);
  free(out);
  char *text = table(), *ns = strstr(text, " ns="), options[400];
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_buffer old = {0};
    size_t digits = strcspn(ns + 4, " ");
    kiln_buffer_bytes(&old, text, (size_t)(ns + 4 - text));
    kiln_buffer_format(&old, "%s%s", *cases[i].ns ? cases[i].ns : "", ns + 4 + (*cases[i].ns ? digits : 0));
    kiln_buffer_u8(&old, 0);
    snprintf(options, sizeof options, "--gate %s --band %s",
             kiln_test_put("old.table", (const char *)old.bytes), cases[i].band);
    out = tune(cases[i].code, options, kernel, shape);
    CHECK_PART(out, cases[i].says);
    CHECK_PART(out, i == 0 ? "1 compared, 1 lost, geomean " : "1 compared, 0 lost, geomean ");
    free(out);
    kiln_buffer_deinit(&old);
  }
  free(text);
}

// By a clock that is the test's own: times of this machine are a matter of luck.
static char *gate(int want, const char *settings, const char *kernel, bool is_gate) {
  char *out, folder[300];
  snprintf(folder, sizeof folder, "%s", kiln_test_folder());
  kiln_test_put("k.kiln", kernel);
  kiln_test_put("shapes", "k n={1000,3000,9000} x=zeros:n y=zeros:n\n");
  int code = kiln_test_run(
      &out,
      "LD_LIBRARY_PATH=%s KILN_CACHE_DIR=%s/cache %s %s/bin/kiln tune -d cuda:0 --budget 0.2 "
      "--judge-limit 0 -s %s/shapes --again %s %s/clock.table %s/k.kiln",
      folder, folder, settings, kiln_test_build(), folder, is_gate ? "--gate" : "-o", folder, folder);
  if (code != want) FAIL("%s: exit status is %d, expected %d:\n%s", settings, code, want, out);
  return out;
}

TEST(tune, gate_catches_a_loss_of_a_tenth_and_passes_noise) {
  static const char kernel[] = KERNEL(IN_OUT, CONFIG("128"), COPY),
                    longer[] =
                        KERNEL(IN_OUT, CONFIG("128"), "store(y + i, exp(load(x + i, live)) + 1.0, live)");
  char settings[100], *out;
  if (kiln_test_run(&out, "gcc -shared -fPIC -O1 -o %s/libcuda.so.1 tests/emulation/cuda_clock.c",
                    kiln_test_folder()))
    FAIL("%s", out);
  free(out);
  free(gate(0, "FAKE_NOISE=30 FAKE_SEED=1000", kernel, false));
  for (unsigned seed = 1; seed <= 6; seed++) {
    snprintf(settings, sizeof settings, "FAKE_NOISE=30 FAKE_SEED=%u", seed);
    out = gate(0, settings, kernel, true);
    CHECK_PART(out, "3 compared, 0 lost, geomean ");
    CHECK_PART(out, " x; the same code\n");
    CHECK_NO_PART(out, "win ");
    free(out);
    snprintf(settings, sizeof settings, "FAKE_PERCENT=110 FAKE_NOISE=30 FAKE_SEED=%u", seed);
    out = gate(1, settings, kernel, true);
    CHECK_PART(out, "loss k n=1000: ");
    CHECK_PART(out, "3 compared, 3 lost, geomean 0.9");
    free(out);
  }
  out = gate(0, "FAKE_PERCENT=90", kernel, true);
  CHECK_PART(out, "win  k n=9000: ");
  free(out);
  out = gate(1, "FAKE_PERCENT=110", longer, true); // the code is another one, too
  CHECK_PART(out, "3 compared, 3 lost, geomean 0.9");
  CHECK_NO_PART(out, "the same code");
  free(out);
}

static unsigned lines_of(const char *path) {
  unsigned count = 0;
  char *text = kiln_test_read(path, NULL);
  for (const char *c = text; c && *c; c++) count += *c == '\n';
  free(text);
  return count;
}

// Devices take shapes from one queue, and a line is printed where a shape ends. Each device is at one shape,
// so after a line come at most as many that stand before it in the queue as there are other devices.
static void expect_queue(const char *out, const char *const *queue, unsigned devices) {
  for (size_t i = 0; queue[i]; i++) {
    const char *at = strstr(out, queue[i]);
    unsigned late = 0;
    if (!at) FAIL("no line of %s in:\n%s", queue[i], out);
    for (size_t before = 0; before < i; before++) late += strstr(out, queue[before]) > at;
    if (late >= devices) FAIL("%u shapes of before '%s' end behind it:\n%s", late, queue[i], out);
  }
}

// A context of a GPU takes longer to make than most kernels to measure: a device has one process for all
// shapes and kernels, and another one only where that died. One device takes shapes as they are written,
// several take those of a kernel together, the largest first.
TEST(tune, a_device_has_one_process_for_all_shapes) {
  static const char source[] =
      "kiln 1\n\nkernel k[B: tune = 64](y: inout *f32, n: i32)\n  @grid(cdiv(n, B)) @key(n) @config(B = 64) "
      "@config(B = 128)\n"
      "{\n  let i = pid(0) * B + iota(B)\n  store(y + i, load(y + i, i < n) + 1.0, i < n)\n}\n\n"
      "kernel l[B: tune = 32](y: out *f32, n: i32)\n  @grid(n) @key(n) @config(B = 32) @config(B = 16)\n"
      "{\n  store(y + pid(0) + iota(B), 1.0)\n}\n";
  static const char *const written[] = {"k n=100: ", "k n=200: ", "k n=400: ",  "l n=300: ",
                                        "l n=600: ", "k n=800: ", "k n=1600: ", NULL},
                           *const largest_first[] = {"k n=1600: ", "k n=800: ", "k n=400: ", "k n=200: ",
                                                     "k n=100: ",  "l n=300: ", "l n=600: ", NULL};
  static const struct {
    const char *device, *happens; // a file that the driver takes away
    const char *says;             // what is in it
    unsigned devices, processes, dropped;
    const char *const *queue;
  } cases[] = {
      {"cuda:0", NULL, "", 1, 1, 0, written},
      {"cuda:0", "die", "", 1, 2, 0, written}, // while the arguments are checked, which no config pays for
      {"cuda:0", "die", "10", 1, 2, 1, written},
      {"cuda:0,cuda:1", NULL, "", 2, 2, 0, largest_first},
      {"cuda:0,cuda:1", "stall", "", 2, 2, 0, largest_first}};
  const char *folder = kiln_test_folder(), *build = kiln_test_build();
  char *out, words[1000], says[100];
  kiln_test_put("k.kiln", source);
  kiln_test_put("shapes", "k n={100,200,400} y=iota:n\nl n={300,600} y=zeros:700\nk n={800,1600} y=iota:n\n");
  if (kiln_test_run(&out, "gcc -shared -fPIC -O1 -o %s/libcuda.so.1 tests/emulation/cuda_clock.c", folder))
    FAIL("%s", out);
  free(out);
  snprintf(words, sizeof words, "build --tuning -t sm_90 --ptx-assembler=none -o %s %s",
           kiln_test_path("k.kbundle"), kiln_test_path("k.kiln"));
  free(kiln(0, words));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unlink(kiln_test_path("contexts"));
    unlink(kiln_test_path("c.table"));
    if (cases[i].happens) kiln_test_put(cases[i].happens, cases[i].says);
    int code = kiln_test_run(
        &out,
        "LD_LIBRARY_PATH=%s FAKE_LOG=%s FAKE_DIE=%s FAKE_STALL=%s %s/bin/kiln tune -v -d %s --budget "
        "0.1 --judge-limit 0 -s %s/shapes -o %s/c.table %s/k.kbundle",
        folder, kiln_test_path("contexts"), kiln_test_path("die"), kiln_test_path("stall"), build,
        cases[i].device, folder, folder, folder);
    if (code) FAIL("exit status is %d:\n%s", code, out);
    snprintf(says, sizeof says, "; %u processes\n", cases[i].processes);
    CHECK_PART(out, says);
    CHECK_INT(lines_of(kiln_test_path("contexts")), cases[i].processes);
    const unsigned dropped = kiln_test_count(out, "dropped ");
    CHECK_INT(dropped, cases[i].dropped);
    if (cases[i].dropped) CHECK_PART(out, "the process ended with exit status 3");
    expect_queue(out, cases[i].queue, cases[i].devices);
    free(out);
    CHECK_INT(lines_of(kiln_test_path("c.table")), 1 + 7);
  }
}

// Two kernels are two bundles: the second is compiled while the first is measured, what no shape names is not
// compiled at all, and what is found is kept where a later one is not there.
TEST(tune, kernels_are_compiled_while_others_are_measured) {
  static const char source[] =
      "kiln 1\n\nkernel k[B: tune = 64](y: out *f32, n: i32)\n  @grid(cdiv(n, B)) @config(B = 64) @config(B "
      "= 128)\n"
      "{\n  let i = pid(0) * B + iota(B)\n  store(y + i, zeros(f32[B]), i < n)\n}\n\n"
      "kernel l(y: out *f32, n: i32)\n  @grid(n)\n{\n  store(y + pid(0), 1.0)\n}\n\n"
      "kernel unnamed[B: tune = 2097152](y: out *f32)\n  @grid(1)\n{\n  store(y + iota(B), "
      "zeros(f32[B]))\n}\n";
  const char *folder = kiln_test_folder(), *build = kiln_test_build();
  char *out;
  kiln_test_put("k.kiln", source);
  if (kiln_test_run(&out, "gcc -shared -fPIC -O1 -o %s/libcuda.so.1 tests/emulation/cuda_clock.c", folder))
    FAIL("%s", out);
  free(out);
  for (unsigned bad = 0; bad < 2; bad++) {
    kiln_test_put("shapes", bad ? "k n=100 y=zeros:n\nelse n=1\n"
                                : "k n={100,200} y=zeros:n\nl n=300 y=zeros:n\nk n=400 y=zeros:n\n");
    unlink(kiln_test_path("c.table"));
    int code =
        kiln_test_run(&out,
                      "LD_LIBRARY_PATH=%s KILN_CACHE_DIR=%s/cache %s/bin/kiln tune -d cuda:0 --budget 0.1 "
                      "--judge-limit 0 -s %s/shapes -o %s/c.table %s/k.kiln",
                      folder, folder, build, folder, folder, folder);
    if (code != (int)bad) FAIL("exit status is %d:\n%s", code, out);
    CHECK_PART(out, "k n=100: ");
    CHECK_NO_PART(out, "the limit is");
    if (bad) CHECK_PART(out, "no kernel is called 'else'");
    else {
      CHECK_PART(out, "k n=400: ");
      CHECK_PART(out, "l n=300: ");
    }
    free(out);
    char *text = kiln_test_read(kiln_test_path("c.table"), NULL);
    CHECK_PART(text, "kernel=k ");
    free(text);
  }
}

TEST(tune, merge_is_the_same_in_any_order) {
  char words[1000], *out;
  kiln_test_put("a", HEAD ENTRY("k", "64", "a") " date=2026-01-02T00:00:00Z\n" ENTRY("k", "80", "b") "\n");
  kiln_test_put("b", HEAD ENTRY("k", "64", "c") " date=2026-01-01T00:00:00Z\n" ENTRY("l", "64", "d") "\n");
  snprintf(words, sizeof words, "tune --merge -o %s %s %s", kiln_test_path("ab"), kiln_test_path("a"),
           kiln_test_path("b"));
  free(kiln(0, words));
  snprintf(words, sizeof words, "tune --merge -o %s %s %s %s", kiln_test_path("ba"), kiln_test_path("b"),
           kiln_test_path("a"), kiln_test_path("b"));
  free(kiln(0, words));
  char *ab = kiln_test_read(kiln_test_path("ab"), NULL), *ba = kiln_test_read(kiln_test_path("ba"), NULL);
  CHECK_TEXT(ba, ab);
  CHECK_PART(ab, "bin.n=64 config=a id=");
  CHECK_NO_PART(ab, "config=c");
  kiln_test_put("bad", HEAD ENTRY("k", "65", "a") "\n");
  snprintf(words, sizeof words, "tune --merge -o %s %s", kiln_test_path("ab"), kiln_test_path("bad"));
  out = kiln(1, words);
  CHECK_PART(out, "bad:2:70: 65 is not the least number of its bin, which is written 64");
  CHECK_PART(out, "bin.n=65 config=a\n" /* the caret is below the number */);
  free(ab), free(ba), free(out);
}
