// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles every kernel of the library for every processor. `make check` takes some of both, `make
// check-full` all, with modes, and all recorded kernels of Triton if there are some. With KILN_TEST_ROWS it
// takes only those rows and modes, with KILN_TEST_PART a part of the recorded kernels.
#include "tests/harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const short_rows[] = {"sm_80",   "sm_90a",    "sm_100a", "sm_120f",        "gfx90a",
                                         "gfx942",  "gfx950",    "gfx1100", "gfx1100:wave64", "gfx1201",
                                         "gfx1250", "x86-64-v2", "aarch64"};

static const char *const modes[] = {
    "gfx906:xnack+:sramecc-", "gfx90a:xnack-:sramecc+",        "gfx942:xnack+",
    "gfx942:sramecc-:xnack-", "gfx9-generic:xnack+",           "gfx1100:wave64",
    "gfx1201:wave64",         "gfx11-generic:wave64",          "gfx950:xnack+:sramecc-",
    "gfx1010:xnack+",         "gfx9-4-generic:sramecc+:xnack-"};

static long number_after(const char *text, const char *key) {
  const char *at = strstr(text, key);
  if (!at) FAIL("%s is missing in\n%.500s", key, text);
  return strtol(at + strlen(key), NULL, 10);
}

/// How PTX is finished: the long matrix has it accepted by ptxas where that is there and knows the row.
static const char *finish_of(const char *row) {
  static const char ptxas[] = "/usr/local/cuda/bin/ptxas";
  static char command[200];
  bool is_known = kiln_test_full() && !strncmp(row, "sm_", 3) && !access(ptxas, X_OK);
  char *out;
  if (is_known) {
    is_known = !kiln_test_run(&out, "%s --help | grep -q \"'%s'\"", ptxas, row);
    free(out);
  }
  snprintf(command, sizeof command, "--ptx-assembler=ptxas --assembler-path=%s", ptxas);
  return is_known ? command : "--ptx-assembler=none";
}

/// Objects of `targets` over `files`, all of which must be there.
static long build_all(const char *targets, const char *files) {
  const char *folder = kiln_test_folder();
  char *out;
  int code = kiln_test_run(&out,
                           "nice %s/bin/kiln build %s -t %s %s --no-cache --json -o %s/m.kbundle "
                           "2>%s/errors && %s/bin/kiln verify %s/m.kbundle >%s/errors 2>&1",
                           kiln_test_build(), files, targets, finish_of(targets), folder, folder,
                           kiln_test_build(), folder, folder);
  if (code) {
    char path[512];
    snprintf(path, sizeof path, "%s/errors", folder);
    char *errors = kiln_test_read(path, NULL);
    FAIL("%s for %s:\n%.3000s", files, targets, errors ? errors : "");
  }
  long objects = number_after(out, "\"objects\": ");
  CHECK_INT(number_after(out, "\"failed\": "), 0);
  CHECK_INT(number_after(out, "\"compiled\": "), objects);
  free(out);
  return objects;
}

TEST(matrix, kernels_compile_for_processors) {
  if (kiln_test_full()) SKIP("the full matrix has these");
  char targets[512] = "";
  for (size_t i = 0; i < sizeof short_rows / sizeof *short_rows; i++)
    snprintf(targets + strlen(targets), sizeof targets - strlen(targets), "%s%s", i ? "," : "",
             short_rows[i]);
  CHECK(build_all(targets, "kernels/search.kiln kernels/transpose.kiln kernels/softmax.kiln") > 0);
  // Of the products those of each element type: all instances take minutes.
  CHECK(build_all(targets,
                  "kernels/gemm.kiln -k 'gemm[T=bf16,ACT=0,BIAS=false]' -k 'gemm[T=f32,ACT=0,BIAS=false]' "
                  "-k 'gemm_general[T=f16,TA=true,TB=false,BETA=true]' -k gemm_i8 "
                  "-k 'gemm_fp8[S=e5m2,T=e4m3,FAST=false]' -k 'gemv[T=bf16]' "
                  "-k 'gemm_parts[T=f16,TA=false,TB=true,TF32=false]'") > 0);
}

/// False for rows that the LLVM of this build does not know.
static bool is_made(const char *row) {
  static const char text[] = "kiln 1\nkernel k(x: inout *f32) @grid(1) { store(x, load(x) + 1.0) }\n";
  char source[400], *out;
  snprintf(source, sizeof source, "%s/small.kiln", kiln_test_folder());
  kiln_test_write(source, text, strlen(text));
  kiln_test_run(&out, "%s/bin/kiln compile %s -t %s --no-cache --ptx-assembler=none -o %s.out 2>&1",
                kiln_test_build(), source, row, source);
  bool made = !strstr(out, "this code generator has LLVM");
  free(out);
  return made;
}

/// Whether this run builds the library for a row or mode; rows are its cases.
static bool takes_library(const char *row) {
  static unsigned number;
  return kiln_test_wants_row(row) && kiln_test_wants_piece(number++) && is_made(row);
}

