// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions and functions of the programs of front_programs.h. Every loop ends: a counter that nothing else
// assigns is part of its condition. Numbers stay so small that literals, which are exact, and i32, which
// wraps, agree.
#ifndef KILN_TESTS_FRONT_EXPRESSIONS_H
#define KILN_TESTS_FRONT_EXPRESSIONS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "tests/harness.h"

enum { MEMORY = 64, LANES = 16, NAMES = 24, DEEPEST = 2 };

typedef enum position {
  AT_WHILE,
  AT_BREAK,
  AT_IF,
  AT_ELSE_IF,
  AT_LET_IF,
  AT_MASK,
  AT_ASSERT,
  AT_LOWER,
  AT_UPPER,
  AT_STEP,
  AT_LET,
  AT_VAR,
  AT_ASSIGN,
  AT_HEAD,
  AT_EXPORT,
  AT_YIELD,
  AT_RETURN,
  AT_ARGUMENT,
  AT_OPERAND,
  AT_INDEX,
  AT_STORED,
  AT_OTHER,
  AT_EXTENT,
  AT_VIEW_INDEX,
  AT_TILE,
  AT_WHEN,
  AT_UNROLL,
  AT_SHAPE,
  POSITION_COUNT
} position;

typedef enum form {
  OF_NAME,
  OF_OPERATOR,
  OF_PLAIN_CALL,
  OF_CONTROL_CALL,
  OF_TILE_CALL,
  OF_REDUCE,
  OF_REDUCE_BY,
  OF_LIBRARY,
  OF_OPERATION,
  OF_LOAD,
  OF_CAST,
  OF_UNARY,
  FORM_COUNT
} form;

/// The same in both languages.
typedef struct both {
  const char *kiln, *c;
} both;

/// What is asked of an expression: a number, within lo .. lo + 2^bits - 1 where bits are above 0, or a
/// condition, false once the variable `guard` is not above 0.
typedef struct wanted {
  bool truth;
  const char *guard;
  int lo;
  unsigned bits;
} wanted;

typedef struct scope {
  const char *names[NAMES];
  bool is_var[NAMES], is_truth[NAMES];
  uint32_t count;
  bool in_kernel;
  bool has_lanes;  ///< `i` is bound: a tile of 0 .. 15
  bool by_element; ///< operands may be tiles, `i` too: nothing here may need a scalar
} scope;

typedef struct writer {
  kiln_arena *arena;
  uint64_t random;
  uint32_t next, depth, functions, blocks; ///< of names; nesting of expressions, functions, blocks
  kiln_buffer kiln, c;                     ///< of the function that is being written
  kiln_buffer kiln_items, c_items;         ///< functions that are complete
  scope s;
  uint32_t seen[POSITION_COUNT][FORM_COUNT];
} writer;

static inline uint32_t below(writer *w, uint32_t n) {
  return (uint32_t)(kiln_test_random(&w->random) >> 20) % n;
}

#define TEXT(...) kiln_arena_format(w->arena, __VA_ARGS__)
#define BOTH(kiln_text, c_text) ((both){kiln_text, c_text})
/// A pattern that both languages share, of operands that they write in their own way.
#define ALIKE1(pattern, x)                                   \
  __extension__({                                            \
    both only_ = (x);                                        \
    BOTH(TEXT(pattern, only_.kiln), TEXT(pattern, only_.c)); \
  })
#define ALIKE2(pattern, x, y)                                         \
  __extension__({                                                     \
    both x_ = (x), y_ = (y);                                          \
    BOTH(TEXT(pattern, x_.kiln, y_.kiln), TEXT(pattern, x_.c, y_.c)); \
  })
#define ALIKE3(pattern, x, y, z)                                \
  __extension__({                                               \
    both first_ = (x), second_ = (y), third_ = (z);             \
    BOTH(TEXT(pattern, first_.kiln, second_.kiln, third_.kiln), \
         TEXT(pattern, first_.c, second_.c, third_.c));         \
  })

static inline void put(writer *w, const char *kiln, const char *c) {
  if (*kiln) kiln_buffer_format(&w->kiln, "%s\n", kiln);
  if (*c) kiln_buffer_format(&w->c, "%s\n", c);
}

static inline const char *fresh(writer *w, const char *stem) { return TEXT("%s%u", stem, w->next++); }

