// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests passes as text in, text out. tests/text/passes/NAME.PASS.kir holds a kernel before PASS, or some
// passes before it, then a line "// becomes", then the kernel after it: to add a case, leave the part after
// that line empty and run `make bless`. What the front end makes of a source is tests/passes/NAME.kiln and
// NAME.canonical.expected. Read the diff.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/passes/stages.h"
#include "tests/harness.h"

static const char sources[] = "tests/passes", texts[] = "tests/text/passes", becomes[] = "\n// becomes\n";

static int has_suffix(const char *name, const char *suffix) {
  const size_t length = strlen(name), size = strlen(suffix);
  return length > size && !strcmp(name + length - size, suffix);
}
static int is_expected(const struct dirent *entry) {
  return has_suffix(entry->d_name, ".canonical.expected");
}
static int is_text(const struct dirent *entry) { return has_suffix(entry->d_name, ".kir"); }

/// Calls `check` for the files of a folder; at least `least`.
static void each(const char *folder, int (*wanted)(const struct dirent *), int least,
                 void (*check)(const char *file)) {
  struct dirent **entries;
  int count = scandir(folder, &entries, wanted, alphasort);
  if (count < least) FAIL("%s: expected at least %d cases, found %d", folder, least, count);
  for (int i = 0; i < count; i++) {
    check(entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}

static kiln_target usual_target(void) {
  kiln_target target;
  kiln_error err = {0};
  CHECK_OK(kiln_target_parse("sm_90a", &target, &err), err);
  return target;
}

// -------------------------------------------------------------------------------------- front end

/// The only kernel of the source, canonical.
static ir_kernel *lower(kiln_arena *arena, const char *name, const kiln_target *target) {
  char path[300];
  size_t size;
  kiln_diagnostics d = {.arena = arena};
  snprintf(path, sizeof path, "%s/%s.kiln", sources, name);
  char *text = kiln_test_read(path, &size);
  if (!text) FAIL("%s cannot be read", path);
  kiln_unit *unit = kiln_unit_open(arena, path, text, size, NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%s:%u:%u: %s", path, d.items[0].line, d.items[0].column, d.items[0].text);
  free(text);
  return kernel;
}

static void forget_place(ir_op *op, void *context) {
  (void)context;
  op->place = (ir_place){0};
}

static void check_source(const char *file) {
  char name[200], golden[300];
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer printed = {0};
  const kiln_target target = usual_target();
  snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
  ir_kernel *kernel = lower(arena, name, &target);
  ir_walk(kernel->body, forget_place, NULL);
  ir_print(kernel, NULL, &printed);
  snprintf(golden, sizeof golden, "../passes/%s", file);
  kiln_test_golden(golden, (const char *)printed.bytes, printed.size);
  kiln_buffer_deinit(&printed);
  kiln_arena_destroy(arena);
}

TEST(passes, what_the_front_end_makes) { each(sources, is_expected, 11, check_source); }

// ------------------------------------------------------------------------------------------ passes

/// The kernel in the first `size` bytes, after `pass`.
static void run_text(const char *file, const char *text, size_t size, const char *pass, kiln_buffer *out) {
  kiln_arena *arena = kiln_arena_create();
  kiln_stage stage;
  ir_kernel *kernel;
  ir_place place;
  kiln_error err = {0};
  if (kiln_stage_read(arena, text, size, &stage, &kernel, &place, &err) != KILN_OK)
    FAIL("%s:%u:%u: %s", file, place.line, place.column, err.text);
  const kiln_stage_run run = {
      .stage = &stage, .mapping = KILN_MAP_ANYWAY | KILN_MAP_PROMOTE, .until = pass, .verify = true};
  if (kiln_stage_finish(&run, kernel, &err) != KILN_OK) FAIL("%s: %s", file, err.text);
  kiln_stage_print(&stage, kernel, out);
  kiln_arena_destroy(arena);
}

static void check_text(const char *file) {
  char pass[100], golden[300], path[300];
  kiln_buffer out = {0};
  size_t size;
  snprintf(path, sizeof path, "%s/%s", texts, file);
  char *text = kiln_test_read(path, &size);
  const char *end = text ? strstr(text, becomes) : NULL;
  if (!end) FAIL("%s: expected a kernel, a line \"// becomes\" and another kernel", path);
  snprintf(pass, sizeof pass, "%s", file + strcspn(file, ".") + 1);
  pass[strcspn(pass, ".")] = 0;
  const size_t before = (size_t)(end - text) + strlen(becomes);
  kiln_buffer_bytes(&out, text, before);
  run_text(file, text, before, pass, &out);
  snprintf(golden, sizeof golden, "../text/passes/%s", file);
  kiln_test_golden(golden, (const char *)out.bytes, out.size);
  kiln_buffer_deinit(&out);
  free(text);
}

TEST(passes, text_in_text_out) { each(texts, is_text, 50, check_text); }

// ----------------------------------------------------------------------------------- checking passes

/// A pass that forgets to give a value: its operand is defined after it.
static kiln_status broken(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)context, (void)err;
  ir_move(kernel->body->last->prev, kernel->body, NULL);
  return KILN_OK;
}

static const kiln_pass faulty = {"broken", KILN_WHEN_ALL, KILN_FORM_CANONICAL, KILN_FORM_CANONICAL, broken};

static ir_kernel *two_operations(kiln_arena *arena) {
  ir_kernel *kernel = ir_kernel_create(arena, "k");
  ir_param p = {.name = "p", .type = ir_pointer_type(KILN_I32), .access = IR_ACCESS_OUT};
  ir_value *out = ir_add_param(kernel, &p);
  ir_builder b = {.arena = arena, .block = kernel->body};
  ir_value *one = ir_const_int(&b, KILN_I32, 1);
  ir_emit(&b, IR_STORE, NULL, (ir_value *[]){out, one}, 2, NULL, NULL, 0);
  return kernel;
}

TEST(passes, a_fault_is_named_and_shown_beside_its_operation) {
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer printed = {0};
  kiln_error err = {0};
  const kiln_target target = usual_target();
  kiln_pass_context context = kiln_pass_context_of(&target);
  const kiln_pass_options options = {.verify = true, .printed = &printed};
  CHECK_INT(kiln_run_pass(&faulty, two_operations(arena), &context, &options, &err), KILN_STATUS_INTERNAL);
  CHECK_TEXT(err.text, "after broken: operation 0 (store): an operand is not defined where it is used");
  CHECK_INT(err.operation, 1);
  kiln_buffer_u8(&printed, 0);
  CHECK_TEXT((const char *)printed.bytes, "kernel k warps=4 stages=0\n"
                                          "  %0 p: out *i32\n"
                                          "{\n"
                                          "  store %0, %1\n"
                                          "  ^ an operand is not defined where it is used\n"
                                          "  %1: i32 = const 1\n"
                                          "}\n");
  kiln_buffer_deinit(&printed);
  kiln_arena_destroy(arena);
}

TEST(passes, without_checking_a_pass_is_not_verified) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  const kiln_target target = usual_target();
  kiln_pass_context context = kiln_pass_context_of(&target);
  kiln_check_passes(false);
  CHECK_OK(kiln_run_pass(&faulty, two_operations(arena), &context, &(kiln_pass_options){0}, &err), err);
  kiln_check_passes(true);
  kiln_run_pass(&faulty, two_operations(arena), &context, &(kiln_pass_options){0}, &err);
  CHECK(!strncmp(err.text, "after broken:", 13));
  kiln_arena_destroy(arena);
}

// What a pass needs is what the passes before it leave, whichever of them run.
TEST(passes, the_table_is_in_order) {
  kiln_form form = KILN_FORM_CANONICAL;
  kiln_pass_when when = KILN_WHEN_ALL;
  for (size_t i = 0; i < kiln_pass_count; i++) {
    const kiln_pass *pass = &kiln_passes[i];
    CHECK(kiln_find_pass(pass->name) == pass);
    CHECK(pass->needs <= form && pass->leaves >= form);
    CHECK(pass->when == KILN_WHEN_ALL || pass->leaves >= KILN_FORM_LEGAL);
    CHECK((pass->when == KILN_WHEN_ALL) <= (when == KILN_WHEN_ALL)); // those for all come first
    if (pass->when != KILN_WHEN_ALL && pass->when != KILN_WHEN_GPUS) CHECK_INT(pass->leaves, form);
    form = pass->leaves, when = pass->when;
  }
}

TEST(passes, printing_shows_what_is_asked_for) {
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer all = {0}, one = {0};
  kiln_error err = {0};
  for (int i = 0; i < 2; i++) {
    kiln_stage stage = {.target = usual_target(), .refusals = {.arena = arena}};
    const kiln_stage_run run = {.stage = &stage,
                                .until = "simplify-last",
                                .print_after = i ? "guard" : "all",
                                .printed = i ? &one : &all};
    CHECK_OK(kiln_stage_finish(&run, lower(arena, "known", &stage.target), &err), err);
  }
  kiln_buffer_u8(&all, 0);
  kiln_buffer_u8(&one, 0);
  const char *at = (const char *)all.bytes;
  for (size_t i = 0; kiln_passes[i].when == KILN_WHEN_ALL; i++) {
    char line[100];
    snprintf(line, sizeof line, "kir 2\ntarget sm_90a\nafter %s\nkernel ", kiln_passes[i].name);
    at = strstr(at, line);
    if (!at) FAIL("%s is not printed, or not in order", kiln_passes[i].name);
    at++;
  }
  CHECK(!strncmp((const char *)one.bytes, "kir 2\ntarget sm_90a\nafter guard\n", 31));
  CHECK(!strstr((const char *)one.bytes + 1, "kir 2"));
  CHECK(strstr((const char *)all.bytes, (const char *)one.bytes));
  kiln_buffer_deinit(&all);
  kiln_buffer_deinit(&one);
  kiln_arena_destroy(arena);
}
