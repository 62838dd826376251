// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the generator share: its state, how it chooses, and how it makes values of a kind.
#ifndef KILN_TESTS_KERNELGEN_PARTS_H
#define KILN_TESTS_KERNELGEN_PARTS_H

#include <string.h>

#include "tests/harness.h"
#include "tests/kernelgen.h"

enum { POOL = 256, PLACES = 64, VIEWS = 32, INPUT_ELEMENTS = 2048, MAX_LOG2 = 8 };
enum { MOST_TURNS = 8, MOST_VIEW_INPUTS = 4 }; ///< of a loop; parameters that are views to read
enum { ANY_CLASS = KILN_CLASS_BOOL | KILN_CLASS_INT | KILN_CLASS_FLOAT | KILN_CLASS_FP8 };

/// Pointers into an input, and the largest number of an element to which one of them points.
typedef struct kernelgen_place {
  ir_value *pointers;
  uint32_t most;
} kernelgen_place;

/// A buffer in which each program has 2^log2 elements of its own.
typedef struct kernelgen_own {
  ir_value *base;
  unsigned log2;
  bool is_whole; ///< only small whole numbers are in it, as atomics of floats want it
} kernelgen_own;

typedef struct kernelgen_generator {
  kiln_arena *arena;
  const kernelgen_options *options;
  kernelgen_case *c;
  ir_kernel *kernel;
  ir_builder b;
  uint64_t random;
  ir_value *pool[POOL];
  uint32_t pool_count;
  ir_value *inputs[KERNELGEN_BUFFERS];
  uint32_t input_count, depth, statement;
  ir_value *program, *small; // linear program id; a scalar parameter in 1 .. 4
  ir_value *wide;            // a parameter of i64 that may be anything
  ir_type favourite;         // half of all shapes are this one, so that values meet
  kernelgen_place places[PLACES];
  ir_value *views[VIEWS]; // of inputs: whatever they are asked for lies in their buffer
  kernelgen_own owned[KERNELGEN_BUFFERS];
  ir_value *tables[PLACES]; // of pointers, to read
  uint32_t place_count, view_count, owned_count, view_inputs, table_count;
  ir_value *sum;   // in a loop: a carried i32 tile that a product adds to, or NULL
  ir_value *grown; // what the newest loop that began with it and adds the same each turn has made of it
} kernelgen_generator;

// ---------------------------------------------------------------------------------------- choosing

static inline uint32_t below(kernelgen_generator *g, uint32_t n) {
  return (uint32_t)(kiln_test_random(&g->random) % n);
}
static inline bool chance(kernelgen_generator *g, uint32_t percent) { return below(g, 100) < percent; }

static inline ir_type tile(kiln_scalar scalar, unsigned rank, const uint8_t *log2) {
  ir_type type = {.scalar = (uint8_t)scalar, .rank = (uint8_t)rank};
  memcpy(type.log2, log2, rank);
  return type;
}

/// Of most ranks and every size up to 2^10; most are small.
static inline ir_type drawn_shape(kernelgen_generator *g) {
  static const struct {
    uint8_t rank, log2[IR_MAX_RANK];
  } shapes[] = {
      {5, {1, 1, 0, 2, 1}},
      {6, {1, 0, 1, 1, 0, 2}},
      {7, {0, 1, 1, 1, 0, 1, 1}},
      {IR_MAX_RANK, {0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1}},
      {1, {5}},
      {1, {7}},
      {1, {4}},
      {1, {8}},
      {2, {3, 4}},
      {2, {4, 4}},
      {2, {5, 3}},
      {2, {0, 5}},
      {3, {1, 3, 2}},
      {2, {4, 1}},
      {1, {1}},
      {0, {0}},
      {1, {0}},
      {4, {1, 2, 1, 2}},
      {1, {2}},
      {4, {2, 0, 3, 1}},
      {2, {4, 4}},
      {3, {2, 2, 2}},
  };
  static const uint8_t large[][4] = {{1, 9}, {1, 10}, {2, 4, 5}, {2, 5, 5}};
  if (chance(g, 3)) {
    const uint8_t *shape = large[below(g, sizeof large / sizeof *large)];
    return tile(KILN_I32, shape[0], shape + 1);
  }
  uint32_t i = below(g, sizeof shapes / sizeof *shapes);
  return tile(KILN_I32, shapes[i].rank, shapes[i].log2);
}

