// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests the video instructions of the interpreter of PTX, by values computed by hand and, drawn, by a model of their
// own; and branches by an index.
#include <stdio.h>

#include "tests/ptx/ptx_case.h"

enum { LANES = 32, DRAWN = 1500 };

/// z[i] = `instruction` of x[i], y[i], w[i], for 32 threads; false where the text is refused.
static bool run_instruction(const char *instruction, const uint32_t (*in)[LANES], uint32_t *z,
                            kiln_error *err) {
  static ptx_report report;
  char text[2000];
  snprintf(text, sizeof text,
           ".version 8.0\n.target sm_80\n.address_size 64\n"
           ".visible .entry k(.param .u64 x, .param .u64 y, .param .u64 w, .param .u64 z) {\n"
           ".reg .b32 %%a, %%b, %%c, %%d, %%t; .reg .b64 %%p, %%o;\n"
           "mov.u32 %%t, %%tid.x; mul.wide.u32 %%o, %%t, 4;\n"
           "ld.param.u64 %%p, [x]; add.u64 %%p, %%p, %%o; ld.global.u32 %%a, [%%p];\n"
           "ld.param.u64 %%p, [y]; add.u64 %%p, %%p, %%o; ld.global.u32 %%b, [%%p];\n"
           "ld.param.u64 %%p, [w]; add.u64 %%p, %%p, %%o; ld.global.u32 %%c, [%%p];\n"
           "%s\n"
           "ld.param.u64 %%p, [z]; add.u64 %%p, %%p, %%o; st.global.u32 [%%p], %%d;\n"
           "ret; }\n",
           instruction);
  uint32_t x[3][LANES];
  memcpy(x, in, sizeof x);
  const size_t size = sizeof *x;
  ptx_case c = {.name = "video",
                .text = text,
                .grid = 1,
                .block = LANES,
                .buffers = {{x[0], size}, {x[1], size}, {x[2], size}, {z, size}},
                .buffer_count = 4};
  return case_run(&c, 1, &report, err);
}