static inline void declare(writer *w, const char *name, bool is_var, bool is_truth) {
  if (w->s.count == NAMES) return;
  w->s.names[w->s.count] = name;
  w->s.is_truth[w->s.count] = is_truth;
  w->s.is_var[w->s.count++] = is_var;
}

static both expression(writer *w, position at, wanted want);
static both number(writer *w, position at) { return expression(w, at, (wanted){0}); }
static both truth(writer *w, position at) { return expression(w, at, (wanted){.truth = true}); }
static both within(writer *w, position at, int lo, unsigned bits) {
  return expression(w, at, (wanted){.lo = lo, .bits = bits});
}
static void statements(writer *w, uint32_t count);

// ------------------------------------------------------------------------------------------- functions

/// What is put aside while a function is written.
typedef struct aside {
  kiln_buffer kiln, c;
  scope s;
  uint32_t depth, blocks;
} aside;

static aside begin_function(writer *w) {
  aside a = {w->kiln, w->c, w->s, w->depth, w->blocks};
  w->kiln = w->c = (kiln_buffer){0};
  w->s = (scope){0};
  if (!w->depth) w->depth = 1;
  w->functions++;
  return a;
}

static void end_function(writer *w, const aside *a, const char *head, const char *c_head) {
  kiln_buffer_format(&w->kiln_items, "fn %s {\n%.*s}\n", head, (int)w->kiln.size,
                     (const char *)w->kiln.bytes);
  kiln_buffer_format(&w->c_items, "static %s {\n%.*s}\n", c_head, (int)w->c.size, (const char *)w->c.bytes);
  kiln_buffer_deinit(&w->kiln);
  kiln_buffer_deinit(&w->c);
  w->kiln = a->kiln;
  w->c = a->c;
  w->s = a->s;
  w->depth = a->depth;
  w->blocks = a->blocks;
  w->functions--;
}

/// A function of two numbers that returns what is wanted, and with `pair` a number besides. OF_PLAIN_CALL:
/// what may be called with tiles; OF_TILE_CALL: it has lanes of its own.
static const char *function(writer *w, form kind, wanted result, bool pair) {
  const char *name = fresh(w, "g"), *a = fresh(w, "a"), *b = fresh(w, "b"), *local = fresh(w, "l");
  aside before = begin_function(w);
  declare(w, a, false, false);
  declare(w, b, false, false);
  w->s.by_element = kind == OF_PLAIN_CALL;
  w->s.has_lanes = kind == OF_TILE_CALL;
  if (kind == OF_TILE_CALL) put(w, "let i = iota(16)", "");
  if (kind == OF_CONTROL_CALL) statements(w, 1 + below(w, 2));
  both v = number(w, AT_LET);
  put(w, TEXT("let %s = %s", local, v.kiln), TEXT("int %s = %s;", local, v.c));
  declare(w, local, false, false);
  if (result.guard) result.guard = b;
  both one = expression(w, AT_RETURN, result), two = pair ? number(w, AT_RETURN) : one;
  if (pair)
    put(w, TEXT("return %s, %s", one.kiln, two.kiln), TEXT("return (struct pair){%s, %s};", one.c, two.c));
  else put(w, TEXT("return %s", one.kiln), TEXT("return %s;", one.c));
  end_function(w, &before, TEXT("%s(%s, %s)", name, a, b),
               TEXT("%s %s(int %s, int %s)", pair ? "struct pair" : "int", name, a, b));
  return name;
}

static both call(writer *w, form kind, wanted result, bool pair) {
  const char *name = function(w, kind, result, pair);
  both a = number(w, AT_ARGUMENT),
       b = result.guard ? BOTH(result.guard, result.guard) : number(w, AT_ARGUMENT);
  return BOTH(TEXT("%s(%s, %s)", name, a.kiln, b.kiln), TEXT("%s(%s, %s)", name, a.c, b.c));
}

// ----------------------------------------------------------------------------------------- expressions

static both bounded(writer *w, wanted want, both v) {
  if (!want.bits) return v;
  return BOTH(TEXT("(%d + ((%s) & %d))", want.lo, v.kiln, (1 << want.bits) - 1),
              TEXT("(%d + ((%s) & %d))", want.lo, v.c, (1 << want.bits) - 1));
}

static both guarded(writer *w, wanted want, both v) {
  return want.guard ? ALIKE2("((%s) & (%s > 0))", v, BOTH(want.guard, want.guard)) : v;
}

