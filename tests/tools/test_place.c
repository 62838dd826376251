// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the way from the number of an operation in a message to the line of the source: printed when a
// compile fails, and on request after a failed launch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness.h"

static void expect(const char *out, const char *piece) {
  if (!strstr(out, piece)) FAIL("expected %s in\n%s", piece, out);
}

TEST(place, of_a_failed_assert) {
  static const char text[] = "kiln 1\n"
                             "kernel k(x: inout *f32, n: i32) @grid(1) @config(warps = 1) {\n"
                             "  let V = view(x, [n], [1], [16])\n"
                             "  store(V, [0], load(V, [0]) + 1.0)\n"
                             "  assert(n < 8, \"small\")\n"
                             "}\n";
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out, path[400];
  snprintf(path, sizeof path, "%s/place.kiln", folder);
  kiln_test_write(path, text, sizeof text - 1);
  if (kiln_test_run(&out, "%s/bin/kiln build %s -t host --no-cache -q -o %s/p.kbundle", build, path, folder))
    FAIL("%s", out);
  free(out);
  CHECK(kiln_test_run(&out, "%s/bin/kiln run %s/p.kbundle k -a x=zeros:16 -a n=16", build, folder) != 0);
  expect(out, "'kiln_k': line 5: assertion 'small' at operation ");
  expect(out, " does not hold in program (0, 0, 0) of 1 x 1 x 1");
  unsigned long number = strtoul(strstr(out, " at operation ") + 14, NULL, 10);
  free(out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln compile %s -t host --no-cache --place=%lu", build, path, number),
            0);
  expect(out, "place.kiln:5:3: note: operation ");
  expect(out, "  assert(n < 8, \"small\")\n");
  free(out);
}

// The assert that a build puts before a loop names the loop's line.
TEST(place, of_a_step_that_is_not_above_zero) {
  static const char text[] = "kiln 1\n"
                             "kernel k(x: inout *i32, s: i32) @grid(1) @config(warps = 1) {\n"
                             "  store(x, 3)\n"
                             "  for i in 0 .. 9 step s { store(x + i, i) }\n"
                             "}\n";
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out, path[400];
  snprintf(path, sizeof path, "%s/step.kiln", folder);
  kiln_test_write(path, text, sizeof text - 1);
  if (kiln_test_run(&out, "%s/bin/kiln build %s -t host --no-cache -q -o %s/s.kbundle", build, path, folder))
    FAIL("%s", out);
  free(out);
  CHECK(kiln_test_run(&out, "%s/bin/kiln run %s/s.kbundle k -a x=zeros:16 -a s=0", build, folder) != 0);
  expect(out, "'kiln_k': line 4: assertion 'step of a 'for': expected at least 1' at operation ");
  free(out);
  CHECK_INT(kiln_test_run(&out, "%s/bin/kiln run %s/s.kbundle k -a x=zeros:16 -a s=3", build, folder), 0);
  free(out);
}

// Message, line and program of one of several asserts, also from Triton IR and from the canonical form's
// text.
TEST(place, of_asserts_of_many_programs) {
  static const char text[] = "kiln 1\n"
                             "kernel k(y: out *i32, n: i32) @grid(n, 3) @config(warps = 1) {\n"
                             "  assert(n > 0, \"never\")\n"
                             "\n"
                             "  assert(pid(0) + 10 * pid(1) != 24, \"not 'that' one\")\n"
                             "  store(y + pid(0), 1)\n"
                             "}\n";
  const char *build = kiln_test_build(), *folder = kiln_test_folder();
  char *out, path[400];
  snprintf(path, sizeof path, "%s/many.kiln", folder);
  kiln_test_write(path, text, sizeof text - 1);
  for (int again = 0; again < 2; again++) {
    if (kiln_test_run(&out, "%s/bin/kiln build %s -t host --no-cache -q -o %s/m.kbundle", build, path,
                      folder))
      FAIL("%s", out);
    free(out);
    const char *name = again ? "kiln_k" : "k", *grid = again ? "--grid 7,3" : "";
    CHECK(kiln_test_run(&out, "%s/bin/kiln run %s/m.kbundle %s %s -a %s=zeros:7 -a %s=7", build, folder, name,
                        grid, again ? "p0" : "y", again ? "p1" : "n") == 1);
    expect(out, "line 5: assertion 'not 'that' one' at operation ");
    expect(out, " in program (4, 2, 0) of 7 x 3 x 1 ");
    free(out);
    snprintf(path, sizeof path, "%s/canonical.kiln", folder);
    CHECK_INT(
        kiln_test_run(&out, "%s/bin/kiln compile %s/many.kiln -t host --emit=ir -o %s", build, folder, path),
        0);
    free(out);
  }
}

