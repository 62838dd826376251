// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs commands in odd surroundings: closed standard descriptors, a limit on the size of files, devices and
// FIFOs as outputs, files of 100 GB, names that make and ninja read in their own way. Each does what was asked
// for or ends with one line that says why not.
#include "tests/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static const char source[] =
    "kiln 1\n"
    "kernel add[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, BLOCK)) @config(BLOCK = 64, "
    "warps = 2)\n"
    "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  store(y + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

// Runs `command` in the folder of the test, with `kiln` in the path and a cache of its own.
static int run(char **out, const char *command) {
  return kiln_test_run(
      out, "cd %s && PATH=%s/bin:$PATH KILN_CACHE_DIR=%s/cache && export PATH KILN_CACHE_DIR && %s",
      kiln_test_folder(), kiln_test_build_path(), kiln_test_folder(), command);
}

static void must(const char *command) {
  char *out;
  int code = run(&out, command);
  if (code) FAIL("%s: %d\n%s", command, code, out);
  free(out);
}

static void prepare(void) {
  kiln_test_put("add.kiln", source);
  kiln_test_put("shapes", "add x=ones:64 y=ones:64 n=64\n");
  must("kiln build -q add.kiln -t host,sm_80 --ptx-assembler=none -o a.kbundle && kiln cache keygen key && "
       "kiln tune -o first.tuned --device null --shapes shapes a.kbundle >tuned.log 2>&1 || true");
}

// Every command that writes a file for its user; OUT is the file.
static const char *const writers[] = {
    "kiln build -q add.kiln -t host -o OUT",
    "kiln build -q add.kiln -t sm_80 --ptx-assembler=none -o other.kb --depfile OUT",
    "kiln build -q add.kiln -t host -o other.kb --trace OUT",
    "kiln compile add.kiln -t host -o OUT",
    "kiln compile add.kiln -t sm_80 --emit=ptx -o OUT",
    "kiln compile add.kiln -t host --emit=ir -o OUT",
    "kiln cache export OUT",
    "kiln embed -o OUT a.kbundle",
    "kiln header -o OUT a.kbundle",
    "kiln merge -o OUT a.kbundle",
    "kiln split --arch sm_80 -o OUT a.kbundle",
    "kiln prune --drop-target sm_80 -o OUT a.kbundle",
    "kiln fix-index -o OUT a.kbundle",
    "kiln sign --key key -o OUT a.kbundle",
    "kiln report -o OUT a.kbundle",
    "kiln run a.kbundle add -a x=ones:4000 -a y=zeros:4000 -a n=4000 --save y=OUT",
};
enum { WRITERS = sizeof writers / sizeof *writers };

// `before`, then the command with `to` in place of OUT, then `after`.
static int write_to(char **out, const char *before, const char *writer, const char *to, const char *after) {
  char command[1500];
  const char *at = strstr(writer, "OUT");
  snprintf(command, sizeof command, "{ %s %.*s%s%s %s; }", before, (int)(at - writer), writer, to, at + 3,
           after);
  return run(out, command);
}

static bool is_same(const char *a, const char *b) {
  char command[200];
  snprintf(command, sizeof command, "cmp -s %s %s", a, b);
  return !run(NULL, command);
}

TEST(surroundings, closed_descriptors) {
  static const char *const closed[] = {"2>&-", "1>&-", "0<&-", "0<&- 1>&- 2>&-", "1>&- 2>&-", "0<&- 2>&-"};
  char *out;
  prepare();
  for (size_t w = 0; w < WRITERS; w++) {
    bool has_time = strstr(writers[w], "--trace") != NULL; // of each run
    run(NULL, "rm -f other.kb whole part");
    if (write_to(&out, "", writers[w], "whole", "")) FAIL("%s: %s", writers[w], out);
    for (size_t c = 0; c < sizeof closed / sizeof *closed; c++) {
      run(NULL, "rm -f part");
      int code = write_to(&out, "", writers[w], "part", closed[c]);
      if (code) FAIL("%s %s: %d, %s", writers[w], closed[c], code, out);
      free(out);
      if (!has_time && !is_same("whole", "part")) FAIL("%s %s: another file", writers[w], closed[c]);
    }
  }
  // What is printed to a closed descriptor goes nowhere, least of all into a file.
  kiln_test_put("wrong.kiln",
                "kiln 1\nkernel k(x: in *f32) @grid(1) @config(warps = 1) { let a = nothing }\n");
  CHECK_INT(run(NULL, "cp a.kbundle old.kb && { kiln build wrong.kiln -t host -o old.kb 2>&-; }"), 1);
  CHECK(is_same("old.kb", "a.kbundle"));
  CHECK_INT(run(&out, "{ kiln compile add.kiln -t sm_80 --emit=ptx -o - >&-; } "), 1);
  if (!strstr(out, "cannot write standard output: ")) FAIL("%s", out);
  CHECK_INT(run(&out, "kiln compile - -t host -o x.o <&-"), 1);
  if (!strstr(out, "kiln: error: ")) FAIL("%s", out);
}