static inline ir_type random_shape(kernelgen_generator *g) {
  return chance(g, 50) ? g->favourite : drawn_shape(g);
}

static inline kiln_scalar random_scalar(kernelgen_generator *g) {
  return (kiln_scalar)below(g, KILN_SCALAR_COUNT);
}

static inline kiln_scalar random_of(kernelgen_generator *g, unsigned classes) {
  kiln_scalar s;
  do s = random_scalar(g);
  while (!(kiln_scalars[s].type_class & classes));
  return s;
}

static inline bool is_half(ir_type type) { return type.scalar == KILN_F16 || type.scalar == KILN_BF16; }

static inline bool is_flushed(const kernelgen_generator *g, kiln_scalar scalar) {
  return g->kernel->fp_flush && (scalar == KILN_F32 || scalar == KILN_BF16);
}
/// Whether bits of anything, or of f64, could become denormals of a kernel that has none.
static inline bool makes_denormals(const kernelgen_generator *g, kiln_scalar scalar) {
  return g->c->is_normal && is_flushed(g, scalar);
}
/// Whether `min` and `max` of the type may do nothing but flush: LLVM sees that in many places.
static inline bool may_flush(const kernelgen_generator *g, ir_type type) {
  return g->c->is_normal || !is_flushed(g, type.scalar);
}

static inline ir_value *keep(kernelgen_generator *g, ir_value *v) {
  if (!v) FAIL("seed %llu, statement %u: %s", (unsigned long long)g->c->seed, g->statement, g->b.error.text);
  if (g->pool_count < POOL) g->pool[g->pool_count++] = v;
  return v;
}

/// Notes that something uses `v`, until the kernel is complete.
static inline ir_value *used(ir_value *v) {
  if (v) v->slot = v;
  return v;
}

/// A value of one of the classes, later ones being likelier; NULL when there is none.
static inline ir_value *pick(kernelgen_generator *g, unsigned classes) {
  ir_value *found = NULL;
  uint32_t seen = 0;
  const uint32_t most = chance(g, 20) ? POOL : 12;
  for (uint32_t i = g->pool_count; i-- > 0 && seen < most;) {
    if (!(ir_type_class(g->pool[i]->type) & classes) || g->pool[i]->type.pointer) continue;
    if (g->options->no_half_steps && is_half(g->pool[i]->type)) continue;
    if (below(g, ++seen) == 0) found = g->pool[i];
  }
  return used(found);
}

// ------------------------------------------------------------------------------------------ making

static inline ir_value *constant(kernelgen_generator *g, ir_type like, double n) {
  return ir_const_like(&g->b, like, n);
}
static inline ir_value *binary(kernelgen_generator *g, ir_opcode code, ir_value *a, ir_value *b) {
  return ir_binary(&g->b, code, 0, a, b);
}
/// `v` and a number of its type.
static inline ir_value *with_number(kernelgen_generator *g, ir_opcode code, ir_value *v, double n) {
  return v ? binary(g, code, v, constant(g, v->type, n)) : NULL;
}
/// Whether `v` compares in some way with a number below `most`.
static inline ir_value *compared(kernelgen_generator *g, ir_value *v, uint32_t most) {
  const ir_predicate predicate = (ir_predicate)below(g, 6);
  return ir_compare(&g->b, predicate, 0, v, constant(g, v->type, below(g, most)));
}
static inline ir_value *cast(kernelgen_generator *g, ir_value *v, kiln_scalar to) {
  return v->type.scalar == to ? v : ir_cast(&g->b, v, to, 0, 0);
}

