// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests bundles made of bundles: a lost signature is reported, and a new one is only put on what somebody
// trusted had signed.
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "kiln 1\nkernel %s(x: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 1) {\n"
    "  let i = pid(0) * 64 + iota(64)\n  store(x + i, load(x + i, i < n) * 2.0, i < n)\n}\n";

static char *run(int *out_code, const char *line) {
  char *out;
  *out_code = kiln_test_run(
      &out, "PATH=$PWD/%s/bin:$PATH && cd %s && export KILN_CACHE_DIR=$PWD/cache HOME=$PWD && { %s\n} 2>&1",
      kiln_test_build(), kiln_test_folder(), line);
  return out;
}

static void quiet(const char *line) {
  int code;
  char *out = run(&code, line);
  if (code) FAIL("%s: exit code %d:\n%s", line, code, out);
  free(out);
}

/// Bundles of two kernels for two targets: unsigned, signed by ci and by other, and signed by ci and changed
/// since.
static void prepare(void) {
  char path[300], text[500];
  for (unsigned i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/k%u.kiln", kiln_test_folder(), i);
    snprintf(text, sizeof text, source, i ? "two" : "one");
    kiln_test_write(path, text, strlen(text));
  }
  quiet("for k in ci other mine; do kiln cache keygen --name=$k $k.key; done\n"
        "for n in 0 1; do kiln build -q -t host,sm_80,gfx942 --ptx-assembler=none k$n.kiln k$((1 - n)).kiln "
        "-o none$n.kb || exit 1\n"
        "kiln prune --drop-kernel=$(test $n = 0 && echo two || echo one) none$n.kb -o n.kb && mv n.kb "
        "none$n.kb\n"
        "for k in ci other; do kiln sign -k $k.key --name=app --version=7 -o $k$n.kb none$n.kb; done\n"
        "cp ci$n.kb bad$n.kb; printf X | dd of=bad$n.kb bs=1 seek=$(($(stat -c %s bad$n.kb) / 2)) "
        "conv=notrunc\n"
        "done");
}

static const char *const kinds[] = {"none", "ci", "other", "bad"};

/// One command over inputs of given kinds (the second may be missing), with keys; by the rules alone.
static void check(const char *command, const char *first, const char *second, const char *keys,
                  bool trusts_ci, bool repacked) {
  char line[900];
  int code;
  const char *inputs[] = {first, second};
  bool is_signing = *keys, any_signed = false, all_trusted = true, any_bad = false;
  for (unsigned i = 0; i < 2 && inputs[i]; i++) {
    bool ci = !strcmp(inputs[i], "ci"), other = !strcmp(inputs[i], "other"), bad = !strcmp(inputs[i], "bad");
    any_signed |= ci || other || bad;
    any_bad |= bad;
    all_trusted &= (ci && trusts_ci) || (other && strstr(keys, "other") != NULL);
  }
  if (any_bad && (!is_signing || repacked)) return; // what is damaged is the business of other tests
  bool works = !is_signing || all_trusted;
  snprintf(line, sizeof line, "rm -f o.kb; %s %s%s.kb%s%s%s %s -o o.kb", command, repacked ? "zip-" : "",
           first, second ? " " : "", second ? second : "", second ? "1.kb" : "", keys);
  // The first of two is number 0.
  char *zero = strstr(line, first);
  memmove(zero + strlen(first) + 1, zero + strlen(first), strlen(zero + strlen(first)) + 1);
  zero[strlen(first)] = '0';
  char *out = run(&code, line), *verified;
  bool is_told = strstr(out, "kiln: note: o.kb has no signature yet: the one of ") != NULL;
  if (code != !works) FAIL("%s: exit code %d:\n%s", line, code, out);
  if (is_told != (works && !is_signing && any_signed)) FAIL("%s: told %d:\n%s", line, is_told, out);
  if (is_signing && !works && !strstr(out, "signed") && !any_bad)
    FAIL("%s: without the reason:\n%s", line, out);
  free(out);
  if (!works) {
    free(run(&code, "test ! -e o.kb"));
    if (code) FAIL("%s: wrote a bundle all the same", line);
    return;
  }
  verified =
      run(&code, is_signing ? "kiln verify --key=mine.key.pub o.kb || kiln verify --key=ci.key.pub o.kb"
                            : "kiln verify o.kb");
  bool is_signed = strstr(verified, "signed by") != NULL,
       states = strstr(verified, "name 'app', version 7") != NULL, stated = !second && strcmp(first, "none");
  if (code || is_signed != is_signing || states != stated) FAIL("%s: %d:\n%s", line, code, verified);
  free(verified);
}

TEST(resign, signatures_are_lost_aloud_or_made_of_trusted_parts) {
  static const struct {
    const char *options;
    bool trusts_ci;
  } keys[] = {{"", false},
              {"--sign ci.key", true},
              {"--sign mine.key", false},
              {"--sign mine.key --trust ci.key.pub", true},
              {"--sign mine.key --trust ci.key.pub --trust other.key.pub", true}};
  static const char *const commands[] = {"kiln split --arch=sm_80", "kiln prune --drop-target=sm_80",
                                         "kiln prune --drop-target=sm_80 --max-size=1000000", "kiln merge"};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  prepare();
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    for (size_t a = 0; a < KINDS; a++) {
      for (size_t c = 0; c < sizeof commands / sizeof *commands; c++)
        check(commands[c], kinds[a], NULL, keys[k].options, keys[k].trusts_ci, false);
      for (size_t b = 0; b < KINDS; b++)
        check("kiln merge", kinds[a], kinds[b], keys[k].options, keys[k].trusts_ci, false);
    }
}

/// A repacked archive keeps the signed index: it is trusted, or not, by that.
TEST(resign, fix_index_signs_what_was_signed) {
  static const struct {
    const char *options;
    bool trusts_ci;
  } keys[] = {{"", false},
              {"--sign ci.key", true},
              {"--sign mine.key", false},
              {"--sign mine.key --trust ci.key.pub", true}};
  int code;
  char *out = run(&code, "command -v bsdtar");
  free(out);
  if (code) SKIP("bsdtar, which repacks, is not installed");
  prepare();
  for (size_t a = 0; a < 3; a++) {
    char line[400];
    snprintf(line, sizeof line,
             "rm -rf x && mkdir x && bsdtar -xf %s0.kb -C x && cd x && bsdtar --format=zip -cf ../zip-%s0.kb "
             "$(ls)",
             kinds[a], kinds[a]);
    quiet(line);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      check("kiln fix-index", kinds[a], NULL, keys[k].options, keys[k].trusts_ci, true);
  }
  // Codes of one bundle under the signed index of another.
  quiet("rm -rf x y && mkdir x y && bsdtar -xf ci0.kb -C x && bsdtar -xf none1.kb -C y && cp x/KILN-INDEX y/ "
        "&& cd y && "
        "bsdtar --format=zip -cf ../mixed.kb $(ls)");
  free(run(&code, "kiln fix-index --sign ci.key mixed.kb -o o.kb"));
  CHECK_INT(code, 1);
}
