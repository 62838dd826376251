// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The examples of build systems, built from an installed tree in another folder: they work, a second build
// does nothing, a touched source ends in nothing to do again, and a changed kernel is compiled.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct build_system {
  const char *folder;    ///< of examples/
  const char *tool;      ///< a command that fails where it is not installed
  const char *configure; ///< run once
  const char *build;
  const char *idle; ///< a command that succeeds when a build has nothing to do
} build_system;

static const char environment[] = "export PATH=$PWD/prefix/bin:$PATH "
                                  "PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig LD_LIBRARY_PATH=$PWD/prefix/lib "
                                  "KILN_CACHE_DIR=$PWD/cache; unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR";

/// Runs in the example's folder, with the installed tree before all else.
static int run_there(const build_system *b, const char *command, char **out) {
  return kiln_test_run(out, "cd %s && %s && cd examples/%s && { %s\n}", kiln_test_folder(), environment,
                       b->folder, command);
}

static void must(const build_system *b, const char *command) {
  char *out;
  int code = run_there(b, command, &out);
  if (code) FAIL("%s: %s: exit code %d:\n%s", b->folder, command, code, out);
  free(out);
}

static void prepare(const build_system *b) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (!kiln_test_run(NULL, "nm -D %s/lib/libkiln.so.0 | grep -q __asan", build))
    SKIP("an instrumented library needs an instrumented program");
  if (kiln_test_run(NULL, "%s", b->tool)) SKIP("'%s' fails: not installed", b->tool);
  if (kiln_test_run(NULL, "pkg-config --version")) SKIP("pkg-config is not installed");
  if (kiln_test_run(&out,
                    "env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s CONFIG=${CONFIG:-release} B=%s "
                    "PREFIX=$(realpath %s)/prefix DESTDIR= install",
                    build, folder))
    FAIL("make install:\n%s", out);
  free(out);
  if (kiln_test_run(&out, "cp -r examples %s/", folder)) FAIL("%s", out);
  free(out);
}

static void builds(const build_system *b) {
  char *out;
  prepare(b);
  must(b, b->configure);
  must(b, b->build);
  if (run_there(b, "out/saxpy out/kernels.kbundle", &out)) FAIL("%s: %s", b->folder, out);
  CHECK_TEXT(out, "1000 values, 0 wrong\n");
  must(b, "kiln verify out/kernels.kbundle && kiln inspect -c out/kernels.kbundle | grep sm_90 && kiln "
          "inspect -c out/kernels.kbundle | grep gfx942");
  must(b, "stat -c '%y %i' out/kernels.kbundle out/saxpy > before");
  must(b, b->idle);
  must(b, b->build);
  must(b, "stat -c '%y %i' out/kernels.kbundle out/saxpy | cmp - before");
  must(b, "sleep 0.05 && cp out/kernels.kbundle old && touch ../saxpy/saxpy.kiln");
  CHECK(run_there(b, b->idle, NULL) != 0);
  must(b, b->build);
  must(b, "cmp old out/kernels.kbundle");
  must(b, b->idle);
  must(b, "sleep 0.05 && sed -i 's/a \\* load/2.0 * a * load/' ../saxpy/saxpy.kiln");
  must(b, b->build);
  CHECK_INT(run_there(b, "out/saxpy out/kernels.kbundle", &out), 1);
  CHECK_TEXT(out, "1000 values, 999 wrong\n");
  must(b, b->idle);
}

TEST(build_systems, make) {
  static const build_system b = {"make", "make --version", "true", "make", "make -q"};
  builds(&b);
}

TEST(build_systems, ninja) {
  static const build_system b = {"ninja", "ninja --version", "true", "ninja",
                                 "ninja -n | grep 'no work to do'"};
  builds(&b);
}

#define CMAKE "cmake -S . -B out -DCMAKE_PREFIX_PATH=$(realpath ../../prefix) -G "

TEST(build_systems, cmake_with_ninja) {
  static const build_system b = {"cmake", "cmake --version && ninja --version", CMAKE "Ninja",
                                 "cmake --build out", "ninja -C out -n | grep 'no work to do'"};
  builds(&b);
}

TEST(build_systems, cmake_with_make) {
  static const build_system b = {"cmake", "cmake --version && make --version", CMAKE "'Unix Makefiles'",
                                 "cmake --build out", "! make -C out -n | grep -E 'kiln build|-c .*main.c'"};
  builds(&b);
}

// What is wrong in a call is said when CMake configures, with what was expected.
TEST(build_systems, cmake_refuses_a_wrong_call) {
  static const build_system b = {"cmake", "cmake --version && ninja --version", "", "", ""};
  char *out;
  prepare(&b);
  must(&b, "sed -i 's/ TARGETS host.*/)/' CMakeLists.txt");
  CHECK(run_there(&b, CMAKE "Ninja", &out) != 0);
  if (!strstr(out, "SOURCES and TARGETS are both"))
    FAIL("expected the message on SOURCES and TARGETS, found\n%s", out);
  must(&b, "sed -i 's/find_package(kiln REQUIRED)/find_package(kiln 0.2 REQUIRED)/' CMakeLists.txt");
  CHECK(run_there(&b, "rm -rf out; " CMAKE "Ninja", &out) != 0);
  if (!strstr(out, "version: 0.1.0")) FAIL("expected the version that was found, found\n%s", out);
  must(&b, "rm ../../prefix/lib/libkiln.a");
  must(&b, "sed -i 's/kiln 0.2 REQUIRED/kiln 0.1 REQUIRED/' CMakeLists.txt");
  CHECK(run_there(&b, "rm -rf out; " CMAKE "Ninja", &out) != 0);
  if (!strstr(out, "libkiln.a is missing")) FAIL("expected the missing file, found\n%s", out);
}
