// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Installs the runtime without the compiler: into the folder of a multiarch Debian, and for another libc
// (musl) with nothing but a C compiler and two headers. Applications are built from it by pkg-config and by
// CMake, crosswise too: the compiler from one prefix, the runtime from another.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kernels[] =
    "kiln 1\n"
    "kernel twice[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, BLOCK)) @config(BLOCK = "
    "64, warps = 2)\n"
    "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  store(y + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

// The bundle comes from a file or, with CARRIED, from the library that kiln_add_library made.
static const char program[] =
    "#ifdef CARRIED\n#include \"my_kernels.h\"\n#include \"my_kernels_open.h\"\n#endif\n"
    "#include <kiln/kiln.h>\n#include <stdio.h>\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *library; kiln_device *device; kiln_kernel *twice; kiln_error err;\n"
    "  float in[100], out[100] = {0}; kiln_status status;\n"
    "  for (int i = 0; i < 100; i++) in[i] = (float)i;\n"
    "#ifdef CARRIED\n  status = my_kernels_open(&library, &err); (void)argc, (void)argv;\n"
    "#else\n  status = kiln_open_file(argc == 2 ? argv[1] : \"\", &library, &err);\n#endif\n"
    "  if (status || kiln_device_open(library, \"host:2\", &device, &err)) return puts(err.text), 1;\n"
    "#ifdef CARRIED\n"
    "  if (my_kernels_twice_get(device, &twice, &err) || my_kernels_twice(twice, NULL, in, out, 100, &err)) "
    "return "
    "puts(err.text), 1;\n"
    "#else\n"
    "  float *x = in, *y = out; int n = 100; const void *args[3]; args[0] = &x; args[1] = &y; args[2] = &n;\n"
    "  if (kiln_kernel_get(device, \"twice\", NULL, &twice, &err) || kiln_launch(twice, NULL, args, 3, "
    "&err)) return "
    "puts(err.text), 1;\n"
    "#endif\n"
    "  for (int i = 0; i < 100; i++) if (out[i] < 2.0f * in[i] || out[i] > 2.0f * in[i]) return "
    "printf(\"%d\\n\", i), 1;\n"
    "  kiln_device_close(device); kiln_close(library);\n"
    "  return puts(\"all twice\"), 0;\n}\n";

static const char lists[] = "cmake_minimum_required(VERSION 3.21)\nproject(sides C ASM)\n"
                            "find_package(kiln REQUIRED COMPONENTS runtime compiler)\n"
                            "kiln_add_library(my-kernels SOURCES twice.kiln TARGETS host)\n"
                            "add_executable(app app.c)\ntarget_compile_definitions(app PRIVATE CARRIED)\n"
                            "target_link_libraries(app PRIVATE my-kernels)\n";

/// A make of its own: not the jobs and variables of the one that runs the tests.
static const char one_object[] =
    "#include <stdio.h>\n#include \"twice.h\"\nint main(void) {\n"
    "  twice_device *device; twice_error err; float in[5] = {0, 1, 2, 3, 4}, out[5];\n"
    "  if (twice_init(\"host:1\", &device, &err) || twice_twice(device, NULL, in, out, 5, &err)) return "
    "puts(err.text), 1;\n"
    "  twice_unload(device);\n  return printf(\"%g %g\\n\", (double)out[3], (double)out[4]), 0;\n}\n";

/// Runs in the test's folder; BUILD is the build's from the root, KILN its compiler.
static char *must(const char *command) {
  char *out;
  if (kiln_test_run(
          &out,
          "export BUILD=%s KILN=%s/bin/kiln KILN_CACHE_DIR=%s/cache ROOT=$PWD; cd %s; unset MAKEFLAGS "
          "MFLAGS MAKELEVEL DESTDIR; %s",
          kiln_test_build_path(), kiln_test_build_path(), kiln_test_folder(), kiln_test_folder(), command))
    FAIL("%s\n%s", command, out);
  return out;
}

static void need(const char *command) {
  if (kiln_test_run(NULL, "%s", command)) SKIP("'%s' fails: not installed", command);
}

