// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds libkiln with other compilers and another libc: for aarch64, and with musl, where a static program
// opens the host and runs. A compiler that is not installed is a skip.
#include "tests/runtime/fixture.h"

// Compiles what libkiln is made of into DIR/<libkiln.so>, with the headers of zstd and xxhash apart from
// those of the compiler's own libc.
static const char build_script[] =
    "set -e; cc=$1; dir=$2; mkdir -p $dir/include $dir/objects\n"
    "cp /usr/include/zstd.h /usr/include/zstd_errors.h /usr/include/xxhash.h $dir/include\n"
    "for f in runtime/*.c runtime/bundle/*.c runtime/device/*.c runtime/more/*.c targets/*.c base/arena.c "
    "base/buffer.c "
    "base/checksum.c base/expr.c "
    "base/expr_code.c "
    "base/fs.c base/launches.c base/nearest.c base/output.c base/printed.c base/control_characters.c "
    "base/record.c "
    "base/status.c "
    "base/stream.c "
    "base/tuned.c base/types.c; do\n"
    "  $cc -std=c11 -D_GNU_SOURCE -DKILN_VERSION='\"0\"' -O1 -Wall -Wextra -Wshadow "
    "-Wno-missing-field-initializers -Werror -fPIC -fvisibility=hidden \\\n"
    "    -ffunction-sections -fdata-sections -I. -I$dir/include -c $f -o $dir/objects/$(echo $f | tr / _).o\n"
    "done\n"
    "$cc -shared -Wl,--gc-sections -Wl,--version-script=runtime/kiln.map $dir/objects/*.o -lpthread -ldl -o "
    "$dir/libkiln.so\n";

// The output of `command`, which must succeed.
static char *shell(const char *command, const char *argument) {
  char *out;
  if (kiln_test_run(&out, "%s %s", command, argument)) FAIL("%s %s: %s", command, argument, out);
  return out;
}

static const char *build_with(const char *compiler) {
  char *out, command[1200];
  if (kiln_test_run(&out, "command -v %s && test -e /usr/include/zstd.h -a -e /usr/include/xxhash.h",
                    compiler))
    SKIP("%s or a header of zstd or xxhash is not installed", compiler);
  free(out);
  kiln_test_write(kiln_test_path("build.sh"), build_script, sizeof build_script - 1);
  snprintf(command, sizeof command, "bash %s %s %s", kiln_test_path("build.sh"), compiler,
           kiln_test_folder());
  free(shell(command, ""));
  return kiln_test_path("libkiln.so");
}

TEST(portable, builds_for_aarch64) {
  const char *library = build_with("aarch64-linux-gnu-gcc");
  char *header = shell("readelf -hd", library), *missing;
  CHECK(strstr(header, "AArch64") != NULL);
  // Besides libc's versioned symbols only those of zstd's decoder are left to be found.
  missing = shell("nm -D --undefined-only", library);
  for (char *line = strtok(missing, "\n"); line; line = strtok(NULL, "\n")) {
    const char *name = strrchr(line, ' ') + 1;
    if (!strstr(line, "@GLIBC") && !strstr(line, " w ") && strncmp(name, "ZSTD_", 5))
      FAIL("%s is not in libc", name);
  }
  free(header);
}

TEST(portable, a_static_program_with_musl) {
  static const char program[] =
      "#include <stdio.h>\n#include \"runtime/kiln.h\"\nint main(void) {\n"
      "  kiln_open_options o = {.size = sizeof o}; kiln_library *l; kiln_device *d; kiln_error e; void *m;\n"
      "  if (kiln_open(&o, &l, &e) || kiln_device_open(l, \"host:2\", &d, &e) || kiln_alloc(d, 100, &m, &e) "
      "|| kiln_fill(d, m, 7, 100, &e)) return 1;\n"
      "  printf(\"%d\\n\", ((char *)m)[99]); kiln_free(d, m); kiln_device_close(d);\n"
      "  printf(\"%d\\n\", kiln_device_open(l, \"cuda:0\", &d, &e) == KILN_STATUS_NO_DEVICE); kiln_close(l); "
      "return 0; }\n";
  const char *folder = kiln_test_folder();
  char *out;
  build_with("musl-gcc");
  kiln_test_write(kiln_test_path("m.c"), program, sizeof program - 1);
  if (kiln_test_run(&out,
                    "musl-gcc -static -Wl,--gc-sections -I. %s/m.c %s/objects/*.o $(gcc "
                    "-print-file-name=libzstd.a) -o %s/m && %s/m",
                    folder, folder, folder, folder))
    FAIL("%s", out);
  CHECK_TEXT(out, "7\n1\n");
  free(out);
}
