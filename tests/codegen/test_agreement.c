// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests that integer operations and helpers mean the same everywhere: folded typed constants, literals, the
// interpreter, host code and launch expressions give what plain C says, at edge values and drawn operands.
// Typed integers wrap; literals and launch expressions are exact where they have a value.
#include <stdio.h>
#include <stdlib.h>

#include "base/expr.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "tests/codegen/host_mapping.h"

typedef __int128 wide;
enum { OPERANDS = 32, PAIRS = OPERANDS * OPERANDS, TILE = 256 };

/// Operands as the signed value of their bits, and how many these are; the result is exact, and wraps after.
typedef wide reference(wide a, wide b, unsigned bits);

static wide wrap(wide v, unsigned bits) {
  uint64_t low = (uint64_t)v << (64 - bits);
  return (int64_t)low >> (64 - bits);
}
static wide unsign(wide v, unsigned bits) { return v & (((wide)1 << bits) - 1); }

static wide r_add(wide a, wide b, unsigned n) { return (void)n, a + b; }
static wide r_sub(wide a, wide b, unsigned n) { return (void)n, a - b; }
static wide r_mul(wide a, wide b, unsigned n) { return (void)n, a * b; }
static wide r_div(wide a, wide b, unsigned n) { return (void)n, a / b; }
static wide r_rem(wide a, wide b, unsigned n) { return (void)n, a % b; }
static wide r_and(wide a, wide b, unsigned n) { return (void)n, a & b; }
static wide r_or(wide a, wide b, unsigned n) { return (void)n, a | b; }
static wide r_xor(wide a, wide b, unsigned n) { return (void)n, a ^ b; }
static wide r_shl(wide a, wide b, unsigned n) { return a * ((wide)1 << (b & (n - 1))); }
static wide r_shr(wide a, wide b, unsigned n) { return a >> (b & (n - 1)); }
static wide r_ushr(wide a, wide b, unsigned n) { return unsign(a, n) >> (b & (n - 1)); }
static wide r_min(wide a, wide b, unsigned n) { return (void)n, a < b ? a : b; }
static wide r_max(wide a, wide b, unsigned n) { return (void)n, a < b ? b : a; }
static wide r_umin(wide a, wide b, unsigned n) { return unsign(a, n) < unsign(b, n) ? a : b; }
static wide r_umax(wide a, wide b, unsigned n) { return unsign(a, n) < unsign(b, n) ? b : a; }
static wide r_udiv(wide a, wide b, unsigned n) { return unsign(a, n) / unsign(b, n); }
static wide r_urem(wide a, wide b, unsigned n) { return unsign(a, n) % unsign(b, n); }
static wide r_mulhi(wide a, wide b, unsigned n) { return a * b >> n; }
static wide r_umulhi(wide a, wide b, unsigned n) {
  return (wide)((unsigned __int128)unsign(a, n) * (unsigned __int128)unsign(b, n) >> n);
}
static wide r_lt(wide a, wide b, unsigned n) { return (void)n, a < b; }
static wide r_le(wide a, wide b, unsigned n) { return (void)n, a <= b; }
static wide r_gt(wide a, wide b, unsigned n) { return (void)n, a > b; }
static wide r_ge(wide a, wide b, unsigned n) { return (void)n, a >= b; }
static wide r_eq(wide a, wide b, unsigned n) { return (void)n, a == b; }
static wide r_ne(wide a, wide b, unsigned n) { return (void)n, a != b; }
static wide r_ult(wide a, wide b, unsigned n) { return unsign(a, n) < unsign(b, n); }
static wide r_uge(wide a, wide b, unsigned n) { return unsign(a, n) >= unsign(b, n); }
static wide r_neg(wide a, wide b, unsigned n) { return (void)b, (void)n, -a; }
static wide r_not(wide a, wide b, unsigned n) { return (void)b, (void)n, ~a; }
static wide r_abs(wide a, wide b, unsigned n) { return (void)b, (void)n, a < 0 ? -a : a; }
static wide r_byte(wide a, wide b, unsigned n) { return (void)b, (void)n, wrap(a, 8); }
static wide r_ubyte(wide a, wide b, unsigned n) { return (void)b, (void)n, unsign(a, 8); }
static wide r_cdiv(wide a, wide b, unsigned n) {
  wide q = a / b; // towards zero, which is up where it is not above zero
  return (void)n, q + (a % b != 0 && (a < 0) == (b < 0));
}
/// Where A is out of range the test asks for that of 1 or 2.
static wide r_power(wide a, wide b, unsigned n) {
  wide p = 1;
  if (a < 1 || a > (wide)1 << (n - 2)) a = 1 + (b & 1);
  while (p < a) p *= 2;
  return p;
}
static wide r_clamp(wide a, wide b, unsigned n) { return r_min(r_max(a, -7, n), b, n); }
static wide r_popc(wide a, wide b, unsigned n) {
  return (void)b, __builtin_popcountll((uint64_t)unsign(a, n));
}
static wide r_clz(wide a, wide b, unsigned n) {
  wide zeros = 0;
  for (unsigned i = n; i-- > 0 && !(unsign(a, n) >> i & 1);) zeros++;
  return (void)b, zeros;
}
static wide r_ffs(wide a, wide b, unsigned n) { return (void)b, (void)n, __builtin_ffsll((long long)a); }
static wide r_brev(wide a, wide b, unsigned n) {
  wide v = 0;
  for (unsigned i = 0; i < n; i++) v |= (unsign(a, n) >> i & 1) << (n - 1 - i);
  return (void)b, v;
}
static wide r_hadd(wide a, wide b, unsigned n) { return (void)n, (a + b) >> 1; }
static wide r_rhadd(wide a, wide b, unsigned n) { return (void)n, (a + b + 1) >> 1; }
static wide r_uhadd(wide a, wide b, unsigned n) { return (unsign(a, n) + unsign(b, n)) >> 1; }
static wide r_urhadd(wide a, wide b, unsigned n) { return (unsign(a, n) + unsign(b, n) + 1) >> 1; }
static wide r_sad(wide a, wide b, unsigned n) { return (void)n, (a > b ? a - b : b - a) + 5; }
static wide r_usad(wide a, wide b, unsigned n) { return r_sad(unsign(a, n), unsign(b, n), n); }
static wide r_mul24(wide a, wide b, unsigned n) { return (void)n, wrap(a, 24) * wrap(b, 24); }
static wide r_umul24(wide a, wide b, unsigned n) { return (void)n, unsign(a, 24) * unsign(b, 24); }
static wide r_helper(wide a, wide b, unsigned n) { return (void)n, (a - b) * 2 + a; }