TEST(surroundings, a_limit_on_the_size_of_files) {
  char *out;
  unsigned failed = 0;
  prepare();
  for (size_t w = 0; w < WRITERS; w++) {
    run(NULL, "rm -f other.kb; printf before > part");
    // Half a KiB: no bundle, object or report fits, and nothing of the cache.
    int code = write_to(&out, "ulimit -f 1; KILN_CACHE_DIR=$PWD/small", writers[w], "part", "");
    if (code > 1) FAIL("%s: %d, %s", writers[w], code, out);
    failed += code == 1;
    if (code == 1 && (!strstr(out, "kiln: error: ") || !is_same("part", "part")))
      FAIL("%s: %s", writers[w], out);
    free(out);
    if (code == 1 && run(&out, "printf before | cmp - part"))
      FAIL("%s: the former file is gone: %s", writers[w], out);
    if (run(&out, "! ls -A | grep -q '^.kiln-'")) FAIL("%s leaves files", writers[w]);
  }
  CHECK(failed > WRITERS / 2);
}

TEST(surroundings, devices_and_fifos_as_outputs) {
  char device[512], *out;
  struct stat st;
  prepare();
  snprintf(device, sizeof device, "%s/null", kiln_test_folder());
  bool has_device = !mknod(device, S_IFCHR | 0666, makedev(1, 3)) && !run(NULL, "echo x > null");
  for (size_t w = 0; w < WRITERS; w++) {
    bool has_time = strstr(writers[w], "--trace") != NULL;
    run(NULL, "rm -f other.kb whole got fifo; mkfifo fifo");
    if (write_to(&out, "", writers[w], "whole", "")) FAIL("%s: %s", writers[w], out);
    if (write_to(&out, "cat fifo > got &", writers[w], "fifo", "; wait"))
      FAIL("%s to a FIFO: %s", writers[w], out);
    if (!has_time && !is_same("whole", "got")) FAIL("%s: a FIFO gives another file", writers[w]);
    if (run(NULL, "test -p fifo")) FAIL("%s replaced a FIFO", writers[w]);
    if (!has_device) continue;
    if (write_to(&out, "", writers[w], "null", "")) FAIL("%s to a device: %s", writers[w], out);
    CHECK(!lstat(device, &st));
    if (!S_ISCHR(st.st_mode)) FAIL("%s replaced a device", writers[w]);
  }
  if (!has_device) SKIP("no device can be made here: FIFOs only");
}

// A file that is 100 GB long and takes no place: sizes are compared before memory is asked for.
TEST(surroundings, files_of_100_gigabytes) {
  static const char *const readers[] = {
      "kiln compile huge -t host -o y",
      "kiln build huge -t host -o y",
      "kiln inspect huge",
      "kiln verify huge",
      "kiln run huge add",
      "kiln sign --key key huge",
      "kiln embed -o y huge",
      "kiln header -o y huge",
      "kiln tune --merge -o y huge",
      "kiln cache import huge",
      "kiln merge -o y a.kbundle huge",
      "kiln fix-index -o y huge",
      "kiln bundle-write -q -o y huge",
      "kiln translate huge",
      "kiln key huge -t host",
      "kiln diff a.kbundle huge",
      "kiln tune -o y --device null --shapes huge a.kbundle",
      "kiln build add.kiln -t host --tuned huge -o y",
      "kiln verify --key huge a.kbundle",
      "kiln run a.kbundle add -a x=@huge -a y=zeros:64 -a n=64",
      "kiln run a.kbundle add -a x=ones:64 -a y=zeros:64 -a n=64 --compare y=huge",
      "kiln compile @huge",
      "kiln explain huge add",
      "kiln disasm huge add",
      "kiln stat huge",
      "kiln report -o y huge",
      "kiln split --arch sm_80 -o y huge",
      "kiln prune -o y huge"};
  char command[400], *out;
  prepare();
  if (run(NULL, "truncate -s 100G huge")) SKIP("the file system has no files of 100 GB");
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    snprintf(command, sizeof command, "%s; %s", KILN_TEST_GIGABYTE, readers[i]);
    int code = run(&out, command);
    if (code != 1 && code != 2) FAIL("%s: %d, %s", readers[i], code, out);
    if (!strstr(out, "kiln: error: ") || strstr(out, " 0 bytes")) FAIL("%s: %s", readers[i], out);
    free(out);
  }
  CHECK_INT(run(&out, KILN_TEST_GIGABYTE "; kiln verify huge"), 1);
  if (!strstr(out, "107374182400 bytes")) FAIL("%s", out);
}

