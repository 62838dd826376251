// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that the surroundings of a compile do not affect the code: neither the environment of whoever
// starts it, nor the libm that the compiler runs with.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

static char *run(int want, const char *format, const char *a, const char *b) {
  char line[2000], *out;
  snprintf(line, sizeof line, format, a, b);
  int code = kiln_test_run(&out, "build=$PWD/%s && cd %s && export KILN_CACHE_DIR=$PWD/cache && { %s\n}",
                           kiln_test_build(), kiln_test_folder(), line);
  if (code != want) FAIL("%s: exit code %d, expected %d:\n%s", line, code, want, out);
  return out;
}

static void quiet(const char *format, const char *a, const char *b) { free(run(0, format, a, b)); }

// A libm whose functions are a quarter off, as a library that is loaded before.
static const char libm[] = "#define _GNU_SOURCE\n#include <dlfcn.h>\n"
                           "#define ONE(T, n) T n(T x) { static T (*real)(T); if (!real) *(void **)&real = "
                           "dlsym(RTLD_NEXT, #n); return real(x) * "
                           "(T)1.25 + (T)0.125; }\n"
                           "#define EACH(n) ONE(double, n) ONE(float, n##f) ONE(long double, n##l)\n"
                           "#define TWO(T, n) T n(T x, T y) { static T (*real)(T, T); if (!real) *(void "
                           "**)&real = dlsym(RTLD_NEXT, #n); return "
                           "real(x, y) * (T)1.25; }\n"
                           "EACH(acos) EACH(acosh) EACH(asin) EACH(asinh) EACH(atan) EACH(atanh) EACH(cbrt) "
                           "EACH(cos) EACH(cosh) EACH(erf) "
                           "EACH(erfc) EACH(exp) EACH(exp10) EACH(exp2) EACH(expm1) EACH(lgamma) EACH(log) "
                           "EACH(log10) EACH(log1p) EACH(log2) "
                           "EACH(sin) EACH(sinh) EACH(sqrt) EACH(tan) EACH(tanh) EACH(tgamma)\n"
                           "TWO(double, atan2) TWO(float, atan2f) TWO(double, hypot) TWO(double, pow) "
                           "TWO(float, powf) TWO(long double, powl)\n";

static const char *make_libm(void) {
  kiln_test_write(kiln_test_path("libm.c"), libm, sizeof libm - 1);
  quiet("cc -O1 -fno-builtin -shared -fPIC -o libm.so libm.c -ldl", "", "");
  return kiln_test_path("libm.so");
}

/// Kernels that store functions of drawn constants, in each float type.
static void write_kernels(uint64_t *seed, unsigned count) {
  static const char *const functions[] = {
      "exp",    "exp2",  "exp10",   "expm1",  "log",     "log2",     "log10",    "log1p", "sin",
      "cos",    "tan",   "tanh",    "sinh",   "cosh",    "asinh",    "acosh",    "atan",  "asin",
      "acos",   "erf",   "erfc",    "cbrt",   "sqrt",    "rsqrt",    "gelu",     "silu",  "lgamma",
      "tgamma", "sinpi", "normcdf", "erfinv", "sigmoid", "softplus", "gelu_tanh"};
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  enum { FUNCTIONS = sizeof functions / sizeof *functions };
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "kiln 1\n");
  for (unsigned i = 0; i < count; i++) {
    const char *type = types[kiln_test_random(seed) % 4], *f = functions[i % FUNCTIONS];
    kiln_buffer_format(
        &text,
        "\nkernel k%u(y: out *%s) @grid(1) @config(warps = 1)%s {\n  let i = iota(32)\n  store(y + i, ", i,
        type, kiln_test_random(seed) % 2 ? " @fp(ftz)" : "");
    for (unsigned k = 0; k < 3; k++) {
      double c = (double)(kiln_test_random(seed) % 9000 + 1) / (strstr("asin acos erfinv", f) ? 1e4 : 1e3);
      kiln_buffer_format(
          &text, kiln_test_random(seed) % 3 ? "%s(full(%s[32], %.4f)) + " : "%s(full(%s[32], 0.0) + %.4f) + ",
          f, type, c);
    }
    kiln_buffer_format(&text, "pow(full(%s[32], %u.5), 1.7))\n}\n", type, i % 7 + 1);
  }
  kiln_test_write(kiln_test_path("k.kiln"), text.bytes, text.size);
  kiln_buffer_deinit(&text);
}