TEST(ptx_video, values_by_hand) {
  static const struct {
    const char *instruction;
    uint32_t a, b, c, want;
  } rows[] = {
      {"vadd.u32.u32.u32 %d, %a, %b;", 0xffffffff, 2, 0, 1},
      {"vadd.u32.u32.u32.sat %d, %a, %b;", 0xffffffff, 2, 0, 0xffffffff},
      {"vadd.s32.s32.s32.sat %d, %a, %b;", 0x7fffffff, 1, 0, 0x7fffffff},
      {"vadd.s32.u32.u32.sat %d, %a, %b;", 0xffffffff, 1, 0, 0x7fffffff},
      {"vadd.s32.s32.s32 %d, %a.b3, %b.h0;", 0x80000000, 0x1234ffff, 0, 0xffffff7f}, // -128 - 1
      {"vadd.u32.u32.u32 %d.b1, %a.b0, %b.b0, %c;", 0xf0, 0x20, 0x11223344, 0x11221044},
      {"vadd.u32.u32.u32.sat %d.b1, %a.b0, %b.b0, %c;", 0xf0, 0x20, 0x11223344, 0x1122ff44},
      {"vadd.u32.u32.u32.add %d, %a, %b, %c;", 1, 2, 3, 6},
      {"vsub.s32.u32.u32 %d, %a, %b;", 1, 2, 0, 0xffffffff},
      {"vsub.u32.u32.u32.sat %d, %a, %b;", 1, 2, 0, 0},
      {"vsub.s32.s32.s32.min %d, %a, %b, %c;", 5, 9, 0xfffffffd, 0xfffffffc}, // min(-4, -3)
      {"vabsdiff.u32.u32.u32 %d, %a.h1, %b.h1;", 0x00030000, 0x00080000, 0, 5},
      {"vabsdiff.u32.s32.s32 %d, %a, %b;", 0x80000000, 0x7fffffff, 0, 0xffffffff},
      {"vmin.s32.s32.s32 %d, %a, %b;", 0xffffffff, 1, 0, 0xffffffff},
      {"vmin.u32.u32.u32 %d, %a, %b;", 0xffffffff, 1, 0, 1},
      {"vmax.s32.s32.u32 %d, %a, %b;", 0xffffffff, 0xffffffff, 0, 0xffffffff},
      {"vmax.s32.s32.s32.max %d, %a, %b, %c;", 3, 4, 5, 5},
      {"vset.s32.u32.lt %d, %a, %b;", 0xffffffff, 0, 0, 1}, // -1 < 0
      {"vset.u32.u32.ge.add %d, %a, %b, %c;", 7, 7, 41, 42},
      {"vshl.u32.u32.u32.clamp %d, %a, %b;", 1, 40, 0, 0},
      {"vshl.u32.u32.u32.wrap %d, %a, %b;", 1, 40, 0, 256},
      {"vshr.s32.s32.u32.clamp %d, %a, %b;", 0x80000000, 40, 0, 0xffffffff},
      {"vadd2.u32.u32.u32 %d, %a, %b, %c;", 0xffff0001, 0x00020003, 0, 0x00010004},
      {"vadd2.s32.s32.s32.sat %d, %a, %b, %c;", 0x7fff8000, 0x0001ffff, 0, 0x7fff8000},
      {"vadd2.u32.u32.u32 %d.h1, %a, %b, %c;", 0x00010001, 0x00020003, 0xaaaabbbb, 0x0003bbbb},
      {"vadd2.u32.u32.u32 %d, %a.h01, %b.h33, %c;", 0x00010002, 0x00100020, 0, 0x00120011},
      {"vadd2.u32.u32.u32.add %d, %a, %b, %c;", 0x00010002, 0x00030004, 100, 110},
      {"vsub2.s32.u32.u32 %d, %a, %b, %c;", 0x00010005, 0x00020003, 0, 0xffff0002},
      {"vavrg2.u32.u32.u32 %d, %a, %b, %c;", 0xffff0001, 0xffff0002, 0, 0xffff0002},
      {"vavrg2.s32.s32.s32 %d, %a, %b, %c;", 0xfffffffd, 0xfffefffe, 0, 0xfffefffd}, // -3/2, -5/2 up
      {"vadd4.u32.u32.u32 %d, %a, %b, %c;", 0x01ff0310, 0x01020304, 0, 0x02010614},
      {"vadd4.u32.u32.u32.sat %d, %a, %b, %c;", 0x01ff0310, 0x01020304, 0, 0x02ff0614},
      {"vadd4.u32.u32.u32 %d.b20, %a, %b, %c;", 0x01020304, 0x10101010, 0xaabbccdd, 0xaa12cc14},
      {"vadd4.u32.u32.u32 %d, %a.b7654, %b.b0123, %c;", 0x01020304, 0x10203040, 0, 0x14233241},
      {"vsub4.s32.s32.s32.sat %d, %a, %b, %c;", 0x80007f05, 0x0100ff06, 0, 0x80007fff},
      {"vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", 0x01020304, 0x04030201, 10, 18},
      {"vmin4.s32.s32.s32 %d, %a, %b, %c;", 0x80017f00, 0x01ff0000, 0, 0x80ff0000},
      {"vmax4.u32.u32.u32 %d, %a, %b, %c;", 0x80017f00, 0x01ff0001, 0, 0x80ff7f01},
      {"vset4.u32.u32.gt %d, %a, %b, %c;", 0x80017f00, 0x01ff0001, 0, 0x01000100},
      {"vset2.s32.s32.lt.add %d, %a, %b, %c;", 0xffff0001, 0x00000002, 40, 42},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    uint32_t in[3][LANES], z[LANES] = {0};
    kiln_error err = {0};
    for (unsigned i = 0; i < LANES; i++) in[0][i] = rows[r].a, in[1][i] = rows[r].b, in[2][i] = rows[r].c;
    if (!run_instruction(rows[r].instruction, in, z, &err)) FAIL("%s: %s", rows[r].instruction, err.text);
    if (z[5] != rows[r].want) FAIL("%s is %08x, expected %08x", rows[r].instruction, z[5], rows[r].want);
  }
}

// ------------------------------------------------------------------------------------------ drawn

/// A drawn instruction, and what it gives by plain reading of the manual, element by element in arrays of numbers.
typedef struct drawn {
  char text[200];
  unsigned what, count;                     ///< of names; elements: 1, 2, 4
  bool is_signed[3], sat, adds, merges;     ///< d, a, b
  unsigned predicate, mask, from[3][4];     ///< elements of a and b by number in b:a
  unsigned second, parts[3], part_width[3]; ///< scalar: add, min, max after; lowest bit and width
} drawn;

static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vavrg"};
static const char *const predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};

static uint32_t pick(uint64_t *random, uint32_t limit) {
  return (uint32_t)(kiln_test_random(random) % limit);
}

static void draw_scalar_part(drawn *d, uint64_t *random, unsigned k, char *out) {
  const uint32_t r = k ? pick(random, 7) : d->merges ? 1 + pick(random, 6) : 0;
  *out = 0;
  d->parts[k] = r == 0 ? 0 : r < 5 ? 8 * (r - 1) : 16 * (r - 5);
  d->part_width[k] = r == 0 ? 32 : r < 5 ? 8 : 16;
  if (r) sprintf(out, ".%c%u", r < 5 ? 'b' : 'h', r < 5 ? r - 1 : r - 5);
}