/// Calls `each` for the rows of `kiln targets` that `takes` wants, `native` left out.
static void for_rows(bool (*takes)(const char *row), void (*each)(const char *row)) {
  char *list, *row, *rest = NULL;
  unsigned rows = 0;
  if (kiln_test_run(&list, "%s/bin/kiln targets", kiln_test_build())) FAIL("%s", list);
  for (row = strtok_r(list, "\n", &rest); row; row = strtok_r(NULL, "\n", &rest)) {
    row[strcspn(row, " ")] = 0;
    if (strcmp(row, "native") != 0 && takes(row)) each(row), rows++;
  }
  printf("%u rows\n", rows);
  CHECK(rows >= 30 || getenv("KILN_TEST_ROWS") || getenv("KILN_TEST_PART"));
  free(list);
}

// A kernel without a config for a row is found before anything is compiled.
TEST(matrix, every_kernel_has_a_config_for_every_processor) {
  char *out;
  if (kiln_test_run(&out,
                    "kiln=%s/bin/kiln; $kiln key -q --max-objects=1000000 --ptx-assembler=none "
                    "-t $($kiln targets | awk '$1 != \"native\" { printf \"%%s%%s\", c, $1; c = \",\" }') "
                    "kernels/*.kiln 2>&1 >%s/keys",
                    kiln_test_build(), kiln_test_folder()))
    FAIL("%s", out);
  CHECK(!*out);
  free(out);
}

static void build_library(const char *row) { build_all(row, "kernels/*.kiln"); }
static bool takes_texts(const char *row) { return kiln_test_wants_row(row) && is_made(row); }

TEST(matrix, all_kernels_compile_for_all_processors) {
  if (!kiln_test_full()) SKIP("`make check-full` has it");
  for_rows(takes_library, build_library);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (takes_library(modes[i])) build_all(modes[i], "kernels/*.kiln");
}

static long texts; ///< how many copy_texts copied

static void import_texts(const char *row) {
  const char *folder = kiln_test_folder();
  char *out;
  int code = kiln_test_run(&out,
                           "nice %s/bin/kiln import-triton -q -j 2 -t %s %s --no-cache --json "
                           "-o %s/m.kbundle %s/texts 2>%s/errors",
                           kiln_test_build(), row, finish_of(row), folder, folder, folder);
  if (code || number_after(out, "\"not_taken\": ") || number_after(out, "\"taken\": ") != texts) {
    char path[512], *errors;
    snprintf(path, sizeof path, "%s/errors", folder);
    errors = kiln_test_read(path, NULL);
    FAIL("%s:\n%.3000s", row, errors ? errors : "");
  }
  free(out);
}

static int has_text(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/// Copies the texts of this run into the test's folder. Launch facts of a case are in case.json; an import
/// reads them beside the text, as Triton writes them.
static void copy_texts(const char *cases) {
  const char *folder = kiln_test_folder();
  unsigned number = 0;
  struct dirent **entries;
  int count = scandir(cases, &entries, has_text, alphasort);
  if (count < 0) FAIL("%s cannot be read", cases);
  for (int i = 0; i < count; free(entries[i++])) {
    char from[1024], *out;
    snprintf(from, sizeof from, "%s/%s/kernel.ttir", cases, entries[i]->d_name);
    if (access(from, R_OK) || !kiln_test_wants_piece(number++)) continue;
    if (kiln_test_run(&out,
                      "cd '%s/%s' && mkdir -p '%s/texts/%s' && cp kernel.ttir '%s/texts/%s' && cp case.json "
                      "'%s/texts/%s/kernel.json'",
                      cases, entries[i]->d_name, folder, entries[i]->d_name, folder, entries[i]->d_name,
                      folder, entries[i]->d_name))
      FAIL("%s", out);
    free(out);
    texts++;
  }
  free(entries);
  printf("%ld of %u texts\n", texts, number);
  CHECK(texts > 0);
}

TEST(matrix, recorded_texts_compile_for_all_processors) {
  const char *cases = getenv("KILN_TEST_CASES");
  if (!cases || !*cases) SKIP("KILN_TEST_CASES names no folder of recorded cases");
  if (!kiln_test_full()) SKIP("`make check-full` has it");
  copy_texts(cases);
  for_rows(takes_texts, import_texts);
}

// What `kiln targets` says of wave sizes is what targets may ask for: "wave32", "wave64", or "wave32 (or
// wave64)".
TEST(matrix, listed_wave_sizes_are_taken) {
  static const char text[] =
      "kiln 1\nkernel k(x: inout *f32) @grid(1) @config(warps = 1) { store(x, load(x) + 1.0) }\n";
  char *list, *out, name[64], source[400];
  unsigned asked = 0;
  snprintf(source, sizeof source, "%s/one.kiln", kiln_test_folder());
  kiln_test_write(source, text, strlen(text));
  if (kiln_test_run(&list, "%s/bin/kiln targets", kiln_test_build())) FAIL("%s", list);
  for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n"))
    for (unsigned wave = 32;
         wave <= 64 && sscanf(line, "%63s amdgpu", name) == 1 && strstr(line, " amdgpu ") && is_made(name);
         wave += 32) {
      char one[20], other[20];
      snprintf(one, sizeof one, " wave%u", wave), snprintf(other, sizeof other, "(or wave%u)", wave);
      int status = kiln_test_run(&out, "%s/bin/kiln compile %s -t %s:wave%u --no-cache", kiln_test_build(),
                                 source, name, wave);
      bool listed = strstr(line, one) || strstr(line, other);
      if ((status == 0) != listed) FAIL("%s wave%u ended with %d: %s", line, wave, status, out);
      free(out);
      asked++;
    }
  CHECK(asked > 20);
  free(list);
}