/// A folder of programs in which the code generator runs in an environment of its own.
static void make_programs(const char *name, const char *environment) {
  char text[700];
  snprintf(text, sizeof text, "#!/bin/sh\nexec env %s $(cat $(dirname $0)/build)/bin/kiln-codegen \"$@\"\n",
           environment);
  quiet("mkdir %s && cp $build/bin/kiln $build/bin/kiln-tool %s && echo $build >build", name, name);
  kiln_test_write(kiln_test_path("script"), text, strlen(text));
  // The script is run by an open descriptor: it does not know its folder.
  quiet("sed \"s|.(cat .(dirname .0)/build)|$build|\" script >%s/kiln-codegen && chmod +x %s/kiln-codegen",
        name, name);
}

#define TARGETS "-t host,sm_90,sm_90a,gfx942,gfx1100"
#define LESS "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4,-AVX2_Usable,-FMA_Usable"

/// The libm that the code generator is linked with decides nothing, whatever is compiled. Its environment is
/// set after `kiln`, which would not let it through.
TEST(surroundings, nothing_is_folded_by_libm) {
  uint64_t seed = 20261126;
  char preload[400];
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer's library wants to come before all others");
  printf("seed %llu\n", (unsigned long long)seed);
  write_kernels(&seed, kiln_test_full() ? 400 : 68);
  snprintf(preload, sizeof preload, "LD_PRELOAD=%s", make_libm());
  make_programs("plain", "A=b");
  make_programs("other", preload);
  make_programs("less", LESS);
  quiet("plain/kiln build --no-cache -q " TARGETS " k.kiln -o plain.kb", "", "");
  for (unsigned i = 0; i < 2; i++) {
    const char *name = i ? "less" : "other";
    quiet("%s/kiln build --no-cache -q " TARGETS " k.kiln -o %s.kb", name, name);
    char *out = run(1, "plain/kiln diff plain.kb %s.kb%s", name, "");
    // Who made them is noted, by content, and nothing else differs.
    if (!strstr(out, "! note compiler: ") ||
        !strstr(out, " same, 1 changed, 0 only in the first, 0 only in the second"))
      FAIL("%s: %s", name, out);
    free(out);
  }
}

/// What the caller's loader, C library and locale are told does not reach the worker at all.
TEST(surroundings, the_callers_environment_changes_no_byte) {
  uint64_t seed = 7;
  char loaded[500];
  write_kernels(&seed, 34);
  if (KILN_TEST_SANITIZED) SKIP("a sanitizer's library wants to come before all others");
  snprintf(loaded, sizeof loaded, "LD_PRELOAD=%s LD_BIND_NOW=1", make_libm());
  const char *const others[] = {loaded, LESS,
                                "LC_ALL=tr_TR.UTF-8 LANG=de_DE LANGUAGE=de LOCPATH=/nonexistent",
                                "LD_LIBRARY_PATH=/nonexistent MALLOC_PERTURB_=7 CUDA_VISIBLE_DEVICES=3"};
  quiet("$build/bin/kiln build --no-cache -q " TARGETS " k.kiln -o a.kb", "", "");
  for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
    quiet("rm -f b.kb; env %s $build/bin/kiln build --no-cache -q " TARGETS
          " k.kiln -o b.kb && cmp a.kb b.kb%s",
          others[i], "");
}