static both a_name(writer *w, wanted want) {
  uint32_t at = w->s.count ? below(w, w->s.count) : 0;
  bool lane = w->s.by_element && w->s.has_lanes && !want.truth && !want.bits;
  if (lane && below(w, 2)) return BOTH("i", "i");
  for (uint32_t i = 0; i < w->s.count && !want.bits && !want.guard; i++, at = (at + 1) % w->s.count)
    if (w->s.is_truth[at] == want.truth) return BOTH(w->s.names[at], w->s.names[at]);
  if (want.guard) return ALIKE1("(%s > 0)", BOTH(want.guard, want.guard));
  if (want.truth) return below(w, 2) ? BOTH("true", "1") : BOTH("false", "0");
  const char *v = TEXT("%d", want.lo + (int)below(w, want.bits ? 1u << want.bits : 20));
  return BOTH(v, v);
}

static both operator_number(writer *w) {
  both a = number(w, AT_OPERAND), b = number(w, AT_OPERAND);
  switch (below(w, 9)) {
  case 0: return ALIKE2("((%s & 0xffff) + (%s & 0xffff))", a, b);
  case 1: return ALIKE2("((%s & 0xffff) - (%s & 0xffff))", a, b);
  case 2: return ALIKE2("((%s & 255) * (%s & 255))", a, b);
  case 3: return ALIKE2("((%s & 0xffff) / ((%s & 7) + 1))", a, b);
  case 4: return ALIKE2("((%s & 0xffff) %% ((%s & 7) + 1))", a, b);
  case 5: return ALIKE2("(%s ^ %s)", a, b);
  case 6: return ALIKE2("(%s | %s)", a, b);
  case 7: return ALIKE2("((%s & 255) << (%s & 7))", a, b);
  default: return ALIKE2("(%s >> (%s & 7))", a, b);
  }
}

static both operator_truth(writer *w) {
  both a = number(w, AT_OPERAND), b = number(w, AT_OPERAND), c = truth(w, AT_OPERAND),
       d = truth(w, AT_OPERAND);
  switch (below(w, 7)) {
  case 0: return ALIKE2("(%s < %s)", a, b);
  case 1: return ALIKE2("(%s >= %s)", a, b);
  case 2: return ALIKE2("(%s == %s)", a, b);
  case 3: return ALIKE2("((%s & 3) != (%s & 3))", a, b);
  case 4: return ALIKE2("(%s & %s)", c, d);
  case 5: return ALIKE2("(%s | %s)", c, d);
  default: return ALIKE2("(%s ^ %s)", c, d);
  }
}

static wanted without_guard(wanted want) { return want.guard = NULL, want; }

/// A tile of 16: an expression by element that `i` is part of.
static both tile(writer *w, position at, wanted want) {
  bool before = w->s.by_element;
  w->s.by_element = true;
  both v = expression(w, at, want);
  w->s.by_element = before;
  if (want.truth)
    return ALIKE1("((%s) ^ (i > 7))", v); // the element of a tile, also where nothing in it is one
  return want.bits ? ALIKE1("((%s) | (i & 0))", v) : ALIKE1("((%s) ^ i)", v);
}

#define EACH_LANE "for (int i = 0; i < 16; i++) "

static both reduced(writer *w, wanted want) {
  static const struct {
    const char *name, *start, *step;
  } numbers[] = {{"max", "(-2147483647 - 1)", "v > r ? v : r"},
                 {"min", "2147483647", "v < r ? v : r"},
                 {"add", "0", "r + v"},
                 {"and", "-1", "r & v"},
                 {"xor", "0", "r ^ v"}},
    truths[] = {{"or", "0", "r | v"}, {"and", "1", "r & v"}};
  uint32_t k = below(w, want.guard ? 1 : want.truth || want.bits ? 2 : 5);
  both v = guarded(w, want, tile(w, AT_TILE, without_guard(want)));
  const char *name = want.truth ? truths[k].name : numbers[k].name;
  return BOTH(TEXT("reduce.%s(%s, 0)", name, v.kiln),
              TEXT("({ int r = %s; " EACH_LANE "{ int v = %s; r = %s; } r; })",
                   want.truth ? truths[k].start : numbers[k].start, v.c,
                   want.truth ? truths[k].step : numbers[k].step));
}

