// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs drawn as text, in the language and, word by word, in C: expressions of every form in every
// position that the grammar of docs/ir.md has for one.
#ifndef KILN_TESTS_FRONT_PROGRAMS_H
#define KILN_TESTS_FRONT_PROGRAMS_H

#include "tests/compiler/front_expressions.h"

// ------------------------------------------------------------------------------------------ statements

static void block(writer *w, uint32_t count) {
  uint32_t names = w->s.count;
  w->blocks++;
  statements(w, count);
  w->blocks--;
  w->s.count = names;
}

/// Of the yields of an `if` with values, into the C names.
static void yield_values(writer *w, const char *const *names, uint32_t count) {
  if (count == 2 && below(w, 2)) { // both of one call
    both pair = call(w, OF_PLAIN_CALL, (wanted){0}, true);
    put(w, TEXT("yield %s", pair.kiln),
        TEXT("{ struct pair p = %s; %s = p.a; %s = p.b; }", pair.c, names[0], names[1]));
    return;
  }
  both a = number(w, AT_YIELD), b = count == 2 ? number(w, AT_YIELD) : a;
  if (count == 2)
    put(w, TEXT("yield %s, %s", a.kiln, b.kiln),
        TEXT("{ int p = %s, q = %s; %s = p; %s = q; }", a.c, b.c, names[0], names[1]));
  else put(w, TEXT("yield %s", a.kiln), TEXT("%s = %s;", names[0], a.c));
}

static void side_with_values(writer *w, const char *const *names, uint32_t count) {
  uint32_t before = w->s.count;
  w->blocks++;
  statements(w, below(w, 2));
  yield_values(w, names, count);
  w->blocks--;
  w->s.count = before;
}

/// What stands after "names =" of a binding: expressions, a call with two values, or an `if`. In C the names
/// are assigned, which are declared there.
static void binding(writer *w, const char *word, const char *const *names, uint32_t count, position at) {
  const char *head = TEXT("%s %s%s%s =", word, names[0], count == 2 ? ", " : "", count == 2 ? names[1] : "");
  if (w->blocks < 2 && below(w, 3) == 0) {
    both c = truth(w, AT_LET_IF);
    put(w, TEXT("%s if %s {", head, c.kiln), TEXT("if (%s) {", c.c));
    side_with_values(w, names, count);
    while (below(w, 3) == 0) {
      c = truth(w, AT_ELSE_IF);
      put(w, TEXT("} else if %s {", c.kiln), TEXT("} else if (%s) {", c.c));
      side_with_values(w, names, count);
    }
    put(w, "} else {", "} else {");
    side_with_values(w, names, count);
    put(w, "}", "}");
  } else if (count == 2 && below(w, 2)) {
    both pair = call(w, OF_PLAIN_CALL, (wanted){0}, true);
    put(w, TEXT("%s %s", head, pair.kiln),
        TEXT("{ struct pair p = %s; %s = p.a; %s = p.b; }", pair.c, names[0], names[1]));
  } else {
    both a = number(w, at), b = count == 2 ? number(w, at) : a;
    put(w, count == 2 ? TEXT("%s %s, %s", head, a.kiln, b.kiln) : TEXT("%s %s", head, a.kiln),
        count == 2 ? TEXT("{ int p = %s, q = %s; %s = p; %s = q; }", a.c, b.c, names[0], names[1])
                   : TEXT("%s = %s;", names[0], a.c));
  }
}

static void state_binding(writer *w) {
  bool is_var = below(w, 2);
  uint32_t count = 1 + below(w, 2);
  const char *names[2] = {fresh(w, "v"), count == 2 ? fresh(w, "v") : NULL};
  put(w, "", count == 2 ? TEXT("int %s, %s;", names[0], names[1]) : TEXT("int %s;", names[0]));
  binding(w, is_var ? "var" : "let", names, count, is_var ? AT_VAR : AT_LET);
  for (uint32_t i = 0; i < count; i++) declare(w, names[i], is_var, false);
}