TEST(place, of_a_failed_compile) {
  static const char text[] = "kiln 1\n"
                             "kernel k(x: inout *f32) @grid(1) @config(warps = 1) {\n"
                             "  let v = load(x + iota(32))\n"
                             "  store(x + iota(32), asm(\"fancy.f32 $0, $1;\", \"=f,f\", [v], f32))\n"
                             "}\n";
  char *out, path[400];
  snprintf(path, sizeof path, "%s/asm.kiln", kiln_test_folder());
  kiln_test_write(path, text, sizeof text - 1);
  CHECK(kiln_test_run(&out, "%s/bin/kiln compile %s -t host --no-cache", kiln_test_build(), path) != 0);
  expect(out, "KILN-E");
  expect(out, "asm.kiln:4:3: note: operation ");
  expect(out, "^");
  free(out);
}

// An assembler that refuses the text of an `asm` shows a line with registers in it: the place is that of the
// `asm` which has the line, and the source is at fault, not Kiln.
TEST(place, of_assembly_that_its_assembler_refuses) {
  static const char head[] = "kiln 1\n"
                             "kernel k(x: inout *i32) @grid(1) @config(warps = 1) {\n"
                             "  let v = load(x + iota(64))\n"
                             "  let w = asm(\"%s\", \"%s\", [v], i32)\n"
                             "  store(x + iota(64), asm(\"%s\", \"%s\", [w], i32))\n"
                             "}\n";
  static const struct {
    const char *target, *first, *constraints, *second, *other, *line;
  } rows[] = {
      {"gfx942", "v_mov_b32 $0, $1", "=v,v", "v_nonsense $0, $1", "=v,v", "5:3"},
      {"gfx942", "v_nonsense $0, $1", "=v,v", "v_mov_b32 $0, $1", "=v,v", "4:7"},
      {"gfx1201", "v_mov_b32 $0, $1", "=v,v", "s_nop 0\\n v_mov_b32 $0, $$1, $1", "=v,v", "5:3"},
      {"gfx1100", "v_mov_b32 $0, $1", "=v,v", "v_mov_b32 $0, $1\\n v_add_u32 ${1}", "=v,v", "5:3"},
      {"gfx942", "v_mov_b32 $0, $1", "=v,v", "v_mov_b32 $0, $1", "=q,v", "5:3"},
      {"sm_80", "mov.u32 $0, $1;", "=r,r", "mov.u32 $0, $1;", "=r,{foo}", "5:3"},
      {"sm_80", "mov.u32 $0, $1;", "=r,r", "nonsense.u32 $0, $1;", "=r,r", "5:3"},
      {"sm_80", "mov.u32 $0 $1;", "=r,r", "mov.u32 $0, $1;", "=r,r", "4:7"},
  };
  char *out, path[400], text[600], want[80];
  bool has_assembler = !kiln_test_run(&out, "sh -c 'test -x /usr/local/cuda/bin/ptxas'");
  free(out);
  snprintf(path, sizeof path, "%s/refused.kiln", kiln_test_folder());
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool by_ptxas = rows[i].target[0] == 's' && !strchr(rows[i].other, '{');
    if (by_ptxas && !has_assembler) continue;
    snprintf(text, sizeof text, head, rows[i].first, rows[i].constraints, rows[i].second, rows[i].other);
    kiln_test_write(path, text, strlen(text));
    int code = kiln_test_run(&out, "%s/bin/kiln compile %s -t %s --no-cache%s", kiln_test_build(), path,
                             rows[i].target, by_ptxas ? "" : " --ptx-assembler=none");
    if (code != 1) FAIL("row %zu: exit status %d, expected 1:\n%s", i, code, out);
    expect(out, "KILN-E0012");
    snprintf(want, sizeof want, "refused.kiln:%s: note: operation ", rows[i].line);
    expect(out, want);
    free(out);
  }
}
