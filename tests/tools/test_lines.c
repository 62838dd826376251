// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests --debug: which lines of the source the line tables name, read back from PTX and by llvm-dwarfdump
// from host and AMDGPU objects. The expected lines come from the source text itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

static const char source[] = "kiln 1\n"
                             "\n"
                             "fn scaled(v, s) {\n"
                             "  return v * s + 1.0 // here: mul\n"
                             "}\n"
                             "\n"
                             "kernel k(x: in *f32 @align(16), z: out *f32 @align(16), s: f32, n: i32)\n"
                             "  @grid(cdiv(n, 256)) @config(warps = 2)\n"
                             "{\n"
                             "  let i = pid(0) * 256 + iota(256)\n"
                             "  let v = load(x + i, i < n) // here: load\n"
                             "  // A comment, an empty line: no code.\n"
                             "\n"
                             "  let w = scaled(v, s)\n"
                             "  store(z + i, sqrt(w), i < n) // here: store\n"
                             "}\n";
enum { MOST_LINES = 64 };

typedef struct lines {
  bool has[MOST_LINES];
  unsigned other; ///< beyond the table
} lines;

static void add_line(lines *l, unsigned long line) {
  if (line && line < MOST_LINES) l->has[line] = true;
  else if (line) l->other++;
}

/// ".loc FILE LINE COLUMN", one a line of the text.
static lines of_ptx(const char *text) {
  lines l = {.other = 0};
  for (const char *at = text; (at = strstr(at, "\t.loc\t"));) {
    char *end;
    (void)strtoul(at + 6, &end, 10);
    add_line(&l, strtoul(end, NULL, 10));
    at = end;
  }
  return l;
}

/// "0x0000000000001220      7      0      1 ...".
static lines of_dump(const char *text) {
  lines l = {.other = 0};
  for (const char *at = text; (at = strstr(at, "\n0x"));) {
    char *end;
    (void)strtoul(at + 1, &end, 16);
    add_line(&l, strtoul(end, NULL, 10));
    at = end;
  }
  return l;
}

/// Lines marked "here" must be in the table; comments, empty lines and lines outside of functions must not.
static void compare_with(const char *all, const lines *l, const char *what, unsigned shift) {
  unsigned number = 1;
  CHECK_INT(l->other, 0);
  for (const char *at = all; *at; number++) {
    size_t length = strcspn(at, "\n");
    char line[200];
    snprintf(line, sizeof line, "%.*s", (int)length, at);
    const char *text = line + strspn(line, " ");
    bool is_code = strncmp(text, "//", 2) && *text && number > 2 && strcmp(text, "}");
    if (strstr(line, "// here") && !l->has[number + shift])
      FAIL("%s: nothing is of line %u: %s", what, number, line);
    if (!is_code && l->has[number + shift]) FAIL("%s: code is of line %u: %s", what, number, line);
    at += length + (at[length] == '\n');
  }
}

static void compare(const lines *l, const char *what, unsigned shift) {
  compare_with(source, l, what, shift);
}

static void write_source(char path[400], const char *folder, const char *before) {
  char text[2000];
  char *out;
  if (kiln_test_run(&out, "mkdir -p %s/%s", kiln_test_folder(), folder)) FAIL("%s", out);
  free(out);
  snprintf(path, 400, "%s/%s/lines.kiln", kiln_test_folder(), folder);
  int size = snprintf(text, sizeof text, "kiln 1\n%s%s", before, source + 7);
  kiln_test_write(path, text, (size_t)size);
}

static char *compiled(const char *path, const char *options, const char *to) {
  char *out, file[400];
  snprintf(file, sizeof file, "%s/%s", kiln_test_folder(), to);
  if (kiln_test_run(&out, "%s/bin/kiln compile %s --no-cache -q %s -o %s", kiln_test_build(), path, options,
                    file))
    FAIL("%s: %s", options, out);
  free(out);
  return kiln_test_read(file, NULL);
}

TEST(lines, ptx) {
  static const char *const targets[] = {"sm_75", "sm_80", "sm_90a", "sm_120"};
  char path[400], options[100];
  write_source(path, "a", "");
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    snprintf(options, sizeof options, "-t %s --emit=ptx --debug", targets[i]);
    char *text = compiled(path, options, "k.ptx");
    lines l = of_ptx(text);
    compare(&l, targets[i], 0);
    CHECK(strstr(text, "lines.kiln\"") != NULL);
    CHECK(strstr(text, kiln_test_folder()) == NULL);
    CHECK(strstr(text, ", debug") == NULL); // would make the assembler leave out its optimisations
    free(text);
    snprintf(options, sizeof options, "-t %s --emit=ptx", targets[i]);
    text = compiled(path, options, "k.ptx");
    CHECK(strstr(text, ".loc") == NULL && strstr(text, ".file") == NULL);
    free(text);
  }
}