static void state_condition(writer *w) {
  const char *name = fresh(w, "c");
  both v = truth(w, AT_LET);
  put(w, TEXT("let %s = %s", name, v.kiln), TEXT("int %s = %s;", name, v.c));
  declare(w, name, false, true);
}

static uint32_t variables(const writer *w, const char **out) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < w->s.count; i++)
    if (w->s.is_var[i]) out[count++] = w->s.names[i];
  return count;
}

static void state_assign(writer *w) {
  const char *vars[NAMES];
  uint32_t count = variables(w, vars);
  if (!count) {
    state_binding(w);
    return;
  }
  uint32_t first = below(w, count);
  if (count > 1 && below(w, 2)) {
    const char *a = vars[first], *b = vars[(first + 1) % count];
    both x = number(w, AT_ASSIGN), y = number(w, AT_ASSIGN);
    bool one_call = below(w, 2);
    both pair = one_call ? call(w, OF_PLAIN_CALL, (wanted){0}, true) : x;
    put(w, one_call ? TEXT("%s, %s = %s", a, b, pair.kiln) : TEXT("%s, %s = %s, %s", a, b, x.kiln, y.kiln),
        one_call ? TEXT("{ struct pair p = %s; %s = p.a; %s = p.b; }", pair.c, a, b)
                 : TEXT("{ int p = %s, q = %s; %s = p; %s = q; }", x.c, y.c, a, b));
    return;
  }
  both v = number(w, AT_ASSIGN);
  put(w, TEXT("%s = %s", vars[first], v.kiln), TEXT("%s = %s;", vars[first], v.c));
}

static void state_if(writer *w) {
  both c = truth(w, AT_IF);
  put(w, TEXT("if %s {", c.kiln), TEXT("if (%s) {", c.c));
  block(w, 1 + below(w, 2));
  while (below(w, 3) == 0) {
    c = truth(w, AT_ELSE_IF);
    put(w, TEXT("} else if %s {", c.kiln), TEXT("} else if (%s) {", c.c));
    block(w, 1);
  }
  if (below(w, 2)) {
    put(w, "} else {", "} else {");
    block(w, 1);
  }
  put(w, "}", "}");
}

/// It opens no scope, so nothing is declared in it.
static void state_when(writer *w) {
  const char *vars[NAMES];
  both c = known(w, AT_WHEN);
  if (!variables(w, vars)) {
    state_binding(w);
    return;
  }
  put(w, TEXT("when %s {", c.kiln), "{");
  state_assign(w);
  put(w, "} else { store(FOUR, 1) }", "}");
}

static void state_for(writer *w) {
  const char *name = fresh(w, "j");
  both lower = within(w, AT_LOWER, -1, 2), upper = within(w, AT_UPPER, 0, 3), step = within(w, AT_STEP, 1, 2);
  bool steps = below(w, 2), unrolls = below(w, 3) == 0;
  both unroll = known(w, AT_UNROLL);
  put(w,
      TEXT("for %s in %s .. %s%s%s%s {", name, lower.kiln, upper.kiln,
           steps ? TEXT(" step %s", step.kiln) : "", unrolls ? TEXT(" @unroll(%s)", unroll.kiln) : "",
           below(w, 4) ? "" : " @flatten"),
      TEXT("for (int %s = %s, to_%s = %s, by_%s = %s; %s < to_%s; %s += by_%s) {", name, lower.c, name,
           upper.c, name, steps ? step.c : "1", name, name, name, name));
  uint32_t names = w->s.count;
  declare(w, name, false, false);
  block(w, 1 + below(w, 2));
  w->s.count = names;
  put(w, "}", "}");
}

static const char *counter(writer *w) {
  const char *name = fresh(w, "k");
  int v = 1 + (int)below(w, 4);
  put(w, TEXT("var %s = %d", name, v), TEXT("int %s = %d;", name, v));
  return name;
}

