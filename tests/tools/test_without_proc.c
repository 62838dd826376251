// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Commands, C programs and Python where /proc is not mounted, and in a folder that has become the root
// without /proc, /dev and /sys. Each job is done, with the same bytes, or ends with one sentence that says it
// needs /proc.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char source[] =
    "kiln 1\n"
    "kernel add[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, BLOCK)) @config(BLOCK = 64, "
    "warps = 2)\n"
    "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  store(y + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

static const char application[] =
    "#include <kiln.h>\n#include <stdio.h>\n"
    "int main(void) {\n"
    "  static float x[64], y[64];\n  float *at[2] = {x, y};\n  int n = 64;\n"
    "  kiln_error err;\n  kiln_library *library;\n  kiln_device *device;\n  kiln_kernel *add;\n"
    "  for (int i = 0; i < 64; i++) x[i] = i;\n"
    "  if (kiln_open_file(\"a.kbundle\", &library, &err) || kiln_device_open(library, \"host\", &device, "
    "&err) "
    "||\n"
    "      kiln_kernel_get(device, \"add\", NULL, &add, &err) ||\n"
    "      kiln_launch(add, NULL, (const void *const[]){&at[0], &at[1], &n}, 3, &err))\n"
    "    return fprintf(stderr, \"%s\\n\", err.text), 1;\n"
    "  for (int i = 0; i < 64; i++)\n    if (y[i] != 2 * i) return 2;\n"
    "  kiln_device_close(device);\n  kiln_close(library);\n  return 0;\n}\n";

static const char script[] =
    "import array, kiln\n"
    "device = kiln.Library('a.kbundle').device('host')\n"
    "x, y = device.copy(array.array('f', range(64))), device.memory(64, 'f32')\n"
    "device.kernel('add')(x, y, 64)\n"
    "assert memoryview(bytes(y)).cast('f').tolist() == [2.0 * i for i in range(64)]\n";

// Runs `command` in the folder of the test, with the build's programs in the path and a cache of its own.
static int run(char **out, const char *command) {
  return kiln_test_run(out,
                       "R=$PWD && cd %s && B=%s && PATH=$B/bin:$PATH && KILN_CACHE_DIR=%s/cache && "
                       "export R B PATH KILN_CACHE_DIR && { %s; }",
                       kiln_test_folder(), kiln_test_build_path(), kiln_test_folder(), command);
}

static void must(const char *command) {
  char *out;
  int code = run(&out, command);
  if (code) FAIL("%s: %d\n%s", command, code, out);
  free(out);
}

static const struct {
  const char *command;
  const char *says; // NULL: it succeeds
} cases[] = {
    {"kiln build -q add.kiln -t sm_80 --ptx-assembler=none --no-cache -o new.kb && cmp new.kb sm_80.kb",
     NULL},
    {"kiln build -q add.kiln -t sm_80 --ptx-assembler=none --no-cache -o old.kb && cmp old.kb sm_80.kb",
     NULL},
    {"kiln build -q add.kiln -t host -o from_cache.kb", NULL},
    {"kiln build -q add.kiln -t host --no-cache -o c.kb", "linking an object needs /proc"},
    {"kiln build -q add.kiln -t gfx942 --no-cache -o c.kb", "linking an object needs /proc"},
    {"kiln compile add.kiln -t host -o add.o --no-cache", "linking an object needs /proc"},
    {"kiln compile add.kiln -t host --emit=asm -o add.s && grep -q kiln_add add.s", NULL},
    {"kiln compile add.kiln -t gfx942 --emit=llvm -o add.ll && kiln compile add.kiln -t sm_90a --emit=ptx "
     "-o add.ptx",
     NULL},
    {"kiln-ptx --census add.ptx", NULL},
    {"kiln verify a.kbundle", NULL},
    {"kiln sign --key key -o a.kbundle a.kbundle && kiln verify --key key.pub a.kbundle", NULL},
    {"kiln merge -o m.kb a.kbundle && kiln split --arch sm_80 -o s.kb a.kbundle && kiln fix-index -o f.kb "
     "a.kbundle",
     NULL},
    {"kiln inspect a.kbundle && kiln stat a.kbundle && kiln diff a.kbundle a.kbundle", NULL},
    {"kiln cache export exported && kiln cache export exported && kiln --version", NULL},
    {"kiln cache import exported && kiln cache verify && kiln cache gc && kiln cache stats", NULL},
    {"kiln cache doctor", "BAD  naming them"},
    {"kiln key add.kiln -t host && kiln targets && kiln env", NULL},
    {"kiln run a.kbundle add -a x=ones:64 -a y=zeros:64 -a n=64 -p y:2 | grep -q '^y = 2 2 '", NULL},
    {"./link/kiln run a.kbundle add -a x=ones:64 -a y=zeros:64 -a n=64 -p y:2 | grep -q '^y = 2 2 '", NULL},
    {"./link/kiln build -q add.kiln -t sm_80 --ptx-assembler=none --no-cache -o l.kb && cmp l.kb sm_80.kb",
     NULL},
    {"rm -f t && kiln tune -o t --shapes shapes --device host a.kbundle", NULL},
    {"kiln header -o h.h a.kbundle && kiln embed -o e.S a.kbundle && kiln report -o r.html a.kbundle", NULL},
    {"kiln disasm --target x86-64-v3 a.kbundle add", "needs /proc"},
    {"./shared", NULL},
    {"./archive", NULL},
    {"! test -e python || PYTHONPATH=$B/python /usr/bin/python3 app.py", NULL},
};