/// The functions that combine stand in every program.
static both reduced_by(writer *w, wanted want) {
  both v = guarded(w, want, tile(w, AT_TILE, without_guard(want)));
  if (want.truth)
    return BOTH(TEXT("reduce(either, 0, %s)", v.kiln),
                TEXT("({ int r = 0; " EACH_LANE "r |= %s; r; })", v.c));
  return BOTH(
      TEXT("reduce(larger, 0, %s)", v.kiln),
      TEXT("({ int r = (-2147483647 - 1); " EACH_LANE "{ int v = %s; r = v > r ? v : r; } r; })", v.c));
}

static both from_library(writer *w, wanted want) {
  if (want.truth) {
    both v = guarded(w, want, truth(w, AT_ARGUMENT));
    return BOTH(TEXT("isnan(select(%s, nan, 1.0))", v.kiln), v.c);
  }
  both v = number(w, AT_ARGUMENT);
  int lo = want.bits ? want.lo : -40, hi = want.bits ? want.lo + (1 << want.bits) - 1 : 90;
  switch (below(w, want.bits ? 1 : 3)) {
  case 0: return BOTH(TEXT("clamp(%s, %d, %d)", v.kiln, lo, hi), TEXT("clamp(%s, %d, %d)", v.c, lo, hi));
  case 1: return ALIKE1("cdiv((%s) & 1023, 7)", v);
  default: return ALIKE1("next_power_of_2(((%s) & 1023) + 1)", v);
  }
}

static both operation(writer *w, wanted want) {
  both c = truth(w, AT_OPERAND);
  if (want.truth) {
    both a = guarded(w, want, truth(w, AT_OPERAND)), b = guarded(w, want, truth(w, AT_OPERAND));
    if (below(w, 2)) return ALIKE3("select(%s, %s, %s)", c, a, b);
    if (want.guard) return ALIKE2("select(%s > 0, %s, false)", BOTH(want.guard, want.guard), a);
    return ALIKE2("ult(%s, %s)", number(w, AT_OPERAND), number(w, AT_OPERAND));
  }
  both a = bounded(w, want, number(w, AT_OPERAND)), b = bounded(w, want, number(w, AT_OPERAND));
  switch (below(w, 3)) {
  case 0: return ALIKE3("select(%s, %s, %s)", c, a, b);
  case 1: return ALIKE2("min(%s, %s)", a, b);
  default: return ALIKE2("max(%s, %s)", a, b);
  }
}

/// Of `o`, what the program writes; `few`, 1 to 3; `flags`, of which the first is false.
static both loaded(writer *w, wanted want) {
  const char *name = want.truth ? "flags" : want.bits ? "few" : "o";
  both at = w->s.by_element ? ALIKE1("((%s) & 63)", tile(w, AT_INDEX, (wanted){.lo = 0, .bits = 6}))
                            : within(w, AT_INDEX, 0, 6);
  if (want.guard) at = ALIKE2("select(%s > 0, %s, 0)", BOTH(want.guard, want.guard), at);
  if (below(w, 2)) return BOTH(TEXT("load(%s + %s)", name, at.kiln), TEXT("%s[%s]", name, at.c));
  both mask = truth(w, AT_MASK), other = expression(w, AT_OTHER, want);
  return BOTH(TEXT("load(%s + %s, %s, %s)", name, at.kiln, mask.kiln, other.kiln),
              TEXT("(%s ? %s[%s] : %s)", mask.c, name, at.c, other.c));
}

static both converted(writer *w, wanted want) {
  if (want.truth) {
    both v = guarded(w, want, truth(w, AT_OPERAND));
    return BOTH(TEXT("((%s) as i32) as i1", v.kiln), TEXT("(%s)", v.c));
  }
  both v = bounded(w, want, number(w, AT_OPERAND));
  switch (below(w, !want.bits ? 4 : want.lo < 0 ? 1 : 2)) {
  case 0: return BOTH(TEXT("((%s) as i64) as i32", v.kiln), TEXT("(%s)", v.c));
  case 1: return BOTH(TEXT("((%s) & 0xffff) as f32 as i32", v.kiln), TEXT("((%s) & 0xffff)", v.c));
  case 2: return BOTH(TEXT("((%s) & 127) as i8 as i32", v.kiln), TEXT("((%s) & 127)", v.c));
  default: v = truth(w, AT_OPERAND); return BOTH(TEXT("(%s) as i32", v.kiln), TEXT("(%s)", v.c));
  }
}