TEST(lines, dwarf) {
  static const char *const targets[] = {"host", "x86-64-v4", "aarch64", "gfx942", "gfx1100", "gfx1201"};
  char path[400], options[100], *out;
  kiln_test_need("llvm-dwarfdump-22");
  write_source(path, "a", "");
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    snprintf(options, sizeof options, "-t %s --debug", targets[i]);
    free(compiled(path, options, "k.o"));
    CHECK_INT(kiln_test_run(&out, "llvm-dwarfdump-22 --debug-line %s/k.o", kiln_test_folder()), 0);
    lines l = of_dump(out);
    compare(&l, targets[i], 0);
    CHECK(strstr(out, "name: \"lines.kiln\"") != NULL);
    free(out);
    CHECK_INT(kiln_test_run(&out, "cd %s && llvm-dwarfdump-22 --debug-info k.o", kiln_test_folder()), 0);
    CHECK(strstr(out, "DW_AT_comp_dir\t(\".\")") != NULL);
    CHECK(strstr(out, kiln_test_folder()) == NULL);
    free(out);
    snprintf(options, sizeof options, "-t %s", targets[i]);
    free(compiled(path, options, "k.o"));
    CHECK_INT(kiln_test_run(&out, "llvm-dwarfdump-22 --debug-line %s/k.o", kiln_test_folder()), 0);
    CHECK(strstr(out, "lines.kiln") == NULL);
    free(out);
  }
}

// Products in loops go through other lowerings: copies and products from shared memory, rings, registers.
static const char product[] =
    "kiln 1\n"
    "\n"
    "kernel mul(a: in *f16 @align(16), b: in *f16 @align(16), c: out *f16 @align(16),\n"
    "           m: i32, n: i32 @div(8), k: i32 @div(8), lda: i32 @div(8), ldb: i32 @div(8), ldc: i32 "
    "@div(8))\n"
    "  @grid(cdiv(m, 64), cdiv(n, 64)) @config(warps = 4, stages = 3)\n"
    "{\n"
    "  let A = view(a, [m, k], [lda, 1], [64, 32])\n"
    "  let B = view(b, [k, n], [ldb, 1], [32, 64])\n"
    "  let C = view(c, [m, n], [ldc, 1], [64, 64])\n"
    "  let y = pid(0) * 64\n"
    "  let x = pid(1) * 64\n"
    "  var acc = zeros(f32[64, 64])\n"
    "  for i in 0 .. k step 32 {\n"
    "    let p = load(A, [y, i]) // left\n"
    "    let q = load(B, [i, x]) // right\n"
    "    // nothing\n"
    "    acc = dot(p, q, acc) // here: product\n"
    "  }\n"
    "  store(C, [y, x], acc as f16) // here: store\n"
    "}\n";

/// The number of the line that holds `text`.
static unsigned long line_with(const char *text) {
  unsigned long number = 1;
  for (const char *at = product; at < strstr(product, text); at++) number += *at == '\n';
  return number;
}

/// Every `instruction` of the PTX belongs to `line`, or to `other`.
static void check_owner(const char *ptx, const char *instruction, unsigned long line, unsigned long other) {
  unsigned found = 0;
  for (const char *at = strstr(ptx, instruction); at; at = strstr(at + 1, instruction), found++) {
    const char *loc = at;
    while (loc > ptx && strncmp(loc, "\t.loc\t", 6)) loc--;
    char *end;
    (void)strtoul(loc + 6, &end, 10);
    unsigned long owner = strtoul(end, NULL, 10);
    if (owner != line && owner != other)
      FAIL("%s is of line %lu, expected %lu or %lu", instruction, owner, line, other);
  }
  if (!found) FAIL("no %s in\n%s", instruction, ptx);
}

TEST(lines, products) {
  static const struct {
    const char *target, *instruction, *copy;
  } rows[] = {{"sm_90a", "wgmma.mma_async", "cp.async.bulk.tensor.2d.shared"},
              {"sm_80", "mma.sync", "cp.async.cg"}};
  char path[400], options[100];
  snprintf(path, sizeof path, "%s/product.kiln", kiln_test_folder());
  kiln_test_write(path, product, sizeof product - 1);
  unsigned long dot = line_with("product\n"), left = line_with("left\n"), right = line_with("right\n");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(options, sizeof options, "-t %s --emit=ptx --debug", rows[i].target);
    char *text = compiled(path, options, "p.ptx");
    lines l = of_ptx(text);
    compare_with(product, &l, rows[i].target, 0);
    check_owner(text, rows[i].instruction, dot, dot);
    check_owner(text, rows[i].copy, left, right);
    free(text);
  }
}

