// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that what `make install` installs is complete: programs find each other, the library builds a
// program by pkg-config, the header is C and C++, and `make uninstall` leaves exactly the folders that were
// there before.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const char source[] =
    "kiln 1\n"
    "kernel twice[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, BLOCK)) @config(BLOCK = "
    "64, warps = 2)\n"
    "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  store(y + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

static const char program[] =
    "#include <kiln/kiln.h>\n#include <stdio.h>\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *library; kiln_device *device; kiln_kernel *twice; kiln_error err;\n"
    "  float in[100], out[100] = {0}, *x = in, *y = out; int32_t n = 100;\n"
    "  for (int i = 0; i < n; i++) in[i] = (float)i;\n"
    "  const void *const args[] = {&x, &y, &n};\n"
    "  if (argc != 2 || kiln_open_file(argv[1], &library, &err) || kiln_device_open(library, \"host\", "
    "&device, &err) ||\n"
    "      kiln_kernel_get(device, \"twice\", NULL, &twice, &err) || kiln_launch(twice, NULL, args, 3, "
    "&err)) return puts(err.text), 1;\n"
    "  for (int i = 0; i < n; i++) if (out[i] != 2.0f * (float)i) return printf(\"%d: %g\\n\", i, "
    "(double)out[i]), 1;\n"
    "  kiln_device_close(device); kiln_close(library);\n"
    "  return puts(\"all twice\"), 0;\n}\n";

#define MAKE KILN_TEST_MAKE "DESTDIR=%s/stage PREFIX=/usr "

// As C11 and as C++17: the typed header that `kiln header` writes, and a verifier that trusts one key.
static const char typed_program[] =
    "#include <stdio.h>\n#include \"twice.h\"\n#include <kiln/kiln_verify.h>\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *library; kiln_device *device; kiln_kernel *k; kiln_error err; kiln_verifier *verifier; "
    "kiln_source source; kiln_open_options options;\n"
    "  float in[100], out[100] = {0};\n"
    "  for (int i = 0; i < 100; i++) in[i] = (float)i;\n"
    "  source.path = argc == 3 ? argv[1] : \"\"; source.bytes = NULL; source.size = 0; source.fd = -1;\n"
    "  options.size = sizeof options; options.sources = &source; options.source_count = 1; options.policy = "
    "KILN_NEED_SIGNATURE; options.log = NULL;\n"
    "  options.log_user = NULL; options.verify = kiln_verify_trusted; options.min_version = 0; options.name "
    "= "
    "NULL;\n"
    "  if (kiln_verifier_create(&verifier, &err) || kiln_verifier_add_file(verifier, argv[2], &err)) return "
    "puts(err.text), 1;\n"
    "  options.verify_user = verifier;\n"
    "  if (kiln_open(&options, &library, &err) || kiln_device_open(library, \"host\", &device, &err) || "
    "twice_twice_get(device, &k, &err) ||\n"
    "      twice_twice(k, NULL, in, out, 100, &err)) return puts(err.text), 1;\n"
    "  for (int i = 0; i < 100; i++) if (out[i] < 2.0f * in[i] || out[i] > 2.0f * in[i]) return "
    "printf(\"%d\\n\", i), 1;\n"
    "  kiln_device_close(device); kiln_close(library); kiln_verifier_destroy(verifier);\n"
    "  return puts(\"all twice, signed\"), 0;\n}\n";

static const char script[] =
    "import ctypes, importlib.metadata, os, sys, kiln\n"
    "assert kiln.__file__.startswith(os.getcwd() + '/stage'), kiln.__file__\n"
    "assert importlib.metadata.version('kiln-runtime') == kiln.version(), kiln.version()\n"
    "device = kiln.Library('twice.kbundle').device()\n"
    "x, y = device.memory(100, 'f32'), device.memory(100, 'f32')\n"
    "x.copy_in(bytes((ctypes.c_float * 100)(*range(100))))\n"
    "device.kernel('twice')(x, y, 100)\n"
    "assert bytes(y) == bytes((ctypes.c_float * 100)(*range(0, 200, 2)))\n"
    "maps = open('/proc/self/maps').read()\n"
    "assert os.getcwd() + '/stage/usr/lib/libkiln.so.0' in maps, maps\n"
    "print('all twice in Python')\n";