static void draw_parallel_part(drawn *d, uint64_t *random, unsigned k, char *out) {
  const char letter = d->count == 2 ? 'h' : 'b';
  const bool is_default = pick(random, 2);
  char *end = out + sprintf(out, is_default ? "" : ".%c", letter);
  if (!k) {
    d->mask = is_default ? (1u << d->count) - 1 : 1 + pick(random, (1u << d->count) - 1);
    for (unsigned e = d->count; !is_default && e-- > 0;)
      if (d->mask >> e & 1) end += sprintf(end, "%u", e);
    return;
  }
  for (unsigned e = d->count; e-- > 0;) {
    d->from[k][e] = is_default ? e + (k == 2 ? d->count : 0) : pick(random, 2 * d->count);
    if (!is_default) end += sprintf(end, "%u", d->from[k][e]);
  }
}

static drawn draw(uint64_t *random) {
  drawn d = {.count = 1u << pick(random, 3), .sat = pick(random, 2), .predicate = pick(random, 6)};
  char part[3][16], types[40] = "", cut[12] = "";
  d.what = pick(random, d.count > 1 ? 7 : 6);
  const bool is_set = d.what == 5;
  if (is_set) d.sat = false;
  if (d.count > 1) d.adds = pick(random, 2);
  else {
    d.second = pick(random, 4); // none, add, min, max
    d.merges = !d.second && pick(random, 2);
  }
  for (unsigned k = 0; k < 3; k++) {
    d.is_signed[k] = pick(random, 2) && !(is_set && !k);
    if (k || !is_set) strcat(types, d.is_signed[k] ? ".s32" : ".u32");
    if (d.count == 1) draw_scalar_part(&d, random, k, part[k]);
    else draw_parallel_part(&d, random, k, part[k]);
  }
  if (d.count > 1) sprintf(cut, "%u", d.count);
  static const char *const seconds[] = {"", ".add", ".min", ".max"};
  snprintf(d.text, sizeof d.text, "%s%s%s%s%s%s%s %%d%s, %%a%s, %%b%s%s;", names[d.what], cut, types,
           is_set ? "." : "", is_set ? predicates[d.predicate] : "", d.sat ? ".sat" : "",
           d.adds ? ".add" : seconds[d.second], part[0], part[1], part[2],
           d.count > 1 || d.second || d.merges ? ", %c" : "");
  return d;
}

static long long as_number(uint32_t bits, unsigned width, bool is_signed) {
  long long v = bits, size = 1ll << width;
  v %= size;
  return is_signed && v >= size / 2 ? v - size : v;
}

static long long model_of_one(const drawn *d, unsigned width, long long a, long long b) {
  const bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
  long long v = 0;
  switch (d->what) {
  case 0: v = a + b; break;
  case 1: v = a - b; break;
  case 2: v = a > b ? a - b : b - a; break;
  case 3: v = a < b ? a : b; break;
  case 4: v = a < b ? b : a; break;
  case 5: return holds[d->predicate];
  default: // halves are rounded up where the sum is not negative, down where it is
    v = a + b >= 0 ? (a + b + 1) / 2 : -((1 - a - b) / 2);
  }
  const long long size = 1ll << width, least = d->is_signed[0] ? -size / 2 : 0, most = least + size - 1;
  if (d->sat && v < least) v = least;
  if (d->sat && v > most) v = most;
  return v;
}

static uint32_t model(const drawn *d, uint32_t a, uint32_t b, uint32_t c) {
  if (d->count == 1) {
    long long v =
        model_of_one(d, d->part_width[0], as_number(a >> d->parts[1], d->part_width[1], d->is_signed[1]),
                     as_number(b >> d->parts[2], d->part_width[2], d->is_signed[2]));
    const long long t = as_number((uint32_t)v, 32, d->is_signed[0]),
                    other = as_number(c, 32, d->is_signed[0]);
    if (d->second == 1) v = t + other;
    if (d->second == 2) v = t < other ? t : other;
    if (d->second == 3) v = t < other ? other : t;
    if (!d->merges) return (uint32_t)v;
    for (unsigned bit = 0; bit < d->part_width[0]; bit++) {
      const uint32_t one = 1u << (bit + d->parts[0]);
      c = (uint64_t)v >> bit & 1 ? c | one : c & ~one;
    }
    return c;
  }
  const unsigned width = 32 / d->count;
  uint32_t elements[8], result = d->adds ? c : 0;
  for (unsigned k = 0; k < 2 * d->count; k++) elements[k] = (k < d->count ? a : b) >> width * (k % d->count);
  for (unsigned k = 0; k < d->count; k++) {
    const long long v = model_of_one(d, width, as_number(elements[d->from[1][k]], width, d->is_signed[1]),
                                     as_number(elements[d->from[2][k]], width, d->is_signed[2]));
    if (d->adds) result += d->mask >> k & 1 ? (uint32_t)v : 0;
    else
      result |= (uint32_t)as_number(d->mask >> k & 1 ? (uint32_t)v : c >> width * k, width, false)
                << width * k;
  }
  return result;
}