static inline ir_value *shaped(kernelgen_generator *g, ir_value *flat, ir_type type) {
  return ir_same_shape(flat->type, type) ? flat : ir_reshape(&g->b, flat, type);
}

/// 0, 1, 2, ... in the shape.
static inline ir_value *lanes(kernelgen_generator *g, ir_type shape) {
  if (!shape.rank) return ir_const_int(&g->b, KILN_I32, 0);
  return shaped(g, ir_iota(&g->b, ir_log2_elements(shape)), shape);
}

static inline ir_value *spread(kernelgen_generator *g, ir_value *scalar, ir_type shape) {
  return shape.rank ? ir_splat(&g->b, scalar, shape) : scalar;
}

/// Small whole numbers 0 .. top (a power of two less one) in any type, different from lane to lane and
/// program to program.
static inline ir_value *whole_numbers(kernelgen_generator *g, ir_type type, int64_t top) {
  ir_type shape = ir_with_element(type, ir_scalar_type(KILN_I32));
  ir_value *v = lanes(g, shape);
  v = binary(g, IR_ADD, v, spread(g, g->program, shape));
  v = with_number(g, IR_MUL, v, 2 * below(g, 50) + 1);
  v = with_number(g, IR_ADD, v, below(g, 100));
  ir_value *source = chance(g, 60) ? pick(g, KILN_CLASS_INT) : NULL;
  if (source && ir_same_shape(source->type, shape)) v = binary(g, IR_XOR, v, cast(g, source, KILN_I32));
  v = binary(g, IR_XOR, v, ir_binary(&g->b, IR_SHR, IR_UNSIGNED, v, constant(g, shape, 5)));
  v = with_number(g, IR_AND, v, (double)top);
  return cast(g, v, type.scalar);
}

/// A value of exactly this type that was made since the pool had `from` values; NULL: there is none.
static inline ir_value *made_since(kernelgen_generator *g, uint32_t from, ir_type type) {
  const uint32_t count = g->pool_count - from, start = count ? below(g, count) : 0;
  for (uint32_t i = 0; i < count; i++) {
    ir_value *v = g->pool[from + (start + i) % count];
    if (ir_type_equal(v->type, type)) return used(v);
  }
  return NULL;
}

/// One of the values since then, of which there is one, sooner than others one that nothing has used.
static inline ir_value *any_since(kernelgen_generator *g, uint32_t from) {
  ir_value *v = NULL;
  for (int i = 0; i < 4 && (!v || v->slot); i++) v = g->pool[from + below(g, g->pool_count - from)];
  return used(v);
}

/// A value of exactly this type.
static inline ir_value *pick_like(kernelgen_generator *g, ir_type type) {
  ir_value *v = made_since(g, 0, type);
  return v ? v : whole_numbers(g, type, type.scalar == KILN_I1 ? 1 : 127);
}

/// An operation with one result.
static inline ir_value *one(kernelgen_generator *g, ir_opcode code, const ir_attrs *attrs,
                            ir_value *const *operands, uint32_t count, const ir_type *given) {
  ir_op *op = ir_emit(&g->b, code, attrs, operands, count, given, NULL, 0);
  return op ? &op->results[0] : NULL;
}

/// Which lanes an access takes, as a condition for each element of the type: some, or by one condition that
/// nobody knows all or none.
static inline ir_value *mask_of(kernelgen_generator *g, ir_type type) {
  type = ir_with_element(type, ir_scalar_type(KILN_I1));
  if (chance(g, 80)) return pick_like(g, type);
  ir_value *v = binary(g, IR_MUL, g->wide, g->wide); // no square is 2 more than a multiple of 4
  v = with_number(g, IR_AND, v, 3);
  const ir_predicate predicate = chance(g, 60) ? IR_EQ : IR_NE;
  return spread(g, ir_compare(&g->b, predicate, 0, v, constant(g, v->type, 2)), type);
}

