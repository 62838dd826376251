// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Passes as text in, text out: tests/passes/NAME.kiln is lowered and run through the passes up to PASS; what
// is left is tests/passes/NAME.PASS.expected. An empty file of such a name and `make bless` add a case; read
// the diff.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/gpu/gpu.h"
#include "compiler/middle/pipeline.h"
#include "tests/harness.h"

enum { MOST = 200 };
static const char folder[] = "tests/passes";

/// Where a case needs another machine than this one.
static const struct {
  const char *name, *target;
} targets[] = {{"flush", "x86-64-v3"},
               {"fetch", "sm_80"},
               {"fetch_bytes", "sm_89"},
               {"fetch_room", "sm_86"},
               {"fetch_slot", "sm_86"},
               {"fetch_tail", "sm_90"},
               {"prefetch", "sm_75"},
               {"prefetch_deep", "sm_80"},
               {"carry", "gfx942"},
               {"near", "gfx942"},
               {"prefetch_masked", "gfx942"},
               {"slots", "gfx942"},
               {"slots_asked", "gfx942"},
               {"dies", "gfx942"},
               {"layouts_mma", "sm_80"},
               {"rereads", "sm_80"},
               {"converted_queries", "gfx942"}};
static const char usual_target[] = "sm_90a";

static int wanted(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && !strcmp(dot, ".expected");
}

static kiln_target target_of(const char *name) {
  const char *text = usual_target;
  kiln_target target;
  kiln_error err = {0};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
    if (!strcmp(targets[i].name, name)) text = targets[i].target;
  CHECK_OK(kiln_target_parse(text, &target, &err), err);
  return target;
}

/// The only kernel of the source, canonical.
static ir_kernel *lower(kiln_arena *arena, const char *name, const kiln_target *target) {
  char path[300];
  size_t size;
  kiln_diagnostics d = {.arena = arena};
  snprintf(path, sizeof path, "%s/%s.kiln", folder, name);
  char *text = kiln_test_read(path, &size);
  if (!text) FAIL("%s cannot be read", path);
  kiln_unit *unit = kiln_unit_open(arena, path, text, size, NULL, &d);
  ir_kernel *kernel = unit ? kiln_unit_lower(unit, arena, 0, 0, 0, target, &d) : NULL;
  if (!kernel) FAIL("%s:%u:%u: %s", path, d.items[0].line, d.items[0].column, d.items[0].text);
  free(text);
  return kernel;
}

/// Recovered whatever comes of it.
static unsigned recover(ir_kernel *kernel, const kiln_target *target, kiln_refusals *refusals) {
  return (void)target, (void)refusals, kiln_gpu_recover_views(kernel, NULL);
}

static void check_case(const char *file) {
  char name[200], *pass, golden[300];
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer printed = {0};
  kiln_error err = {0};
  snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".expected")), file);
  if (!(pass = strchr(name, '.'))) FAIL("%s: expected NAME.PASS.expected", file);
  *pass++ = 0;
  bool is_of_gpu = ir_find_pass(kiln_gpu_passes, kiln_gpu_pass_count, pass),
       is_of_registers = ir_find_pass(kiln_gpu_register_passes, kiln_gpu_register_pass_count, pass);
  if (!is_of_gpu && !is_of_registers && !ir_find_pass(kiln_middle_passes, kiln_middle_pass_count, pass))
    FAIL("%s: no pass '%s'", file, pass);
  kiln_target target = target_of(name);
  const ir_pass_options options = {
      .print_after = pass, .stop_after = pass, .verify = true, .printed = &printed};
  const ir_pass_options silent = {.verify = true};
  kiln_promotion promotion = {.recover = is_of_gpu || is_of_registers ? NULL : recover,
                              .mark = is_of_gpu ? kiln_gpu_promote : NULL};
  const ir_pass_options *before = is_of_gpu || is_of_registers ? &silent : &options;
  ir_kernel *kernel = lower(arena, name, &target);
  kiln_status status = kiln_middle_promoting(kernel, &target, promotion, before, &err);
  if (is_of_gpu && is_of_registers) is_of_gpu = kiln_gpu_has_mapped(kernel); // a pass of both lists
  if (status == KILN_OK && is_of_gpu) status = kiln_gpu_form(kernel, &target, NULL, &options, &err);
  else if (status == KILN_OK && is_of_registers)
    status = kiln_gpu_register_form(kernel, &target, &options, &err);
  if (status != KILN_OK) FAIL("%s: %s", file, err.text);
  snprintf(golden, sizeof golden, "../passes/%s", file);
  kiln_test_golden(golden, (const char *)printed.bytes, printed.size);
  kiln_buffer_deinit(&printed);
  kiln_arena_destroy(arena);
}

