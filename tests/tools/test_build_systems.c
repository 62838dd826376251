// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the examples of build systems from an installed tree in another folder: they work, a second build
// does nothing, a touched source that has not changed leaves nothing to do, and a changed kernel is
// compiled.
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
  if (kiln_test_run(&out, KILN_TEST_MAKE "PREFIX=$(realpath %s)/prefix DESTDIR= install", folder))
    FAIL("make install:\n%s", out);
  free(out);
  if (kiln_test_run(&out, "cp -r %s/prefix/share/doc/kiln/examples %s/", folder, folder)) FAIL("%s", out);
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

TEST(build_systems, meson) {
  static const build_system b = {"meson", "meson --version && ninja --version", "meson setup out",
                                 "meson compile -C out", "ninja -C out -n | grep 'no work to do'"};
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

static const char carried_lists[] =
    "cmake_minimum_required(VERSION 3.21)\nproject(carried C ASM)\nset(CMAKE_C_STANDARD 11)\n"
    "find_package(kiln REQUIRED)\n"
    "kiln_add_bundle(kernels SOURCES elementwise.kiln TARGETS host OUTPUT made/kernels.kbundle HEADER "
    "include/new/kernels.h EMBED s/kernels.S OPTIONS -k add[T=f32])\n"
    "add_executable(carried main.c typed.c ${CMAKE_CURRENT_BINARY_DIR}/s/kernels.S)\n"
    "target_include_directories(carried PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/include/new)\n"
    "target_link_libraries(carried PRIVATE kiln::kiln)\nadd_dependencies(carried kernels)\n";

// A bundle, a header and an assembler file, each in a folder that is not there yet: a build with nothing new runs none of the three
// steps, also after a touch that changed nothing; a changed kernel is in the next program.
static void carries(const char *generator, const char *idle) {
  static const build_system b = {"embedded", "cmake --version && ninja --version", "", "", ""};
  char *out, path[512], configure[256];
  prepare(&b);
  snprintf(path, sizeof path, "%s/examples/embedded/CMakeLists.txt", kiln_test_folder());
  kiln_test_write(path, carried_lists, sizeof carried_lists - 1);
  must(&b,
       "cp ../../prefix/share/kiln/kernels/elementwise.kiln . && echo '#include \"kernels.h\"' > typed.c");
  snprintf(configure, sizeof configure, CMAKE "%s", generator);
  must(&b, configure);
  must(&b, "cmake --build out");
  if (run_there(&b, "out/carried", &out)) FAIL("%s", out);
  CHECK_TEXT(out, "3000 sums, 0 wrong, by bundle in memory\n");
  must(&b, idle);
  must(&b, "sleep 0.05 && touch elementwise.kiln && cmake --build out");
  must(&b, idle);
  must(&b, "sleep 0.05 && sed -i 's/as f32 + load(y/as f32 - load(y/' elementwise.kiln && cmake --build out");
  CHECK_INT(run_there(&b, "out/carried", &out), 1);
  CHECK_TEXT(out, "3000 sums, 3000 wrong, by bundle in memory\n");
  must(&b, idle);
}

TEST(build_systems, cmake_derives_with_ninja) { carries("Ninja", "ninja -C out -n | grep 'no work to do'"); }

TEST(build_systems, cmake_derives_with_make) {
  carries("'Unix Makefiles'", "! make -C out -n | grep -E 'kiln (build|header|embed)|-c .*[.][cS]$'");
}

// Applications with a line of their own to the compiler: what their comments say is true of an installation.
TEST(build_systems, by_hand) {
  static const build_system b = {"embedded", "cc --version", "", "", ""};
  char *out;
  prepare(&b);
  must(&b, "kiln build ../../prefix/share/kiln/kernels/elementwise.kiln -q -k 'add[T=f32]' -t host -o "
           "app.kbundle && "
           "kiln embed app.kbundle -o bundle.S && cc -std=c11 -Wall -Wextra -Werror main.c bundle.S "
           "$(pkg-config --cflags --libs kiln) -o embedded");
  if (run_there(&b, "rm app.kbundle && ./embedded", &out)) FAIL("%s", out);
  CHECK_TEXT(out, "3000 sums, 0 wrong, by bundle in memory\n");
  must(&b, "cd ../transformer && cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror *.c $(pkg-config --cflags "
           "--libs kiln) "
           "-lm -o transformer");
}

// README.md's own first example, from its text to its numbers.
TEST(build_systems, the_first_example_of_the_readme) {
  static const build_system b = {"saxpy", "cc --version && bash --version", "", "", ""};
  char command[4200], where[4096], *out;
  prepare(&b);
  CHECK(realpath("tests/first_example.sh", where));
  snprintf(command, sizeof command, "PYTHONPATH=$(echo $PWD/../../prefix/lib/python3*/dist-packages) %s",
           where);
  int code = run_there(&b, command, &out);
  if (code || !strstr(out, " passed, 0 failed, ")) FAIL("exit code %d:\n%s", code, out);
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
