// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests views lowered to pointers and masks: the interpreter runs each kernel as written and as lowered,
// and both must leave the same memory.
#include "compiler/interpreter/interpreter.h"
#include "tests/passes.h"

#include <string.h>

enum { SOURCE = 4096, TARGET = 4096 };

/// A copy of a tile through two views: from rows x columns at (i, j) of the source, offset by pid, to the
/// target.
typedef struct shape {
  int64_t extents[3], strides[3], index[3];
  uint8_t log2[3], rank;
  bool as_param, has_other, adds;
} shape;

typedef struct block {
  int32_t *source;
  int64_t extents[3], strides[3];
  int32_t *target;
} block;

static ir_kernel *copy_kernel(kiln_arena *arena, const shape *s) {
  ir_kernel *k = ir_kernel_create(arena, "copy");
  ir_builder b = {.arena = arena, .block = k->body};
  ir_type view = {.scalar = KILN_I32, .is_view = 1, .rank = s->rank};
  memcpy(view.log2, s->log2, s->rank);
  ir_value *operands[8], *indices[6], *in, *source = NULL;
  if (s->as_param) in = ir_add_param(k, &(ir_param){.name = "v", .type = view, .access = IR_ACCESS_IN});
  else source = ir_add_param(k, &(ir_param){.name = "source", .type = ir_pointer_type(KILN_I32)});
  ir_value *target = ir_add_param(k, &(ir_param){.name = "target", .type = ir_pointer_type(KILN_I32)});
  for (unsigned pass = 0; pass < 2; pass++) {
    operands[0] = pass ? target : source;
    for (unsigned i = 0; i < s->rank; i++) {
      operands[1 + i] = ir_const_int(&b, KILN_I64, s->extents[i]);
      operands[1 + s->rank + i] = ir_const_int(&b, KILN_I64, s->strides[i]);
    }
    if (pass == 0 && s->as_param) continue;
    ir_value *v = &ir_emit(&b, IR_VIEW, NULL, operands, 1 + 2u * s->rank, &view, NULL, 0)->results[0];
    if (pass) operands[0] = v;
    else in = v;
  }
  ir_value *out = operands[0], *pid = &ir_emit(&b, IR_PID, NULL, NULL, 0, NULL, NULL, 0)->results[0];
  for (unsigned i = 0; i < s->rank; i++)
    indices[1 + i] =
        ir_binary(&b, IR_ADD, 0, ir_const_int(&b, KILN_I64, s->index[i]), ir_cast(&b, pid, KILN_I64, 0, 0));
  indices[0] = in;
  indices[1 + s->rank] = ir_const_int(&b, KILN_I32, 77);
  ir_attrs load = {.access = {.has_other = s->has_other}};
  ir_value *tile =
      &ir_emit(&b, IR_VIEW_LOAD, &load, indices, 1u + s->rank + s->has_other, NULL, NULL, 0)->results[0];
  ir_op *dim = ir_emit(&b, IR_DIM, &(ir_attrs){.axis = 0}, &in, 1, NULL, NULL, 0);
  ir_value *extent = ir_cast(&b, &dim->results[0], KILN_I32, 0, 0);
  tile = ir_binary(&b, IR_ADD, 0, tile, tile->type.rank ? ir_splat(&b, extent, tile->type) : extent);
  indices[0] = out;
  indices[1 + s->rank] = tile;
  ir_attrs store = {.kind = s->adds ? IR_COMBINE_ADD : 0};
  ir_emit(&b, s->adds ? IR_VIEW_ATOMIC : IR_VIEW_STORE, &store, indices, 2u + s->rank, NULL, NULL, 0);
  if (b.error.status != KILN_OK) FAIL("%s", b.error.text);
  return k;
}

static void count_views(ir_op *op, void *context) {
  *(int *)context += op->code == IR_VIEW || op->code == IR_VIEW_LOAD || op->code == IR_VIEW_STORE ||
                     op->code == IR_VIEW_ATOMIC || op->code == IR_DIM;
}

static void run(const shape *s, bool lowered, int32_t *source, int32_t *target) {
  kiln_arena *arena = kiln_arena_create();
  kiln_error err = {0};
  ir_kernel *k = copy_kernel(arena, s);
  int views = 0;
  uint8_t args[256];
  size_t size = 0;
  if (lowered) {
    kiln_test_views(k, true);
    kiln_test_pass(kiln_pass_simplify, k);
    if (ir_verify(k, "views", &err) != KILN_OK) FAIL("%s", err.text);
    ir_walk(k->body, count_views, &views);
    CHECK_INT(views, 0);
  }
  memcpy(args, &source, 8), size = 8;
  if (s->as_param) {
    memcpy(args + size, s->extents, 8u * s->rank), size += 8u * s->rank;
    memcpy(args + size, s->strides, 8u * s->rank), size += 8u * s->rank;
  }
  memcpy(args + size, &target, 8);
  kiln_memory_range ranges[] = {{source, SOURCE * 4}, {target, TARGET * 4}};
  kiln_interpret_options options = {.ranges = ranges, .range_count = 2};
  if (kiln_interpret(k, args, (uint32_t[3]){3, 1, 1}, &options, &err) != KILN_OK)
    FAIL("%s: %s", lowered ? "lowered" : "as written", err.text);
  kiln_arena_destroy(arena);
}