// ---------------------------------------------------------------------------------- dependency files

static const char usual[] = "abcd01._+,-", unusual[] = "\\ #$:%[](){}~!@\xc3\xa4",
                  others[] = "*?&;|<>^`='\"\t\n\r\x1b\x7f";

// A name of up to 12 bytes; most of them are none of a file's usual.
static void draw_name(uint64_t *random, char *out) {
  size_t length = 1 + kiln_test_random(random) % 12;
  for (size_t i = 0; i < length; i++) {
    uint64_t kind = kiln_test_random(random) % 24, which = kiln_test_random(random);
    out[i] = kind > 10 ? usual[which % (sizeof usual - 1)]
             : kind    ? unusual[which % (sizeof unusual - 1)]
                       : others[which % (sizeof others - 1)];
  }
  memcpy(out + length, ".kiln", 6);
}

static void write_at(const char *folder, const char *name, const char *text) {
  char path[700];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  kiln_test_write(path, text, strlen(text));
}

// Runs a program with these words in `folder`; nothing of them is read by a shell.
static int call(const char *folder, char *const words[]) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    if (chdir(folder) || !freopen("said", "w", stderr) || !freopen("printed", "w", stdout)) _exit(126);
    execvp(words[0], words);
    _exit(127);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Whether make and ninja find the bundle older than its source after the source was touched, and not before.
static void check_tools(const char *folder, const char *target, const char *name, bool has_ninja) {
  char path[700], *text;
  char *const make[] = {"make", "-rR", "-f", "Makefile", "-q", NULL};
  char *const ninja[] = {"ninja", "-n", NULL};
  for (int touched = 0; touched < 2; touched++) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct timespec times[2] = {{.tv_sec = touched ? 3000000000 : 1000},
                                {.tv_sec = touched ? 3000000000 : 1000}};
    CHECK(!utimensat(AT_FDCWD, path, times, 0));
    snprintf(path, sizeof path, "%s/said", folder);
    int code = call(folder, make);
    if (code != touched)
      FAIL("make, source '%s' %s: %d, %s", name, touched ? "newer" : "older", code,
           kiln_test_read(path, NULL));
    if (!has_ninja) continue;
    snprintf(path, sizeof path, "%s/printed", folder);
    CHECK_INT(call(folder, ninja), 0);
    text = kiln_test_read(path, NULL);
    if ((strstr(text, "no work to do") == NULL) != (touched != 0))
      FAIL("ninja, source '%s' %s: %s", name, touched ? "newer" : "older", text);
    free(text);
  }
  (void)target;
}