TEST(ptx_video, drawn_values) {
  uint64_t random = 20261129;
  for (unsigned n = 0; n < DRAWN; n++) {
    static const uint32_t ends[] = {0,          1,          0x80000000, 0x7fffffff,
                                    0xffffffff, 0x80808080, 0x7f7f7f7f, 0x7fff8000};
    uint32_t in[3][LANES], z[LANES] = {0};
    kiln_error err = {0};
    const drawn d = draw(&random);
    for (unsigned k = 0; k < 3 * LANES; k++)
      in[k / LANES][k % LANES] =
          pick(&random, 4) ? (uint32_t)kiln_test_random(&random) : ends[pick(&random, 8)];
    if (!run_instruction(d.text, in, z, &err)) FAIL("%s: %s", d.text, err.text);
    for (unsigned i = 0; i < LANES; i++) {
      const uint32_t want = model(&d, in[0][i], in[1][i], in[2][i]);
      if (z[i] != want)
        FAIL("%s of %08x, %08x, %08x is %08x, expected %08x", d.text, in[0][i], in[1][i], in[2][i], z[i],
             want);
    }
  }
}

TEST(ptx_video, what_does_not_fit_is_refused) {
  static const char *const wrong[] = {"vadd.u32.u32 %d, %a, %b;",
                                      "vadd.u32.u32.u64 %d, %a, %b;",
                                      "vadd.u32.u32.u32 %d, %a.b4, %b;",
                                      "vadd.u32.u32.u32 %d.b0, %a, %b;",
                                      "vadd.u32.u32.u32 %d, %a, %b, %c;",
                                      "vadd2.u32.u32.u32 %d, %a, %b;",
                                      "vadd2.u32.u32.u32 %d.h2, %a, %b, %c;",
                                      "vadd2.u32.u32.u32 %d, %a.h14, %b, %c;",
                                      "vadd4.u32.u32.u32 %d, %a.b012, %b, %c;",
                                      "vadd4.u32.u32.u32.min %d, %a, %b, %c;",
                                      "vset.u32.u32 %d, %a, %b;",
                                      "vshl.u32.u32.u32 %d, %a, %b;",
                                      "vadd4.u32.u32.u32 %d.b01, %a, %b, %c;"};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    uint32_t in[3][LANES] = {{0}}, z[LANES];
    kiln_error err = {0};
    if (run_instruction(wrong[k], in, z, &err)) FAIL("%s is taken", wrong[k]);
  }
}

/// Lanes go to the target of their number, in any order of lists and labels; a number beyond the list is a finding.
TEST(ptx_video, branches_by_an_index) {
  static const char jump[] = "and.b32 %t, %a, 7;\nbrx.idx %t, list;\n"
                             "list: .branchtargets one, two, one, three, ends;\n"
                             "one: mov.u32 %d, 1; bra.uni ends;\n"
                             "two: mov.u32 %d, 2; bra.uni ends;\n"
                             "three: add.u32 %d, %a, 100;\nends:\n";
  for (unsigned most = 4; most < 6; most++) {
    uint32_t in[3][LANES], z[LANES] = {0};
    kiln_error err = {0};
    char text[600];
    snprintf(text, sizeof text, "mov.u32 %%d, 0;\n%s", jump);
    for (unsigned i = 0; i < LANES; i++) in[0][i] = i % (most + 1), in[1][i] = in[2][i] = 0;
    if (!run_instruction(text, in, z, &err)) FAIL("%s", err.text);
    if (most == 5) {
      CHECK_PART(err.text, "brx.idx with 5 of 5 targets");
      continue;
    }
    static const uint32_t wanted[] = {1, 2, 1, 103, 0};
    for (unsigned i = 0; i < LANES; i++) CHECK_INT(z[i], wanted[i % 5]);
  }
  kiln_error err = {0};
  uint32_t in[3][LANES] = {{0}}, z[LANES];
  CHECK(!run_instruction("mov.u32 %d, 0;\nbrx.idx %d, nowhere;", in, z, &err));
  CHECK(!run_instruction("mov.u32 %d, 0;\nhere: brx.idx %d, here;", in, z, &err));
  CHECK(!run_instruction("mov.u32 %d, 0;\n.branchtargets here;\nhere:", in, z, &err));
}