static void compare(const shape *s) {
  static int32_t source[SOURCE], plain[TARGET], lowered[TARGET];
  for (int i = 0; i < SOURCE; i++) source[i] = i * 7 + 1;
  memset(plain, 0x5a, sizeof plain);
  memset(lowered, 0x5a, sizeof lowered);
  run(s, false, source, plain);
  run(s, true, source, lowered);
  for (int i = 0; i < TARGET; i++)
    if (plain[i] != lowered[i]) FAIL("element %d: expected %d, found %d", i, plain[i], lowered[i]);
}

TEST(views, tiles_inside_and_across_the_borders) {
  static const shape shapes[] = {
      {.rank = 1, .extents = {1000}, .strides = {1}, .index = {8}, .log2 = {5}},
      {.rank = 1, .extents = {20}, .strides = {3}, .index = {8}, .log2 = {5}, .has_other = true},
      {.rank = 1, .extents = {20}, .strides = {1}, .index = {-9}, .log2 = {4}},
      {.rank = 2,
       .extents = {13, 29},
       .strides = {32, 1},
       .index = {4, 16},
       .log2 = {4, 4},
       .has_other = true},
      {.rank = 2, .extents = {13, 29}, .strides = {32, 1}, .index = {-3, -5}, .log2 = {3, 4}, .adds = true},
      {.rank = 3,
       .extents = {3, 10, 12},
       .strides = {200, 16, 1},
       .index = {1, 4, 0},
       .log2 = {IR_DROPPED, 3, 4}},
      {.rank = 3,
       .extents = {3, 10, 12},
       .strides = {200, 16, 1},
       .index = {0, 4, 3},
       .log2 = {2, IR_DROPPED, 3},
       .has_other = true},
      {.rank = 2, .extents = {3, 10}, .strides = {16, 1}, .index = {1, 8}, .log2 = {IR_DROPPED, IR_DROPPED}},
      {.rank = 3,
       .extents = {2, 10, 12},
       .strides = {200, 16, 1},
       .index = {-1, 4, 0},
       .log2 = {0, 3, 4},
       .has_other = true},
      {.rank = 3,
       .extents = {13, 2, 12},
       .strides = {16, 400, 1},
       .index = {4, 0, 3},
       .log2 = {3, 0, 4},
       .adds = true},
      {.rank = 2, .extents = {2, 10}, .strides = {16, 1}, .index = {0, 8}, .log2 = {0, 0}},
      {.rank = 2, .extents = {0, 10}, .strides = {16, 1}, .index = {0, 0}, .log2 = {2, 2}},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int as_param = 0; as_param < 2; as_param++) {
      shape s = shapes[i];
      s.as_param = as_param;
      compare(&s);
    }
}

TEST(views, a_tile_that_surely_fits_has_no_mask) {
  kiln_arena *arena = kiln_arena_create();
  shape s = {.rank = 1, .extents = {1000}, .strides = {1}, .index = {0}, .log2 = {5}};
  ir_kernel *k = copy_kernel(arena, &s);
  k->grid_limit[0] = 100;
  kiln_test_views(k, false);
  kiln_test_pass(kiln_pass_simplify, k);
  for (const ir_op *op = k->body->first; op; op = op->next) CHECK(op->code != IR_CMP);
  kiln_arena_destroy(arena);
}

TEST(views, small_strides_give_32_bit_offsets) {
  kiln_arena *arena = kiln_arena_create();
  for (int big = 0; big < 2; big++) {
    shape s = {.rank = 2,
               .extents = {100, 100},
               .strides = {big ? (int64_t)1 << 40 : 1000, 1},
               .index = {0, 0},
               .log2 = {4, 4}};
    ir_kernel *k = copy_kernel(arena, &s);
    kiln_test_views(k, false);
    kiln_test_pass(kiln_pass_simplify, k);
    int tiles = 0;
    for (const ir_op *op = k->body->first; op; op = op->next) {
      if (op->code != IR_PTRADD || !op->results[0].type.rank) continue;
      tiles++;
      CHECK_INT(op->operands[1]->type.scalar, big ? KILN_I64 : KILN_I32);
    }
    CHECK_INT(tiles, 2);
  }
  kiln_arena_destroy(arena);
}