TEST(lines, products_in_dwarf) {
  static const char *const targets[] = {"host", "gfx90a", "gfx942", "gfx1100", "gfx1201"};
  char path[400], options[100], *out;
  kiln_test_need("llvm-dwarfdump-22");
  snprintf(path, sizeof path, "%s/product.kiln", kiln_test_folder());
  kiln_test_write(path, product, sizeof product - 1);
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    snprintf(options, sizeof options, "-t %s --debug", targets[i]);
    free(compiled(path, options, "p.o"));
    CHECK_INT(kiln_test_run(&out, "llvm-dwarfdump-22 --debug-line %s/p.o", kiln_test_folder()), 0);
    lines l = of_dump(out);
    compare_with(product, &l, targets[i], 0);
    free(out);
  }
}

/// "//## File "./product.kiln", line 14", as nvdisasm -g writes it.
static lines of_sass(const char *text) {
  static const char mark[] = "\", line ";
  lines l = {.other = 0};
  for (const char *at = text; (at = strstr(at, "//## File "));) {
    const char *number = strstr(at, mark);
    if (number) add_line(&l, strtoul(number + sizeof mark - 1, NULL, 10));
    at += 10;
  }
  return l;
}

// What profilers show: the assembler keeps the lines of the PTX.
TEST(lines, sass) {
  static const char *const targets[] = {"sm_80", "sm_90a"};
  char path[400], options[300], *out, *tool;
  kiln_test_need("nvdisasm");
  if (kiln_test_run(&tool, "command -v ptxas")) SKIP("ptxas is not in the path");
  tool[strcspn(tool, "\n")] = 0;
  snprintf(path, sizeof path, "%s/product.kiln", kiln_test_folder());
  kiln_test_write(path, product, sizeof product - 1);
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    snprintf(options, sizeof options, "-t %s --debug --ptx-assembler=ptxas --assembler-path=%.200s",
             targets[i], tool);
    free(compiled(path, options, "p.cubin"));
    CHECK_INT(kiln_test_run(&out, "nvdisasm -g %s/p.cubin", kiln_test_folder()), 0);
    lines l = of_sass(out);
    compare_with(product, &l, targets[i], 0);
    free(out);
  }
  free(tool);
}

// The places that Triton wrote into its IR, not those of the IR file.
TEST(lines, triton) {
  char *text = compiled("tests/ttir/add.ttir", "-t sm_80 --emit=ptx --debug", "t.ptx");
  lines l = of_ptx(text);
  CHECK(strstr(text, "add.py\"") != NULL);
  CHECK(l.has[4]);
  for (unsigned i = 5; i < MOST_LINES; i++) CHECK(!l.has[i]);
  free(text);
}

static char *key_of(const char *path, const char *options) {
  char *out;
  if (kiln_test_run(&out, "%s/bin/kiln key %s -q %s", kiln_test_build(), path, options)) FAIL("%s", out);
  return out;
}

static bool same_key(const char *a, const char *b, const char *options) {
  char *x = key_of(a, options), *y = key_of(b, options);
  bool same = !strcmp(x, y);
  free(x);
  free(y);
  return same;
}

// Lines are in the key when they are in the code, and only then; folders never are in either.
TEST(lines, key_and_folder) {
  char path[400], elsewhere[400], later[400];
  write_source(path, "a", "");
  write_source(elsewhere, "b", "");
  write_source(later, "c", "\n");
  CHECK(same_key(path, later, "-t sm_80"));
  CHECK(!same_key(path, later, "-t sm_80 --debug"));
  CHECK(same_key(path, elsewhere, "-t sm_80 --debug"));
  char *one = compiled(path, "-t sm_80 --emit=ptx --debug", "k.ptx"),
       *two = compiled(elsewhere, "-t sm_80 --emit=ptx --debug", "k.ptx"),
       *moved = compiled(later, "-t sm_80 --emit=ptx --debug", "k.ptx");
  lines l = of_ptx(moved);
  CHECK_TEXT(one, two);
  compare(&l, "moved", 1);
  free(one);
  free(two);
  free(moved);
}
