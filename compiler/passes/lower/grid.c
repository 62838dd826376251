// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How many programs a launch may have so that what matters of their numbers does not wrap around.
//
// Triton IR leaves the grid to the launcher, and a program's number times the rows of its tile may wrap: 2^24
// programs of 128 rows are too many for 32 bits. Where a tile's place is then taken modulo an extent, or
// belongs to a product, codes are much better that may take it for a number that is not negative. So these
// are made for grids up to some extent, which the launch tests (kiln_code_info), and which is as large as it
// can be.
//
// torch.compile numbers the rows of tiles by two axes, pid(1) + pid(2) * npid(1), of which the second is there for launches
// that need more than 2^16 programs along the first, which is as many as machines have. What both reach together is 32 bits
// only if the last axis has few: its limit is found by itself then.
//
// Sets grid_limit and tests.programs of axes whose extent is unknown. Changes nothing else.
#include "compiler/analysis/facts.h"
#include "compiler/passes/pass.h"

enum { LEAST_LOG2 = 20, MOST_LOG2 = 30, MACHINE_LOG2 = 16, LAST_LOG2 = 4 /* of the last axis, at least */ };

typedef struct counting {
  const kiln_facts *facts;
  bool has_products;
  unsigned count; ///< of numbers that are known not to be negative
} counting;

static bool is_narrow(const ir_value *v) { return v->type.scalar == KILN_I32 && !v->type.pointer; }

typedef struct limits {
  int64_t of[3];
} limits;

static limits equal(int64_t limit) { return (limits){{limit, limit, limit}}; }

static counting count_with(ir_kernel *kernel, kiln_arena *arena, const bool is_open[3], limits l) {
  for (unsigned axis = 0; axis < 3; axis++)
    if (is_open[axis]) kernel->grid_limit[axis] = l.of[axis];
  counting c = {.facts = kiln_facts_compute(arena, kernel), .has_products = ir_find(kernel->body, IR_DOT)};
  for (const ir_op *op = ir_next(kernel->body, NULL); op; op = ir_next(kernel->body, op)) {
    int64_t n;
    const bool is_rest = op->code == IR_REM && op->results[0].type.rank && is_narrow(op->operands[0]);
    const bool is_place = c.has_products && (op->code == IR_MUL || op->code == IR_SHL) &&
                          !op->results[0].type.rank && is_narrow(&op->results[0]) &&
                          ir_constant_int(op->operands[1], &n);
    if (is_rest) c.count += kiln_fact_of(c.facts, op->operands[0])->lo >= 0;
    if (is_place) c.count += kiln_fact_of(c.facts, &op->results[0])->lo >= 0;
  }
  return c;
}

/// Doubles the limit of an axis, or of all (3), as long as the count is that.
static void raise(ir_kernel *kernel, kiln_arena *arena, const bool is_open[3], unsigned axis, unsigned wanted,
                  int64_t most, limits *l) {
  for (limits more = *l; more.of[axis % 3] < most; *l = more) {
    for (unsigned i = 0; i < 3; i++) more.of[i] *= axis == 3 || axis == i ? 2 : 1;
    if (count_with(kernel, arena, is_open, more).count != wanted) return;
  }
}

kiln_status kiln_pass_grid(ir_kernel *kernel, kiln_pass_context *context, kiln_error *err) {
  (void)err;
  if (!kiln_family_of(context->target->processor->family)->has_units) return KILN_OK;
  bool is_open[3], has_open = false;
  for (unsigned axis = 0; axis < 3; axis++)
    has_open |= is_open[axis] = kernel->grid_limit[axis] == IR_GRID_UNKNOWN;
  kiln_arena *scratch = has_open ? kiln_arena_create() : NULL;
  if (!scratch) return KILN_OK;
  const int64_t many = (int64_t)1 << MOST_LOG2, machine = (int64_t)1 << MACHINE_LOG2;
  limits found = equal((int64_t)1 << LEAST_LOG2), apart = {{found.of[0], machine, (int64_t)1 << LAST_LOG2}};
  const unsigned least = count_with(kernel, scratch, is_open, equal(IR_GRID_UNKNOWN)).count;
  const counting all = count_with(kernel, scratch, is_open, found);
  unsigned most = all.has_products ? 0 : count_with(kernel, scratch, is_open, apart).count;
  if (most > all.count) {
    found = apart;
    raise(kernel, scratch, is_open, 0, most, many, &found);
    raise(kernel, scratch, is_open, 2, most, machine, &found);
  } else {
    most = all.count;
    if (most > least) raise(kernel, scratch, is_open, 3, most, many, &found);
  }
  if (most <= least) found = equal(IR_GRID_UNKNOWN);
  for (unsigned axis = 0; axis < 3; axis++) {
    if (!is_open[axis]) continue;
    kernel->grid_limit[axis] = found.of[axis];
    kernel->tests.programs[axis] = most > least ? (uint32_t)found.of[axis] : 0;
  }
  kiln_arena_destroy(scratch);
  return KILN_OK;
}
