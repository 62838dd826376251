// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What `make install` puts down is complete: programs find each other, the library builds a program by pkg-config, the header is C and C++, and
// `make uninstall` leaves no file.
#include "tests/harness.h"

#include <stdio.h>
#include <string.h>

static const char source[] = "kiln 1\n"
                             "kernel twice[BLOCK: tune = 64](x: in *f32, y: out *f32, n: i32) @grid(cdiv(n, BLOCK)) @config(BLOCK = 64, warps = 2)\n"
                             "{\n  let i = pid(0) * BLOCK + iota(BLOCK)\n  store(y + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

static const char program[] =
    "#include <kiln/kiln.h>\n#include <stdio.h>\n"
    "int main(int argc, char **argv) {\n"
    "  kiln_library *library; kiln_device *device; kiln_kernel *twice; kiln_error err;\n"
    "  float in[100], out[100] = {0}, *x = in, *y = out; int32_t n = 100;\n"
    "  for (int i = 0; i < n; i++) in[i] = (float)i;\n"
    "  const void *const args[] = {&x, &y, &n};\n"
    "  if (argc != 2 || kiln_open_file(argv[1], &library, &err) || kiln_device_open(library, \"host\", &device, &err) ||\n"
    "      kiln_kernel_get(device, \"twice\", NULL, &twice, &err) || kiln_launch(twice, NULL, args, 3, &err)) return puts(err.text), 1;\n"
    "  for (int i = 0; i < n; i++) if (out[i] != 2.0f * (float)i) return printf(\"%d: %g\\n\", i, (double)out[i]), 1;\n"
    "  kiln_device_close(device); kiln_close(library);\n"
    "  return puts(\"all twice\"), 0;\n}\n";

/// A make of its own: not the jobs and variables of the one that runs the tests.
#define MAKE "env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s CONFIG=${CONFIG:-release} B=%s DESTDIR=%s/stage PREFIX=/usr "

static void write_in(const char *folder, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  kiln_test_write(path, text, strlen(text));
}

static void build_and_run(const char *folder, const char *compiler, const char *flags) {
  char *out;
  if (kiln_test_run(&out, "cd %s && export PKG_CONFIG_PATH=stage/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$PWD/stage && unset PKG_CONFIG_ALLOW_SYSTEM_CFLAGS && "
                          "%s -Wall -Wextra -pedantic -Werror program.c -o program -Istage/usr/include $(pkg-config --cflags --libs kiln) -Lstage/usr/lib %s && "
                          "LD_LIBRARY_PATH=stage/usr/lib ./program twice.kbundle",
                    folder, compiler, flags))
    FAIL("%s:\n%s", compiler, out);
  CHECK_TEXT(out, "all twice\n");
}

TEST(install, what_is_installed_works_and_goes_away) {
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out;
  if (!kiln_test_run(NULL, "nm -D %s/lib/libkiln.so.0 | grep -q __asan", build)) SKIP("an instrumented library needs an instrumented program");
  if (kiln_test_run(NULL, "pkg-config --version")) SKIP("pkg-config is not installed");
  if (kiln_test_run(&out, MAKE "install", build, folder)) FAIL("make install:\n%s", out);
  write_in(folder, "twice.kiln", source);
  write_in(folder, "program.c", program);
  if (kiln_test_run(&out, "cd %s && PATH=$PWD/stage/usr/bin:$PATH && kiln build twice.kiln -t host,gfx942 --no-cache -q -o twice.kbundle && kiln verify twice.kbundle", folder))
    FAIL("the installed program:\n%s", out);
  if (kiln_test_run(&out, "pkg-config --modversion %s/stage/usr/lib/pkgconfig/kiln.pc", folder)) FAIL("%s", out);
  build_and_run(folder, "gcc -std=c11", "");
  build_and_run(folder, "g++ -x c++ -std=c++17", "");
  if (kiln_test_run(&out, MAKE "uninstall", build, folder)) FAIL("make uninstall:\n%s", out);
  CHECK_INT(kiln_test_run(&out, "find %s/stage ! -type d; find %s/stage -name 'kiln*'", folder, folder), 0);
  CHECK_TEXT(out, "");
}