static void state_while(writer *w) {
  const char *left = counter(w);
  both c = expression(w, AT_WHILE, (wanted){.truth = true, .guard = left});
  put(w, TEXT("while %s {", c.kiln), TEXT("while (%s) {", c.c));
  uint32_t names = w->s.count;
  declare(w, left, false, false);
  block(w, 1 + below(w, 2));
  put(w, TEXT("%s = %s - 1", left, left), TEXT("%s--;", left));
  w->s.count = names;
  put(w, "}", "}");
}

/// Ends when its condition does not hold; what it exports is known after it.
static void state_loop(writer *w) {
  const char *left = counter(w), *heads[2] = {fresh(w, "h"), fresh(w, "h")},
             *outs[2] = {fresh(w, "x"), fresh(w, "x")};
  uint32_t names = w->s.count, head_count = below(w, 3), out_count = below(w, 3);
  put(w, "", TEXT("int %s, %s, %s, %s;", heads[0], heads[1], outs[0], outs[1]));
  if (head_count) binding(w, "loop", heads, head_count, AT_HEAD);
  put(w, head_count ? "{" : "loop {", "for (;;) {");
  declare(w, left, false, false);
  for (uint32_t i = 0; i < head_count; i++) declare(w, heads[i], true, false);
  w->blocks++;
  statements(w, below(w, 2));
  both c = expression(w, AT_BREAK, (wanted){.truth = true, .guard = left});
  const char *stop = fresh(w, "stop");
  bool complement = below(w, 2); // `~` is taken off the condition
  if (!complement) put(w, TEXT("let %s = %s", stop, c.kiln), "");
  put(w, "", TEXT("int %s = !(%s);", stop, c.c));
  if (out_count) binding(w, "break", outs, out_count, AT_EXPORT);
  put(w, TEXT("%s if ~(%s)", out_count ? "" : "break", complement ? c.kiln : stop),
      TEXT("if (%s) break;", stop));
  for (uint32_t i = 0; i < out_count; i++) declare(w, outs[i], false, false);
  statements(w, 1 + below(w, 2));
  put(w, TEXT("%s = %s - 1", left, left), TEXT("%s--;", left));
  put(w, "}", "}");
  w->blocks--;
  w->s.count = names;
  for (uint32_t i = 0; i < out_count; i++) declare(w, outs[i], false, false);
}

static void state_store(writer *w) {
  both at = within(w, AT_INDEX, 0, 6), v = number(w, AT_STORED), mask = truth(w, AT_MASK);
  bool masked = below(w, 2);
  put(w,
      masked ? TEXT("store(o + %s, %s, %s)", at.kiln, v.kiln, mask.kiln)
             : TEXT("store(o + %s, %s)", at.kiln, v.kiln),
      TEXT("{ int p = %s, q = %s; if (%s) o[p] = q; }", at.c, v.c, masked ? mask.c : "1"));
}

/// All lanes are computed before one is stored.
static void state_tile_store(writer *w) {
  both at = within(w, AT_INDEX, 0, 5), v = tile(w, AT_STORED, (wanted){0}),
       mask = tile(w, AT_MASK, (wanted){.truth = true});
  both lanes = known(w, AT_SHAPE);
  bool few = below(w, 2);
  put(w,
      few ? TEXT("store(o + iota(%s) + %s, full(i32[%s], 7) + iota(sum(2, 2)))", lanes.kiln, at.kiln,
                 lanes.kiln)
          : TEXT("store(o + i + %s, %s, %s)", at.kiln, v.kiln, mask.kiln),
      few ? TEXT("{ int p = %s; for (int i = 0; i < 4; i++) o[p + i] = 7 + i; }", at.c)
          : TEXT("{ int p = %s, q[16], m[16]; " EACH_LANE "q[i] = %s, m[i] = %s; " EACH_LANE
                 "if (m[i]) o[p + i] = q[i]; }",
                 at.c, v.c, mask.c));
}

