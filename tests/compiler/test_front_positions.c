// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws programs with expressions of every form in every position of the grammar: the interpreter must
// leave the same memory as the same program compiled by gcc. Expressions of the wrong type are errors at
// their line.
#include "compiler/interpreter/interpreter.h"
#include "tests/compiler/front_programs.h"
#include "tests/compiler/front_test.h"

enum { RUNS = 4 };
static const int32_t arguments[RUNS] = {0, 3, 11, -6};

/// What is in memory at first.
typedef struct memory {
  int32_t o[MEMORY], few[MEMORY];
  uint8_t flags[MEMORY];
} memory;

static const char c_head[] =
    "#include <stdbool.h>\n#include <stdio.h>\nstruct pair { int a, b; };\n"
    "#define max(a, b) ({ int x_ = (a), y_ = (b); x_ > y_ ? x_ : y_; })\n"
    "#define min(a, b) ({ int x_ = (a), y_ = (b); x_ < y_ ? x_ : y_; })\n"
    "#define select(c, a, b) ((c) ? (a) : (b))\n"
    "static int clamp(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }\n"
    "static int cdiv(int a, int b) { return (a + b - 1) / b; }\n"
    "static int ult(unsigned a, unsigned b) { return a < b; }\n"
    "static int next_power_of_2(int n) { int p = 1; while (p < n) p *= 2; return p; }\n";

static memory first_memory(void) {
  memory m;
  for (int i = 0; i < MEMORY; i++) {
    m.o[i] = i * 7 % 23 - 5;
    m.few[i] = 1 + i % 3;
    m.flags[i] = i % 3 == 1;
  }
  return m;
}

/// Where a program is to be looked at after a failure.
static const char *kept(const kiln_buffer *text) {
  static char path[300];
  snprintf(path, sizeof path, "%s/p.kiln", kiln_test_folder());
  kiln_test_write(path, text->bytes, text->size);
  return path;
}

static const char *first_error(const kiln_diagnostics *d) {
  static char text[400];
  for (uint32_t i = 0; i < d->count; i++)
    if (d->items[i].severity == KILN_ERROR) {
      snprintf(text, sizeof text, "line %u: %s", d->items[i].line, d->items[i].text);
      return text;
    }
  return "no error";
}

static void interpret(const opened *o, const kiln_buffer *text, int32_t n, memory *m) {
  kiln_target target = target_of("x86-64-v3");
  kiln_diagnostics d = {.arena = o->arena};
  ir_kernel *kernel = kiln_unit_lower(o->unit, o->arena, 0, 0, 0, &target, &d);
  if (!kernel) FAIL("%s: %s", kept(text), first_error(&d));
  struct {
    int32_t *o, *few;
    uint8_t *flags;
    int32_t n, pad;
  } args = {m->o, m->few, m->flags, n, 0};
  kiln_memory_range range = {m, sizeof *m};
  kiln_interpret_options options = {.ranges = &range, .range_count = 1, .max_steps = 20000000};
  kiln_error err;
  if (kiln_interpret(kernel, &args, (uint32_t[]){1, 1, 1}, &options, &err) != KILN_OK)
    FAIL("%s: %s", kept(text), err.text);
}

/// What gcc's program prints: the memory of each program after each run.
static char *run_c(const kiln_buffer *functions, uint32_t count) {
  kiln_buffer text = {0};
  kiln_buffer_format(&text, "%s%.*s", c_head, (int)functions->size, (const char *)functions->bytes);
  kiln_buffer_format(
      &text, "int main(void) {\n  static void (*const all[])(int *, const int *, const unsigned char *, "
             "int) = {");
  for (uint32_t i = 0; i < count; i++) kiln_buffer_format(&text, "program%u, ", i);
  kiln_buffer_format(&text, "};\n  static const int arguments[] = {%d, %d, %d, %d};\n", arguments[0],
                     arguments[1], arguments[2], arguments[3]);
  kiln_buffer_format(&text,
                     "  for (int p = 0; p < %u; p++) for (int r = 0; r < %d; r++) {\n"
                     "    int o[64], few[64]; unsigned char flags[64];\n"
                     "    for (int i = 0; i < 64; i++) o[i] = i * 7 %% 23 - 5, few[i] = 1 + i %% 3, flags[i] "
                     "= i %% 3 == 1;\n"
                     "    all[p](o, few, flags, arguments[r]);\n"
                     "    for (int i = 0; i < 64; i++) printf(\"%%d \", o[i]);\n  }\n}\n",
                     count, RUNS);
  const char *folder = kiln_test_folder();
  kiln_test_write(kiln_arena_format(kiln_arena_create(), "%s/p.c", folder), text.bytes, text.size);
  char *out;
  if (kiln_test_run(&out, "gcc -w -O0 -fwrapv -o %s/p %s/p.c && %s/p", folder, folder, folder))
    FAIL("%s", out);
  kiln_buffer_deinit(&text);
  return out;
}