static void need_release(void) {
  if (!kiln_test_run(NULL, "nm -D %s/lib/libkiln.so.0 | grep -q __asan", kiln_test_build()) ||
      KILN_TEST_THREAD_SANITIZER)
    SKIP("what is installed is a release build");
}

static void write_sources(void) {
  kiln_test_put("twice.kiln", kernels);
  kiln_test_put("app.c", program);
  kiln_test_put("CMakeLists.txt", lists);
}

TEST(install_sides, a_multiarch_runtime_alone) {
  need_release();
  need("pkg-config --version");
  write_sources();
  free(must("cd $ROOT && " KILN_TEST_MAKE
            "DESTDIR=$OLDPWD/stage PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu "
            "install-runtime"));
  // Nothing of the compiler, nothing outside of the folder of libraries that was named.
  char *out = must("cd stage/usr && find . -type f -o -type l | sed 's|^./||' | LC_ALL=C sort");
  CHECK_TEXT(out, "include/kiln/base/status.def\ninclude/kiln/base/status_code.h\ninclude/kiln/kiln.h\n"
                  "include/kiln/kiln_observe.h\ninclude/kiln/kiln_verify.h\n"
                  "lib/x86_64-linux-gnu/cmake/kiln/kilnBundle.cmake\n"
                  "lib/x86_64-linux-gnu/cmake/kiln/kilnConfig.cmake\n"
                  "lib/x86_64-linux-gnu/cmake/kiln/kilnConfigVersion.cmake\n"
                  "lib/x86_64-linux-gnu/cmake/kiln/kilnOpen.h.in\n"
                  "lib/x86_64-linux-gnu/libkiln-more.so.0\n"
                  "lib/x86_64-linux-gnu/libkiln-observe.a\nlib/x86_64-linux-gnu/libkiln-observe.so\n"
                  "lib/x86_64-linux-gnu/libkiln-observe.so.0\n"
                  "lib/x86_64-linux-gnu/libkiln-verify.a\nlib/x86_64-linux-gnu/libkiln-verify.so\n"
                  "lib/x86_64-linux-gnu/libkiln-verify.so.0\nlib/x86_64-linux-gnu/libkiln.a\n"
                  "lib/x86_64-linux-gnu/libkiln.so\nlib/x86_64-linux-gnu/libkiln.so.0\n"
                  "lib/x86_64-linux-gnu/pkgconfig/kiln-observe.pc\n"
                  "lib/x86_64-linux-gnu/pkgconfig/kiln-verify.pc\nlib/x86_64-linux-gnu/pkgconfig/kiln.pc\n"
                  "share/kiln/folders\nshare/man/man3/libkiln.3\n");
  free(out);
  out = must("$KILN build twice.kiln -t host -q -o twice.kbundle && "
             "export PKG_CONFIG_PATH=$PWD/stage/usr/lib/x86_64-linux-gnu/pkgconfig "
             "PKG_CONFIG_SYSROOT_DIR=$PWD/stage "
             "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 && "
             "gcc -Wall -Wextra -Werror app.c -o app $(pkg-config --cflags --libs kiln) && "
             "LD_LIBRARY_PATH=stage/usr/lib/x86_64-linux-gnu ./app twice.kbundle");
  CHECK_TEXT(out, "all twice\n");
  free(out);
  // The Python package of this prefix finds it.
  out = must(
      "p=stage/usr/lib/python3/dist-packages/kiln && mkdir -p $p && cp $ROOT/python/kiln/_paths.py $p && "
      "/usr/bin/python3 -c \"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '$p'); import "
      "_paths; "
      "print(_paths.candidates('libkiln.so.0')[0])\" && rm -r stage/usr/lib/python3");
  if (!strstr(out, "/stage/usr/lib/x86_64-linux-gnu/libkiln.so.0\n")) FAIL("%s", out);
  free(out);
  free(must("cd $ROOT && " KILN_TEST_MAKE
            "DESTDIR=$OLDPWD/stage PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu uninstall && "
            "test -z \"$(find $OLDPWD/stage -mindepth 1)\""));
  if (!kiln_test_run(&out, KILN_TEST_MAKE "-n DESTDIR=%s/stage PREFIX=/usr LIBDIR=/opt/lib install-runtime",
                     kiln_test_folder()))
    FAIL("LIBDIR outside of PREFIX: expected an error, found\n%s", out);
  CHECK(strstr(out, "LIBDIR: expected a folder below /usr, found '/opt/lib'") != NULL);
  free(out);
  // Nothing was compiled again under another name of the same folder.
  if (*kiln_test_build() != '/') free(must("! grep -e -I$BUILD $BUILD/flags"));
}