static both with_sign(writer *w, wanted want) {
  if (want.truth) {
    both v = ALIKE2("(%s) | %s", truth(w, AT_OPERAND),
                    want.guard ? ALIKE1("(%s <= 0)", BOTH(want.guard, want.guard)) : BOTH("false", "0"));
    return BOTH(TEXT("~(%s)", v.kiln), TEXT("!(%s)", v.c));
  }
  both v = number(w, AT_OPERAND);
  if (want.bits) return ALIKE1("-(-%s)", bounded(w, want, v));
  return below(w, 2) ? ALIKE1("-((%s) & 0xffff)", v) : ALIKE1("~(%s)", v);
}

static bool is_known_at(position at) { return at == AT_WHEN || at == AT_UNROLL || at == AT_SHAPE; }

static bool is_possible(position at, form f) {
  bool scalar = f == OF_CONTROL_CALL || f == OF_TILE_CALL || f == OF_REDUCE || f == OF_REDUCE_BY;
  if (is_known_at(at)) return f != OF_LOAD && !(scalar && f != OF_CONTROL_CALL);
  return !(at == AT_TILE && scalar) && !(at == AT_RETURN && f == OF_LOAD);
}

/// What is known when the program is compiled: 4, or whether something is.
static both known(writer *w, position at) {
  static const char *const fours[FORM_COUNT] = {[OF_NAME] = "FOUR",
                                                [OF_OPERATOR] = "2 * FOUR / 2 + 0 % 3",
                                                [OF_PLAIN_CALL] = "sum(FOUR, 0)",
                                                [OF_CONTROL_CALL] = "chosen(FOUR)",
                                                [OF_LIBRARY] = "cdiv(FOUR * 4 - 1, 4)",
                                                [OF_OPERATION] = "min(FOUR, sum(3, 4))",
                                                [OF_CAST] = "4.5 as i32",
                                                [OF_UNARY] = "-(-FOUR)"};
  static const char *const truths[FORM_COUNT] = {[OF_NAME] = "YES",
                                                 [OF_OPERATOR] = "FOUR < sum(2, 3)",
                                                 [OF_PLAIN_CALL] = "is_small(FOUR)",
                                                 [OF_CONTROL_CALL] = "chosen(FOUR) == FOUR & YES",
                                                 [OF_LIBRARY] = "isnan(nan)",
                                                 [OF_OPERATION] = "select(YES, true, false)",
                                                 [OF_CAST] = "1 as i1",
                                                 [OF_UNARY] = "~(~YES)"};
  form f;
  do f = (form)below(w, FORM_COUNT);
  while (!is_possible(at, f));
  w->seen[at][f]++;
  return at == AT_WHEN ? BOTH(truths[f], "1") : BOTH(fours[f], "4");
}

static both of_form(writer *w, form f, wanted want) {
  switch (f) {
  case OF_OPERATOR:
    return want.truth ? guarded(w, want, operator_truth(w)) : bounded(w, want, operator_number(w));
  case OF_PLAIN_CALL:
  case OF_CONTROL_CALL:
  case OF_TILE_CALL: return call(w, f, want, false);
  case OF_REDUCE: return reduced(w, want);
  case OF_REDUCE_BY: return reduced_by(w, want);
  case OF_LIBRARY: return from_library(w, want);
  case OF_OPERATION: return operation(w, want);
  case OF_LOAD: return loaded(w, want);
  case OF_CAST: return converted(w, want);
  case OF_UNARY: return with_sign(w, want);
  case OF_NAME:
  case FORM_COUNT: break;
  }
  return a_name(w, want);
}

static both expression(writer *w, position at, wanted want) {
  bool calls = w->functions < 2;
  form f = OF_NAME;
  for (unsigned tries = 0; w->depth < DEEPEST && tries < 8; tries++) {
    f = (form)below(w, FORM_COUNT);
    bool is_call = f == OF_PLAIN_CALL || f == OF_CONTROL_CALL || f == OF_TILE_CALL;
    bool scalar = f == OF_CONTROL_CALL || f == OF_TILE_CALL || f == OF_REDUCE || f == OF_REDUCE_BY;
    bool fits = (calls || !is_call) && !(scalar && w->s.by_element) && (f != OF_LOAD || w->s.in_kernel) &&
                (w->s.has_lanes || (f != OF_REDUCE && f != OF_REDUCE_BY));
    if (fits) break;
    f = OF_NAME;
  }
  w->seen[at][f]++;
  w->depth++;
  both v = of_form(w, f, want);
  w->depth--;
  return v;
}

#endif