static void write_in(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  kiln_test_write(path, text, strlen(text));
}

static void build_and_run(const char *folder, const char *compiler, const char *flags) {
  char *out;
  if (kiln_test_run(&out,
                    "cd %s && export PKG_CONFIG_PATH=stage/usr/lib/pkgconfig "
                    "PKG_CONFIG_SYSROOT_DIR=$PWD/stage && unset PKG_CONFIG_ALLOW_SYSTEM_CFLAGS && "
                    "%s -Wall -Wextra -pedantic -Werror program.c -o program -Istage/usr/include "
                    "$(pkg-config --cflags --libs kiln) -Lstage/usr/lib %s && "
                    "LD_LIBRARY_PATH=stage/usr/lib ./program twice.kbundle",
                    folder, compiler, flags))
    FAIL("%s:\n%s", compiler, out);
  CHECK_TEXT(out, "all twice\n");
}

static void build_typed(const char *folder, const char *compiler) {
  char *out;
  if (kiln_test_run(
          &out,
          "cd %s && export PKG_CONFIG_PATH=stage/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD/stage && "
          "%s -Wall -Wextra -pedantic -Werror typed.c -o typed -Istage/usr/include $(pkg-config --cflags "
          "--libs kiln-verify) -Lstage/usr/lib && "
          "LD_LIBRARY_PATH=stage/usr/lib ./typed signed.kbundle key.pub",
          folder, compiler))
    FAIL("%s:\n%s", compiler, out);
  CHECK_TEXT(out, "all twice, signed\n");
}

static void must(const char *folder, const char *command) {
  char *out;
  if (kiln_test_run(&out,
                    "cd %s && export PKG_CONFIG_PATH=$PWD/stage/usr/lib/pkgconfig "
                    "PKG_CONFIG_SYSROOT_DIR=$PWD/stage && %s",
                    folder, command))
    FAIL("%s\n%s", command, out);
}

// The archives, by what pkg-config says of them; and the CMake package's target.
static void build_typed_otherwise(const char *folder) {
  static const char lists[] =
      "cmake_minimum_required(VERSION 3.21)\nproject(typed C)\nfind_package(kiln "
      "REQUIRED)\nadd_executable(typed_cmake typed.c)\n"
      "target_link_libraries(typed_cmake PRIVATE kiln::kiln kiln::observe kiln::verify)\n";
  must(folder, "gcc -std=c11 typed.c -o typed_static -Istage/usr/include -Lstage/usr/lib -Wl,-Bstatic "
               "$(pkg-config --static --libs kiln-verify) -Wl,-Bdynamic -lm && "
               "./typed_static signed.kbundle key.pub && if readelf -d typed_static | grep -q 'libkiln'; "
               "then exit 1; fi");
  if (kiln_test_run(NULL, "cmake --version")) return; // test_build_systems says that it is absent
  write_in(folder, "CMakeLists.txt", lists);
  must(folder,
       "unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR; cmake -S . -B cmake -DCMAKE_PREFIX_PATH=$PWD/stage/usr && "
       "cmake --build cmake && cmake/typed_cmake signed.kbundle key.pub");
}

// It counts what libkiln launches, whichever form of either is linked: as C11 and C++17 by pkg-config, as
// archives, by CMake.
static const char observed_program[] =
    "#include <kiln/kiln_observe.h>\n#include <stdio.h>\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *library; kiln_device *device; kiln_kernel *twice; kiln_error err; kiln_counter c;\n"
    "  static float in[100], out[100]; float *x = in, *y = out; int n = 100; const void *args[3]; args[0] = "
    "&x; "
    "args[1] = &y; args[2] = &n;\n"
    "  if (argc != 2 || kiln_observe_start(\"counters\", NULL, NULL, &err) || kiln_open_file(argv[1], "
    "&library, "
    "&err) || kiln_device_open(library, \"host\", &device, &err) ||\n"
    "      kiln_kernel_get(device, \"twice\", NULL, &twice, &err) || kiln_launch(twice, NULL, args, 3, "
    "&err)) "
    "return puts(err.text), 1;\n"
    "  kiln_observe_stop();\n"
    "  if (kiln_observe_counter_at(0, &c)) return puts(\"nothing was counted\"), 1;\n"
    "  return printf(\"%s on %s: %d\\n\", c.kernel, c.device, (int)c.launches), 0;\n}\n";

