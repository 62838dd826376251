// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every command that reads a file, given something that is none: devices without an end, pipes that never
// stop, FIFOs that nobody writes, folders, sockets, files of /proc, sparse files of a terabyte. Each command
// ends by itself, soon, in little memory, with an error that names the file.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/harness.h"

static const char source[] = "kiln 1\nkernel k(x: in *f32, y: out *f32, n: i32) @grid(1) @config(warps = 1)\n"
                             "{\n  let i = iota(32)\n  store(y + i, load(x + i, i < n), i < n)\n}\n";

/// What a command does with the file, which stands for %s or, where the command has none, is the target of
/// the link `at`.
typedef enum takes {
  BUNDLE, // refuses all but a regular file, at once
  TEXT,   // reads to a limit; waits a while for the writer of a FIFO
  ASIDE,  // may go on without it
} takes;
static const struct {
  takes takes;
  const char *words, *at;
} commands[] = {
    {BUNDLE, "kiln verify %s", NULL},
    {BUNDLE, "kiln verify good.kbundle %s", NULL},
    {BUNDLE, "kiln verify --json %s", NULL},
    {BUNDLE, "kiln verify --key=key.pub %s", NULL},
    {TEXT, "kiln verify --key=%s good.kbundle", NULL},
    {BUNDLE, "kiln sign --key=key %s", NULL},
    {BUNDLE, "kiln sign --key=key -o out.kbundle %s", NULL},
    {TEXT, "kiln sign --key=%s -o out.kbundle good.kbundle", NULL},
    {BUNDLE, "kiln merge -o out.kbundle %s", NULL},
    {BUNDLE, "kiln merge -o out.kbundle good.kbundle %s", NULL},
    {BUNDLE, "kiln merge --sign=key -o out.kbundle signed.kbundle %s", NULL},
    {TEXT, "kiln merge --sign=%s -o out.kbundle good.kbundle", NULL},
    {TEXT, "kiln merge --sign=key --trust=%s -o out.kbundle signed.kbundle", NULL},
    {BUNDLE, "kiln split --arch=host -o out.kbundle %s", NULL},
    {BUNDLE, "kiln split --sign=key --arch=host -o out.kbundle %s", NULL},
    {BUNDLE, "kiln prune --drop-kernel=k -o out.kbundle %s", NULL},
    {BUNDLE, "kiln prune --sign=key --drop-kernel=k -o out.kbundle %s", NULL},
    {BUNDLE, "kiln fix-index -o out.kbundle %s", NULL},
    {BUNDLE, "kiln fix-index --sign=key -o out.kbundle %s", NULL},
    {BUNDLE, "kiln inspect %s", NULL},
    {BUNDLE, "kiln inspect --json %s", NULL},
    {BUNDLE, "kiln stat %s", NULL},
    {BUNDLE, "kiln report %s", NULL},
    {BUNDLE, "kiln diff good.kbundle %s", NULL},
    {BUNDLE, "kiln diff %s good.kbundle", NULL},
    {BUNDLE, "kiln explain %s k", NULL},
    {BUNDLE, "kiln disasm %s k", NULL},
    {BUNDLE, "kiln header %s", NULL},
    {BUNDLE, "kiln embed %s", NULL},
    {BUNDLE, "kiln run %s k", NULL},
    {TEXT, "kiln run good.kbundle k -a x=@%s -a y=zeros:32 -a n=4", NULL},
    {TEXT, "kiln run good.kbundle k -a x=ones:32 -a y=zeros:32 -a n=4 --compare=y=%s", NULL},
    {TEXT, "kiln tune -o out.tuned --shapes shapes %s", NULL},
    {TEXT, "kiln tune -o out.tuned --shapes %s good.kbundle", NULL},
    {TEXT, "kiln tune -o out.tuned --shapes shapes --record %s good.kbundle", NULL},
    {TEXT, "kiln bundle-write -o out.kbundle %s", NULL},
    {TEXT, "kiln bundle-write -o out.kbundle --sign=%s manifest", NULL},
    {TEXT, "kiln build -t host -o out.kbundle %s", NULL},
    {TEXT, "kiln build -t host -o out.kbundle --tuned=%s k.kiln", NULL},
    {TEXT, "kiln build -t host -o out.kbundle --sign=%s k.kiln", NULL},
    {TEXT, "kiln compile -t host %s", NULL},
    {TEXT, "kiln key -t host %s", NULL},
    {TEXT, "kiln translate %s", NULL},
    {ASIDE, "kiln import-triton -t host -o out.kbundle %s", NULL},
    {ASIDE, "kiln check-case %s", NULL},
    {TEXT, "kiln cache import %s", NULL},
    {ASIDE, "kiln cache merge %s", NULL},
    {TEXT, "kiln cache trust add someone %s", NULL},
    {TEXT, "kiln cache sign --key=%s", NULL},
    {TEXT, "kiln compile @%s", NULL},
    {TEXT, "kiln compile -t sm_80 --assembler-path=%s k.kiln", NULL},
    {TEXT, "kiln build -t sm_80 -o out.kbundle --assembler-path=%s k.kiln", NULL},
    {TEXT, "kiln tune --merge -o out.tuned %s", NULL},
    {ASIDE, "env KILN_SIGN_KEY=%s kiln build -t host -o out.kbundle k.kiln", NULL},
    {TEXT, "kiln-ptx %s", NULL},
    {TEXT, "kiln-ptx --buffer=%s k.ptx", NULL},
    {ASIDE, "kiln verify - <%s", NULL},
    {ASIDE, "kiln sign --key=key -o out.kbundle - <%s", NULL},
    {ASIDE, "kiln compile -t host - <%s", NULL},
    {ASIDE, "kiln bundle-write -o out.kbundle <%s", NULL},
    {ASIDE, "env KILN_TRUST=warn KILN_TRUST_FILE=%s kiln build -t host -o out.kbundle k.kiln", NULL},
    {ASIDE, "env KILN_CACHE_DIR=%s kiln build -t host -o out.kbundle k.kiln", NULL},
    {ASIDE, "kiln cache stats --cache-dir=%s", NULL},
    {ASIDE, "env KILN_CACHE_LAYERS=%s kiln build -t host -o out.kbundle k.kiln", NULL},
    {ASIDE, "kiln check-case case", "case/kernel.ttir"},
    {ASIDE, "kiln check-case facts", "facts/case.json"},
    {ASIDE, "kiln import-triton -t host -o out.kbundle case", "case/kernel.ttir"},
    {ASIDE, "kiln build -t host -o out.kbundle facts/kernel.ttir", "facts/kernel.json"},
    {ASIDE, "kiln import-triton -t host -o out.kbundle facts", "facts/kernel.json"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

typedef struct file {
  const char *path;    // in the folder, or absolute
  const char *prelude; // of the command: what feeds it
} file;
#define FEED(what) "{ " what "; } >fifo 2>/dev/null & feeder=$!;"
static const file files[] = {
    {"/dev/zero", NULL},
    {"/dev/urandom", NULL},
    {"/dev/full", NULL},
    {"/dev/null", NULL},
    {"/proc/self/pagemap", NULL}, // endless, and regular with a size of 0
    {"/proc/self/mem", NULL},
    {"sparse", NULL},
    {"begun", NULL}, // begins like a bundle
    {"folder", NULL},
    {"socket", NULL},
    {"empty", NULL},
    {"fifo", FEED("cat /dev/zero")},
    {"fifo", FEED("cat good.kbundle /dev/zero")},
    {"lone", NULL},
};
enum { FILES = sizeof files / sizeof *files };

// What a pipe without an end is read up to, and as much again for the buffer that grows.
#if KILN_TEST_SANITIZED
#define LIMIT KILN_TEST_GIGABYTE
#else
#define LIMIT "ulimit -v 4194304"
#endif

static void make_files(const char *folder) {
  char *out, path[600];
  snprintf(path, sizeof path, "%s/k.kiln", folder);
  kiln_test_write(path, source, sizeof source - 1);
  if (kiln_test_run(&out,
                    "PATH=%s/bin:$PATH; cd %s && umask 077 && export KILN_CACHE_DIR=$PWD/cache && "
                    "echo k x=ones:32 y=zeros:32 n=4 >shapes && "
                    "kiln build -q -t host -o good.kbundle k.kiln && kiln cache keygen key && "
                    "kiln sign --key=key -o signed.kbundle good.kbundle && "
                    "kiln compile -t sm_80 --ptx-assembler=none --emit=ptx -o k.ptx k.kiln && "
                    "truncate -s 1T sparse && cp good.kbundle begun && truncate -s 1T begun && "
                    "mkdir folder case facts && : >empty && : >manifest && mkfifo fifo lone && "
                    "echo '{}' >case/case.json && echo 'module {}' >facts/kernel.ttir",
                    kiln_test_build_path(), folder))
    FAIL("%s", out);
  free(out);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  int s = socket(AF_UNIX, SOCK_STREAM, 0), here = open(".", O_RDONLY | O_DIRECTORY);
  CHECK(!chdir(folder)); // its path has room for 108 bytes
  snprintf(name.sun_path, sizeof name.sun_path, "socket");
  CHECK(!bind(s, (struct sockaddr *)&name, sizeof name));
  CHECK(!fchdir(here));
  close(s);
  close(here);
}

static bool is(const file *f, const char *path) { return !strcmp(f->path, path); }

/// An empty table, nothing to merge: that may be right.
static bool is_empty(const file *f) { return is(f, "/dev/null") || is(f, "empty") || is(f, "folder"); }

/// What is wrong with how a command ended; NULL: nothing.
static const char *fault_of(size_t c, const file *f, int code, const char *out) {
  bool may_go_on =
      commands[c].takes == ASIDE || is_empty(f) ||
      (is(f, "begun") && strstr(commands[c].words, "fix-index")); // an archive, with zeros after it
  const char *path = commands[c].at ? commands[c].at : f->path, *slash = strrchr(path, '/');
  bool is_regular = is(f, "sparse") || is(f, "begun") || is(f, "empty") || !strncmp(f->path, "/proc", 5);
  if (code != 1 && code != 2 && !(may_go_on && !code)) return "is no error, or none of its own";
  if (!may_go_on && !strstr(out, slash ? slash + 1 : path)) return "does not name the file";
  if (commands[c].takes == BUNDLE && !is_regular && !strstr(out, "not a regular file") &&
      !strstr(out, "irectory") && !strstr(out, "No such device")) // that of a socket, which cannot be opened
    return "does not say that the file is no regular one";
  if (strstr(out, "no memory")) return "reads until memory ends";
  return strlen(out) > 3000 ? "says too much" : NULL;
}

/// 1 for a fault.
static unsigned judge(size_t c, const file *f, const char *words, int code, const char *out) {
  const char *fault = fault_of(c, f, code, out);
  if (fault) fprintf(stderr, "%s: %s; exit %d\n%s", words, fault, code, out);
  return fault != NULL;
}

/// The command on the file, as a line of a shell in the folder, whose exit code is the command's.
static void line_of(size_t c, const file *f, char words[400], char out[1200]) {
  enum { SECONDS = 30 * KILN_TEST_PATIENCE };
  // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): rows of the table above
  snprintf(words, 400, commands[c].words, f->path);
  char link[600] = "";
  if (commands[c].at)
    snprintf(link, sizeof link, "ln -sf %s%s %s;", *f->path == '/' ? "" : "../", f->path, commands[c].at);
  bool is_env = !strncmp(words, "env ", 4);
  snprintf(out, 1200, "%s %s { timeout -s KILL %d %s%s; } </dev/null; code=$?; %s exit $code", link,
           f->prelude ? f->prelude : "", SECONDS, is_env ? "" : "env ", words,
           f->prelude ? "kill $feeder 2>/dev/null; wait $feeder 2>/dev/null;" : "");
}

static int run(const char *folder, const char *line, char **out) {
  return kiln_test_run(out,
                       "(cd %s; PATH=%s/bin:$PATH KILN_CACHE_DIR=$PWD/cache; export PATH KILN_CACHE_DIR; "
                       "ulimit -c 0; %s; %s)",
                       folder, kiln_test_build_path(), LIMIT, line);
}

TEST(endless_files, every_command_ends) {
  const char *folder = kiln_test_folder();
  unsigned tried = 0, faults = 0;
  const char *given = getenv("KILN_TEST_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : 20261126, state = seed;
  make_files(folder);
  for (size_t c = 0; c < COMMANDS; c++)
    for (size_t i = 0; i < FILES; i++) {
      const file *f = &files[i];
      char words[400], line[1200], *out;
      if (is(f, "lone") && commands[c].takes != BUNDLE) continue;      // below
      if (is(f, "socket") && strchr(commands[c].words, '<')) continue; // the shell cannot open it
      if (kiln_test_random(&state) % 5 && !kiln_test_full()) continue;
      line_of(c, f, words, line);
      int code = run(folder, line, &out);
      faults += judge(c, f, words, code, out);
      free(out);
      tried++;
    }
  printf("%u pairs of a command and a file; seed %llu\n", tried, (unsigned long long)seed);
  CHECK(!faults);
}

/// All at once, since each waits for ten seconds.
TEST(endless_files, a_fifo_without_a_writer_is_waited_for_ten_seconds) {
  static const file lone = {"lone", NULL};
  const char *folder = kiln_test_folder();
  kiln_buffer all = {0};
  char *out, path[600];
  unsigned faults = 0;
  make_files(folder);
  for (size_t c = 0; c < COMMANDS; c++) {
    char words[400], line[1200];
    if (commands[c].takes != TEXT || commands[c].at) continue;
    line_of(c, &lone, words, line);
    kiln_buffer_format(&all, "( (%s) >log.%zu 2>&1; echo $? >code.%zu ) &\n", line, c, c);
  }
  kiln_buffer_format(&all, "wait\n%c", 0);
  snprintf(path, sizeof path, "%s/all.sh", folder);
  kiln_test_write(path, (const char *)all.bytes, all.size - 1);
  kiln_buffer_deinit(&all);
  run(folder, "sh all.sh", &out);
  free(out);
  for (size_t c = 0; c < COMMANDS; c++) {
    char words[400], line[1200], cat[100];
    if (commands[c].takes != TEXT || commands[c].at) continue;
    line_of(c, &lone, words, line);
    snprintf(cat, sizeof cat, "cat log.%zu; exit $(cat code.%zu)", c, c);
    int code = run(folder, cat, &out);
    faults += judge(c, &lone, words, code, out);
    free(out);
  }
  CHECK(!faults);
}

/// A writer that comes late is waited for, and one that takes its time is read to its end.
TEST(endless_files, slow_writers_are_read) {
  const char *folder = kiln_test_folder();
  char *out;
  make_files(folder);
  int code = run(folder,
                 "(sleep 1; exec 3>lone; sleep 1; head -c 20 k.kiln >&3; sleep 1; tail -c +21 k.kiln >&3) & "
                 "kiln compile -t host -o slow.o lone && kiln compile -t host -o fast.o k.kiln && "
                 "cmp slow.o fast.o && cat k.kiln | kiln compile -t host -o piped.o /dev/stdin && "
                 "cmp piped.o fast.o && cat good.kbundle | kiln verify -",
                 &out);
  if (code) FAIL("%d\n%s", code, out);
  free(out);
}