/// Children have the variables that are listed for them, and no others, whatever they are called.
TEST(surroundings, children_get_listed_variables_only) {
  static const char hostile[] = "LD_PRELOAD= LD_AUDIT= LD_LIBRARY_PATH=/x LD_DEBUG=none GLIBC_TUNABLES= "
                                "LC_ALL=C LANG=de_DE LOCPATH=/x TZ=Asia/Tokyo GCONV_PATH=/x "
                                "MALLOC_ARENA_MAX=1 PTXAS_OPTIONS=-O0 NVCC_APPEND_FLAGS=-O0 "
                                "AMD_COMGR_SAVE_TEMPS=1 LLVM_PROFILE_FILE=/x PYTHONPATH=/x IFS=x KILN_X=1 "
                                "KILN_CACHE_REMOTE_TOKEN=secret TMPDIR=/tmp";
  static const struct {
    const char *program, *may;
  } rows[] = {{"kiln-codegen", " TMPDIR ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS "},
              {"kiln-tool", " TMPDIR ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS SSL_CERT_FILE "
                            "SSL_CERT_DIR HOME XDG_CACHE_HOME XDG_CONFIG_HOME NO_COLOR TERM "},
              {"kiln-remote", " TMPDIR ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS SSL_CERT_FILE "
                              "SSL_CERT_DIR HOME XDG_CACHE_HOME XDG_CONFIG_HOME NO_COLOR TERM "}};
  // Writes its environment down and goes on as the program whose place it has.
  static const char dump[] =
      "#include <fcntl.h>\n#include <unistd.h>\nextern char **environ;\n"
      "int main(int argc, char **argv) {\n  static char bytes[1 << 16];\n"
      "  int in = open(\"/proc/self/environ\", O_RDONLY), out = open(\"%s/%s.env\", O_WRONLY | O_CREAT | "
      "O_APPEND, 0600);\n"
      "  long got = read(in, bytes, sizeof bytes);\n  if (argc < 0 || write(out, bytes, got) != got) return "
      "126;\n"
      "  close(in);\n  close(out);\n  return execve(BUILD \"/bin/%s\", argv, environ);\n}\n";
  char text[2000];
  uint64_t seed = 3;
  write_kernels(&seed, 2);
  quiet("mkdir bin && cp $build/bin/kiln bin", "", "");
  for (unsigned i = 0; i < 3; i++) {
    snprintf(text, sizeof text, dump, kiln_test_folder(), rows[i].program, rows[i].program);
    kiln_test_write(kiln_test_path("dump.c"), text, strlen(text));
    quiet("cc -DBUILD=\"\\\"$build\\\"\" -o bin/%s dump.c%s", rows[i].program, "");
  }
  quiet("env %s KILN_CACHE_REMOTE=http://127.0.0.1:1 bin/kiln build -q -t host k.kiln -o a.kb%s", hostile,
        "");
  for (unsigned i = 0; i < 3; i++) {
    size_t size, left;
    char path[100], *all;
    snprintf(path, sizeof path, "%s.env", rows[i].program);
    if (access(kiln_test_path(path), R_OK)) FAIL("%s was not started", rows[i].program);
    all = kiln_test_read(kiln_test_path(path), &size);
    left = size;
    unsigned count = 0;
    for (char *at = all; left; at += strlen(at) + 1, count++) {
      char name[100];
      left -= strlen(at) + 1;
      snprintf(name, sizeof name, " %.*s ", (int)strcspn(at, "="), at);
      bool setting = i && !strncmp(name, " KILN_", 6) && strcmp(name, " KILN_X ");
      if (!strcmp(name, " PWD ") || !strcmp(name, " OLDPWD ") || !strcmp(name, " _ "))
        continue; // the shell's
      if (!setting && !strstr(rows[i].may, name)) FAIL("%s has %s", rows[i].program, at);
    }
    if (!count) FAIL("%s has no environment at all", rows[i].program); // TMPDIR was there
    free(all);
  }
}