static inline ir_value *pick_any(kernelgen_generator *g, unsigned classes) {
  ir_value *v = chance(g, 90) ? pick(g, classes) : NULL;
  if (v) return v;
  const ir_type shape = random_shape(g);
  return keep(g, whole_numbers(g, ir_with_element(shape, ir_scalar_type(random_of(g, classes))), 63));
}

/// First element offset of this program in a buffer of `elements` a program.
static inline ir_value *own_offsets(kernelgen_generator *g, ir_type shape) {
  ir_type index = ir_with_element(shape, ir_scalar_type(KILN_I32));
  ir_value *base =
      binary(g, IR_MUL, g->program, ir_const_int(&g->b, KILN_I32, (int64_t)1 << ir_log2_elements(shape)));
  base = spread(g, base, index);
  return binary(g, IR_ADD, base, lanes(g, index));
}

static inline uint32_t programs(const kernelgen_generator *g) {
  return g->c->grid[0] * g->c->grid[1] * g->c->grid[2];
}

static inline bool has_room(const kernelgen_generator *g) { return g->c->buffer_count < KERNELGEN_BUFFERS; }

static inline ir_value *add_buffer(kernelgen_generator *g, kiln_scalar scalar, size_t count, bool written) {
  uint32_t i = g->c->buffer_count++;
  g->c->buffers[i] = (kernelgen_buffer){.scalar = scalar, .count = count, .written = written};
  ir_param p = {.name = kiln_arena_format(g->arena, "b%u", i),
                .type = ir_pointer_type(scalar),
                .access = written ? IR_ACCESS_INOUT : IR_ACCESS_IN,
                .align = chance(g, 70)   ? 64
                         : chance(g, 50) ? 16
                                         : 0};
  p.noalias = chance(g, 15), p.within = chance(g, 20);
  return ir_add_param(g->kernel, &p);
}

static inline ir_value *pointers(kernelgen_generator *g, ir_value *base, ir_value *offsets) {
  ir_type type = ir_with_element(offsets->type, base->type);
  return binary(g, IR_PTRADD, spread(g, base, type), offsets);
}

/// The number of the buffer of a parameter.
static inline uint32_t kernelgen_number_of(const kernelgen_generator *g, const ir_value *param) {
  uint32_t number = 0;
  for (uint32_t i = 0; i < param->index; i++)
    number += g->kernel->params[i].type.pointer || g->kernel->params[i].type.is_view;
  return number;
}

/// Some accesses take only the first elements along an axis, or along two. Drawn beside the other numbers, so
/// that kernels of a seed are otherwise what they were.
static inline void draw_first(const kernelgen_generator *g, ir_type view, ir_attrs *attrs) {
  uint64_t beside = g->random ^ 0x6669727374;
  ir_type tile = ir_view_tile(view);
  uint32_t drawn = (uint32_t)(kiln_test_random(&beside) >> 16);
  if (!tile.rank || drawn % 4) return;
  uint8_t axis = (uint8_t)(drawn / 4 % tile.rank);
  uint32_t extent = 1u << tile.log2[axis];
  if (extent < 2) return;
  attrs->access.axis = axis;
  attrs->access.first = 1 + drawn / 64 % (extent - 1);
  uint32_t last = 1u << tile.log2[tile.rank - 1];
  if (axis + 1u < tile.rank && last > 1 && drawn >> 31) attrs->access.across = 1 + (drawn >> 20) % (last - 1);
}

/// Now and then how an access of memory is cached.
static inline void draw_caching(kernelgen_generator *g, ir_attrs *attrs) {
  if (!chance(g, 20)) return;
  attrs->cache = (uint8_t)below(g, IR_CACHE_WT + 1);
  attrs->evict = (uint8_t)below(g, IR_EVICT_LAST + 1);
  if (chance(g, 20)) attrs->flags |= IR_VOLATILE;
}