static void prepare(void) {
  kiln_test_put("add.kiln", source);
  kiln_test_put("app.c", application);
  kiln_test_put("app.py", script);
  kiln_test_put("shapes", "add x=ones:64 y=ones:64 n=64\n");
  must("kiln build -q add.kiln -t host,sm_80 --ptx-assembler=none -o a.kbundle && kiln cache keygen key && "
       "kiln build -q add.kiln -t sm_80 --ptx-assembler=none -o sm_80.kb && cp a.kbundle old.kb && "
       "kiln build -q add.kiln -t host -o from_cache.kb && rm from_cache.kb && "
       "mkdir link && ln -s $B/bin/kiln link/kiln");
  char *out;
  if (kiln_test_run(&out,
                    "for l in libkiln.so.0 libkiln.a; do gcc " KILN_TEST_COMPILE
                    " -I. -Iruntime %s/app.c %s/lib/$l -lzstd -lpthread -lm -ldl -o %s/$l || exit 1; done; "
                    "cd %s && mv libkiln.a archive && printf '#!/bin/sh\\nLD_LIBRARY_PATH=$B/lib "
                    "./libkiln.so.0\\n' >shared && chmod +x shared && "
                    "if ls %s/python/kiln/_core*.so; then touch python; fi",
                    kiln_test_folder(), kiln_test_build_path(), kiln_test_folder(), kiln_test_folder(),
                    kiln_test_build_path()))
    FAIL("%s", out);
  free(out);
}

/// `surroundings` runs case.sh.
static void run_all(const char *surroundings) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *out;
    kiln_test_put("case.sh", cases[i].command);
    int code = run(&out, surroundings);
    if (!cases[i].says && code) FAIL("%s: %d, %s", cases[i].command, code, out);
    if (cases[i].says && (code != 1 || !strstr(out, cases[i].says)))
      FAIL("%s: %d, %s", cases[i].command, code, out);
    free(out);
  }
  must("! ls -A | grep -q '^.kiln-'");
}

TEST(without_proc, not_mounted) {
  prepare();
  if (run(NULL, "unshare -rm sh -c 'mount -t tmpfs none /proc && test ! -e /proc/self'"))
    SKIP("no mount namespace without /proc can be made here");
  run_all("unshare -rm sh -c 'mount -t tmpfs none /proc && sh case.sh'");
}

// Programs and libraries of the machine, the project, the build and the folder of the test; nothing else.
static const char other_root[] =
    "mkdir -p root && unshare -rm sh -c '"
    "here=$PWD && mount -t tmpfs none root && cd root && "
    "for f in bin lib lib64 usr; do test -e /$f || continue; "
    "if test -L /$f; then cp -a /$f .; else mkdir $f && mount --rbind /$f $f; fi || exit 9; done && "
    "mkdir -p .$R tmp && mount --rbind $R .$R && mkdir -p .$B .$here && mount --rbind $B .$B && mount --bind "
    "$here .$here && "
    "chroot . sh -c \"test ! -e /proc && test ! -e /dev && cd $here && sh $1\"' sh ";

TEST(without_proc, another_root) {
  char command[1000];
  prepare();
  snprintf(command, sizeof command, "%scase.sh", other_root);
  kiln_test_put("case.sh", "true");
  if (run(NULL, command)) SKIP("no other root can be made here");
  run_all(command);
}