/// Programs from `seed` on; notes in `w` which form stood where.
static void check_programs(writer *w, uint64_t seed, uint32_t count) {
  kiln_buffer *texts = calloc(count, sizeof *texts), functions = {0};
  w->arena = kiln_arena_create();
  w->next = 0;
  for (uint32_t i = 0; i < count; i++) {
    char name[32];
    snprintf(name, sizeof name, "program%u", i);
    write_program(w, seed + i, name, &texts[i], &functions);
  }
  char *want = run_c(&functions, count), *at = want;
  for (uint32_t i = 0; i < count; i++) {
    opened o = open_text("p.kiln", (const char *)texts[i].bytes, texts[i].size, NULL);
    if (!o.unit) FAIL("%s: %s", kept(&texts[i]), first_error(&o.d));
    for (int r = 0; r < RUNS; r++) {
      memory m = first_memory();
      interpret(&o, &texts[i], arguments[r], &m);
      for (int k = 0; k < MEMORY; k++) {
        long v = strtol(at, &at, 10);
        if (m.o[k] != v)
          FAIL("%s, seed %llu, n = %d: o[%d] is %d, in C %ld", kept(&texts[i]),
               (unsigned long long)(seed + i), arguments[r], k, m.o[k], v);
      }
    }
    check_text("p.kiln", (const char *)texts[i].bytes, texts[i].size);
    kiln_arena_destroy(o.arena);
    kiln_buffer_deinit(&texts[i]);
  }
  kiln_arena_destroy(w->arena);
  kiln_buffer_deinit(&functions);
  free(texts);
  free(want);
}

// A call or a reduction as the condition of a `while` was refused.
TEST(positions, every_form_in_every_position) {
  enum { BATCH = 250 };
  uint64_t seed = 20261126;
  writer *w = calloc(1, sizeof *w);
  for (int batch = 0; batch < (kiln_test_full() ? 20 : 1); batch++, seed += BATCH) {
    printf("positions: %d programs from seed %llu\n", BATCH, (unsigned long long)seed);
    check_programs(w, seed, BATCH);
  }
  for (int p = 0; p < POSITION_COUNT; p++)
    for (int f = 0; f < FORM_COUNT; f++)
      if (is_possible((position)p, (form)f) && !w->seen[p][f])
        FAIL("no program has form %d at position %d", f, p);
  free(w);
}