static void state_view(writer *w) {
  const char *name = fresh(w, "V");
  both extent = within(w, AT_EXTENT, 0, 5), at = within(w, AT_VIEW_INDEX, -4, 4),
       v = tile(w, AT_STORED, (wanted){0}), other = number(w, AT_OTHER),
       from = within(w, AT_VIEW_INDEX, -4, 4);
  put(w, TEXT("let %s = view(o, [%s], [1], [16])", name, extent.kiln), TEXT("int %s = %s;", name, extent.c));
  put(w, TEXT("store(%s, [%s], %s)", name, at.kiln, v.kiln),
      TEXT("{ int p = %s, q[16]; " EACH_LANE "q[i] = %s; " EACH_LANE
           "if (p + i >= 0 && p + i < %s) o[p + i] = q[i]; }",
           at.c, v.c, name));
  put(w, TEXT("store(o + 40, reduce.add(load(%s, [%s], %s), 0))", name, from.kiln, other.kiln),
      TEXT("{ int p = %s, q = %s, r = 0; " EACH_LANE
           "r += p + i >= 0 && p + i < %s ? o[p + i] : q; o[40] = r; }",
           from.c, other.c, name));
}

static void state_assert(writer *w) {
  both c = truth(w, AT_ASSERT);
  put(w,
      TEXT("assert(%s, \"none\")", below(w, 2) ? TEXT("isnan(nan) | ((%s) | true)", c.kiln)
                                               : TEXT("select(%s, true, n == n)", c.kiln)),
      "");
}

/// Ends the program early, outside of loops.
static void state_return(writer *w) {
  both c = truth(w, AT_IF);
  if (w->blocks) return;
  put(w, TEXT("if %s {", c.kiln), TEXT("if (%s) {", c.c));
  block(w, below(w, 2));
  put(w, "return }", "return; }");
}

static void statements(writer *w, uint32_t count) {
  static void (*const anywhere[])(writer *) = {state_binding, state_binding, state_condition,
                                               state_assign,  state_assign,  state_when};
  static void (*const with_blocks[])(writer *) = {state_if, state_for, state_while, state_loop};
  static void (*const effects[])(writer *) = {state_store, state_store,  state_tile_store,
                                              state_view,  state_assert, state_return};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = below(w, 3);
    if (k == 0 && w->blocks < 2) with_blocks[below(w, 4)](w);
    else if (k == 1 && w->s.in_kernel) effects[below(w, 6)](w);
    else anywhere[below(w, 6)](w);
  }
}

/// One program: its text, and a function of C with the name `c_name`.
static void write_program(writer *w, uint64_t seed, const char *c_name, kiln_buffer *out_kiln,
                          kiln_buffer *out_c) {
  w->random = seed;
  w->kiln = w->c = w->kiln_items = w->c_items = (kiln_buffer){0};
  w->s = (scope){.in_kernel = true, .has_lanes = true};
  declare(w, "n", false, false);
  statements(w, 3 + below(w, 6));
  for (uint32_t i = 1; i < w->s.count; i++)
    put(w, TEXT("store(o + %u, %s as i32)", i, w->s.names[i]), TEXT("o[%u] = %s;", i, w->s.names[i]));
  kiln_buffer_format(
      out_kiln,
      "kiln 1\nconst FOUR = 4\nconst YES = true\nfn sum(a, b) { let c = a + b return c }\n"
      "fn chosen(a) { when a > 3 { return a } return a / 0 }\nfn is_small(a) { return a < 5 }\n"
      "fn larger(a, b) { return max(a, b) }\nfn either(a, b) { return a | b }\n%.*s"
      "kernel k(o: inout *i32, few: in *i32, flags: in *i1, n: i32) @grid(1) {\nlet i = iota(16)\n%.*s}\n",
      (int)w->kiln_items.size, (const char *)w->kiln_items.bytes, (int)w->kiln.size,
      (const char *)w->kiln.bytes);
  kiln_buffer_format(
      out_c, "%.*sstatic void %s(int *o, const int *few, const unsigned char *flags, int n) {\n%.*s}\n",
      (int)w->c_items.size, (const char *)w->c_items.bytes, c_name, (int)w->c.size, (const char *)w->c.bytes);
  kiln_buffer *all[] = {&w->kiln, &w->c, &w->kiln_items, &w->c_items};
  for (unsigned i = 0; i < 4; i++) kiln_buffer_deinit(all[i]);
}

#endif