TEST(passes, text_in_text_out) {
  struct dirent **entries;
  int count = scandir(folder, &entries, wanted, alphasort);
  CHECK(count >= 20);
  for (int i = 0; i < count; i++) {
    check_case(entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}

// ----------------------------------------------------------------------------------- checking passes

/// A pass that forgets to give a value: its operand is defined after it.
static kiln_status broken(ir_kernel *kernel, const void *context, kiln_error *err) {
  (void)context, (void)err;
  ir_move(kernel->body->last->prev, kernel->body, NULL);
  return KILN_OK;
}

static kiln_status idle(ir_kernel *kernel, const void *context, kiln_error *err) {
  return (void)kernel, (void)context, (void)err, KILN_OK;
}

static const ir_pass faulty[] = {{"idle", idle}, {"broken", broken}, {"never", idle}};

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
  const ir_pass_options options = {.verify = true, .printed = &printed};
  CHECK_INT(ir_run_passes(faulty, 3, two_operations(arena), NULL, &options, &err), KILN_STATUS_INTERNAL);
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

TEST(passes, without_checking_only_the_last_pass_is_verified) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  ir_check_passes(false);
  ir_run_passes(faulty, 3, two_operations(arena), NULL, &(ir_pass_options){0}, &err);
  CHECK(!strncmp(err.text, "after never:", 12));
  ir_check_passes(true);
  ir_run_passes(faulty, 3, two_operations(arena), NULL, &(ir_pass_options){0}, &err);
  CHECK(!strncmp(err.text, "after broken:", 13));
  kiln_arena_destroy(arena);
}

TEST(passes, printing_shows_what_is_asked_for) {
  kiln_arena *arena = kiln_arena_create();
  kiln_buffer all = {0}, one = {0};
  kiln_error err = {0};
  kiln_target target = target_of("known");
  ir_pass_options options = {.print_after = "all", .printed = &all};
  CHECK_OK(kiln_middle_with(lower(arena, "known", &target), &target, &options, &err), err);
  options = (ir_pass_options){.print_after = "guard", .printed = &one};
  CHECK_OK(kiln_middle_with(lower(arena, "known", &target), &target, &options, &err), err);
  kiln_buffer_u8(&all, 0);
  kiln_buffer_u8(&one, 0);
  const char *at = (const char *)all.bytes;
  for (size_t i = 0; i < kiln_middle_pass_count; i++) {
    char line[80];
    snprintf(line, sizeof line, "// after %s\nkernel ", kiln_middle_passes[i].name);
    at = strstr(at, line);
    if (!at) FAIL("%s is not printed, or not in order", kiln_middle_passes[i].name);
    at++;
  }
  CHECK(!strncmp((const char *)one.bytes, "// after guard\n", 15));
  CHECK(!strstr((const char *)one.bytes + 1, "// after"));
  CHECK(strstr((const char *)all.bytes, (const char *)one.bytes));
  kiln_buffer_deinit(&all);
  kiln_buffer_deinit(&one);
  kiln_arena_destroy(arena);
}