// Folders that commands of the installation would take apart, or that are none of the root, are refused at once.
TEST(install_sides, folders_that_cannot_be_installed_to) {
  static const struct {
    const char *words, *says;
  } cases[] = {
      {"\"PREFIX=$there/with space\"", "PREFIX: expected a folder without white space, found '"},
      {"\"PREFIX=$there/end \"", "PREFIX: expected a folder without white space"},
      {"\"DESTDIR=$there/with space\"", "DESTDIR: expected a folder without white space"},
      {"PREFIX=$there \"LIBDIR=$there/with space\"", "LIBDIR: expected a folder without white space"},
      {"\"PREFIX=$there/a'b\"", "PREFIX: expected a folder without ', found"},
      {"\"PREFIX=$there/a|b\"", "PREFIX: expected a folder without |, found"},
      {"PREFIX=relative", "PREFIX: expected a path from the root, found 'relative'"},
      {"PREFIX=relative DESTDIR=$there/stage", "PREFIX: expected a path from the root"},
      {"PREFIX=$there LIBDIR=lib", "LIBDIR: expected a path from the root, found 'lib'"},
  };
  static const char *const targets[] = {"install", "install-runtime", "install-compiler", "uninstall"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
      char command[600];
      snprintf(command, sizeof command,
               "mkdir -p sub && there=$PWD/sub && cd $ROOT && if " KILN_TEST_MAKE
               "%s %s 2>&1; then exit 1; fi; ls $there $there/..",
               targets[t], cases[i].words);
      char *out = must(command);
      if (!strstr(out, cases[i].says)) FAIL("%s %s: %s", targets[t], cases[i].words, out);
      if (!strstr(out, "/sub/..:\nsub\n"))
        FAIL("%s %s: something was installed: %s", targets[t], cases[i].words, out);
      free(out);
    }
}

// The compiler from the build tree or the PATH, the runtime from its own prefix.
TEST(install_sides, cmake_finds_each_side_where_it_is) {
  need_release();
  need("cmake --version && ninja --version");
  write_sources();
  free(must("cd $ROOT && " KILN_TEST_MAKE
            "DESTDIR= PREFIX=$OLDPWD/side LIBDIR=$OLDPWD/side/lib64 install-runtime"));
  char *out =
      must("cmake -S . -B out -G Ninja -Dkiln_DIR=$PWD/side/lib64/cmake/kiln -DKILN_EXECUTABLE=$KILN && "
           "cmake --build out && out/app");
  if (!strstr(out, "\nall twice\n")) FAIL("%s", out);
  free(out);
  // A second build has nothing to do; a changed kernel is in the next program.
  free(must("ninja -C out -n | grep 'no work to do'"));
  out = must("sed -i 's/2.0/3.0/' twice.kiln && cmake --build out && if out/app; then exit 1; fi");
  if (!strstr(out, "\n1\n")) FAIL("a changed kernel is not in the program: %s", out);
  free(out);
  out = must("rm -rf out && PATH=$BUILD/bin:$PATH cmake -S . -B out -G Ninja "
             "-Dkiln_DIR=$PWD/side/lib64/cmake/kiln && grep "
             "KILN_EXECUTABLE out/CMakeCache.txt");
  if (!strstr(out, "bin/kiln")) FAIL("%s", out);
  free(out);
  // What is wrong is said, with what to do.
  out = must("rm -rf out && if cmake -S . -B out -G Ninja -Dkiln_DIR=$PWD/side/lib64/cmake/kiln "
             "-DKILN_EXECUTABLE=/nowhere/kiln; then exit 1; fi");
  if (!strstr(out, "/nowhere/kiln, which does")) FAIL("%s", out);
  free(out);
  out = must("rm -rf out && sed -i 's/ runtime compiler//; s/ COMPONENTS//' CMakeLists.txt && if "
             "PATH=/usr/bin:/bin cmake "
             "-S . -B out -G Ninja -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=FALSE " // no Kiln of this machine
             "-Dkiln_DIR=$PWD/side/lib64/cmake/kiln; then exit 1; fi");
  if (!strstr(out, "kiln_add_library(my-kernels): kiln's compiler is needed")) FAIL("%s", out);
  free(out);
  out = must(
      "rm -rf out && sed -i 's/kiln REQUIRED/kiln REQUIRED COMPONENTS linker/' CMakeLists.txt && if cmake "
      "-S . -B out -G Ninja -Dkiln_DIR=$PWD/side/lib64/cmake/kiln; then exit 1; fi");
  if (!strstr(out, "not 'linker'")) FAIL("%s", out);
  free(out);
}