TEST(surroundings, dependency_files_name_what_was_read) {
  char kiln[512], folder[512], name[32], *text, path[700];
  uint64_t random = (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
  unsigned written = 0, refused = 0, tries = kiln_test_full() ? 2000 : 150;
  static const char *const fixed[] = {"a:b.kiln",   "a b.kiln",  "a\nb.kiln",  "a#b.kiln",    "a$b.kiln",
                                      "c:.kiln",    "a\\b.kiln", "a\\ b.kiln", "\\\\ a.kiln", "a\tb.kiln",
                                      "a\\#b.kiln", "a%b.kiln",  "d=e.kiln"};
  enum { FIXED = sizeof fixed / sizeof *fixed };
  fprintf(stderr, "seed %llu\n", (unsigned long long)random);
  snprintf(kiln, sizeof kiln, "%s/bin/kiln", kiln_test_build_path());
  snprintf(folder, sizeof folder, "%s/d", kiln_test_folder());
  bool has_ninja = !run(NULL, "ninja --version");
  prepare();
  for (unsigned i = 0; i < tries; i++) {
    run(NULL, "rm -rf d && mkdir d");
    if (i < FIXED) snprintf(name, sizeof name, "%s", fixed[i]);
    else draw_name(&random, name);
    // A name that begins like an option or @file, or that is a path, is another matter.
    if (*name == '-' || *name == '@' || *name == '.' || strchr(name, '/')) continue;
    write_at(folder, name, source);
    write_at(folder, "Makefile", "out.kb:\n\t@false\n-include out.d\n");
    write_at(folder, "build.ninja", "rule r\n  command = false\n  depfile = out.d\nbuild out.kb: r\n");
    char *const build[] = {kiln,        "build", "-q", name,     "-t", "sm_80", "--ptx-assembler=none",
                           "--depfile", "out.d", "-o", "out.kb", NULL};
    int code = call(folder, build);
    snprintf(path, sizeof path, "%s/said", folder);
    text = kiln_test_read(path, NULL);
    if (code && !strstr(text, "cannot be named in a dependency file")) FAIL("'%s': %d, %s", name, code, text);
    free(text);
    refused += code != 0;
    if (code) continue;
    written++;
    snprintf(path, sizeof path, "%s/out.kb", folder);
    struct timespec times[2] = {{.tv_sec = 2000000000}, {.tv_sec = 2000000000}};
    CHECK(!utimensat(AT_FDCWD, path, times, 0));
    if (has_ninja) { // ninja must have made it once, by this command
      write_at(folder, "build.ninja", "rule r\n  command = true\n  depfile = out.d\nbuild out.kb: r\n");
      snprintf(path, sizeof path, "%s/%s", folder, name);
      struct timespec early[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
      CHECK(!utimensat(AT_FDCWD, path, early, 0));
      call(folder, (char *const[]){"ninja", NULL});
    }
    check_tools(folder, "out.kb", name, has_ninja);
  }
  fprintf(stderr, "%u names written, %u refused\n", written, refused);
  CHECK(written > tries / 10 && refused > 0);
  if (!has_ninja) SKIP("ninja is not installed: make only");
}

// The bundle's own name before the colon.
TEST(surroundings, dependency_files_name_the_bundle) {
  static const char *const names[] = {"a:b.kb", "a b.kb",  "a$b.kb", "a#b.kb", "a\\b.kb", "a%b.kb",
                                      "a=b.kb", "a\nb.kb", "a&",     "b\\",    "c(1)",    "~d"};
  char kiln[512], folder[512], path[700], makefile[200], *text;
  snprintf(kiln, sizeof kiln, "%s/bin/kiln", kiln_test_build_path());
  snprintf(folder, sizeof folder, "%s/d", kiln_test_folder());
  prepare();
  unsigned written = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    run(NULL, "rm -rf d && mkdir d");
    write_at(folder, "s.kiln", source);
    char *const build[] = {
        kiln,        "build", "-q", "s.kiln",         "-t", "sm_80", "--ptx-assembler=none",
        "--depfile", "out.d", "-o", (char *)names[i], NULL};
    int code = call(folder, build);
    snprintf(path, sizeof path, "%s/said", folder);
    text = kiln_test_read(path, NULL);
    if (code && !strstr(text, "cannot be named in a dependency file"))
      FAIL("'%s': %d, %s", names[i], code, text);
    free(text);
    if (code) continue;
    written++;
    // make is asked for the file by its own name, as a word of the command line.
    snprintf(makefile, sizeof makefile, "include out.d\n%%.kb:\n\t@false\n");
    write_at(folder, "Makefile", makefile);
    snprintf(path, sizeof path, "%s/s.kiln", folder);
    for (int touched = 0; touched < 2; touched++) {
      struct timespec times[2] = {{.tv_sec = touched ? 3000000000 : 1000},
                                  {.tv_sec = touched ? 3000000000 : 1000}};
      CHECK(!utimensat(AT_FDCWD, path, times, 0));
      char *const make[] = {"make", "-rR", "-q", NULL};
      if (call(folder, make) != touched)
        FAIL("make, bundle '%s', source %s", names[i], touched ? "newer" : "older");
    }
  }
  CHECK(written >= 4);
}