static void build_observed(const char *folder) {
  write_in(folder, "observed.c", observed_program);
  must(folder,
       "export LD_LIBRARY_PATH=stage/usr/lib; for cc in 'gcc -std=c11' 'g++ -x c++ -std=c++17'; do "
       "$cc -Wall -Wextra -pedantic -Werror observed.c -o observed -Istage/usr/include -Lstage/usr/lib "
       "$(pkg-config --libs kiln-observe) && test \"$(./observed twice.kbundle)\" = 'twice on host: 1' || "
       "exit 1; done");
  must(folder,
       "gcc observed.c -o observed -Istage/usr/include -Lstage/usr/lib -Wl,-Bstatic $(pkg-config --static "
       "--libs "
       "kiln-observe) -Wl,-Bdynamic -lm && test \"$(./observed twice.kbundle)\" = 'twice on host: 1' && "
       "if readelf -d observed | grep -q libkiln; then exit 1; fi");
}

/// What belongs to an installation, one of each kind by name; a page for each command is what test_man
/// counts.
static void look_at_files(const char *folder) {
  must(folder, "cd stage/usr && for f in bin/kiln libexec/kiln/kiln-codegen libexec/kiln/kiln-tool "
               "libexec/kiln/kiln-remote libexec/kiln/kiln-ptx-driver.so lib/libkiln.so.0 "
               "lib/libkiln-more.so.0 lib/libkiln.so "
               "lib/libkiln.a "
               "lib/libkiln-verify.so.0 lib/libkiln-verify.so lib/libkiln-verify.a lib/libkiln-observe.so.0 "
               "lib/libkiln-observe.so lib/libkiln-observe.a include/kiln/kiln_observe.h "
               "lib/pkgconfig/kiln-observe.pc include/kiln/kiln.h "
               "include/kiln/kiln_verify.h include/kiln/base/status_code.h "
               "lib/pkgconfig/kiln.pc lib/pkgconfig/kiln-verify.pc lib/cmake/kiln/kilnConfig.cmake "
               "lib/cmake/kiln/kilnConfigVersion.cmake share/bash-completion/completions/kiln "
               "share/zsh/vendor-completions/_kiln share/fish/vendor_completions.d/kiln.fish "
               "share/doc/kiln/SECURITY.md share/doc/kiln/examples/embedded/main.c "
               "lib/python3/dist-packages/kiln/__init__.py share/man/man3/libkiln.3 "
               "share/man/man5/kiln-bundle.5 share/man/man1/kiln.1; "
               "do test -s $f || { echo $f; exit 1; }; done");
  must(folder, "cd stage/usr && for c in $(bin/kiln tool-help | sed -n 's/^  \\([a-z-]*\\) .*/\\1/p') build "
               "compile cache; do test -s share/man/man1/kiln-$c.1 || { echo $c; exit 1; }; done");
}

static void use_python(const char *folder) {
  char *out;
  if (kiln_test_run(NULL, "/usr/bin/python3 -c 'import ctypes'"))
    return; // tests/python says that it is absent
  write_in(folder, "script.py", script);
  if (kiln_test_run(&out,
                    "cd %s && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$PWD/stage/usr/lib/python3/dist-packages "
                    "/usr/bin/python3 script.py",
                    folder))
    FAIL("%s", out);
  CHECK_TEXT(out, "all twice in Python\n");
  if (kiln_test_run(NULL, "/usr/bin/python3 -c 'import numpy'")) return;
  if (kiln_test_run(&out,
                    "stage=%s/stage && $stage/usr/bin/kiln build examples/saxpy/saxpy.kiln -t host "
                    "--no-cache -q -o $stage/../saxpy.kbundle && "
                    "PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$stage/usr/lib/python3/dist-packages "
                    "/usr/bin/python3 examples/python/numpy/saxpy.py $stage/../saxpy.kbundle",
                    folder))
    FAIL("%s", out);
  if (!strstr(out, "3000 sums on host (") || !strstr(out, "), 0 wrong\n")) FAIL("%s", out);
}