// From a C compiler and the headers of zstd and xxhash alone, for another libc; CMake takes it for another machine.
TEST(install_sides, a_static_runtime_for_musl) {
  need_release();
  need("musl-gcc --version");
  need("test -e /usr/include/zstd.h -a -e /usr/include/xxhash.h");
  write_sources();
  free(must("mkdir -p include musl/lib && cp /usr/include/zstd*.h /usr/include/xxhash.h include && "
            "cp $(gcc -print-file-name=libzstd.a) musl/lib && cd $ROOT && " KILN_TEST_MAKE
            "B=$OLDPWD/build CC=musl-gcc EXTRA_CFLAGS=\"-isystem $OLDPWD/include\" SHARED=no VERIFY_KEYS=no "
            "DESTDIR= "
            "PREFIX=$OLDPWD/musl install-runtime"));
  char *out = must("$KILN build twice.kiln -t host -q -o twice.kbundle && "
                   "musl-gcc -static -Wall -Wextra -Werror app.c -o app $(PKG_CONFIG_PATH=musl/lib/pkgconfig "
                   "pkg-config --cflags --libs kiln) && ./app twice.kbundle");
  CHECK_TEXT(out, "all twice\n");
  free(out);
  free(must("test ! -e musl/include/kiln/kiln_verify.h")); // VERIFY_KEYS=no
  // The object of `kiln export-c` for that target needs nothing of the runtime's folder.
  kiln_test_put("one.c", one_object);
  out = must("$KILN export-c --cc=musl-gcc --library=musl/lib/libkiln.a -o twice.o twice.kbundle >size && "
             "musl-gcc -static -Wall -Wextra -Werror one.c twice.o -o one && ./one && readelf -d one");
  if (!strstr(out, "6 8\n") || strstr(out, "NEEDED")) FAIL("%s", out);
  free(out);
  need("cmake --version && ninja --version");
  kiln_test_put("toolchain.cmake",
                "set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR x86_64)\n"
                "set(CMAKE_C_COMPILER musl-gcc)\nset(CMAKE_ASM_COMPILER musl-gcc)\n"
                "set(CMAKE_FIND_ROOT_PATH ${CMAKE_CURRENT_LIST_DIR}/musl)\n"
                "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)\n"
                "set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)\n"
                "set(CMAKE_EXE_LINKER_FLAGS \"-static -L${CMAKE_CURRENT_LIST_DIR}/musl/lib\")\n");
  // What lies beside the target's runtime is for the target: it must not be run.
  out = must("mkdir musl/bin && printf '#!/bin/sh\\nexit 9\\n' > musl/bin/kiln && chmod +x musl/bin/kiln && "
             "PATH=$BUILD/bin:$PATH cmake -S . -B out -G Ninja -DCMAKE_TOOLCHAIN_FILE=$PWD/toolchain.cmake "
             "-DCMAKE_PREFIX_PATH=/ && cmake --build out && out/app && readelf -d out/app");
  if (!strstr(out, "\nall twice\n") || strstr(out, "NEEDED")) FAIL("%s", out);
  free(out);
}