/// What may be wrong with an expression, by what the message must say of it: one of the words between '|'.
static const struct {
  char letter;
  const char *text, *found;
} wrong[] = {
    {'s', "\"text\"", "a string"},
    {'t', "f32", "a type"},
    {'2', "pair(1, 2)", "yields 2 values|found 2|1 and 2"},
    {'0', "nothing(1)", "yields 0 values|found 0|1 and 0"},
    {'r', "1.5", "a float literal|f32"},
    {'b', "true", "i1"},
    {'B', "(s > 2)", "i1"},
    {'n', "3", "an integer literal|i32|found 3"},
    {'N', "s", "i32"},
    {'c', "f(s)", "i32"},
    {'l', "(s as i64)", "i64"},
    {'F', "(s as f32)", "f32"},
    {'i', "i", "i32[16]"},
    {'I', "(i > 3)", "i1[16]|expected i1"},
    {'p', "o", "*i32|pointer"},
    {'v', "V", "view"},
    {'f', "f", "'f' is a function"},
    {'k', "k", "'k' is a kernel"},
    {'u', "unknwon", "unknown name 'unknwon'"},
    {'g', "g9(1)", "unknown function 'g9'"},
    {'L', "[1, 2]", "a list"},
};
/// A statement with '@' for the expression, and the letters of what is right there.
static const struct {
  const char *text, *right;
} places[] = {
    {"while @ { s = s - 1 }", "bB"},
    {"loop { break if @ s = s - 1 }", "bB"},
    {"if @ { s = 1 }", "bB"},
    {"if s > 0 { s = 1 } else if @ { s = 2 }", "bB"},
    {"let x = if @ { yield 1 } else { yield 2 }", "bB"},
    {"let x = if s > 0 { yield s } else { yield @ }", "nNc"},
    {"when @ { s = 1 }", "b"},
    {"for j in @ .. 4 { r = 1 }", "nNcl"},
    {"for j in 0 .. @ { r = 1 }", "nNcl"},
    {"for j in 0 .. 4 step @ { r = 1 }", "nNcl"},
    {"for j in 0 .. 4 @unroll(@) { r = 1 }", "n"},
    {"store(o + @, 1)", "nNcli"},
    {"store(o, @)", "nNc"},
    {"store(o, 1, @)", "bB"},
    {"let x = load(o, s > 0, @)", "nNc"},
    {"let x = select(@, 1, 2)", "bBI"},
    {"assert(@, \"t\")", "bBI"},
    {"assume(@)", "bBI"},
    {"let W = view(o, [@], [1], [16])", "nNcl"},
    {"let W = view(o, [1], [@], [16])", "nNcl"},
    {"let x = load(V, [@])", "nNcl"},
    {"let x = load(V, [0], first = @, axis = 0)", "n"},
    {"let x = iota(@)", ""},
    {"let x = pid(@)", ""},
    {"s = @", "nNc"},
    {"s = f(@)", "nNc"},
    {"s = s + @", "nNc"},
    {"s = -@", "nNc"},
    {"s = max(s, @)", "nNc"},
    {"s = cdiv(s, @)", "nNc"},
    {"s = reduce.add(@, 0)", "i"},
    {"let x = full(i32[16], @)", "nNci"},
    {"let x = hint(s, div = @)", "n"},
    {"loop h = @ { break if s == s h = h }", "rbBnNclFiIpv"},
    {"loop { break h = @ if s == s s = 1 } let x = h", "rbBnNclFiIpv"},
};

static bool says_one_of(const char *text, const char *words) {
  for (char word[64]; *words; words += strcspn(words, "|"), words += *words == '|') {
    snprintf(word, sizeof word, "%.*s", (int)strcspn(words, "|"), words);
    if (strstr(text, word)) return true;
  }
  return false;
}

// Among what this found: "bounds of a 'for': expected i1, found an integer literal" of a bound that is true.
TEST(positions, what_is_wrong_is_said) {
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
      char text[1000];
      const char *at = strrchr(places[p].text, '@');
      size_t size =
          (size_t)snprintf(text, sizeof text,
                           "kiln 1\nfn f(a) { return a }\nfn pair(a, b) { return a, b }\nfn nothing(a) { }\n"
                           "kernel k(o: inout *i32, n: i32) @grid(1) {\nlet i = iota(16)\nvar s, r = n, n\n"
                           "let V = view(o, [16], [1], [16])\n%.*s%s%s\n}\n",
                           (int)(at - places[p].text), places[p].text, wrong[k].text, at + 1);
      opened o = open_text("p.kiln", text, size, NULL);
      kiln_target target = target_of("x86-64-v3");
      bool made = o.unit && kiln_unit_lower(o.unit, o.arena, 0, 0, 0, &target, &o.d);
      bool is_right = strchr(places[p].right, wrong[k].letter) != NULL;
      const char *error = first_error(&o.d);
      bool is_said = o.d.errors == 1 && !strncmp(error, "line 9: ", 8) && says_one_of(error, wrong[k].found);
      if (made != is_right || (!made && !is_said))
        FAIL("%s with %s is %s, %u errors: %s", places[p].text, wrong[k].text, made ? "taken" : "refused",
             o.d.errors, error);
      kiln_arena_destroy(o.arena);
    }
  }
}
