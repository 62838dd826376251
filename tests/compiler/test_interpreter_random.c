// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs random kernels in the interpreter: passes may change a kernel but not its effect on memory, and no
// fact may claim too much.
#include "compiler/analysis/facts.h"
#include "compiler/front.h"
#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/scalar.h"
#include "compiler/passes/canonical/canonical.h"
#include "tests/kernelgen.h"
#include "tests/passes.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 150, FULL_SEEDS = 5000, MAX_STEPS = 2000000 };

static kiln_test_range seeds(void) { return kiln_test_seeds(1, kiln_test_full() ? FULL_SEEDS : SEEDS); }

static void verify(ir_kernel *kernel, const char *stage, uint64_t seed) {
  kiln_error err = {0};
  if (ir_verify(kernel, stage, &err) != KILN_OK) FAIL("seed %llu: %s", (unsigned long long)seed, err.text);
}

static void interpret(const kernelgen_case *c, kernelgen_memory *memory, const char *stage,
                      kiln_interpret_options options) {
  kiln_memory_range ranges[KERNELGEN_BUFFERS];
  kiln_error err = {0};
  kernelgen_memory_init(c, memory);
  for (uint32_t i = 0; i < c->buffer_count; i++)
    ranges[i] = (kiln_memory_range){memory->bytes[i], kernelgen_bytes(&c->buffers[i])};
  options.ranges = ranges;
  options.range_count = c->buffer_count;
  options.max_steps = MAX_STEPS;
  if (kiln_interpret(c->kernel, memory->args, c->grid, &options, &err) != KILN_OK)
    FAIL("seed %llu, %s: %s", (unsigned long long)c->seed, stage, err.text);
}

static void nothing(ir_kernel *kernel) { (void)kernel; }

static void to_pointers(ir_kernel *kernel) {
  kiln_canonicalise(kernel);
  kiln_test_views(kernel, true);
  kiln_test_pass(kiln_pass_simplify, kernel);
}

static void to_machine(ir_kernel *kernel) {
  to_pointers(kernel);
  kiln_test_pass(kiln_pass_licm, kernel);
  kiln_test_pass(kiln_pass_narrow, kernel);
  kiln_test_pass(kiln_pass_simplify, kernel);
  kiln_test_pass(kiln_pass_guard, kernel);
  kiln_test_pass(kiln_pass_simplify, kernel);
}

/// Runs a seed after `change`. fp_strict, so that contraction does not change results.
static void run(uint64_t seed, void (*change)(ir_kernel *kernel), const char *stage, kiln_arena *arena,
                kernelgen_case *c, kernelgen_memory *memory) {
  kernelgen_make(arena, seed, &(kernelgen_options){0}, c);
  c->kernel->fp_strict = true;
  verify(c->kernel, "generating", seed);
  change(c->kernel);
  verify(c->kernel, stage, seed);
  interpret(c, memory, stage, (kiln_interpret_options){0});
}

static void must_agree(const char *stage, void (*change)(ir_kernel *kernel)) {
  const kiln_test_range range = seeds();
  for (uint64_t seed = range.first; seed <= range.last; seed++) {
    kiln_arena *arena = kiln_arena_create();
    kernelgen_case plain, changed;
    kernelgen_memory a, b;
    char text[300];
    run(seed, nothing, "generating", arena, &plain, &a);
    run(seed, change, stage, arena, &changed, &b);
    if (!kernelgen_memory_equal(&plain, &a, &b, text, sizeof text)) FAIL("%s: %s", stage, text);
    kernelgen_memory_deinit(&a);
    kernelgen_memory_deinit(&b);
    kiln_arena_destroy(arena);
  }
}

TEST(random_kernels, canonical_form_means_the_same) { must_agree("canonicalise", kiln_canonicalise); }
TEST(random_kernels, pointers_and_masks_mean_the_same) { must_agree("views", to_pointers); }
TEST(random_kernels, machine_passes_mean_the_same) { must_agree("guard", to_machine); }

TEST(random_kernels, canonical_form_is_a_fixed_point) {
  const kiln_test_range range = seeds();
  for (uint64_t seed = range.first; seed <= range.last; seed++) {
    kiln_arena *arena = kiln_arena_create();
    kernelgen_case c;
    kernelgen_make(arena, seed, &(kernelgen_options){0}, &c);
    kiln_canonicalise(c.kernel);
    bool changed = kiln_test_pass(kiln_pass_fold, c.kernel) || kiln_test_pass(kiln_pass_control, c.kernel) ||
                   kiln_test_pass(kiln_pass_cse, c.kernel) || kiln_test_pass(kiln_pass_dce, c.kernel) ||
                   kiln_test_pass(kiln_pass_contract, c.kernel);
    if (changed) FAIL("seed %llu: a pass still finds something", (unsigned long long)seed);
    kiln_arena_destroy(arena);
  }
}