enum { ALL = 15, WORDS = 12, WORD = 4 }; // i8, i16, i32, i64 as bits
typedef struct operation {
  const char *text;
  reference *result;
  uint8_t types;
  bool divides, at_launch, literals;
} operation;

static const operation operations[] = {
    {"A + B", r_add, ALL, false, true, true},
    {"A - B", r_sub, ALL, false, true, true},
    {"A * B", r_mul, ALL, false, true, true},
    {"A / B", r_div, ALL, true, true, true},
    {"A % B", r_rem, ALL, true, true, true},
    {"A & B", r_and, ALL, false, false, true},
    {"A | B", r_or, ALL, false, false, true},
    {"A ^ B", r_xor, ALL, false, false, true},
    {"A << B", r_shl, ALL, false, false, false},
    {"A >> B", r_shr, ALL, false, false, false},
    {"ushr(A, B)", r_ushr, ALL, false, false, false},
    {"min(A, B)", r_min, ALL, false, true, true},
    {"max(A, B)", r_max, ALL, false, true, true},
    {"umin(A, B)", r_umin, ALL, false, false, false},
    {"umax(A, B)", r_umax, ALL, false, false, false},
    {"udiv(A, B)", r_udiv, ALL, true, false, false},
    {"urem(A, B)", r_urem, ALL, true, false, false},
    {"mulhi(A, B)", r_mulhi, WORDS, false, false, false},
    {"umulhi(A, B)", r_umulhi, WORDS, false, false, false},
    {"(A < B) as T", r_lt, ALL, false, true, true},
    {"(A <= B) as T", r_le, ALL, false, true, true},
    {"(A > B) as T", r_gt, ALL, false, true, true},
    {"(A >= B) as T", r_ge, ALL, false, true, true},
    {"(A == B) as T", r_eq, ALL, false, true, true},
    {"(A != B) as T", r_ne, ALL, false, true, true},
    {"ult(A, B) as T", r_ult, ALL, false, false, false},
    {"uge(A, B) as T", r_uge, ALL, false, false, false},
    {"-A", r_neg, ALL, false, true, true},
    {"~A", r_not, ALL, false, false, true},
    {"abs(A)", r_abs, ALL, false, false, true},
    {"(A as i8) as T", r_byte, ALL, false, false, true},
    {"ucast(A as i8, T)", r_ubyte, ALL, false, false, false},
    {"select(A < B, A, B)", r_min, ALL, false, false, true},
    {"cdiv(A, B)", r_cdiv, ALL, true, true, true},
    {"next_power_of_2(select((A < 1) | (A > ushr(-1 as T, 1 as T) / 2 + 1), 1 + (B & 1), A))", r_power, ALL,
     false, false, false},
    {"clamp(A, -7, B)", r_clamp, ALL, false, false, true},
    {"popc(A) as T", r_popc, WORDS, false, false, false},
    {"clz(A) as T", r_clz, WORDS, false, false, false},
    {"ffs(A) as T", r_ffs, WORDS, false, false, false},
    {"brev(A)", r_brev, WORDS, false, false, false},
    {"hadd(A, B)", r_hadd, ALL, false, false, true},
    {"rhadd(A, B)", r_rhadd, ALL, false, false, true},
    {"uhadd(A, B)", r_uhadd, ALL, false, false, false},
    {"urhadd(A, B)", r_urhadd, ALL, false, false, false},
    {"sad(A, B, 5)", r_sad, ALL, false, false, true},
    {"usad(A, B, 5)", r_usad, ALL, false, false, false},
    {"mul24(A, B)", r_mul24, WORD, false, false, false},
    {"umul24(A, B)", r_umul24, WORD, false, false, false},
    {"twice_and(A, B)", r_helper, ALL, false, true, true},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };
static const char helper[] = "fn twice_and(a, b) { let d = a - b return d * 2 + a }\n";

static bool has_type(const operation *o, kiln_scalar s) { return o->types >> (s - KILN_I8) & 1; }

/// The text with operands and type put in.
static const char *with(kiln_arena *arena, const char *text, const char *a, const char *b, const char *type) {
  kiln_buffer out = {0};
  for (const char *c = text; *c; c++) {
    const char *put = *c == 'A' ? a : *c == 'B' ? b : *c == 'T' ? type : NULL;
    kiln_buffer_format(&out, "%.*s", put ? (int)strlen(put) : 1, put ? put : c);
  }
  const char *made = kiln_arena_text(arena, (const char *)out.bytes, out.size);
  kiln_buffer_deinit(&out);
  return made;
}

static void draw_operands(unsigned bits, uint64_t *random, int64_t out[OPERANDS]) {
  const wide top = (wide)1 << (bits - 1);
  const wide edges[] = {top / 8 + 1, 0,        1,        -1,        2,           3,           -2,
                        7,           63 % top, 64 % top, -64 % top, top - 1,     top - 2,     top - 63,
                        -top,        1 - top,  63 - top, top / 2,   top / 2 - 1, top / 2 + 1, -top / 2};
  for (unsigned i = 0; i < OPERANDS; i++) {
    uint64_t r = kiln_test_random(random);
    out[i] = (int64_t)(i < sizeof edges / sizeof *edges ? edges[i]
                                                        : wrap((wide)(int64_t)r >> (r >> 8) % bits, bits));
  }
}

static void disagree(const char *who, const operation *o, kiln_scalar s, wide a, wide b, wide want,
                     wide got) {
  FAIL("%s: %s of %s, A = %lld, B = %lld: %lld, expected %lld", who, o->text, kiln_scalars[s].spelling,
       (long long)a, (long long)b, (long long)got, (long long)want);
}

static ir_kernel *lower(kiln_arena *arena, const kiln_buffer *text, kiln_unit **out_unit) {
  kiln_diagnostics d = {.arena = arena};
  kiln_target target;
  kiln_error err;
  CHECK_OK(kiln_target_parse("x86-64-v3", &target, &err), err);
  kiln_unit *unit = kiln_unit_open(arena, "a.kiln", (const char *)text->bytes, text->size, NULL, &d);
  if (out_unit) *out_unit = unit;
  return unit ? kiln_unit_lower(unit, arena, 0, 0, 0, &target, &d) : NULL;
}