TEST(install, what_is_installed_works_and_goes_away) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (!kiln_test_run(NULL, "nm -D %s/lib/libkiln.so.0 | grep -q __asan", build))
    SKIP("an instrumented library needs an instrumented program");
  if (kiln_test_run(NULL, "pkg-config --version")) SKIP("pkg-config is not installed");
  // A folder that is empty before stays; one that install makes goes with it, also when it ran twice.
  must(folder, "mkdir -p stage/usr/share/man && find stage | sort > before");
  for (int i = 0; i < 2; i++)
    if (kiln_test_run(&out, MAKE "install", folder)) FAIL("make install:\n%s", out);
  write_in(folder, "twice.kiln", source);
  write_in(folder, "program.c", program);
  if (kiln_test_run(&out,
                    "cd %s && PATH=$PWD/stage/usr/bin:$PATH && kiln build twice.kiln -t host,gfx942 "
                    "--no-cache -q -o twice.kbundle && kiln verify twice.kbundle",
                    folder))
    FAIL("the installed program:\n%s", out);
  // What is installed is stripped, and the same programs: it shares a cache with the build tree.
  if (kiln_test_run(&out,
                    "cd %s && stage/usr/bin/kiln key twice.kiln -t gfx942 > k && %s/bin/kiln key twice.kiln "
                    "-t gfx942 | diff k -",
                    folder, kiln_test_build_path()))
    FAIL("keys of the installation and of the build tree: %s", out);
  if (kiln_test_run(&out, "pkg-config --modversion %s/stage/usr/lib/pkgconfig/kiln.pc", folder))
    FAIL("%s", out);
  build_and_run(folder, "gcc -std=c11", "");
  build_and_run(folder, "g++ -x c++ -std=c++17", "");
  write_in(folder, "typed.c", typed_program);
  if (kiln_test_run(
          &out,
          "cd %s && PATH=$PWD/stage/usr/bin:$PATH && kiln header -o twice.h twice.kbundle && kiln cache "
          "keygen key && "
          "kiln sign --key key -o signed.kbundle twice.kbundle && kiln verify --key key.pub signed.kbundle",
          folder))
    FAIL("%s", out);
  build_typed(folder, "gcc -std=c11");
  build_typed(folder, "g++ -x c++ -std=c++17");
  build_typed_otherwise(folder);
  build_observed(folder);
  look_at_files(folder);
  use_python(folder);
  if (kiln_test_run(&out, MAKE "uninstall", folder)) FAIL("make uninstall:\n%s", out);
  must(folder, "find stage | sort | diff before -");
}

// tools/install-packages.sh on a machine where nothing is installed, with programs that only say how they are
// called.
static int packages(const char *user, const char *programs, const char *list, char **out) {
  return kiln_test_run(
      out,
      "f=%s/fake && rm -rf $f && mkdir $f && for p in bash sh sed grep dirname cat env; do ln -s "
      "$(command -v $p) $f/$p; done && "
      "say() { printf '#!/bin/sh\\n%%s\\n' \"$2\" > $f/$1; chmod +x $f/$1; } && "
      "say id 'echo %s' && say dpkg-query 'exit 1' && say apt-cache 'exit ${UNKNOWN:-0}' && "
      "for p in %s; do say $p \"echo $p \\\"\\$@\\\"\"; done && "
      "PATH=$f LLVM_VERSION=77 bash tools/install-packages.sh %s",
      kiln_test_folder(), user, programs, list);
}

