// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests kernels at a stage, as text: what is printed after each pass reads back to the same text, and
// compiling on from there gives what the uninterrupted compile gives: the same kernel after the last pass,
// the same code, the same info and report; so does the lowered kernel with its LLVM IR, which keeps the order of
// each value's uses. For the library, for Triton's kernels, and for generated ones.
// `make check` takes first configs, and of each compile one stage, drawn, all the way through LLVM; `make
// check-full` all configs and all stages.
#include <dirent.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/codegen.h"
#include "compiler/codegen/llvm/llvm_gate.h"
#include "compiler/codegen/llvm/llvm_module.h"
#include "compiler/front.h"
#include "compiler/passes/stages.h"
#include "compiler/positions.h"
#include "tests/codegen/llvm_rows.h"
#include "tests/harness.h"
#include "tests/kernelgen.h"

enum { MOST_STAGES = 64, SEED = 9251 };

typedef struct subject {
  const char *name;
  kiln_buffer canonical; // owned
  kiln_target target;
  const char *symbol;
  uint64_t *random;
} subject;

typedef struct outcome {
  kiln_status status;
  kiln_error err;
  kiln_artifact artifact;
  kiln_buffer info;
} outcome;

static void finish(outcome *o, kiln_status status) {
  o->status = status;
  if (status == KILN_OK) kiln_code_info_encode(&o->artifact.info, &o->info);
}

static void drop(outcome *o) {
  kiln_artifact_deinit(&o->artifact);
  kiln_buffer_deinit(&o->info);
}

static bool is_same(const kiln_buffer *a, const kiln_buffer *b) {
  return a->size == b->size && (!a->size || !memcmp(a->bytes, b->bytes, a->size));
}

static kiln_codegen_options options_of(bool debug) {
  kiln_codegen_options o;
  kiln_codegen_options_init(&o);
  o.assembler = KILN_ASSEMBLER_NONE;
  o.debug = debug;
  return o;
}

static ir_kernel *decode(const subject *s, kiln_arena *arena) {
  ir_kernel *kernel;
  kiln_error err = {0};
  CHECK_OK(kiln_canonical_decode(arena, s->canonical.bytes, s->canonical.size, s->symbol, &kernel, &err),
           err);
  return kernel;
}

static ir_kernel *read_text(const subject *s, kiln_arena *arena, const char *text, size_t size,
                            kiln_stage *stage) {
  ir_kernel *kernel;
  ir_place place;
  kiln_error err = {0};
  if (kiln_stage_read(arena, text, size, stage, &kernel, &place, &err) != KILN_OK) {
    const char *line = text;
    for (uint32_t i = 1; i < place.line; i++) line = strchr(line, '\n') + 1;
    FAIL("%s: %u:%u: %s\n%.*s", s->name, place.line, place.column, err.text, (int)strcspn(line, "\n"), line);
  }
  return kernel;
}

/// From the text on: all passes, or up to `until`.
static outcome go_on(const subject *s, const char *text, size_t size, const char *until, bool debug) {
  outcome o = {0};
  kiln_stage stage;
  kiln_arena *arena = kiln_arena_create();
  const kiln_codegen_options options = options_of(debug);
  ir_kernel *kernel = read_text(s, arena, text, size, &stage);
  finish(&o, kiln_codegen_stage(kernel, &stage, until, &options, &o.artifact, &o.err));
  kiln_arena_destroy(arena);
  return o;
}

static outcome compile_whole(const subject *s, const char *print_after, bool debug) {
  outcome o = {0};
  kiln_arena *arena = kiln_arena_create();
  kiln_codegen_options options = options_of(debug);
  options.print_after = print_after;
  finish(&o, kiln_codegen(decode(s, arena), &s->target, &options, &o.artifact, &o.err));
  kiln_arena_destroy(arena);
  return o;
}