// ------------------------------------------------------------------------------------------- facts

typedef struct observer {
  const kiln_facts *facts;
  uint64_t seed;
} observer;

static void too_much(const observer *o, const ir_value *v, const char *what, unsigned axis, size_t element) {
  FAIL("seed %llu: operation %u (%s): %s along axis %u does not hold at element %zu",
       (unsigned long long)o->seed, v->def->number, ir_ops[v->def->code].text, what, axis, element);
}

/// Position of element `index` along `axis`, and the distance of neighbours.
static size_t along(ir_type type, unsigned axis, size_t index, size_t *step) {
  unsigned inner = 0;
  for (unsigned i = axis + 1; i < type.rank; i++) inner += type.log2[i];
  *step = (size_t)1 << inner;
  return index >> inner & (((size_t)1 << type.log2[axis]) - 1);
}

static void check_axis(const observer *o, const ir_value *v, const kiln_fact *f, unsigned axis,
                       const uint64_t *elements) {
  ir_type type = v->type;
  unsigned width = ir_type_bits(type);
  uint64_t unit = type.pointer > 1 ? sizeof(void *) : type.pointer ? kiln_scalars[type.scalar].bytes : 1;
  for (size_t i = 0; i < (size_t)1 << ir_log2_elements(type); i++) {
    size_t step, at = along(type, axis, i, &step), run = at & (((size_t)1 << f->contiguity[axis]) - 1),
                 same = at & (((size_t)1 << f->constancy[axis]) - 1);
    uint64_t first = elements[i - run * step];
    if (kiln_scalar_mask(first + run * unit, width) != elements[i]) too_much(o, v, "contiguity", axis, i);
    if (elements[i - same * step] != elements[i]) too_much(o, v, "constancy", axis, i);
    unsigned divisible = f->divisibility[axis] < width ? f->divisibility[axis] : width;
    if (divisible && kiln_scalar_mask(first, divisible)) too_much(o, v, "divisibility", axis, i);
  }
}

static void check_value(void *context, const ir_value *v, const uint64_t *elements) {
  const observer *o = context;
  const kiln_fact *f = kiln_fact_of(o->facts, v);
  unsigned class = ir_type_class(v->type);
  if (v->type.is_view) return;
  if (class & (KILN_CLASS_INT | KILN_CLASS_BOOL)) {
    for (size_t i = 0; i < (size_t)1 << ir_log2_elements(v->type); i++) {
      int64_t n = class == KILN_CLASS_BOOL ? (int64_t)elements[i]
                                           : kiln_scalar_signed(elements[i], ir_type_bits(v->type));
      if (n < f->lo || n > f->hi) too_much(o, v, "range", 0, i);
    }
  }
  bool counts = class & (KILN_CLASS_INT | KILN_CLASS_POINTER);
  for (unsigned axis = 0; axis < v->type.rank; axis++) {
    kiln_fact checked = *f;
    if (!counts) checked.contiguity[axis] = checked.divisibility[axis] = 0;
    check_axis(o, v, &checked, axis, elements);
  }
  if (!v->type.rank && counts) {
    unsigned width = ir_type_bits(v->type),
             divisible = f->divisibility[0] < width ? f->divisibility[0] : width;
    if (divisible && kiln_scalar_mask(elements[0], divisible)) too_much(o, v, "divisibility", 0, 0);
  }
}

static void facts_must_hold(void (*change)(ir_kernel *kernel), const char *stage) {
  const kiln_test_range range = seeds();
  for (uint64_t seed = range.first; seed <= range.last; seed++) {
    kiln_arena *arena = kiln_arena_create();
    kernelgen_case c;
    kernelgen_memory memory;
    kernelgen_make(arena, seed, &(kernelgen_options){0}, &c);
    change(c.kernel);
    observer o = {kiln_facts_compute(arena, c.kernel), seed};
    interpret(&c, &memory, stage, (kiln_interpret_options){.observe = check_value, .context = &o});
    kernelgen_memory_deinit(&memory);
    kiln_arena_destroy(arena);
  }
}

TEST(random_kernels, facts_hold_as_written) { facts_must_hold(nothing, "generating"); }
TEST(random_kernels, facts_hold_of_pointers_and_masks) { facts_must_hold(to_pointers, "views"); }

// The arithmetic by which kernels find their elements: numbers of lanes and programs divided, and what is left,
// by powers of two, multiples of these and others.