typedef struct arrays {
  int64_t a[PAIRS], b[PAIRS], out[OPERATIONS * PAIRS];
} arrays;

static void check_all(const arrays *m, kiln_scalar s, const char *who) {
  unsigned bits = kiln_scalars[s].bits;
  for (unsigned k = 0; k < OPERATIONS; k++)
    for (unsigned i = 0; i < PAIRS && has_type(&operations[k], s); i++) {
      if (operations[k].divides && !m->b[i]) continue; // no value
      wide want = wrap(operations[k].result(m->a[i], m->b[i], bits), bits);
      if (want != m->out[k * PAIRS + i])
        disagree(who, &operations[k], s, m->a[i], m->b[i], want, m->out[k * PAIRS + i]);
    }
}

// All pairs at run time: the interpreter, then the host.
static void check_at_run_time(kiln_scalar s, arrays *m) {
  const char *type = kiln_scalars[s].spelling;
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer text = {0};
  kiln_error err;
  kiln_buffer_format(&text,
                     "kiln 1\n%skernel k(x: in *i64, y: in *i64, o: out *i64) @grid(%d) {\n  let i = pid(0) "
                     "* %d + iota(%d)\n"
                     "  let a = load(x + i) as %s\n  let b = load(y + i) as %s\n",
                     helper, PAIRS / TILE, TILE, TILE, type, type);
  for (unsigned k = 0; k < OPERATIONS; k++)
    if (has_type(&operations[k], s))
      kiln_buffer_format(&text, "  store(o + %u + i, (%s) as i64)\n", k * PAIRS,
                         with(arena, operations[k].text, "a", "b", type));
  kiln_buffer_format(&text, "}\n");
  ir_kernel *kernel = lower(arena, &text, NULL);
  CHECK(kernel != NULL);
  struct {
    const int64_t *x, *y;
    int64_t *o;
  } args = {m->a, m->b, m->out};
  uint32_t grid[] = {PAIRS / TILE, 1, 1};
  CHECK_OK(kiln_interpret(kernel, &args, grid, NULL, &err), err);
  check_all(m, s, "interpreter");
  static const char *const targets[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  for (unsigned t = 0; t < 3 && mapping_can_run(targets[t]); t++) {
    kiln_target target;
    kiln_codegen_options options;
    kiln_artifact artifact = {0};
    CHECK_OK(kiln_target_parse(targets[t], &target, &err), err);
    kiln_codegen_options_init(&options);
    CHECK_OK(kiln_codegen(lower(arena, &text, NULL), &target, &options, &artifact, &err), err);
    memset(m->out, 0x5a, sizeof m->out);
    CHECK_INT(
        mapping_run(mapping_open(&artifact.code, kernel->name), &args, grid, artifact.info.scratch_bytes), 0);
    check_all(m, s, targets[t]);
    kiln_artifact_deinit(&artifact);
  }
  kiln_buffer_deinit(&text);
  kiln_arena_destroy(arena);
}

/// The value of `expression`, folded, as i64; false: it is refused.
static bool constant(kiln_arena *arena, const char *expression, int64_t *out) {
  kiln_buffer text = {0};
  kiln_error err;
  kiln_buffer_format(&text, "kiln 1\n%skernel k(o: out *i64) @grid(1) { store(o, (%s) as i64) }\n", helper,
                     expression);
  ir_kernel *kernel = lower(arena, &text, NULL);
  kiln_buffer_deinit(&text);
  if (!kernel) return false;
  for (const ir_op *op = kernel->body->first; op; op = op->next)
    if (op->code != IR_CONST && op->code != IR_STORE) FAIL("%s is not folded", expression);
  CHECK_OK(kiln_interpret(kernel, &out, (uint32_t[]){1, 1, 1}, NULL, &err), err);
  return true;
}

static void check_constants(kiln_scalar s, const arrays *m, uint64_t *random) {
  unsigned bits = kiln_scalars[s].bits, samples = kiln_test_full() ? 200 : 24;
  const char *type = kiln_scalars[s].spelling;
  for (unsigned k = 0; k < OPERATIONS; k++)
    for (unsigned n = 0; n < samples && has_type(&operations[k], s); n++) {
      const operation *o = &operations[k];
      kiln_arena *arena = kiln_arena_create();
      uint32_t i = (uint32_t)(kiln_test_random(random) >> 20) % PAIRS;
      int64_t got = 0, a = m->a[i], b = m->b[i];
      if (!(o->divides && !b)) {
        wide exact = o->result(a, b, bits), want = wrap(exact, bits);
        uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
        const char *x = kiln_arena_format(arena, "bits(%s, 0x%llx)", type,
                                          (unsigned long long)((uint64_t)a & mask)),
                   *y = kiln_arena_format(arena, "bits(%s, 0x%llx)", type,
                                          (unsigned long long)((uint64_t)b & mask));
        if (!constant(arena, with(arena, o->text, x, y, type), &got))
          FAIL("%s with %s, %s is refused", o->text, x, y);
        if (got != want) disagree("constants", o, s, a, b, want, got);
        // Literals have no type: what fits i64 is exact.
        x = kiln_arena_format(arena, "(%lld)", (long long)a),
        y = kiln_arena_format(arena, "(%lld)", (long long)b);
        if (o->literals && s == KILN_I32 && exact == (int32_t)exact) {
          if (!constant(arena, with(arena, o->text, x, y, type), &got))
            FAIL("%s with %s, %s is refused", o->text, x, y);
          if (got != exact) disagree("literals", o, s, a, b, exact, got);
        }
      }
      kiln_arena_destroy(arena);
    }
}

/// The code of an extent of the grid.
static void check_at_launch(kiln_scalar s, const arrays *m) {
  const char *type = kiln_scalars[s].spelling;
  for (unsigned k = 0; k < OPERATIONS; k++) {
    const operation *o = &operations[k];
    if (!o->at_launch) continue;
    kiln_arena *arena = kiln_arena_create();
    kiln_buffer text = {0};
    kiln_unit *unit;
    kiln_buffer_format(&text, "kiln 1\n%skernel k(a: %s, b: %s) @grid(%s) { }\n", helper, type, type,
                       with(arena, o->text, "a", "b", type));
    lower(arena, &text, &unit);
    if (!unit) FAIL("%s is refused at launch", o->text);
    kiln_span code = kiln_unit_interface(unit, 0)->configs[0].grid[0];
    for (unsigned i = 0; i < PAIRS; i++) {
      int64_t got = 0, operands[] = {m->a[i], m->b[i]};
      bool has_value = kiln_expr_eval(code.bytes, code.size, operands, &got);
      wide exact = o->divides && !m->b[i] ? (wide)1 << 100 : o->result(m->a[i], m->b[i], 64);
      bool fits = exact == (int64_t)exact;
      if (has_value && (!fits || got != (int64_t)exact))
        disagree("launch", o, s, m->a[i], m->b[i], exact, got);
      // What 64 bits do not hold is no value; that a step on the way overflows is the same.
      if (!has_value && fits && s == KILN_I32)
        disagree("launch (no value)", o, s, m->a[i], m->b[i], exact, 0);
    }
    kiln_buffer_deinit(&text);
    kiln_arena_destroy(arena);
  }
}

// cdiv(n, 64) wrapped at run time from 2^31 - 63 on and rounded towards zero what is negative, was exact as a
// constant, and at launch. next_power_of_2 of i64 knew 32 bits.
TEST(agreement, of_constants_interpreter_host_and_launch) {
  static arrays m;
  uint64_t random = 20261205;
  printf("agreement: seed %llu\n", (unsigned long long)random);
  for (unsigned s = KILN_I8; s <= KILN_I64; s++) {
    int64_t operands[2][OPERANDS];
    for (unsigned side = 0; side < 2; side++) draw_operands(kiln_scalars[s].bits, &random, operands[side]);
    for (unsigned i = 0; i < PAIRS; i++)
      m.a[i] = operands[0][i / OPERANDS], m.b[i] = operands[1][i % OPERANDS];
    memset(m.out, 0x5a, sizeof m.out);
    check_at_run_time((kiln_scalar)s, &m);
    check_constants((kiln_scalar)s, &m, &random);
    check_at_launch((kiln_scalar)s, &m);
  }
}