static const char *line_of(const char *text, const char *head, char out[80]) {
  const char *at = strstr(text, head);
  snprintf(out, 80, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
  return out;
}

static void compare(const subject *s, const char *text, const outcome *whole, const outcome *rest) {
  char line[80], target[KILN_TARGET_NAME];
  kiln_target_name(&s->target, target);
  line_of(text, "after ", line);
  if (whole->status != rest->status || (whole->status != KILN_OK && strcmp(whole->err.text, rest->err.text)))
    FAIL("%s for %s, '%s': expected \"%s\", found \"%s\"", s->name, target, line, whole->err.text,
         rest->err.text);
  if (whole->status != KILN_OK) return;
  if (!is_same(&whole->artifact.code, &rest->artifact.code))
    FAIL("%s for %s, '%s': the code differs (%zu and %zu bytes)", s->name, target, line,
         whole->artifact.code.size, rest->artifact.code.size);
  if (!is_same(&whole->info, &rest->info)) FAIL("%s for %s, '%s': the info differs", s->name, target, line);
  if (!is_same(&whole->artifact.report, &rest->artifact.report))
    FAIL("%s for %s, '%s': the report differs", s->name, target, line);
}

/// Fails where two texts differ, with the first lines that do.
static void expect_text(const subject *s, const char *what, const char *want, size_t want_size,
                        const kiln_buffer *got) {
  size_t line = 1, begin = 0, i = 0;
  const char *found = (const char *)got->bytes;
  char after[80], target[KILN_TARGET_NAME];
  for (; i < want_size && i < got->size && want[i] == found[i]; i++)
    if (want[i] == '\n') line++, begin = i + 1;
  if (i == want_size && i == got->size) return;
  const char *w = memchr(want + begin, '\n', want_size - begin),
             *f = memchr(found + begin, '\n', got->size - begin);
  FAIL("%s for %s, %s: %s, line %zu\nexpected: %.*s\nfound:    %.*s", s->name,
       kiln_target_name(&s->target, target), line_of(want, "after ", after), what, line,
       (int)((w ? w : want + want_size) - want - begin), want + begin,
       (int)((f ? f : found + got->size) - found - begin), found + begin);
}

/// The text reads back to itself.
static void check_text(const subject *s, const char *text, size_t size) {
  kiln_buffer again = {0};
  kiln_stage stage;
  kiln_arena *arena = kiln_arena_create();
  ir_kernel *kernel = read_text(s, arena, text, size, &stage);
  kiln_stage_print(&stage, kernel, &again);
  expect_text(s, "read and printed again", text, size, &again);
  kiln_buffer_deinit(&again);
  kiln_arena_destroy(arena);
}

/// The passes that are left give the same text after the last one.
static void check_passes(const subject *s, const char *text, size_t size, const char *last,
                         size_t last_size) {
  char line[80];
  line_of(last, "after ", line);
  line[6 + strcspn(line + 6, " ")] = 0;
  outcome o = go_on(s, text, size, line + 6, false);
  if (o.status != KILN_OK) FAIL("%s: %s", s->name, o.err.text);
  char after[100];
  snprintf(after, sizeof after, "going on %s", line_of(text, "after ", line));
  expect_text(s, after, last, last_size, &o.artifact.code);
  drop(&o);
}

/// Where each text begins. `out_first`: the first one of the last attempt.
static unsigned split_texts(const kiln_buffer *printed, const char *begins[MOST_STAGES + 1],
                            unsigned *out_first) {
  unsigned count = 0;
  const char *at = (const char *)printed->bytes;
  *out_first = 0;
  for (; at && count < MOST_STAGES; at = strstr(at, "\nkir 2\n")) {
    begins[count] = at += *at == '\n';
    char line[80];
    if (!strncmp(line_of(at, "after ", line), "after canonical", 15) || !count) *out_first = count;
    count++;
  }
  return count;
}

/// From the last text to the lowered kernel, and on from there.
static void check_lowered(const subject *s, const char *last, size_t size, const outcome *whole,
                          bool has_lines) {
  outcome lowered = go_on(s, last, size, "llvm", has_lines);
  if (lowered.status != KILN_OK) FAIL("%s: lowering the last stage: %s", s->name, lowered.err.text);
  const char *text = (const char *)lowered.artifact.code.bytes;
  CHECK(memmem(text, lowered.artifact.code.size, "\nmodule\n", 8));
  check_text(s, text, lowered.artifact.code.size);
  outcome rest = go_on(s, text, lowered.artifact.code.size, NULL, has_lines);
  compare(s, text, whole, &rest);
  drop(&rest);
  drop(&lowered);
}

static void check_stages(const subject *s, const outcome *whole, const outcome *with_lines) {
  const char *begins[MOST_STAGES + 1] = {0};
  kiln_buffer *printed = (kiln_buffer *)&whole->artifact.printed;
  unsigned first, count;
  kiln_buffer_u8(printed, 0);
  count = split_texts(printed, begins, &first);
  begins[count] = (const char *)printed->bytes + printed->size - 1;
  CHECK(count >= 2);
  const unsigned drawn = first + (unsigned)(kiln_test_random(s->random) % (count - first));
  for (unsigned i = 0; i < count; i++) {
    const size_t size = (size_t)(begins[i + 1] - begins[i]);
    check_text(s, begins[i], size);
    if (i < first) continue; // it did not fit: what is left of that attempt fails
    const size_t last = (size_t)(begins[count] - begins[count - 1]);
    if (i < count - 1) check_passes(s, begins[i], size, begins[count - 1], last);
    if (i != drawn && !kiln_test_full()) continue;
    outcome rest = go_on(s, begins[i], size, NULL, with_lines != NULL);
    compare(s, begins[i], with_lines ? with_lines : whole, &rest);
    drop(&rest);
  }
  if (kiln_test_full() || kiln_test_random(s->random) % 4 == 0)
    check_lowered(s, begins[count - 1], (size_t)(begins[count] - begins[count - 1]),
                  with_lines ? with_lines : whole, with_lines != NULL);
}

/// The text before any pass: of the whole compile.
static void check_front(const subject *s, const outcome *whole) {
  kiln_buffer text = {0};
  kiln_arena *arena = kiln_arena_create();
  const kiln_stage front = {.target = s->target};
  kiln_stage_print(&front, decode(s, arena), &text);
  check_text(s, (const char *)text.bytes, text.size);
  outcome rest = go_on(s, (const char *)text.bytes, text.size, NULL, false);
  compare(s, (const char *)text.bytes, whole, &rest);
  drop(&rest);
  kiln_buffer_deinit(&text);
  kiln_arena_destroy(arena);
}

static unsigned compiled;

static void check(const subject *s) {
  outcome whole = compile_whole(s, "all", false);
  const bool has_lines = kiln_test_random(s->random) % 8 == 0;
  outcome lines = has_lines ? compile_whole(s, NULL, true) : (outcome){0};
  if (whole.status == KILN_OK) check_stages(s, &whole, has_lines ? &lines : NULL);
  if (kiln_test_random(s->random) % 8 == 0) check_front(s, &whole);
  if (has_lines) drop(&lines);
  drop(&whole);
  compiled++;
}

// ----------------------------------------------------------------------------------------- sources

static const char *const targets[] = {"sm_80",   "sm_90a",    "gfx90a", "gfx942",
                                      "gfx1100", "x86-64-v3", "aarch64"};
/// Every stage of every config of the library for all targets takes more than a hundred hours of a processor: the
/// long run has one config of SHARE, which are drawn.
enum { TARGETS = sizeof targets / sizeof *targets, SHARE = 24 };

/// Kernels of a source for a target, which may have no config; of the short run, those that are drawn: two of
/// seven. A piece of the test has some of the configs.
static void check_source(const char *path, const char *target, uint64_t *random) {
  static uint64_t configs, kept;
  kiln_arena *arena = kiln_arena_create();
  kiln_diagnostics d = {.arena = arena};
  const kiln_front_options front = {.all_configs = kiln_test_full()};
  subject s = {.random = random};
  kiln_error err = {0};
  size_t size;
  char *text = kiln_test_read(path, &size), name[200];
  if (!text) FAIL("%s cannot be read", path);
  CHECK_OK(kiln_target_parse(target, &s.target, &err), err);
  kiln_unit *unit = kiln_unit_open(arena, path, text, size, &front, &d);
  if (!unit) FAIL("%s:%u: %s", path, d.items[0].line, d.items[0].text);
  for (size_t i = 0; i < kiln_unit_instance_count(unit); i++) {
    const kiln_interface *interface = kiln_unit_interface(unit, i);
    if (!kiln_test_full() && kiln_test_random(random) % TARGETS >= 2) continue;
    for (uint32_t c = kiln_unit_first_config(unit, i, &s.target); c < interface->config_count; c++) {
      if (!kiln_unit_has_config(unit, i, c, &s.target)) continue;
      uint64_t draw = SEED + ++configs;
      if (kiln_test_full() && kiln_test_random(&draw) % SHARE) continue;
      if (!kiln_test_wants_piece(kept++)) continue;
      kiln_arena *own = kiln_arena_create();
      ir_kernel *kernel = kiln_unit_lower(unit, own, i, c, interface->variant_count - 1, &s.target, &d);
      if (!kernel) FAIL("%s: %s", path, d.items[0].text);
      snprintf(name, sizeof name, "%s %s", interface->name, interface->configs[c].text);
      s.name = name;
      s.symbol = interface->symbol;
      kiln_canonical_encode(kernel, &s.canonical);
      check(&s);
      kiln_buffer_deinit(&s.canonical);
      kiln_arena_destroy(own);
      if (!kiln_test_full()) break;
    }
  }
  free(text);
  kiln_arena_destroy(arena);
}

static int is_source(const struct dirent *entry) {
  return strstr(entry->d_name, ".kiln") || strstr(entry->d_name, ".ttir");
}

static int is_case(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/// Sources of a folder, or `inside` each of its folders.
static void check_folder(const char *folder, const char *inside, uint64_t seed) {
  struct dirent **entries;
  uint64_t random = seed;
  int count = scandir(folder, &entries, inside ? is_case : is_source, alphasort);
  printf("seed %llu\n", (unsigned long long)seed);
  for (int i = 0; i < count; i++) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s%s", folder, entries[i]->d_name, inside ? inside : "");
    for (unsigned t = 0; t < TARGETS; t++)
      if (llvm_has(targets[t]) && kiln_test_wants_row(targets[t])) check_source(path, targets[t], &random);
    free(entries[i]);
  }
  free(entries);
  printf("%s: %u compiles\n", folder, compiled);
  CHECK(count > 0);
}

TEST(stages, the_library) { check_folder("kernels", NULL, SEED); }

TEST(stages, sources_of_tests) {
  check_folder("tests/ttir", NULL, SEED + 1);
  check_folder("tests/golden/gpu_form", NULL, SEED + 2);
  check_folder("tests/codegen", NULL, SEED + 3);
  check_folder("tests/emulation", NULL, SEED + 4);
}

TEST(stages, recorded_kernels) {
  const char *folder = getenv("KILN_TEST_CASES");
  if (!folder) SKIP("KILN_TEST_CASES names no folder of recorded kernels");
  check_folder(folder, "/kernel.ttir", SEED + 5);
}

typedef void checker(const subject *s);

/// Of generated kernels from 77000 on, for each target or, `drawn`, for two of seven.
static void check_generated(uint64_t count, bool drawn, uint64_t random, checker *check_one) {
  const uint64_t first = 77000;
  printf("seeds %llu to %llu, drawn by %llu\n", (unsigned long long)first,
         (unsigned long long)(first + count - 1), (unsigned long long)random);
  for (uint64_t i = 0; i < count; i++)
    for (unsigned t = 0; t < TARGETS; t++) {
      if (drawn && kiln_test_random(&random) % TARGETS >= 2) continue;
      if (!llvm_has(targets[t]) || !kiln_test_wants_piece(i)) continue;
      kiln_arena *arena = kiln_arena_create();
      const kernelgen_options generator = {.no_maths = i % 2};
      kernelgen_case c;
      kiln_error err = {0};
      char name[80];
      subject s = {.name = name, .symbol = "generated", .random = &random};
      snprintf(name, sizeof name, "generated %llu", (unsigned long long)(first + i));
      kernelgen_make(arena, first + i, &generator, &c);
      CHECK_OK(kiln_target_parse(targets[t], &s.target, &err), err);
      kiln_canonical_encode(c.kernel, &s.canonical);
      check_one(&s);
      kiln_buffer_deinit(&s.canonical);
      kiln_arena_destroy(arena);
    }
}

TEST(stages, generated_kernels) { check_generated(kiln_test_full() ? 60 : 5, false, SEED, check); }

/// The last text before LLVM's passes says all that they go by: each value's uses in order, attributes, metadata.
static void check_text_of_llvm(const subject *s) {
  outcome whole = compile_whole(s, "llvm", false);
  const kiln_buffer *text = &whole.artifact.printed;
  const char *last = NULL, *at = (const char *)text->bytes, *end = at + text->size;
  for (; at && at < end; at = memmem(at + 1, (size_t)(end - at - 1), "\nkir 2\n", 7))
    last = at + (*at == '\n');
  if (whole.status == KILN_OK) {
    CHECK(last);
    outcome rest = go_on(s, last, (size_t)(end - last), NULL, false);
    compare(s, "after llvm", &whole, &rest);
    drop(&rest);
  }
  drop(&whole);
}

TEST(stages, generated_kernels_from_their_llvm) {
  check_generated(kiln_test_full() ? 300 : 24, !kiln_test_full(), SEED + 6, check_text_of_llvm);
}

static void read_module(LLVMContextRef context, const kiln_buffer *text, LLVMModuleRef *out) {
  kiln_error err = {0};
  CHECK_OK(kiln_llvm_read(context, (const char *)text->bytes, text->size, "uses", 1, out, &err), err);
}

// Instructions that change places leave the uses of their operands in the order in which they were made.
TEST(stages, order_of_uses_in_the_text_of_llvm) {
  static const char source[] = "@g = global i32 0\n"
                               "define i32 @f(i32 %x, ptr %p) {\n"
                               "  %a = call i32 asm \"mov $0, $1;\", \"=r,r\"(i32 %x)\n"
                               "  store <2 x ptr> <ptr @g, ptr null>, ptr %p\n"
                               "  %b = call i32 asm \"mov $0, $1;\", \"=r,r\"(i32 %x)\n"
                               "  store <2 x ptr> <ptr @g, ptr null>, ptr %p\n"
                               "  store i32 %x, ptr getelementptr (i8, ptr @g, i64 2)\n"
                               "  store i32 1, ptr getelementptr (i8, ptr @g, i64 2)\n"
                               "  ret i32 %b\n"
                               "}\n";
  kiln_error caught = {0};
  kiln_buffer text = {0}, again = {0};
  LLVMContextRef first = kiln_llvm_context(&caught), second = kiln_llvm_context(&caught);
  LLVMModuleRef module, read;
  kiln_buffer_bytes(&text, source, sizeof source - 1);
  read_module(first, &text, &module);
  LLVMValueRef function = LLVMGetNamedFunction(module, "f");
  LLVMBasicBlockRef block = LLVMGetEntryBasicBlock(function);
  LLVMBuilderRef builder = LLVMCreateBuilderInContext(first);
  LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(block));
  for (LLVMValueRef at = LLVMGetPreviousInstruction(LLVMGetBasicBlockTerminator(block)), before; at;
       at = before) {
    before = LLVMGetPreviousInstruction(at);
    LLVMInstructionRemoveFromParent(at);
    LLVMInsertIntoBuilder(builder, at);
  }
  LLVMDisposeBuilder(builder);
  kiln_buffer_clear(&text);
  kiln_llvm_print_whole(module, &text);
  kiln_buffer_u8(&text, 0);
  CHECK_PART((const char *)text.bytes, "uselistorder i32 %x");
  CHECK_PART((const char *)text.bytes, "uselistorder <2 x ptr>");
  CHECK_PART((const char *)text.bytes, "uselistorder ptr getelementptr");
  text.size--;
  read_module(second, &text, &read);
  kiln_llvm_print_whole(read, &again);
  kiln_buffer_u8(&again, 0);
  CHECK_TEXT((const char *)again.bytes, (const char *)text.bytes);
  LLVMDisposeModule(read), LLVMDisposeModule(module);
  LLVMContextDispose(first), LLVMContextDispose(second);
  kiln_buffer_deinit(&text), kiln_buffer_deinit(&again);
}