TEST(install, packages_are_asked_for_with_the_rights_there_are) {
  char *out;
  CHECK_INT(packages("1000", "apt-get", "build", &out), 1);
  if (!strstr(out, "this is not root and there is no sudo")) FAIL("%s", out);
  CHECK(strstr(out, "apt-get install") && strstr(out, "libpolly-77-dev") && !strstr(out, "criterion"));
  CHECK_INT(packages("0", "apt-get", "build test", &out), 0);
  CHECK(strstr(out, "\napt-get update") && strstr(out, "\napt-get install") &&
        strstr(out, "libcriterion-dev") && !strstr(out, "apt.llvm.org"));
  setenv("UNKNOWN", "100", 1); // as Ubuntu's archive answers
  CHECK_INT(packages("0", "apt-get", "build", &out), 0);
  CHECK_PART(out, "no source of packages of this machine has llvm-77-dev: https://apt.llvm.org");
  unsetenv("UNKNOWN");
  CHECK_INT(packages("1000", "sudo", "test", &out), 0);
  CHECK(strstr(out, "\nsudo apt-get update") && !strstr(out, "libpolly-77-dev"));
  CHECK_INT(packages("0", "apt-get", "tests", &out), 2);
  CHECK(strstr(out, "expected 'build', 'test' or 'lint', found 'tests'"));
}

// A build by ccache is not compiled again by a make that does without, as those of tests do; one of other flags is.
TEST(install, ccache_is_no_other_flag) {
  char *out = kiln_test_run_to(
      0,
      "unset MAKEFLAGS MFLAGS MAKELEVEL; flags() { make -s B=%s/b \"$@\" %s/b/flags 2>&1; } && "
      "flags CC='ccache gcc' && flags CC=gcc && flags CC=gcc EXTRA_CFLAGS=-DX | tail -n 1",
      kiln_test_folder(), kiln_test_folder());
  CHECK_TEXT(out, "> -DX\n");
  free(out);
}

// A tree that is copied with its build has its own package and headers, not those of the tree it was copied from.
TEST(install, a_copied_build_has_its_own_files) {
  free(kiln_test_run_to(
      0,
      "unset MAKEFLAGS MFLAGS MAKELEVEL; b=%s/b && f='python/kiln/__init__.py "
      "include/kiln/kiln.h' && make -s B=$b $(printf \"$b/%%s \" $f) && cd $b && cat $f >all && "
      "! find . -lname '/*' | grep .",
      kiln_test_folder()));
}

// `make compile_commands.json` and `make debug`: each file of programs, libraries and tests has its command.
TEST(install, editors_are_told_how_every_file_is_compiled) {
  const kiln_json *commands;
  kiln_error err = {0};
  char *files, *text, *rest = NULL;
  unsigned count = 0;
  kiln_arena *arena = kiln_arena_create();
  int code =
      kiln_test_run(&text, "env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -n -B V=1 CONFIG=debug all tests "
                           "2>/dev/null | tools/compile-commands.sh");
  CHECK_INT(code, 0);
  CHECK_OK(kiln_json_parse(arena, text, strlen(text), &commands, &err), err);
  code =
      kiln_test_run(&files, "find base targets compiler cache tuner runtime tools tests/base tests/targets "
                            "tests/compiler tests/codegen tests/cache tests/tuner tests/bundle tests/runtime "
                            "tests/tools -name '*.c' -not -path 'tools/house/*'");
  CHECK_INT(code, 0);
  for (char *file = strtok_r(files, "\n", &rest); file; file = strtok_r(NULL, "\n", &rest), count++) {
    const kiln_json *one = commands->first;
    while (one && strcmp(kiln_json_text(one, "file", ""), file) != 0) one = one->next;
    if (!one) FAIL("%s has no command", file);
    CHECK(strstr(kiln_json_text(one, "command", ""), "-std=c11"));
    CHECK(strstr(kiln_json_text(one, "command", ""), " -O0 "));
  }
  CHECK(count > 400);
  free(files), free(text);
  kiln_arena_destroy(arena);
}
