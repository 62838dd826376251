// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests warnings about heads of kernels: no grid, configs that no launch can reach. The library, the
// examples and correct heads give none.
#include "tests/compiler/front_test.h"

/// "line:column: text" of each warning of the source, a line each; "" where there is none.
static void warnings_of(const char *text, size_t size, bool all_configs, char out[2000]) {
  kiln_front_options options = {.all_configs = all_configs};
  opened o = open_text("k.kiln", text, size, &options);
  size_t at = 0;
  kiln_target target = target_of("sm_90a");
  if (!o.unit) fail_with(&o, text, size);
  for (size_t i = 0; i < kiln_unit_instance_count(o.unit); i++)
    for (uint32_t c = 0; c < kiln_unit_interface(o.unit, i)->config_count; c++)
      if (kiln_unit_has_config(o.unit, i, c, &target))
        kiln_unit_lower(o.unit, o.arena, i, c, 0, &target, &o.d);
  out[0] = 0;
  for (uint32_t i = 0; i < o.d.count; i++)
    if (o.d.items[i].severity == KILN_WARNING)
      at += (size_t)snprintf(out + at, 2000 - at, "%u:%u: %s\n", o.d.items[i].line, o.d.items[i].column,
                             o.d.items[i].text);
  kiln_arena_destroy(o.arena);
}

/// A source with '`' before each place that is warned of, and what each says.
static void check_warned(const char *marked, const char *said) {
  char text[2000], got[2000], want[2000] = "";
  size_t size = 0, at = 0, count = 0;
  uint32_t line = 1, column = 1;
  for (const char *c = marked; *c; c++) {
    if (*c == '`') {
      at += (size_t)snprintf(want + at, sizeof want - at, "%u:%u: \n", line, column);
      count++;
      continue;
    }
    text[size++] = *c;
    *c == '\n' ? line++, column = 1 : column++;
  }
  warnings_of(text, size, false, got);
  const char *rest = got;
  for (char *place = strtok(want, "\n"); place; place = strtok(NULL, "\n"), count--) {
    const char *end = strchr(rest, '\n');
    if (!end || strncmp(rest, place, strlen(place)) || !strstr(rest, said) || strstr(rest, said) > end)
      FAIL("%s\ngives\n%swanted %s ... %s", marked, got, place, said);
    rest = end + 1;
  }
  if (*rest) FAIL("%s\ngives more: %s", marked, rest);
  warnings_of(text, size, true, got); // all configs are built then
  if (strstr(got, "every launch takes")) FAIL("%s\nwith all configs gives %s", marked, got);
}

TEST(warnings, kernels_without_grid) {
  static const char said[] = "has no @grid and asks for pid(0): a launch that gives no grid runs one program";
  check_warned("kiln 1\nkernel `k(o: out *i32) { store(o + pid(0), 1) }\n", said);
  check_warned("kiln 1\nfn mine(B) { return pid(0) * B + iota(B) }\nkernel `k(o: out *i32) { store(o + "
               "mine(16), 1) }\n",
               said);
  check_warned(
      "kiln 1\nkernel `j[T: type = f32, B: tune = 16](o: out *T) @instance(T = f32) @instance(T = f16)\n"
      "  @config(B = 32) @config(B = 16) @cost(B) { if npid(1) > 1 { store(o + iota(B), 1.0 as T) } }\n",
      "kernel 'j' has no @grid and asks for npid(1)");
  check_warned("kiln 1\nkernel k(o: out *i32) @grid(1) { store(o + pid(0), 1) }\n", "");
  check_warned("kiln 1\nkernel k(o: out *i32) { store(o + iota(16), 1) }\n", ""); // one program does it all
}

#define HEAD "kiln 1\nkernel k[B: tune = 64, T: type = f32](o: out *T, n: i32) @grid(cdiv(n, B))\n"
#define BODY "\n{ store(o + pid(0) * B + iota(B), full(T[B], 1.0), pid(0) * B + iota(B) < n) }\n"

TEST(warnings, configs_that_are_never_built) {
  static const char never[] = "this @config is never built: @require holds for it in no launch";
  static const char first[] = "this @config is never built: every launch takes the one at line 3 first";
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128)\n@`config(B = 256)" BODY, first);
  check_warned(HEAD "@config(B = 64, targets = \"sm_90a, gfx942\")\n@config(B = 128)\n@`config(B = 256)" BODY,
               "this @config is never built: every launch takes the one at line");
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128, targets = \"sm_90a\")" BODY, first);
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128) @instance(T = f32) @instance(T = bf16)" BODY, first);
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128) @cost(B)" BODY, first); // costs that are numbers
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128) @cost(7)" BODY, first);
  check_warned(HEAD "@config(B = 64)\n@config(B = 128) @cost(cdiv(n, B))" BODY, "");
  check_warned(HEAD "@config(B = 128)\n@config(B = 64) @cost(B)" BODY, "");
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128) @require(B < 100)" BODY, never);
  check_warned(HEAD "@config(B = 64)\n@`config(B = 128) @require(B < 100 & n > 5)" BODY, never);
  // Right: a launch may come to each.
  check_warned(HEAD "@config(B = 64)" BODY, "");
  check_warned(HEAD "@config(B = 64)\n@config(B = 128) @require(n <= B)" BODY, "");
  check_warned(HEAD "@config(B = 64)\n@config(B = 128) @cost(cdiv(n, B))" BODY, "");
  check_warned(HEAD "@config(B = 64)\n@config(B = 128) @require((B == 64) == (T == f32)) @instance(T = f32) "
                    "@instance(T = f16)" BODY,
               "");
  check_warned(HEAD "@config(B = 64, targets = \"sm_90a\")\n@config(B = 128)" BODY, "");
  check_warned(HEAD "@config(B = 64) @space(B = [128, 256])" BODY, "");
  check_warned(HEAD "@config(B = 64)\n@config(B = 128) @require(n <= B)" BODY
                    "kernel j[B: tune = 64](o: out *f32) @grid(1) @configs(k) { store(o + iota(B), 1.0) }\n",
               "");
}

TEST(warnings, none_of_the_library_and_the_examples) {
  static const char *const folders[] = {"kernels/*.kiln", "examples/*/*.kiln", "bench/*.kiln"};
  unsigned count = 0;
  for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
    char *list, got[2000];
    CHECK_INT(kiln_test_run(&list, "ls %s", folders[f]), 0);
    for (char *path = strtok(list, "\n"); path; path = strtok(NULL, "\n"), count++) {
      size_t size;
      char *text = kiln_test_read(path, &size);
      CHECK(text != NULL);
      warnings_of(text, size, false, got);
      if (*got) FAIL("%s: %s", path, got);
      free(text);
    }
    free(list);
  }
  CHECK(count > 12);
}