/// A permutation of 0, 1, 2, ... in the shape.
static inline ir_value *permuted_lanes(kernelgen_generator *g, ir_type shape) {
  ir_value *v = lanes(g, shape);
  const int64_t top = ((int64_t)1 << ir_log2_elements(shape)) - 1;
  switch (below(g, 4)) {
  case 0: return v;
  case 1: return binary(g, IR_SUB, constant(g, v->type, (double)top), v);
  case 2: return binary(g, IR_XOR, v, constant(g, v->type, (double)below(g, (uint32_t)top + 1)));
  default:
    v = binary(g, IR_MUL, v, constant(g, v->type, 1 + 2 * below(g, 12)));
    return binary(g, IR_AND, v, constant(g, v->type, (double)top));
  }
}

// -------------------------------------------------------------------------------------- statements

/// A tile that is sooner computed again than read back: numbers of elements, times a constant.
ir_value *kernelgen_cheap(kernelgen_generator *g);
/// What an operation makes of `a` that wants it in memory or passes it between threads, of its type; also of
/// `from`, of that type too.
ir_value *kernelgen_want(kernelgen_generator *g, ir_value *a, ir_value *from);
/// A product of operands that are small whole numbers where they are floats, added to `sum`; NULL: to a sum
/// of its own.
ir_value *kernelgen_product(kernelgen_generator *g, ir_value *sum);
/// A scalar i32 of all elements of some value.
ir_value *kernelgen_digest(kernelgen_generator *g);
/// Some random statements, at the place where the generator stands (kernelgen.c).
void kernelgen_statements(kernelgen_generator *g, uint32_t count);
// kernelgen_effects.c
void kernelgen_state_atomic(kernelgen_generator *g);
void kernelgen_state_cas(kernelgen_generator *g);
void kernelgen_state_store(kernelgen_generator *g);
void kernelgen_state_reread(kernelgen_generator *g);
void kernelgen_state_claim(kernelgen_generator *g);
/// Where there is room for one more buffer.
void kernelgen_store(kernelgen_generator *g, ir_value *v);
void kernelgen_store_unused(kernelgen_generator *g);
// kernelgen_tables.c
void kernelgen_state_table(kernelgen_generator *g);
void kernelgen_state_store_pointers(kernelgen_generator *g);
void kernelgen_state_reread_by_table(kernelgen_generator *g);
// kernelgen_control.c
void kernelgen_state_for(kernelgen_generator *g);
void kernelgen_state_while(kernelgen_generator *g);
void kernelgen_state_if(kernelgen_generator *g);
// kernelgen_parameters.c
/// Scalar parameters of any types, with what is promised of them.
void kernelgen_scalar_inputs(kernelgen_generator *g);
/// A view that is a parameter; whatever it is asked for lies in its buffer, as do the INPUT_ELEMENTS elements
/// from its first one on.
ir_value *kernelgen_view_input(kernelgen_generator *g);
/// A view parameter to which each program may store a tile of the type, at its own place along axis 0. NULL:
/// its buffer would be too large.
ir_value *kernelgen_view_output(kernelgen_generator *g, ir_type type, bool is_whole);
// kernelgen_pointers.c
void kernelgen_keep_place(kernelgen_generator *g, ir_value *pointers, uint32_t most);
/// A place whose pointers may move by `room` elements; NULL: there is none.
const kernelgen_place *kernelgen_pick_place(kernelgen_generator *g, uint32_t room);
void kernelgen_keep_view(kernelgen_generator *g, ir_value *view);
/// Element 0 of the newest view of the type; NULL: there is none.
ir_value *kernelgen_view_base(kernelgen_generator *g, kiln_scalar scalar);
/// One of the views, or a new one.
ir_value *kernelgen_pick_view(kernelgen_generator *g);
/// `view` or one with a column less, by a condition that is not known.
ir_value *kernelgen_other_view(kernelgen_generator *g, ir_value *view);
/// Loads through pointers, or through a view at indices that may lie outside.
void kernelgen_load_through(kernelgen_generator *g, ir_value *from);
void kernelgen_state_view_load(kernelgen_generator *g);
void kernelgen_state_view_part(kernelgen_generator *g);
void kernelgen_state_place(kernelgen_generator *g);

#endif