static ir_value *drawn_divisor(ir_builder *b, ir_type type, uint64_t *state) {
  static const int64_t factors[] = {1, 1, 3, 5, 7, 49};
  int64_t n = factors[kiln_test_random(state) % 6];
  n <<= kiln_test_random(state) % 10;
  return ir_splat(b, ir_const_int(b, KILN_I32, kiln_test_random(state) % 16 ? n : -n), type);
}

/// One of what was made before by another of these or by a number.
static ir_value *drawn_index(ir_builder *b, ir_value **made, size_t count, uint64_t *state) {
  ir_value *x = made[kiln_test_random(state) % count], *y = made[kiln_test_random(state) % count];
  switch (kiln_test_random(state) % 7) {
  case 0: return ir_binary(b, IR_DIV, 0, x, drawn_divisor(b, x->type, state));
  case 1: return ir_binary(b, IR_REM, 0, x, drawn_divisor(b, x->type, state));
  case 2: return ir_binary(b, IR_MUL, 0, x, drawn_divisor(b, x->type, state));
  case 3: return ir_binary(b, IR_DIV, IR_UNSIGNED, x, drawn_divisor(b, x->type, state));
  case 4: return ir_binary(b, IR_REM, IR_UNSIGNED, x, drawn_divisor(b, x->type, state));
  case 5: return ir_binary(b, IR_SUB, 0, x, y);
  default: return ir_binary(b, IR_ADD, 0, x, y);
  }
}

TEST(random_kernels, facts_of_index_arithmetic_hold) {
  enum { LANES_LOG2 = 7, COUNT = 12 };
  const kiln_test_range range = seeds();
  for (uint64_t seed = 4 * range.first - 3; seed <= 4 * range.last; seed++) {
    kiln_arena *arena = kiln_arena_create();
    kiln_error err = {0};
    uint64_t state = seed;
    ir_kernel *kernel = ir_kernel_create(arena, "index");
    ir_builder b = {.arena = arena, .block = kernel->body};
    ir_value *made[COUNT] = {ir_iota(&b, LANES_LOG2)};
    ir_value *pid = &ir_emit(&b, IR_PID, NULL, NULL, 0, NULL, NULL, 0)->results[0];
    const int64_t step = kiln_test_random(&state) % 300 - 20;
    ir_value *from = ir_binary(&b, IR_MUL, 0, pid, ir_const_int(&b, KILN_I32, step));
    made[1] = ir_binary(&b, IR_ADD, 0, ir_splat(&b, from, made[0]->type), made[0]);
    for (size_t i = 2; i < COUNT; i++) made[i] = drawn_index(&b, made, i, &state);
    if (b.error.status != KILN_OK) FAIL("seed %llu: %s", (unsigned long long)seed, b.error.text);
    kernel->grid_limit[0] = kiln_test_random(&state) % 2 ? 1 << 16 : 0;
    observer o = {kiln_facts_compute(arena, kernel), seed};
    const kiln_interpret_options options = {.observe = check_value, .context = &o};
    if (kiln_interpret(kernel, NULL, (uint32_t[3]){40, 1, 1}, &options, &err) != KILN_OK)
      FAIL("seed %llu: %s", (unsigned long long)seed, err.text);
    kiln_arena_destroy(arena);
  }
}

/// A byte next to each buffer of some kernels, written, is named with its parameter.
TEST(random_kernels, surroundings_are_compared) {
  kiln_arena *arena = kiln_arena_create();
  const kernelgen_options options = {0};
  for (uint64_t seed = 1; seed <= 5; seed++) {
    kernelgen_case c;
    kernelgen_memory a, b;
    char text[300];
    kernelgen_make(arena, seed, &options, &c);
    kernelgen_memory_init(&c, &a);
    kernelgen_memory_init(&c, &b);
    CHECK(c.buffer_count && kernelgen_memory_equal(&c, &a, &b, text, sizeof text));
    for (uint32_t i = 0; i < 2 * c.buffer_count; i++) {
      const size_t bytes = kernelgen_bytes(&c.buffers[i / 2]);
      uint8_t *at = i % 2 ? b.bytes[i / 2] - 1 : b.bytes[i / 2] + bytes;
      *at ^= 1;
      CHECK(!kernelgen_memory_equal(&c, &a, &b, text, sizeof text));
      CHECK(strstr(text, i % 2 ? ": element 1 before the first is written"
                               : ": element 1 after the last is written"));
      *at ^= 1;
    }
    kernelgen_memory_deinit(&a);
    kernelgen_memory_deinit(&b);
  }
  kiln_arena_destroy(arena);
}
